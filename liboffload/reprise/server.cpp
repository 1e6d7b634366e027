// SPDX-License-Identifier: LGPL-2.1-or-later
#include "server.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/fault.h"
#include "blocking.h"
#include "boosters/lifeline.h"
#include "greeting.h"
#include "image.h"

namespace croff {
namespace {

/** A master has gone, or does not want to go on with this state of the group. */
struct Gone {};

/** Wait until one of the sockets is ready, and have MPI make progress meanwhile: a sibling may wait for a message that this process
 *  has sent, as far as MPI has told it, in the last call before. */
void wait_for(pollfd *sockets, std::size_t count, MPI_Comm siblings) {
  constexpr int kLongest = 20;  // ms
  for (int ms = 1; poll(sockets, count, ms) <= 0; ms = std::min(2 * ms, kLongest)) {
    int there = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, siblings, &there, MPI_STATUS_IGNORE);
  }
}

}  // namespace

void BoosterServer::wait(int socket, short events) {
  pollfd one{socket, events, 0};
  wait_for(&one, 1, siblings_);
}

void BoosterServer::read(int socket, void *data, std::size_t bytes) {
  if (!read_all(socket, data, bytes, [this](int one, short events) { wait(one, events); })) throw Gone();
}

void BoosterServer::write(int socket, const void *data, std::size_t bytes) {
  if (!write_all(socket, data, bytes, [this](int one, short events) { wait(one, events); })) throw Gone();
}

void BoosterServer::run() {
  MPI_Comm_dup(MPI_COMM_WORLD, &siblings_);
  // Every rollback brings this back: a booster that knows of no task, and has no connection to a master.
  image::pin(siblings_);
  fault("hello");
  // After a rollback: until all are rolled back. No message passes between boosters of before and after.
  MPI_Barrier(siblings_);
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
    sockets_.push_back(greet(where, invitation()->secret, rank, [this](int socket, short events) { wait(socket, events); }));
    if (sockets_.back() < 0) throw Gone();
  }
}

void BoosterServer::serve() {
  std::vector<pollfd> all;
  for (int socket : sockets_) all.push_back({socket, POLLIN, 0});
  while (std::any_of(all.begin(), all.end(), [](const pollfd &one) { return one.fd >= 0; })) {
    wait_for(all.data(), all.size(), siblings_);
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
  read(socket, &order, sizeof order);
  switch (order.op) {
    case wire::Op::run:
      return tell(master, desk_.execute(master, order, [this, socket](std::byte *data, std::size_t bytes) { read(socket, data, bytes); }));
    case wire::Op::fetch:
      tell(master, wire::notice(wire::Note::outputs, order.task));
      if (!desk_.deliver(master, order.task, [this, socket](const std::byte *data, std::size_t bytes) { write(socket, data, bytes); }))
        throw Gone();
      return;
    case wire::Op::discard: return desk_.discard(master, order.task);
    case wire::Op::leave: sockets_[master] = -1 - socket; return;  // kept for the farewell
  }
}

void BoosterServer::tell(int master, const wire::Notice &notice) {
  write(sockets_[master], &notice, sizeof notice);
  // What belongs to the order may not have been read: what comes next is no order.
  if (notice.code == static_cast<std::int32_t>(Code::memory)) throw Gone();
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
