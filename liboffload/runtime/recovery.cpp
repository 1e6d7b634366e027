// SPDX-License-Identifier: LGPL-2.1-or-later
// Losses and failures. After a loss the whole group is replaced, and all of its tasks that are not cleared are executed again.
#include <cstdlib>

#include "scheduler.h"

namespace croff {
namespace {

int attempts() {
  const char *text = getenv("CROFF_ATTEMPTS");
  const int number = text ? atoi(text) : 0;
  return number > 0 ? number : 20;
}

}  // namespace

std::string Scheduler::describe(const Task &task) {
  return "task " + croff::describe(task.code) + " on booster " + std::to_string(task.booster);
}

/** Collective over the group's masters. */
void Scheduler::recover(GroupId id) {
  Booked &booked = groups_.at(id);
  std::set<TaskId> again, gone;
  for (const auto &[number, task] : tasks_) {
    if (task.group != id || task.state == State::held) continue;
    if (!task.recover) {
      if (on_booster(task.state)) gone.insert(number);
      continue;
    }
    const auto &domain = domains_.at(domains_.of(number)).members;
    again.insert(domain.begin(), domain.end());
  }
  ++counts_.replacements;
  ++booked.losses;
  try {
    booked.group->replace();
    booked.spoilt = false;
  } catch (const Error &error) {
    booked.spoilt = false;
    fail_group(id, error.code, error.what());
    if (error.code == Code::masters) throw;
    return;
  }
  for (TaskId task : gone) {
    if (!tasks_.count(task)) continue;
    tasks_.at(task).state = State::held;  // the booster has forgotten it
    fail(task, Code::lost,
         describe(tasks_.at(task)) + " was lost with its booster: give it the clause recover, and it is executed again");
  }
  for (TaskId task : again)
    if (tasks_.count(task)) reset(tasks_.at(task), tasks_.at(task).group != id);
  if (booked.losses > attempts())
    fail_group(id, Code::attempts,
               "a group was lost " + std::to_string(booked.losses) + " times without clearing any task (the first is " +
                   describe(tasks_.begin()->second) + "): see whether the task ends its booster, or set CROFF_ATTEMPTS");
  touch_all();
}

/** It is executed again. A booster of another group than the lost one first ends what it does. */
void Scheduler::reset(Task &task, bool booster_lives) {
  const bool busy = task.leaving || task.state == State::running || task.state == State::fetching;
  task.stale = booster_lives && busy;
  if (task.stale) return;
  task.leaving = false;
  if (booster_lives && task.state == State::finished) groups_.at(task.group).group->discard(task.booster, task.id);
  task.inputs.clear();
  task.outputs.clear();
  step(task, Event::lost);
  touch_earlier(task);
}

void Scheduler::note(Code code, const std::string &text) {
  if (!error_) error_.emplace(code, text);
}

void Scheduler::fail(TaskId id, Code code, const std::string &text) {
  Task &task = tasks_.at(id);
  note(code, text);
  const auto dependents = task.dependents;
  Booked &booked = groups_.at(task.group);
  // What a booster still does for it cannot be called off.
  booked.spoilt |= on_booster(task.state) && task.state != State::finished;
  if (task.state == State::finished && !booked.group->lost()) booked.group->discard(task.booster, id);
  graveyard_.push_back(std::move(task.inputs));
  graveyard_.push_back(std::move(task.outputs));
  step(task, Event::failure);
  domains_.leave(id);
  forget(task);
  for (TaskId dependent : dependents)
    if (tasks_.count(dependent)) fail(dependent, code, text);
}

void Scheduler::fail_domain(TaskId id, Code code, const std::string &text) {
  const std::set<TaskId> members = domains_.at(domains_.of(id)).members;
  const std::string whole = describe(tasks_.at(id)) + " has failed: " + text;
  for (TaskId member : members)
    if (tasks_.count(member)) fail(member, code, whole);
}

void Scheduler::fail_group(GroupId id, Code code, const std::string &text) {
  std::set<TaskId> all;
  for (const auto &[number, task] : tasks_)
    if (task.group == id) all.insert(number);
  for (TaskId task : all)
    if (tasks_.count(task)) fail(task, code, text);
}

}  // namespace croff
