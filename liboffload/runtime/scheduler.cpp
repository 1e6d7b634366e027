// SPDX-License-Identifier: LGPL-2.1-or-later
// The way of a task from its submission to its outputs.
#include "scheduler.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/idle.h"
#include "outputs.h"

namespace croff {

GroupId Scheduler::add(std::unique_ptr<Group> group) {
  Booked booked;
  const int boosters = group->size();
  booked.group = std::move(group);
  booked.order = ImplicitOrder(boosters);
  booked.last.assign(boosters, 0);
  groups_.emplace(next_group_, std::move(booked));
  return next_group_++;
}

GroupId Scheduler::find(MPI_Comm name) const {
  for (const auto &[id, booked] : groups_)
    if (booked.group->name() == name) return id;
  throw Error(Code::group, "no group of boosters has this intercommunicator: pass the one that deep_booster_alloc has returned in "
                           "this process, and that deep_booster_free has not ended");
}

void Scheduler::submit(Task task, std::optional<int> number) {
  task.id = next_task_++;
  ++counts_.tasks;
  Booked &booked = groups_.at(task.group);
  task.depends_on = dependencies_.add(task.id, task.regions);
  task.before = std::exchange(booked.last[task.booster], task.id);
  for (TaskId earlier : task.depends_on) tasks_.at(earlier).dependents.push_back(task.id);
  if (task.before) tasks_.at(task.before).after = task.id;
  Task &entered = tasks_.emplace(task.id, std::move(task)).first->second;
  enter_domain(entered, number);
  touch(entered.id);
  progress();
}

void Scheduler::enter_domain(Task &task, std::optional<int> number) {
  Booked &booked = groups_.at(task.group);
  if (!task.recover) {
    domains_.join(task.group, alone_key(task.id), task.id);
    domains_.close_alone(task.group, task.id);
  } else if (number) {
    domains_.join(task.group, explicit_key(*number), task.id);
  } else {
    // What a task depends on is cleared before: it cannot be in the same implicit domain.
    std::int64_t least = 0;
    for (TaskId earlier : task.depends_on)
      if (tasks_.at(earlier).group == task.group) least = std::max(least, tasks_.at(earlier).order + 1);
    task.order = booked.order.take(task.booster, least);
    domains_.join(task.group, implicit_key(task.order), task.id);
    if (!booked.group->shared() && booked.order.passed() > booked.closed) {
      domains_.close(task.group, booked.closed, booked.order.passed());
      booked.closed = booked.order.passed();
      touch_all();
    }
  }
  int merges = 0;
  for (TaskId earlier : task.depends_on) merges += domains_.wait_for(task.id, earlier);
  if (task.before) merges += domains_.wait_for(task.id, task.before);
  counts_.merges += merges;
  if (merges) touch_all();
  touch_earlier(task);
}

/** @return something has happened */
bool Scheduler::progress() {
  bool news = false;
  for (auto &[id, booked] : groups_) {
    for (const Report &report : booked.group->poll()) {
      handle(booked, report);
      news = true;
    }
    if (booked.group->shared()) continue;  // together with the other masters only
    if (booked.spoilt || (booked.group->lost() && tasks_of(id) > 0)) {
      recover(id);
      news = true;
    }
  }
  if (!touched_.empty()) advance();
  return news;
}

int Scheduler::tasks_of(GroupId id) const {
  const auto &last = groups_.at(id).last;
  return static_cast<int>(std::count_if(last.begin(), last.end(), [](TaskId task) { return task != 0; }));
}

void Scheduler::handle(Booked &booked, const Report &report) {
  const auto found = tasks_.find(report.task);
  if (found == tasks_.end()) return;  // it has failed meanwhile
  Task &task = found->second;
  switch (report.kind) {
    case Report::sent:
      task.inputs.clear();
      task.leaving = false;
      step(task, Event::sent);
      break;
    case Report::done: step(task, Event::done); break;
    case Report::received: step(task, Event::received); break;
    case Report::failed:
      // It may not have taken all inputs; tasks of another master may wait for it.
      booked.spoilt |= report.code == Code::memory || booked.group->shared();
      step(task, Event::done);
      return fail_domain(task.id, report.code, report.text);
  }
  if (task.stale) reset(task, true);
}

void Scheduler::step(Task &task, Event event) {
  const auto to = next(task.state, event);
  if (!to)
    throw std::logic_error("croff: event " + std::to_string(static_cast<int>(event)) + " of " + describe(task) +
                           " is impossible in state " + std::to_string(static_cast<int>(task.state)));
  task.state = *to;
  touch(task.id);
  if (task.state == State::fetched) touch_later(task);
}

/** Whatever can happen now, happens. */
void Scheduler::advance() {
  while (!touched_.empty()) {
    const auto touched = std::exchange(touched_, {});
    for (TaskId id : touched) {
      const auto found = tasks_.find(id);
      if (found == tasks_.end()) continue;
      Task &task = found->second;
      if (can_launch(task)) launch(task);
      if (task.state == State::finished && !task.stale && wanted_early(task)) fetch(task);
      consider(domains_.of(id));
    }
  }
}

/** `earlier` does not hold the task up: it is cleared, or its outputs are here and both are cleared together. */
bool Scheduler::passed_by(const Task &task, TaskId earlier) const {
  const auto found = tasks_.find(earlier);
  return found == tasks_.end() || (found->second.state == State::fetched && domains_.same(task.id, earlier));
}

bool Scheduler::can_launch(const Task &task) const {
  const Booked &booked = groups_.at(task.group);
  return task.state == State::held && !booked.group->lost() && !booked.spoilt && (!task.before || passed_by(task, task.before)) &&
         std::all_of(task.depends_on.begin(), task.depends_on.end(), [&](TaskId earlier) { return passed_by(task, earlier); });
}

std::vector<const Task *> Scheduler::earlier_peers(const Task &task) const {
  std::vector<const Task *> peers;
  for (TaskId id : domains_.at(domains_.of(task.id)).members)
    if (id < task.id) peers.push_back(&tasks_.at(id));
  return peers;
}

void Scheduler::launch(Task &task) {
  Order order;
  order.task = task.id;
  order.code = task.code;
  order.values = &task.values;
  order.regions = inputs_of(task, earlier_peers(task));
  ++counts_.executions;
  task.leaving = true;
  step(task, Event::launch);
  groups_.at(task.group).group->launch(task.booster, order);
}

void Scheduler::fetch(Task &task) {
  const auto targets = targets_of(task, earlier_peers(task), counts_.staged);
  step(task, Event::fetch);
  groups_.at(task.group).group->fetch(task.booster, task.id, targets);
}

/** It is over: what waits for it goes on. */
void Scheduler::forget(Task &task) {
  Booked &booked = groups_.at(task.group);
  if (booked.last[task.booster] == task.id) booked.last[task.booster] = task.before;
  if (task.before) tasks_.at(task.before).after = task.after;
  if (task.after) tasks_.at(task.after).before = task.before;
  touch_later(task);
  dependencies_.remove(task.id);
  tasks_.erase(task.id);
}

void Scheduler::wait() {
  domains_.close_all();
  for (auto &[id, booked] : groups_) {
    booked.waited = !booked.group->shared();
    booked.vote.reset();
    booked.stalled = false;
    if (!booked.waited) continue;
    booked.order.align(booked.order.end());
    booked.closed = booked.order.end();
  }
  touch_all();
  const auto over = [&] {
    return tasks_.empty() && std::all_of(groups_.begin(), groups_.end(), [](const auto &one) {
             return one.second.waited && !one.second.spoilt;
           });
  };
  for (Idle idle; !over(); idle.wait()) {
    bool news = progress();
    for (auto &[id, booked] : groups_)
      if (!booked.waited) news |= consent(id);
    if (news) idle.reset();
  }
  graveyard_.clear();
  if (!error_) return;
  const Error error = *error_;
  error_.reset();
  throw error;
}

void Scheduler::release(GroupId id) {
  std::optional<Error> error;
  try {
    wait();
  } catch (const Error &failed) {
    error.emplace(failed);
  }
  const std::unique_ptr<Group> group = std::move(groups_.at(id).group);
  groups_.erase(id);
  group->release();
  if (error) throw *error;
}

void Scheduler::release_all() {
  std::optional<Error> error;
  while (!groups_.empty()) {
    try {
      release(groups_.rbegin()->first);
    } catch (const Error &failed) {
      if (!error) error.emplace(failed);
    }
  }
  if (error) throw *error;
}

}  // namespace croff
