// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ulfm.h"

#include <algorithm>
#include <numeric>

#include "base/fault.h"
#include "base/idle.h"
#include "process/calls.h"
#include "derived.h"
#include "spawn.h"

namespace fnx {
namespace {

constexpr int kNoTag = 0;  // no message is sent with it: looking for one lets MPI hear of failures

void look(MPI_Comm comm) {
  int flag;
  MPI_Iprobe(MPI_ANY_SOURCE, kNoTag, comm, &flag, MPI_STATUS_IGNORE);
}

}  // namespace

UlfmProcess::UlfmProcess(MPI_Comm_errhandler_function *live, MPI_Comm_errhandler_function *stale) {
  MPI_Comm_create_errhandler(live, &live_);
  MPI_Comm_create_errhandler(stale, &stale_);
}

UlfmProcess::~UlfmProcess() {
  MPI_Errhandler_free(&live_);
  MPI_Errhandler_free(&stale_);
}

void UlfmProcess::begin(MPI_Comm comm, int spares, bool spawn) {
  spawn_ = spawn;
  if (!has_ulfm()) throw Failure{MPI_ERR_UNSUPPORTED_OPERATION};
  if (is_newcomer()) {
    World next = build(join(), {kNew, -1}, {}, spawn_);
    role_ = Role::recovered;
    adopt(std::move(next));
    return;
  }
  const int size = size_of(comm), rank = rank_in(comm), active = size - spares;
  Past past{active, std::vector<int>(spares)};
  std::iota(past.spares.begin(), past.spares.end(), active);
  MPI_Errhandler theirs;
  MPI_Comm_get_errhandler(comm, &theirs);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);  // some may have failed already: build() goes on without them
  try {
    World next = build(comm, {rank < active ? rank : kSpare, rank}, past, spawn_);
    MPI_Comm_set_errhandler(comm, theirs);
    MPI_Errhandler_free(&theirs);
    // Nobody has computed yet: those that have got the rank of a lost one begin as all others.
    std::fill(next.fresh.begin(), next.fresh.end(), false);
    adopt(std::move(next));
  } catch (const Failure &) {
    MPI_Comm_set_errhandler(comm, theirs);
    MPI_Errhandler_free(&theirs);
    throw;
  }
}

void UlfmProcess::adopt(World &&next) {
  world_ = std::move(next);
  if (world_.active != MPI_COMM_NULL) MPI_Comm_set_errhandler(world_.active, live_);
}

void UlfmProcess::repair() {
  const bool was_active = !world_.is_spare();
  MPI_Comm old = world_.all;
  World next = build(old, world_.me, world_.past, spawn_);
  MPI_Comm_free(&old);
  before_ = world_.active;
  adopt(std::move(next));
  role_ = was_active ? Role::survivor : Role::recovered;
  ++epoch_;
}

bool UlfmProcess::wait_as_spare() {
  while (world_.is_spare()) {
    // The failure of others is not this one's affair: the active ranks may not even notice it before they are done.
    for (Idle idle; !is_revoked(world_.all) && !no_active_left(world_);) {
      look(world_.all);
      idle.wait();
    }
    if (meet(world_, Next::recover) == Next::finalize) {
      free_all();
      return false;
    }
    repair();
  }
  return true;
}

void UlfmProcess::depart() {
  if (before_ != MPI_COMM_NULL) MPI_Comm_free(&before_);
  leave(with_handler(live_), stale_);
  for (MPI_Comm comm : attached_) MPIX_Comm_revoke(comm);
  attached_.clear();
}

void UlfmProcess::recover() {
  depart();  // first: others may wait in these communicators, and would not come to the meeting
  meet(world_, Next::recover);
  fault("met");
  repair();
}

/** Open MPI's MPI_Finalize would write beyond an array if many communicators with spawned processes were left. */
void UlfmProcess::free_all() {
  for (MPI_Comm *comm : {&before_, &world_.active, &world_.all})
    if (*comm != MPI_COMM_NULL) MPI_Comm_free(comm);
}

bool UlfmProcess::finish() {
  if (sees_failure()) {
    recover();
    return false;
  }
  if (meet(world_, Next::finalize) == Next::finalize) {
    free_all();
    return true;
  }
  depart();
  repair();
  return false;
}

bool UlfmProcess::sees_failure() {
  look(world_.all);
  return is_revoked(world_.active) || !failed_in(world_.active).empty();
}

void UlfmProcess::detach(MPI_Comm comm) { attached_.erase(std::remove(attached_.begin(), attached_.end(), comm), attached_.end()); }

Role UlfmProcess::role_of(int rank) const {
  if (world_.fresh[rank]) return Role::recovered;
  return role_ == Role::initial ? Role::initial : Role::survivor;
}

std::string UlfmProcess::host() const {
  char name[MPI_MAX_PROCESSOR_NAME] = "";
  int length;
  MPI_Get_processor_name(name, &length);
  return name;
}

}  // namespace fnx
