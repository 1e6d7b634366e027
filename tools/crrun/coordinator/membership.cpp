// SPDX-License-Identifier: GPL-2.0-only
#include "membership.h"

#include <algorithm>

namespace reprise::job {

namespace {
// The limit of silence has six parts. The ranks run without an answer for four of them, their lease: they must stand still
// before they are restarted elsewhere.
constexpr std::uint64_t kLimit = 6, kLease = 4;
/** A suspected node is lost after this part. */
constexpr std::uint64_t kSuspected = 5;
/** The daemons prepare for the loss of a node after this part, and at least so many heartbeats: one has not come then. */
constexpr std::uint64_t kDoubtful = 2, kDoubtfulBeats = 2;
/** By default no silence is shorter than so many heartbeats, however regular they are. */
constexpr std::uint64_t kFewestBeats = 5;
/** What may have a reason may be silent so many times longer. */
constexpr std::uint64_t kPatient = 2;

std::int64_t lease_left(const Member& member, Now now) {
  return static_cast<std::int64_t>(member.lease_end_ms) - static_cast<std::int64_t>(now.ms);
}
}  // namespace

const char* member_state(const Member& member, std::uint64_t ranks) {
  if (member.state == NodeState::starting) return "starting";
  if (member.state == NodeState::lost) return "lost";
  if (member.draining) return ranks ? "draining" : "drained";
  return member.node.spare() && !ranks ? "spare" : "up";
}

Membership::Membership(const std::vector<Node>& nodes, std::uint64_t longest_ms, std::uint64_t shortest_ms, std::uint64_t heartbeat_ms)
    : longest_ms_(longest_ms),
      shortest_ms_(std::min(longest_ms, shortest_ms ? shortest_ms : kFewestBeats * heartbeat_ms)),
      heartbeat_ms_(heartbeat_ms) {
  for (const Node& node : nodes) {
    Member member;
    member.node = node;
    member.granted_ms = longest_ms;
    members_.push_back(member);
  }
}

bool Membership::heard(NodeIndex node, const std::string& instance, Now now) {
  Member* member = find(node);
  if (!member || member->state != NodeState::up || member->instance != instance) return false;
  heard_of(*member, now);
  return true;
}

void Membership::heard_of(Member& member, Now now) {
  member.connected = true;
  member.heard_ms = now.ms;
  member.heard_unix_ns = now.unix_ns;
  member.suspected = false;
}

std::uint32_t Membership::beat(NodeIndex node, bool patient, Now now) {
  Member& member = members_.at(node);
  const std::int64_t left = lease_left(member, now);
  lease_left_ms_ = std::min(lease_left_ms_.value_or(left), left);
  member.arrivals.beat(now.ms);
  const std::uint64_t learned = std::clamp(member.arrivals.limit_ms(), shortest_ms_, longest_ms_);
  member.granted_ms = std::min(learned * (patient ? kPatient : 1), longest_ms_);
  const std::uint64_t lease_ms = member.granted_ms * kLease / kLimit;
  member.lease_end_ms = now.ms + lease_ms;
  return static_cast<std::uint32_t>(lease_ms);
}

std::uint64_t Membership::limit_ms(const Member& member) const {
  return member.suspected ? member.granted_ms * kSuspected / kLimit : member.granted_ms;
}

Greeting Membership::hello(NodeIndex node, const std::string& instance, const Hello& hello, Now now) {
  Member* member = find(node);
  if (!member) return Greeting::unknown;
  if (member->state == NodeState::up && member->instance != instance) return Greeting::replaced;
  const bool clean = hello.ranks().empty() && hello.images().empty();
  if (member->state == NodeState::lost && !clean) return Greeting::stale;

  Greeting out = Greeting::again;
  if (member->state == NodeState::starting) out = Greeting::joined;
  if (member->state == NodeState::lost) {
    out = Greeting::rejoined;
    member->node.set_spare(true);
    member->draining = false;
  }
  if (member->state != NodeState::up) member->since_ms = now.ms;
  if (member->instance != instance) {
    member->welcomed = false;
    member->serving.reset();
    member->arrivals = {};
  }
  member->state = NodeState::up;
  // The daemon takes the answer to its Hello for a lease of full length.
  member->granted_ms = longest_ms_;
  member->lease_end_ms = now.ms + longest_ms_ * kLease / kLimit;
  member->instance = instance;
  member->cpus = hello.cpus();
  member->parts = hello.parts();
  member->module_loaded = hello.module_loaded();
  member->module_problem = hello.module_problem();
  member->addresses.assign(hello.addresses().begin(), hello.addresses().end());
  heard_of(*member, now);
  return out;
}

std::optional<std::int64_t> Membership::take_lease_left(Now now) {
  std::optional<std::int64_t> least = std::exchange(lease_left_ms_, std::nullopt);
  for (const Member& member : members_)
    if (member.state == NodeState::up) least = std::min(least.value_or(lease_left(member, now)), lease_left(member, now));
  return least;
}

void Membership::suspect(NodeIndex node) {
  if (Member* member = find(node); member && member->state == NodeState::up) member->suspected = true;
}

std::vector<Loss> Membership::silent(Now now) {
  std::vector<Loss> out;
  for (Member& member : members_) {
    if (member.state != NodeState::up || now.ms <= member.heard_ms) continue;
    const std::uint64_t silence = now.ms - member.heard_ms;
    if (silence < limit_ms(member)) continue;
    out.push_back({member.node.index(), "it was silent for " + std::to_string(silence) + " ms"});
    lose(member.node.index(), now);
  }
  return out;
}

std::set<NodeIndex> Membership::doubtful(Now now) const {
  std::set<NodeIndex> out;
  for (const Member& member : members_)
    if (member.state == NodeState::up && now.ms > member.heard_ms + std::max(member.granted_ms * kDoubtful / kLimit, kDoubtfulBeats * heartbeat_ms_)) out.insert(member.node.index());
  return out;
}

void Membership::excuse(std::uint64_t ms) {
  for (Member& member : members_) {
    member.heard_ms += ms;
    member.arrivals.excuse(ms);
  }
}

bool Membership::lose(NodeIndex node, Now now) {
  Member* member = find(node);
  if (!member || member->state == NodeState::lost) return false;
  member->state = NodeState::lost;
  member->since_ms = now.ms;
  member->suspected = false;
  member->welcomed = false;
  member->connected = false;
  return true;
}

std::vector<NodeIndex> Membership::to_start(Now now, std::uint64_t every_ms) {
  std::vector<NodeIndex> out;
  for (Member& member : members_) {
    if (member.state != NodeState::lost || member.link || now.ms < member.next_start_ms) continue;
    member.next_start_ms = now.ms + every_ms;
    member.link = true;
    member.link_died = false;
    out.push_back(member.node.index());
  }
  return out;
}

std::vector<NodeIndex> Membership::living() const {
  std::vector<NodeIndex> out;
  for (const Member& member : members_)
    if (member.state == NodeState::up) out.push_back(member.node.index());
  return out;
}

bool Membership::any_starting() const {
  while (started_ < members_.size() && members_[started_].state != NodeState::starting) ++started_;
  return started_ < members_.size();
}

std::optional<NodeIndex> Membership::by_host(const std::string& host) const {
  for (const Member& member : members_)
    if (member.node.host() == host) return member.node.index();
  return std::nullopt;
}

}  // namespace reprise::job
