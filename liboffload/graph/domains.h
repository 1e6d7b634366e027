// SPDX-License-Identifier: LGPL-2.1-or-later
// Recovery domains: tasks that are cleared together, and executed again together.
//
// A domain needs another one if one of its tasks cannot start before a task of the other is cleared. If domains needed each
// other in a circle, none would ever be cleared: they are merged. Within one domain a task may use what others have put out.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "dependencies.h"

namespace croff {

using GroupId = int;
using DomainId = std::uint64_t;
using DomainKey = std::int64_t;  // all masters of a group give a domain the same key; see implicit_key(), explicit_key()

constexpr DomainKey kFirstExplicit = DomainKey{1} << 40;
constexpr DomainKey kFirstAlone = DomainKey{1} << 50;
constexpr DomainKey implicit_key(std::int64_t order) { return order; }
constexpr DomainKey explicit_key(int number) { return kFirstExplicit + number; }
/** Of a task without `recover`, which nobody waits for. */
constexpr DomainKey alone_key(TaskId task) { return kFirstAlone + static_cast<DomainKey>(task); }

class Domains {
 public:
  /** What once was a domain of its own. */
  struct Part {
    GroupId group;
    DomainKey key;
    bool closed = false;  // nothing joins it any more
    bool agreed = false;  // the other masters have said that theirs are complete
  };
  struct Domain {
    std::vector<Part> parts;
    std::set<TaskId> members;
    std::set<DomainId> needs, needed_by;
    bool closed() const;
  };

  /** The task becomes a member of this group's domain with this key. */
  void join(GroupId group, DomainKey key, TaskId task);
  /** `task` waits until `earlier` is cleared. @return how many domains were merged with another one for that */
  int wait_for(TaskId task, TaskId earlier);
  /** @return how many domains were merged with another one */
  int merge_all(GroupId group);
  /** Implicit domains of the group from `from` to before `to` are closed. */
  void close(GroupId group, std::int64_t from, std::int64_t to);
  void close_all();
  void close_alone(GroupId group, TaskId task);
  /** The masters of the group have completed all domains below `key`. */
  void agree_below(GroupId group, DomainKey key);
  /** Forget a domain. */
  void dissolve(DomainId domain);
  /** Forget a task. */
  void leave(TaskId task);

  DomainId of(TaskId task) const { return of_task_.at(task); }
  bool same(TaskId a, TaskId b) const { return of(a) == of(b); }
  const Domain &at(DomainId domain) const { return domains_.at(domain); }
  const std::map<DomainId, Domain> &all() const { return domains_; }

 private:
  using Neighbours = std::set<DomainId> Domain::*;
  std::set<DomainId> reached(DomainId from, Neighbours way) const;
  int merge(const std::set<DomainId> &merged);

  std::map<DomainId, Domain> domains_;
  std::map<std::pair<GroupId, DomainKey>, DomainId> of_key_;
  std::map<TaskId, DomainId> of_task_;
  DomainId next_ = 0;
};

/** Implicit domains: the first tasks of all boosters of a group are one, the second ones are one, and so on. */
class ImplicitOrder {
 public:
  explicit ImplicitOrder(int boosters = 0) : next_(boosters, 0) {}
  /** @param least tasks on which it depends are in earlier domains */
  std::int64_t take(int booster, std::int64_t least);
  /** All boosters are past the domains below. */
  std::int64_t passed() const;
  /** The end of the domains that were given so far. */
  std::int64_t end() const;
  /** All boosters begin there. */
  void align(std::int64_t order);

 private:
  std::vector<std::int64_t> next_;
};

}  // namespace croff
