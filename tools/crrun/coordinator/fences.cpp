// SPDX-License-Identifier: GPL-2.0-only
#include "fences.h"

#include <algorithm>

namespace reprise::job {

namespace {
// PMIx status codes; they are part of its ABI and do not change.
constexpr int kSuccess = 0;
constexpr int kNotFound = -46;
constexpr int kTerminated = -200;  // PMIX_ERR_PROC_TERM_WO_SYNC
}  // namespace

/** Those of members that have not failed. No members: all of the job's own ranks. */
std::set<Fences::Server> Fences::servers(const std::vector<Rank>& members, const PlacementTable& placement, const Others& others) const {
  std::set<Server> out;
  const auto add = [&](Rank rank) {
    if (failed_.count(rank)) return;
    if (rank < placement.size()) out.insert({placement[rank], false});
    if (const auto other = others.find(rank); other != others.end()) out.insert({other->second, true});
  };
  for (Rank rank = 0; members.empty() && rank < placement.size(); ++rank) add(rank);
  for (Rank rank : members) add(rank);
  return out;
}

/** @param own number of the job's own ranks */
bool Fences::has_failed_member(const Key& key, std::size_t own) const {
  const std::vector<Rank>& members = key.who.members;
  if (members.empty()) return !failed_.empty() && *failed_.begin() < own;
  return std::any_of(members.begin(), members.end(), [this](Rank rank) { return failed_.count(rank) > 0; });
}

Fences::Done Fences::complete(OpenOnes::iterator open, int status) {
  Done done{std::move(open->second.answer), std::move(open->second.all)};
  done.message.set_status(status);
  std::string all;
  for (const auto& [server, data] : open->second.data) all += data;
  done.message.set_data(std::move(all));
  last_[open->first.who] = done.message;
  open_.erase(open);
  return done;
}

std::vector<Fences::Done> Fences::fail(const std::vector<Rank>& ranks, const PlacementTable& placement, const Others& others) {
  failed_.insert(ranks.begin(), ranks.end());
  std::vector<Done> out;
  for (auto at = open_.begin(); at != open_.end();) {
    const auto one = at++;
    const std::set<Server> living = servers(one->first.who.members, placement, others);
    std::set<Server>& awaited = one->second.awaited;
    std::erase_if(awaited, [&](const Server& server) { return !living.count(server); });
    if (one->second.whole && has_failed_member(one->first, placement.size()))
      out.push_back(complete(one, kTerminated));
    else if (awaited.empty())
      out.push_back(complete(one, kSuccess));
  }
  return out;
}

std::optional<Fences::Done> Fences::contribute(NodeIndex from, const Fence& fence, const PlacementTable& placement,
                                               const Others& others, const std::function<std::uint64_t()>& context) {
  Key key{{fence.group(), {fence.members().begin(), fence.members().end()}}, fence.count()};
  std::vector<Rank>& members = key.who.members;
  std::sort(members.begin(), members.end());
  if (const auto last = last_.find(key.who); last != last_.end() && key.count <= last->second.count()) {
    if (key.count < last->second.count()) return std::nullopt;
    return Done{last->second, {from}};
  }
  auto [at, fresh] = open_.try_emplace(key);
  Open& open = at->second;
  if (fresh) {
    open.awaited = servers(members, placement, others);
    for (const Server& server : open.awaited)
      if (open.all.empty() || open.all.back() != server.node) open.all.push_back(server.node);  // they are in the order of nodes
    open.whole = fence.whole();
    open.answer.mutable_members()->CopyFrom(fence.members());
    open.answer.set_count(fence.count());
    open.answer.set_recovery(fence.recovery());
    open.answer.set_group(fence.group());
  }
  const Server server{from, fence.spawned()};
  if (open.awaited.erase(server)) open.data[server] = fence.data();
  if (open.whole && has_failed_member(key, placement.size())) return complete(at, kTerminated);
  if (!open.awaited.empty()) return std::nullopt;
  if (fence.context() && context) open.answer.set_context(context());
  return complete(at, kSuccess);
}

void Fences::others_went_back(std::size_t own) {
  const auto is_theirs = [own](const Who& who) { return !who.members.empty() && who.members.back() >= own; };  // they are sorted
  std::erase_if(open_, [&](const auto& one) { return is_theirs(one.first.who); });
  std::erase_if(last_, [&](const auto& one) { return is_theirs(one.first); });
}

bool Fences::await_own(std::size_t own) const {
  return std::any_of(open_.begin(), open_.end(), [own](const auto& one) {
    const std::vector<Rank>& members = one.first.who.members;
    return members.empty() || members.front() < own;
  });
}

bool is_mixed(const Fence& fence, std::size_t own) {
  const auto spawned = std::count_if(fence.members().begin(), fence.members().end(), [own](Rank rank) { return rank >= own; });
  return spawned && spawned < fence.members_size();
}

std::vector<Modex::Answer> Modex::put(const ModexBlob& blob) {
  blobs_[blob.rank()] = blob.data();
  std::vector<Answer> out;
  if (const auto found = waiting_.find(blob.rank()); found != waiting_.end()) {
    const std::vector<Waiting> waiting = std::move(found->second);
    waiting_.erase(found);
    for (const Waiting& one : waiting) {
      ModexRequest request;
      request.set_id(one.id);
      request.set_rank(blob.rank());
      out.push_back(*ask(one.node, request));
    }
  }
  return out;
}

std::optional<Modex::Answer> Modex::ask(NodeIndex from, const ModexRequest& request) {
  const auto found = blobs_.find(request.rank());
  if (found == blobs_.end()) {
    waiting_[request.rank()].push_back({from, request.id()});
    return std::nullopt;
  }
  Answer out{from, {}};
  out.reply.set_id(request.id());
  out.reply.set_rank(request.rank());
  out.reply.set_data(found->second);
  out.reply.set_status(kSuccess);
  return out;
}

void Modex::clear() {
  blobs_.clear();
  waiting_.clear();
}

void Modex::forget_from(Rank first, const std::function<bool(Rank)>& keep) {
  std::erase_if(blobs_, [&](const auto& one) { return one.first >= first && !keep(one.first); });
  waiting_.erase(waiting_.lower_bound(first), waiting_.end());
}

void Modex::node_lost(NodeIndex node) {
  for (auto& [rank, list] : waiting_) std::erase_if(list, [&](const Waiting& one) { return one.node == node; });
}

std::optional<LookupReply> Board::find(const Lookup& message, bool whole) {
  LookupReply out;
  out.set_id(message.id());
  for (const std::string& key : message.keys()) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) {
      if (whole) return std::nullopt;
      continue;
    }
    (*out.mutable_values())[key] = found->second.value;
    out.set_publisher(found->second.publisher);
  }
  out.set_status(out.values().empty() ? kNotFound : kSuccess);
  for (const auto& [key, value] : out.values())
    if (entries_.at(key).once) entries_.erase(key);
  return out;
}

