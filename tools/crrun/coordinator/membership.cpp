// SPDX-License-Identifier: GPL-2.0-only
#include "membership.h"

#include <algorithm>

namespace reprise::job {

namespace {
/**
 * Missing heartbeats after which a suspected node is lost. A node that is not suspected is lost after six, and its ranks
 * run without an answer for four: they must be stopped before they are restarted elsewhere.
 */
constexpr std::uint64_t kSuspectedBeats = 5;
/**
 * Missing heartbeats after which the daemons prepare for the loss: at least one did not come, even if another node relays
 * them.
 */
constexpr std::uint64_t kDoubtfulBeats = 2;
}  // namespace

Membership::Membership(const std::vector<Node>& nodes, std::uint64_t lost_after_ms, std::uint64_t heartbeat_ms)
    : lost_after_ms_(lost_after_ms), heartbeat_ms_(heartbeat_ms) {
  for (const Node& node : nodes) {
    Member member;
    member.node = node;
    members_.push_back(member);
  }
}

bool Membership::heard(NodeIndex node, const std::string& instance, Now now) {
  Member* member = find(node);
  if (!member || member->state != NodeState::up || member->instance != instance) return false;
  heard_of(node, now);
  return true;
}

void Membership::heard_of(NodeIndex node, Now now) {
  Member* member = find(node);
  if (!member || member->state != NodeState::up) return;
  member->connected = true;
  member->heard_ms = now.ms;
  member->heard_unix_ns = now.unix_ns;
  member->suspected = false;
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
  if (member->instance != instance) member->welcomed = false;
  member->state = NodeState::up;
  member->instance = instance;
  member->cpus = hello.cpus();
  member->module_loaded = hello.module_loaded();
  member->module_problem = hello.module_problem();
  member->addresses.assign(hello.addresses().begin(), hello.addresses().end());
  heard_of(node, now);
  return out;
}

void Membership::suspect(NodeIndex node) {
  if (Member* member = find(node); member && member->state == NodeState::up) member->suspected = true;
}

std::vector<Loss> Membership::silent(Now now) {
  std::vector<Loss> out;
  for (Member& member : members_) {
    if (member.state != NodeState::up || now.ms <= member.heard_ms) continue;
    const std::uint64_t silence = now.ms - member.heard_ms;
    const std::uint64_t limit =
        member.suspected ? std::min(lost_after_ms_, kSuspectedBeats * heartbeat_ms_) : lost_after_ms_;
    if (silence < limit) continue;
    out.push_back({member.node.index(), "it was silent for " + std::to_string(silence) + " ms"});
    lose(member.node.index(), now);
  }
  return out;
}

std::set<NodeIndex> Membership::doubtful(Now now) const {
  std::set<NodeIndex> out;
  for (const Member& member : members_)
    if (member.state == NodeState::up && now.ms > member.heard_ms + kDoubtfulBeats * heartbeat_ms_) out.insert(member.node.index());
  return out;
}

void Membership::excuse(std::uint64_t ms) {
  for (Member& member : members_) member.heard_ms += ms;
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
  for (const Member& member : members_)
    if (member.state == NodeState::starting) return true;
  return false;
}

std::optional<NodeIndex> Membership::by_host(const std::string& host) const {
  for (const Member& member : members_)
    if (member.node.host() == host) return member.node.index();
  return std::nullopt;
}

}  // namespace reprise::job
