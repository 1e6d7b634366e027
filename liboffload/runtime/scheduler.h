// SPDX-License-Identifier: LGPL-2.1-or-later
// The master's tasks and groups: what starts, what is cleared, and what is executed again.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "graph/dependencies.h"
#include "graph/domains.h"
#include "task.h"

namespace croff {

struct Counts {
  unsigned long tasks = 0, executions = 0, replacements = 0, merges = 0;
  std::size_t staged = 0;
};

class Scheduler {
 public:
  /** @return the group's number */
  GroupId add(std::unique_ptr<Group> group);
  /** Wait for its tasks, and end its boosters. @throw the first error of a task */
  void release(GroupId group);
  /** All of them, the newest first. @throw the first error */
  void release_all();
  GroupId find(MPI_Comm name) const;
  Group &group(GroupId id) { return *groups_.at(id).group; }

  /** @param number of the explicit domain; nothing: an implicit one */
  void submit(Task task, std::optional<int> number);
  /** Until all tasks are cleared. @throw the first error of a task */
  void wait();
  const Counts &counts() const { return counts_; }

 private:
  struct Booked {
    std::unique_ptr<Group> group;
    ImplicitOrder order;
    std::int64_t closed = 0;       // implicit domains below it are closed
    std::vector<TaskId> last;      // of each booster; 0: none that is not cleared
    int losses = 0;                // since something was cleared
    bool spoilt = false;           // a task of it has failed while others of its domain ran
    std::optional<Votes> vote;     // result of the last consensus
    bool stalled = false;          // then, nothing could happen
    bool waited = false;           // its masters have nothing left
  };

  // scheduler.cpp: the way of a task
  void enter_domain(Task &task, std::optional<int> number);
  bool progress();
  void handle(Booked &booked, const Report &report);
  void step(Task &task, Event event);
  void advance();
  bool passed_by(const Task &task, TaskId earlier) const;
  bool can_launch(const Task &task) const;
  void launch(Task &task);
  void fetch(Task &task);
  std::vector<const Task *> earlier_peers(const Task &task) const;
  void forget(Task &task);
  int tasks_of(GroupId id) const;

  // clearance.cpp
  bool wanted_early(const Task &task) const;
  bool complete(const Domains::Domain &domain, bool fetched) const;
  void consider(DomainId domain);
  void clear(DomainId domain);
  void touch(TaskId task) { touched_.insert(task); }
  void touch_earlier(const Task &task);
  void touch_later(const Task &task);
  void touch_all();
  Votes votes(GroupId id) const;
  bool consent(GroupId id);

  // recovery.cpp
  void recover(GroupId id);
  void reset(Task &task, bool booster_lives);
  void fail(TaskId task, Code code, const std::string &text);
  void fail_domain(TaskId task, Code code, const std::string &text);
  void fail_group(GroupId id, Code code, const std::string &text);
  void note(Code code, const std::string &text);
  static std::string describe(const Task &task);

  std::map<GroupId, Booked> groups_;
  std::map<TaskId, Task> tasks_;  // that are not over
  Dependencies dependencies_;
  Domains domains_;
  std::set<TaskId> touched_;      // something has happened to them
  std::optional<Error> error_;    // the first since the last wait()
  std::vector<decltype(Task::inputs)> graveyard_;  // memory of failed tasks that transfers may still use
  Counts counts_;
  TaskId next_task_ = 1;
  GroupId next_group_ = 0;
};

}  // namespace croff
