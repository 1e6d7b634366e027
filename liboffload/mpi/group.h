// SPDX-License-Identifier: LGPL-2.1-or-later
// A group of boosters behind an intercommunicator, from the master's side.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "boosters/lifeline.h"
#include "boosters/masters.h"
#include "boosters/wire.h"
#include "engine/engine.h"
#include "spawn.h"

namespace croff {

class MpiGroup : public Group {
 public:
  /** Collective over the masters. @throw Error(spawn), Error(masters) */
  MpiGroup(MPI_Comm masters, int hosts, int per_host);
  ~MpiGroup() override;

  int size() const override { return size_; }
  bool shared() const override { return masters_.size() > 1; }
  MPI_Comm name() const override { return name_; }
  bool lost() const override { return lost_; }
  void launch(int booster, const Order &order) override;
  void fetch(int booster, TaskId task, const std::vector<Target> &targets) override;
  void discard(int booster, TaskId task) override;
  std::vector<Report> poll() override;
  std::optional<Votes> agree(const std::function<Votes()> &mine) override { return masters_.agree(mine); }
  void replace() override;
  void release() override;

 private:
  /** Transfers of which the end is reported together. */
  struct Operation {
    Report::Kind report = Report::sent;
    TaskId task = 0;
    bool reported = false;  // its end is of interest
    int left = 0;           // transfers under way
    wire::Order order;
    std::vector<wire::Region> regions;
    std::vector<std::byte> values;
  };

  void start();
  bool greeted();
  void retire();
  void listen(int booster);
  Operation &begin(Report::Kind report, TaskId task, bool reported);
  void send(Operation &operation, const void *data, int bytes, int booster, int tag);
  void receive(Operation &operation, void *data, int bytes, int booster);
  void command(int booster, wire::Op op, TaskId task = 0);
  void add(Operation &operation, int error, MPI_Request request);
  void end(Operation *operation, std::vector<Report> &reports);
  void notice(int booster, std::vector<Report> &reports);

  Masters masters_;
  const Places places_;
  const int size_;
  std::unique_ptr<Lifeline> lifeline_;   // of the first master
  MPI_Comm inter_ = MPI_COMM_NULL, name_ = MPI_COMM_NULL;  // name_ is the first one there was
  std::vector<MPI_Comm> broken_;         // earlier ones; see retire()
  bool lost_ = false;
  int greeted_ = 0, left_ = 0;           // boosters that have said hello, and that they leave
  std::vector<wire::Notice> notices_;
  // Request i of the first size_ ones waits for a notice of booster i, the others belong to operations.
  std::vector<MPI_Request> requests_;
  std::vector<Operation *> operation_of_;
  std::map<Operation *, std::unique_ptr<Operation>> operations_;
};

}  // namespace croff
