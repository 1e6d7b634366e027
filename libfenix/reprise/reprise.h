// SPDX-License-Identifier: LGPL-2.1-or-later
// The engine `reprise`: crrun takes a wave in Fenix_Init, and all recoveries go back to it. Survivors are rolled back in place, lost ranks
// are restarted elsewhere, and all return from Fenix_Init. Communicators stay as they are.
#pragma once

#include <optional>

#include "process/process.h"
#include "store/arena.h"

struct cr_rank_services;

namespace fnx {

class ReprisedProcess : public Process {
 public:
  /** @param unhandled error handler of the resilient communicator */
  explicit ReprisedProcess(MPI_Comm_errhandler_function *unhandled);
  ~ReprisedProcess() override;
  ReprisedProcess(const ReprisedProcess &) = delete;
  ReprisedProcess &operator=(const ReprisedProcess &) = delete;

  /**
   * Collective over `comm`, which has all ranks of the job. It returns once, and once more after each recovery.
   * @param bytes of memory for the store
   * @throw Error, in all ranks, if the job cannot go back; Failure
   */
  void begin(MPI_Comm comm, std::size_t bytes);

  bool wait_as_spare() override { return true; }
  void recover() override;
  bool finish() override;
  bool sees_failure() override { return false; }
  void attach(MPI_Comm) override {}
  void detach(MPI_Comm) override {}

  MPI_Comm comm() const override { return comm_; }
  int ranks() const override { return static_cast<int>(roles_.size()); }
  Role role() const override { return roles_[rank_]; }
  Role role_of(int rank) const override { return roles_[rank]; }
  const std::vector<int> &lost() const override { return lost_; }
  bool depleted() const override { return false; }
  int spares() const override { return 0; }
  int epoch() const override { return epoch_; }
  std::string host() const override;
  Arena *arena() override { return &*arena_; }
  void progressed() override;
  bool goes_back() const override { return true; }

 private:
  void keep_memory(std::size_t bytes);
  void agree(const std::string &problem) const;

  MPI_Errhandler unhandled_;
  const cr_rank_services *services_ = nullptr;
  std::optional<Arena> arena_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, epoch_ = 0;
  bool told_ = false;  // crrun knows of progress since the latest recovery
  std::vector<Role> roles_;
  std::vector<int> lost_;
};

}  // namespace fnx