std::vector<Board::Answer> Board::publish(NodeIndex from, const Publish& message) {
  Answer taken{from, {}};
  taken.reply.set_id(message.id());
  taken.reply.set_status(kSuccess);
  if (message.unpublish()) {
    for (const std::string& key : message.keys()) entries_.erase(key);
    return {taken};
  }
  for (const auto& [key, value] : message.values()) entries_[key] = {value, message.publisher(), message.once()};
  std::vector<Answer> out{taken};
  std::erase_if(waiting_, [&](const Waiting& one) {
    auto reply = find(one.message, true);
    if (reply) out.push_back({one.node, std::move(*reply)});
    return reply.has_value();
  });
  return out;
}

std::optional<Board::Answer> Board::lookup(NodeIndex from, const Lookup& message) {
  auto reply = find(message, message.wait());
  if (reply) return Answer{from, std::move(*reply)};
  waiting_.push_back({from, message});
  return std::nullopt;
}

void Board::clear() {
  entries_.clear();
  waiting_.clear();
}

void Board::rolled_back() {
  std::erase_if(entries_, [](const auto& entry) { return entry.second.once; });
  waiting_.clear();
}

void Board::node_lost(NodeIndex node) {
  std::erase_if(waiting_, [&](const Waiting& one) { return one.node == node; });
}

}  // namespace reprise::job
