// SPDX-License-Identifier: LGPL-2.1-or-later
// A group of boosters that are a job of their own, from the master's side.
#pragma once

#include <memory>
#include <vector>

#include "boosters/lifeline.h"
#include "boosters/masters.h"
#include "engine/engine.h"
#include "greeting.h"
#include "job.h"
#include "line.h"

namespace croff {

class RepriseGroup : public Group {
 public:
  /** Collective over the masters. @throw Error(spawn), Error(masters) */
  RepriseGroup(MPI_Comm masters, int hosts, int per_host, std::shared_ptr<LeavingJobs> leaving);
  ~RepriseGroup() override;

  int size() const override { return size_; }
  bool shared() const override { return masters_.size() > 1; }
  MPI_Comm name() const override { return name_; }
  bool lost() const override { return lost_; }
  void launch(int booster, const Order &order) override { lines_[booster]->launch(order); }
  void fetch(int booster, TaskId task, const std::vector<Target> &targets) override { lines_[booster]->fetch(task, targets); }
  void discard(int booster, TaskId task) override { lines_[booster]->command(wire::Op::discard, task); }
  std::vector<Report> poll() override;
  std::optional<Votes> agree(const std::function<Votes()> &mine) override { return masters_.agree(mine); }
  void replace() override;
  void release() override;

 private:
  void start();
  void invite(bool named);
  bool assemble(std::optional<double> ask_after);
  void retire();
  bool went_back() const;

  Masters masters_;
  const Hosts hosts_;
  const int size_;
  MPI_Comm name_ = MPI_COMM_NULL;
  std::unique_ptr<Lifeline> lifeline_;  // of the first master, as the next one
  std::unique_ptr<Job> job_;
  std::shared_ptr<LeavingJobs> leaving_;
  std::unique_ptr<Arrivals> arrivals_;
  std::vector<std::unique_ptr<Line>> lines_;  // by booster; empty while they are lost
  bool lost_ = false;
  std::uint64_t rollbacks_ = 0;  // of this master when the job was started
};

}  // namespace croff
