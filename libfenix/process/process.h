// SPDX-License-Identifier: LGPL-2.1-or-later
// Process recovery of this process: from Fenix_Init to Fenix_Finalize.
#pragma once

#include <mpi.h>

#include <vector>

#include "meeting.h"
#include "world.h"

namespace fnx {

enum class Role : int { initial = 0, recovered = 1, survivor = 2 };  // the values of fenix.h

class Process {
 public:
  /**
   * Error handlers of the resilient communicator and of what is derived from it: `live` until a recovery, and `stale` afterwards.
   */
  Process(MPI_Comm_errhandler_function *live, MPI_Comm_errhandler_function *stale);
  ~Process();

  /**
   * Collective over `comm`, or with those that have spawned this process.
   * @param spares number of ranks at the end of `comm` that are kept in reserve
   * @throw Failure if MPI cannot do it
   */
  void begin(MPI_Comm comm, int spares, bool spawn);
  /** In a spare: until it is active. @return false if all is done */
  bool wait_as_spare();
  /** Leave all communicators of this process, and get new ones with all others. */
  void recover();
  /** @return false: there was a recovery instead */
  bool finish();
  /** Others have failed, as far as this process knows after looking. */
  bool sees_failure();

  /** A communicator of the library that is to be revoked when there is a recovery. It has MPI_ERRORS_RETURN. */
  void attach(MPI_Comm comm) { attached_.push_back(comm); }
  void detach(MPI_Comm comm);

  const World &world() const { return world_; }
  Role role() const { return role_; }
  Role role_of(int rank) const;
  int epoch() const { return epoch_; }  // number of recoveries that this process has seen

 private:
  void depart();
  void free_all();
  void repair();
  void adopt(World &&next);

  MPI_Errhandler live_, stale_;
  World world_;
  bool spawn_ = false;
  Role role_ = Role::initial;
  int epoch_ = 0;
  MPI_Comm before_ = MPI_COMM_NULL;  // the resilient communicator before the latest recovery: requests of then are still looked at
  std::vector<MPI_Comm> attached_;
};

}  // namespace fnx
