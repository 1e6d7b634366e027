// SPDX-License-Identifier: LGPL-2.1-or-later
#include "world.h"

#include "base/fault.h"
#include "process/calls.h"
#include "spawn.h"

namespace fnx {
namespace {

MPI_Comm shrink(MPI_Comm damaged) {
  MPI_Comm living;
  check(MPIX_Comm_shrink(damaged, &living));
  MPI_Comm_set_errhandler(living, MPI_ERRORS_RETURN);
  fault("shrunk");
  return living;
}

std::vector<Identity> gather(MPI_Comm comm, Identity me) {
  static_assert(sizeof(Identity) == 2 * sizeof(int));
  std::vector<Identity> table(size_of(comm));
  check(MPI_Allgather(&me, 2, MPI_INT, table.data(), 2, MPI_INT, comm));
  return table;
}

/** Tell newcomers of the past. */
void tell(MPI_Comm comm, const std::vector<Identity> &table, Past &past) {
  int teller = -1, newcomers = 0;
  for (int i = 0; i < static_cast<int>(table.size()); ++i) {
    newcomers += table[i].slot == kNew;
    if (teller < 0 && table[i].slot != kNew) teller = i;
  }
  if (!newcomers) return;
  if (teller < 0) throw Failure{MPIX_ERR_PROC_FAILED};  // all that knew it have failed
  int sizes[2] = {past.size, static_cast<int>(past.spares.size())};
  check(MPI_Bcast(sizes, 2, MPI_INT, teller, comm));
  past.size = sizes[0];
  past.spares.resize(sizes[1]);
  check(MPI_Bcast(past.spares.data(), sizes[1], MPI_INT, teller, comm));
}

/** All that is needed to go on, if nobody fails meanwhile. */
World make(MPI_Comm living, Identity me, Past &past) {
  const std::vector<Identity> table = gather(living, me);
  fault("gathered");
  tell(living, table, past);
  const Plan plan = arrange(table, past);
  World world;
  world.all = living;
  world.me = {plan.slots[rank_in(living)], me.number};
  world.past = plan.past();
  world.slots = plan.slots;
  world.fresh.resize(plan.size);
  for (std::size_t i = 0; i < table.size(); ++i)
    if (plan.slots[i] >= 0) world.fresh[plan.slots[i]] = table[i].slot < 0;
  world.lost = plan.lost;
  world.depleted = plan.depleted;
  check(MPI_Comm_split(living, world.is_spare() ? MPI_UNDEFINED : 0, world.me.slot, &world.active));
  fault("split");
  return world;
}

/** Replace `living` by what is left of it. */
void renew(MPI_Comm &living) {
  MPIX_Comm_revoke(living);
  MPI_Comm old = living;
  living = shrink(old);
  MPI_Comm_free(&old);
}

/** `living` with processes in place of those that are missing, if they can be started. */
void replace_missing(MPI_Comm &living, Identity me, Past &past) {
  for (;;) {
    int lack = 0;
    bool good = true;
    try {
      const std::vector<Identity> table = gather(living, me);
      tell(living, table, past);
      lack = missing(table, past);
    } catch (const Failure &) {
      good = false;
      MPIX_Comm_revoke(living);  // nobody waits for this process
    }
    const bool known = all_agree(living, good);
    if (known && !lack) return;
    if (known) {
      const MPI_Comm larger = spawn(living, lack);
      if (larger != MPI_COMM_NULL) {
        living = larger;
        return;
      }
    }
    const int before = size_of(living);
    renew(living);
    if (known && size_of(living) == before) return;  // it was no failure: there is no place for new processes
  }
}

}  // namespace

World build(MPI_Comm damaged, Identity me, Past past, bool spawning) {
  MPI_Comm living = damaged;
  bool joined = me.slot == kNew;  // `damaged` has just been made for this process
  if (!joined) living = shrink(damaged);
  for (;; joined = false) {
    World world;
    bool good = true;
    if (spawning && !joined) replace_missing(living, me, past);
    try {
      world = make(living, me, past);
    } catch (const Failure &) {
      good = false;
      MPIX_Comm_revoke(living);
    }
    if (all_agree(living, good)) return world;
    if (world.active != MPI_COMM_NULL) MPI_Comm_free(&world.active);
    renew(living);
  }
}

}  // namespace fnx
