// SPDX-License-Identifier: LGPL-2.1-or-later
#include "masters.h"

#include "calls.h"

namespace croff {
namespace {

void check(int error) {
  if (error == MPI_SUCCESS) return;
  throw Error(Code::masters, "the masters of a group cannot agree (" + calls::text(error) +
                                 "): the loss of a master is not recovered here, start the job again");
}

}  // namespace

Masters::Masters(MPI_Comm comm) {
  check(MPI_Comm_dup(comm, &comm_));
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_size(comm_, &size_);
  MPI_Comm_rank(comm_, &rank_);
}

Masters::~Masters() {
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

int Masters::highest(int here) {
  if (size_ == 1) return here;
  int all = 0;
  check(MPI_Allreduce(&here, &all, 1, MPI_INT, MPI_MAX, comm_));
  return all;
}

std::optional<Votes> Masters::agree(const std::function<Votes()> &mine) {
  if (size_ == 1) return mine();
  if (request_ == MPI_REQUEST_NULL) {
    const Votes votes = mine();
    mine_ = {votes.lost, votes.below, votes.undone, votes.busy, votes.order};
    check(MPI_Iallreduce(mine_.data(), all_.data(), Votes::count, MPI_INT64_T, MPI_MAX, comm_, &request_));
  }
  int there = 0;
  check(MPI_Test(&request_, &there, MPI_STATUS_IGNORE));
  if (!there) return std::nullopt;
  return Votes{all_[0], all_[1], all_[2], all_[3], all_[4]};
}

}  // namespace croff
