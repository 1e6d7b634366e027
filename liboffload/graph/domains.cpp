// SPDX-License-Identifier: LGPL-2.1-or-later
#include "domains.h"

#include <algorithm>
#include <iterator>

namespace croff {

bool Domains::Domain::closed() const {
  return std::all_of(parts.begin(), parts.end(), [](const Part &part) { return part.closed; });
}

void Domains::join(GroupId group, DomainKey key, TaskId task) {
  const auto [found, made] = of_key_.try_emplace({group, key}, next_);
  if (made) domains_[next_++].parts.push_back({group, key});
  domains_[found->second].members.insert(task);
  of_task_[task] = found->second;
}

std::set<DomainId> Domains::reached(DomainId from, Neighbours way) const {
  std::vector<DomainId> next{from};
  std::set<DomainId> seen;
  while (!next.empty()) {
    const DomainId at = next.back();
    next.pop_back();
    if (!seen.insert(at).second) continue;
    const auto &neighbours = domains_.at(at).*way;
    next.insert(next.end(), neighbours.begin(), neighbours.end());
  }
  return seen;
}

int Domains::wait_for(TaskId task, TaskId earlier) {
  const DomainId later = of(task), needed = of(earlier);
  if (later == needed || !domains_.at(later).needs.insert(needed).second) return 0;
  domains_.at(needed).needed_by.insert(later);
  if (domains_.at(later).needed_by.empty()) return 0;  // as most often: nobody needs a new domain
  // The circle is what the needed domain needs and what needs the later one.
  const auto below = reached(needed, &Domain::needs), above = reached(later, &Domain::needed_by);
  std::set<DomainId> circle;
  std::set_intersection(below.begin(), below.end(), above.begin(), above.end(), std::inserter(circle, circle.end()));
  return merge(circle);
}

int Domains::merge(const std::set<DomainId> &merged) {
  if (merged.size() < 2) return 0;
  const DomainId into = *merged.begin();
  Domain whole;
  for (DomainId id : merged) {
    Domain &part = domains_.at(id);
    whole.parts.insert(whole.parts.end(), part.parts.begin(), part.parts.end());
    whole.members.merge(part.members);
    whole.needs.merge(part.needs);
    whole.needed_by.merge(part.needed_by);
    domains_.erase(id);
  }
  for (Neighbours way : {&Domain::needs, &Domain::needed_by}) {
    std::erase_if(whole.*way, [&](DomainId id) { return merged.count(id) > 0; });
    for (auto &[id, other] : domains_)
      if (std::erase_if(other.*way, [&](DomainId neighbour) { return merged.count(neighbour) > 0; })) (other.*way).insert(into);
  }
  for (const Part &part : whole.parts) of_key_[{part.group, part.key}] = into;
  for (TaskId task : whole.members) of_task_[task] = into;
  domains_[into] = std::move(whole);
  return static_cast<int>(merged.size()) - 1;
}

int Domains::merge_all(GroupId group) {
  std::set<DomainId> merged;
  for (const auto &[key, id] : of_key_)
    if (key.first == group) merged.insert(id);
  return merge(merged);
}

void Domains::close(GroupId group, std::int64_t from, std::int64_t to) {
  const auto end = of_key_.lower_bound({group, implicit_key(to)});
  for (auto one = of_key_.lower_bound({group, implicit_key(from)}); one != end; ++one)
    for (Part &part : domains_.at(one->second).parts) part.closed |= part.group == group && part.key == one->first.second;
}

void Domains::close_all() {
  for (auto &[id, domain] : domains_)
    for (Part &part : domain.parts) part.closed = true;
}

void Domains::close_alone(GroupId group, TaskId task) {
  for (Part &part : domains_.at(of(task)).parts) part.closed |= part.group == group && part.key == alone_key(task);
}

void Domains::agree_below(GroupId group, DomainKey key) {
  for (auto &[id, domain] : domains_)
    for (Part &part : domain.parts) part.agreed |= part.group == group && part.key < key;
}

void Domains::dissolve(DomainId domain) {
  const Domain &gone = domains_.at(domain);
  for (const Part &part : gone.parts) of_key_.erase({part.group, part.key});
  for (TaskId task : gone.members) of_task_.erase(task);
  for (DomainId id : gone.needs) domains_.at(id).needed_by.erase(domain);
  for (DomainId id : gone.needed_by) domains_.at(id).needs.erase(domain);
  domains_.erase(domain);
}

void Domains::leave(TaskId task) {
  const DomainId domain = of(task);
  domains_.at(domain).members.erase(task);
  of_task_.erase(task);
  if (domains_.at(domain).members.empty()) dissolve(domain);
}

std::int64_t ImplicitOrder::take(int booster, std::int64_t least) {
  const std::int64_t order = std::max(next_[booster], least);
  next_[booster] = order + 1;
  return order;
}

std::int64_t ImplicitOrder::passed() const { return *std::min_element(next_.begin(), next_.end()); }
std::int64_t ImplicitOrder::end() const { return *std::max_element(next_.begin(), next_.end()); }
void ImplicitOrder::align(std::int64_t order) { std::fill(next_.begin(), next_.end(), order); }

}  // namespace croff
