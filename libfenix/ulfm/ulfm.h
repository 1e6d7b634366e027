// SPDX-License-Identifier: LGPL-2.1-or-later
// The engine `ulfm`: communicators are repaired by MPI's user-level failure mitigation, and survivors keep their memory.
#pragma once

#include "meeting.h"
#include "process/process.h"
#include "world.h"

namespace fnx {

class UlfmProcess : public Process {
 public:
  /**
   * Error handlers of the resilient communicator and of what is derived from it: `live` until a recovery, and `stale` afterwards.
   */
  UlfmProcess(MPI_Comm_errhandler_function *live, MPI_Comm_errhandler_function *stale);
  ~UlfmProcess() override;
  UlfmProcess(const UlfmProcess &) = delete;
  UlfmProcess &operator=(const UlfmProcess &) = delete;

  /**
   * Collective over `comm`, or with those that have spawned this process.
   * @param spares number of ranks at the end of `comm` that are kept in reserve
   * @throw Failure if MPI cannot do it
   */
  void begin(MPI_Comm comm, int spares, bool spawn);
  bool wait_as_spare() override;
  void recover() override;
  bool finish() override;
  bool sees_failure() override;
  void attach(MPI_Comm comm) override { attached_.push_back(comm); }
  void detach(MPI_Comm comm) override;

  MPI_Comm comm() const override { return world_.active; }
  int ranks() const override { return world_.past.size; }
  Role role() const override { return role_; }
  Role role_of(int rank) const override;
  const std::vector<int> &lost() const override { return world_.lost; }
  bool depleted() const override { return world_.depleted; }
  int spares() const override { return static_cast<int>(world_.past.spares.size()); }
  int epoch() const override { return epoch_; }
  std::string host() const override;
  Arena *arena() override { return nullptr; }
  bool goes_back() const override { return false; }

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
