// SPDX-License-Identifier: LGPL-2.1-or-later
#include "server.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/fault.h"
#include "base/idle.h"
#include "boosters/calls.h"
#include "boosters/lifeline.h"
#include "messages.h"

namespace croff {
namespace {

/** A booster without its master or a sibling is of no use: the masters replace the whole group. */
[[noreturn]] void die() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

void need(int error) {
  if (error != MPI_SUCCESS) die();
}

/** Wrong arguments are wrong in the next booster, too; all other errors are consequences of a loss. */
bool is_mistake(int error) {
  int kind = 0;
  MPI_Error_class(error, &kind);
  for (int mistake : {MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_TAG, MPI_ERR_COMM, MPI_ERR_RANK, MPI_ERR_ROOT, MPI_ERR_GROUP,
                      MPI_ERR_OP, MPI_ERR_DIMS, MPI_ERR_ARG, MPI_ERR_TRUNCATE, MPI_ERR_REQUEST})
    if (kind == mistake) return true;
  return false;
}

void on_error(MPI_Comm *comm, int *error, ...) {
  if (!is_mistake(*error)) die();
  fprintf(stderr, "croff: a task has called MPI with a wrong argument: %s\n", calls::text(*error).c_str());
  MPI_Abort(*comm, 1);
}

}  // namespace

Server::Server(std::function<void(const Work &)> execute) : desk_(std::move(execute)) {
  MPI_Comm_get_parent(&parent_);
  if (parent_ == MPI_COMM_NULL) {
    fprintf(stderr, "croff: the argument croff-booster@… is for processes that deep_booster_alloc starts\n");
    exit(2);
  }
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(on_error, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
  MPI_Errhandler_free(&handler);
  MPI_Comm_set_errhandler(parent_, MPI_ERRORS_RETURN);
}

void Server::tell(int master, const wire::Notice &notice) {
  need(MPI_Send(&notice, sizeof notice, MPI_BYTE, master, messages::kNotice, parent_));
}

void Server::listen(int master) {
  need(MPI_Irecv(&orders_[master], sizeof(wire::Order), MPI_BYTE, master, messages::kOrder, parent_, &requests_[master]));
}

void Server::run() {
  int masters = 0;
  MPI_Comm_remote_size(parent_, &masters);
  orders_.resize(masters);
  requests_.resize(masters);
  for (int master = 0; master < masters; ++master) listen(master);
  fault("hello");
  for (int master = 0; master < masters; ++master) tell(master, wire::notice(wire::Note::hello));
  Idle idle;
  while (leaving_ < masters) {
    int master = MPI_UNDEFINED, there = 0;
    need(MPI_Testany(masters, requests_.data(), &master, &there, MPI_STATUS_IGNORE));
    if (!there || master == MPI_UNDEFINED) {
      idle.wait();
      continue;
    }
    const wire::Order order = orders_[master];
    if (order.op != wire::Op::leave) listen(master);
    take(master, order);
    idle.reset();
  }
  leave();
}

void Server::take(int master, const wire::Order &order) {
  switch (order.op) {
    case wire::Op::run: return execute(master, order);
    case wire::Op::fetch: return deliver(master, order);
    case wire::Op::discard: return desk_.discard(master, order.task);
    case wire::Op::leave: ++leaving_; return;
  }
}

void Server::execute(int master, const wire::Order &order) {
  tell(master, desk_.execute(master, order, [&](std::byte *data, std::size_t bytes) {
    messages::in_pieces(data, bytes, [&](std::byte *piece, int size) {
      need(MPI_Recv(piece, size, MPI_BYTE, master, messages::kInput, parent_, MPI_STATUS_IGNORE));
    });
  }));
}

void Server::deliver(int master, const wire::Order &order) {
  const bool there = desk_.deliver(master, order.task, [&](const std::byte *data, std::size_t bytes) {
    messages::in_pieces(data, bytes, [&](const std::byte *piece, int size) {
      need(MPI_Send(piece, size, MPI_BYTE, master, messages::kOutput, parent_));
    });
  });
  if (!there) die();
}

void Server::leave() {
  fault("leave");
  let_go_of_lifeline();
  for (std::size_t master = 0; master < orders_.size(); ++master) tell(static_cast<int>(master), wire::notice(wire::Note::leaves));
  fault("end");
  MPI_Comm_free(&parent_);
  MPI_Finalize();
  exit(0);
}

}  // namespace croff
