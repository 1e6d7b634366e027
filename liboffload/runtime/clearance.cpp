// SPDX-License-Identifier: LGPL-2.1-or-later
// Clearance: a task that has finished waits until all of its domain have. Then the outputs of all are fetched, and when all
// are here they are put in place together. A loss before that moment has changed nothing that an execution needs.
#include <algorithm>
#include <limits>

#include "outputs.h"
#include "scheduler.h"

namespace croff {

namespace {
constexpr DomainKey kNone = std::numeric_limits<DomainKey>::max();
}

void Scheduler::touch_all() {
  for (const auto &[id, task] : tasks_) touch(id);
}

void Scheduler::touch_earlier(const Task &task) {
  touched_.insert(task.depends_on.begin(), task.depends_on.end());
  if (task.before) touch(task.before);
}

void Scheduler::touch_later(const Task &task) {
  touched_.insert(task.dependents.begin(), task.dependents.end());
  if (task.after) touch(task.after);
}

/** A member of the same domain waits for it: they are subtasks of one whole, which go on without clearance. */
bool Scheduler::wanted_early(const Task &task) const {
  const auto waits = [&](TaskId later) {
    const auto found = tasks_.find(later);
    return found != tasks_.end() && found->second.state == State::held && domains_.same(later, task.id);
  };
  return (task.after && waits(task.after)) || std::any_of(task.dependents.begin(), task.dependents.end(), waits);
}

/** All members have finished; with `fetched`, their outputs are here and nothing is on the way. */
bool Scheduler::complete(const Domains::Domain &domain, bool fetched) const {
  return domain.closed() && std::all_of(domain.members.begin(), domain.members.end(), [&](TaskId id) {
           const Task &task = tasks_.at(id);
           if (task.stale) return false;
           if (fetched) return task.state == State::fetched && !task.leaving;
           return task.state == State::finished || task.state == State::fetching || task.state == State::fetched;
         });
}

void Scheduler::consider(DomainId id) {
  const Domains::Domain &domain = domains_.at(id);
  if (!complete(domain, false)) return;
  for (TaskId member : domain.members)
    if (tasks_.at(member).state == State::finished) fetch(tasks_.at(member));
  const bool agreed = std::all_of(domain.parts.begin(), domain.parts.end(), [&](const Domains::Part &part) {
    return part.agreed || part.key >= kFirstAlone || !groups_.at(part.group).group->shared();
  });
  if (agreed && complete(domain, true)) clear(id);
}

void Scheduler::clear(DomainId id) {
  const std::set<TaskId> members = domains_.at(id).members;
  domains_.dissolve(id);
  for (TaskId member : members) {
    Task &task = tasks_.at(member);
    step(task, Event::clear);
    put_in_place(task);
    groups_.at(task.group).losses = 0;
    forget(task);
  }
}

Votes Scheduler::votes(GroupId id) const {
  const Booked &booked = groups_.at(id);
  DomainKey first = kNone;
  for (const auto &[number, domain] : domains_.all())
    for (const Domains::Part &part : domain.parts)
      if (part.group == id && part.key < kFirstAlone && !complete(domain, true)) first = std::min(first, part.key);
  Votes mine;
  mine.lost = booked.spoilt ? 2 : booked.group->lost() ? 1 : 0;
  mine.below = -first;
  mine.undone = tasks_of(id) > 0;
  mine.busy = std::any_of(tasks_.begin(), tasks_.end(), [&](const auto &one) {
    const State state = one.second.state;
    return state == State::sending || state == State::running || state == State::fetching;
  });
  mine.order = booked.order.end();
  return mine;
}

/** One step of the consensus of a group's masters. @return something has happened */
bool Scheduler::consent(GroupId id) {
  Booked &booked = groups_.at(id);
  const auto vote = booked.group->agree([&] { return votes(id); });
  if (!vote) return false;
  if (vote->lost > 1 || (vote->lost && vote->undone)) {
    recover(id);
    if (vote->lost > 1) fail_group(id, Code::task, "a task of another master of the group has failed, with its recovery domain");
    booked.vote.reset();
    booked.stalled = false;
    return true;
  }
  domains_.agree_below(id, -vote->below);
  touch_all();
  advance();
  if (!vote->undone) {
    booked.order.align(vote->order);
    booked.waited = true;
  }
  // Nobody can do anything, twice: domains of several masters wait for each other. Together they can be cleared.
  const bool same = booked.vote && booked.vote->below == vote->below;
  const bool stalled = vote->undone && !vote->busy && same;
  if (stalled && booked.stalled) {
    counts_.merges += domains_.merge_all(id);
    touch_all();
  }
  booked.stalled = stalled;
  booked.vote = vote;
  return vote->busy == 0 && vote->undone;
}

}  // namespace croff
