// SPDX-License-Identifier: LGPL-2.1-or-later
// A communicator of a data group.
#pragma once

#include "process/calls.h"
#include "process/process.h"

namespace fnx {

/** It returns errors, and is revoked in a recovery. */
class OwnedComm {
 public:
  OwnedComm(Process &process, MPI_Comm comm) : process_(&process), comm_(comm) {
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    process.attach(comm);
  }
  ~OwnedComm() {
    if (comm_ == MPI_COMM_NULL) return;
    process_->detach(comm_);
    if (!kept_) MPI_Comm_free(&comm_);
  }
  OwnedComm(const OwnedComm &) = delete;
  OwnedComm &operator=(const OwnedComm &) = delete;
  operator MPI_Comm() const { return comm_; }
  /** After a failure: others may wait in it for this rank. */
  void give_up() { MPIX_Comm_revoke(comm_); }
  /** A request on it does not end: it is not freed. */
  void keep() { kept_ = true; }

 private:
  Process *process_;
  MPI_Comm comm_;
  bool kept_ = false;
};

}  // namespace fnx
