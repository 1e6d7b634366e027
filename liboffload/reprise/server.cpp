// SPDX-License-Identifier: LGPL-2.1-or-later
#include "server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/fault.h"
#include "boosters/lifeline.h"
#include "greeting.h"
#include "image.h"

namespace croff {
namespace {

/** A master has gone, or does not want to go on with this state of the group. */
struct Gone {};

/** @param data nullptr: drop them */
void read_all(int socket, std::byte *data, std::size_t bytes) {
  static std::byte dropped[1 << 16];
  for (std::size_t got = 0; got < bytes;) {
    const ssize_t n = recv(socket, data ? data + got : dropped, data ? bytes - got : std::min(bytes - got, sizeof dropped), 0);
    if (n > 0) {
      got += static_cast<std::size_t>(n);
      continue;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) throw Gone();
    pollfd wait{socket, POLLIN, 0};
    poll(&wait, 1, -1);
  }
}

void write_all(int socket, const std::byte *data, std::size_t bytes) {
  for (std::size_t put = 0; put < bytes;) {
    const ssize_t n = send(socket, data + put, bytes - put, MSG_NOSIGNAL);
    if (n >= 0) {
      put += static_cast<std::size_t>(n);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) throw Gone();
    pollfd wait{socket, POLLOUT, 0};
    poll(&wait, 1, -1);
  }
}

}  // namespace

void BoosterServer::run() {
  MPI_Comm_dup(MPI_COMM_WORLD, &siblings_);
  // What is saved now is what every rollback brings back: a booster that knows of no task, and has no connection to a master.
  if (image::watch()) image::await();
  fault("hello");
  // After a rollback: until all are rolled back. No message passes between boosters of before and after.
  MPI_Barrier(siblings_);
  image::forbid();
  try {
    connect();
    serve();
  } catch (const Gone &) {
  }
  // Whatever was lost, the group goes back, or it is ended: by its job or by the lifeline.
  for (;;) pause();
}

void BoosterServer::connect() {
  int rank = 0;
  MPI_Comm_rank(siblings_, &rank);
  for (const std::string &where : invitation()->masters) {
    sockets_.push_back(greet(where, invitation()->secret, rank));
    if (sockets_.back() < 0) throw Gone();
  }
}

void BoosterServer::serve() {
  std::vector<pollfd> all;
  for (int socket : sockets_) all.push_back({socket, POLLIN, 0});
  while (std::any_of(all.begin(), all.end(), [](const pollfd &one) { return one.fd >= 0; })) {
    if (poll(all.data(), all.size(), -1) < 0) continue;
    for (std::size_t master = 0; master < all.size(); ++master) {
      if (all[master].fd < 0 || !all[master].revents) continue;
      take(static_cast<int>(master));
      all[master].fd = sockets_[master] < 0 ? -1 : all[master].fd;
    }
  }
  leave();
}

void BoosterServer::take(int master) {
  const int socket = sockets_[master];
  wire::Order order;
  read_all(socket, reinterpret_cast<std::byte *>(&order), sizeof order);
  switch (order.op) {
    case wire::Op::run:
      return tell(master, desk_.execute(master, order, [socket](std::byte *data, std::size_t bytes) { read_all(socket, data, bytes); }));
    case wire::Op::fetch:
      tell(master, wire::notice(wire::Note::outputs, order.task));
      if (!desk_.deliver(master, order.task, [socket](const std::byte *data, std::size_t bytes) { write_all(socket, data, bytes); }))
        throw Gone();
      return;
    case wire::Op::discard: return desk_.discard(master, order.task);
    case wire::Op::leave: sockets_[master] = -1 - socket; return;  // kept for the farewell
  }
}

void BoosterServer::tell(int master, const wire::Notice &notice) {
  write_all(sockets_[master], reinterpret_cast<const std::byte *>(&notice), sizeof notice);
}

void BoosterServer::leave() {
  fault("leave");
  let_go_of_lifeline();
  for (std::size_t master = 0; master < sockets_.size(); ++master) {
    sockets_[master] = -1 - sockets_[master];
    tell(static_cast<int>(master), wire::notice(wire::Note::leaves));
  }
  fault("end");
  MPI_Comm_free(&siblings_);
  MPI_Finalize();
  exit(0);
}

}  // namespace croff
