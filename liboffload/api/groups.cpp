// SPDX-License-Identifier: LGPL-2.1-or-later
// deep_booster_alloc() and what else is about groups.
#include "library.h"

int deep_booster_alloc(MPI_Comm comm, int hosts, int per_host, MPI_Comm *inter) {
  return croff::guarded([&] {
    using croff::Code, croff::Error;
    croff::Scheduler &scheduler = croff::scheduler();
    if (!inter) throw Error(Code::argument, "deep_booster_alloc: inter is NULL: pass the address of an MPI_Comm");
    *inter = MPI_COMM_NULL;
    if (comm == MPI_COMM_NULL)
      throw Error(Code::argument, "deep_booster_alloc: comm is MPI_COMM_NULL: pass the communicator of the masters");
    if (hosts < 1 || per_host < 1)
      throw Error(Code::argument, "deep_booster_alloc: " + std::to_string(hosts) + " hosts with " + std::to_string(per_host) +
                                      " processes each: ask for at least 1 of both");
    const croff::GroupId id = scheduler.add(croff::engine().allocate(comm, hosts, per_host));
    *inter = scheduler.group(id).name();
  });
}

int deep_booster_free(MPI_Comm *inter) {
  return croff::guarded([&] {
    using croff::Code, croff::Error;
    croff::Scheduler &scheduler = croff::scheduler();
    if (!inter) throw Error(Code::argument, "deep_booster_free: inter is NULL: pass the address of the group's MPI_Comm");
    const croff::GroupId id = scheduler.find(*inter);
    *inter = MPI_COMM_NULL;
    scheduler.release(id);
  });
}

int croff_group_size(MPI_Comm inter, int *size) {
  return croff::guarded([&] {
    if (!size) throw croff::Error(croff::Code::argument, "croff_group_size: size is NULL: pass the address of an int");
    *size = croff::scheduler().group(croff::scheduler().find(inter)).size();
  });
}
