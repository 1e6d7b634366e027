// SPDX-License-Identifier: LGPL-2.1-or-later
// Process recovery of this process, from Fenix_Init to Fenix_Finalize: what the rest of the library wants of an engine.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

namespace fnx {

enum class Role : int { initial = 0, recovered = 1, survivor = 2 };  // the values of fenix.h

class Arena;

class Process {
 public:
  virtual ~Process() = default;

  /** In a spare: until it is active. @return false if all is done */
  virtual bool wait_as_spare() = 0;
  /** Leave all communicators of this process, and get new ones with all others. */
  virtual void recover() = 0;
  /** @return false: there was a recovery instead */
  virtual bool finish() = 0;
  /** Others have failed, as far as this process knows after looking. */
  virtual bool sees_failure() = 0;

  /** A communicator of the library that is to be revoked when there is a recovery. It has MPI_ERRORS_RETURN. */
  virtual void attach(MPI_Comm comm) = 0;
  virtual void detach(MPI_Comm comm) = 0;

  /** The resilient communicator; MPI_COMM_NULL in a spare. */
  virtual MPI_Comm comm() const = 0;
  virtual int ranks() const = 0;  // of it
  virtual Role role() const = 0;
  virtual Role role_of(int rank) const = 0;
  /** By the latest recovery: ranks before it, then spares by their ranks in the communicator that Fenix_Init was given. */
  virtual const std::vector<int> &lost() const = 0;
  virtual bool depleted() const = 0;  // the latest recovery has made the resilient communicator smaller
  virtual int spares() const = 0;     // that are left
  virtual int epoch() const = 0;      // number of recoveries that this process has seen
  /** The host that this process is on now. */
  virtual std::string host() const = 0;

  /** Where data is kept that must outlive a recovery; nullptr: where all other data is. */
  virtual Arena *arena() = 0;
  /** What the program goes on from after a recovery is newer than before. */
  virtual void progressed() {}
  /** A recovery takes all memory of survivors back to Fenix_Init. */
  virtual bool goes_back() const = 0;
};

}  // namespace fnx
