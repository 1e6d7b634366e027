// SPDX-License-Identifier: GPL-2.0-only
#include "fences.h"

#include <algorithm>

namespace reprise::job {

namespace {
// PMIx status codes; they are part of its ABI and do not change.
constexpr int kSuccess = 0;
constexpr int kNotFound = -46;
}  // namespace

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
    if (members.empty()) open.awaited.insert(placement.begin(), placement.end());
    for (Rank rank : members) {
      if (rank < placement.size()) open.awaited.insert(placement[rank]);
      if (const auto other = others.find(rank); other != others.end()) open.awaited.insert(other->second);
    }
    open.all.assign(open.awaited.begin(), open.awaited.end());
  }
  if (open.awaited.erase(from)) open.data[from] = fence.data();
  if (!open.awaited.empty()) return std::nullopt;

  Done done;
  done.message.mutable_members()->CopyFrom(fence.members());
  done.message.set_count(fence.count());
  done.message.set_status(kSuccess);
  done.message.set_recovery(fence.recovery());
  done.message.set_group(fence.group());
  if (fence.context() && context) done.message.set_context(context());
  std::string all;
  for (const auto& [node, data] : open.data) all += data;
  done.message.set_data(std::move(all));
  done.to = std::move(open.all);
  last_[key.who] = done.message;
  open_.erase(at);
  return done;
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

void Modex::forget_from(Rank first) {
  blobs_.erase(blobs_.lower_bound(first), blobs_.end());
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
