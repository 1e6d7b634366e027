// SPDX-License-Identifier: GPL-2.0-only
// The coordinator's part in redundancy between daemons: who hands images out, who copies them, which waves are safe.
#include <algorithm>

#include "coordinator.h"

namespace reprise::job {

namespace {
/** Time that daemons have, after an attach, to say where they hand images out, before a recovery does without them. */
constexpr std::uint64_t kServingMs = 3000;
constexpr int kMostEndpoints = 64;
}  // namespace

Serving Coordinator::serving(const std::set<NodeIndex>& without) const {
  return [this, without](NodeIndex node) -> const Relaying* {
    if (!members_.up(node) || without.count(node)) return nullptr;
    const auto& where = members_.at(node).serving;
    return where ? &*where : nullptr;
  };
}

Serves Coordinator::serves(const std::set<NodeIndex>& without) const {
  return [where = serving(without)](NodeIndex node) { return where(node) != nullptr; };
}

void Coordinator::note_serving(NodeIndex node, const Relaying& where, Now now) {
  if (!protection_.on()) return;
  if (where.endpoints().empty() || where.endpoints_size() > kMostEndpoints)
    members_.find(node)->serving.reset();
  else
    members_.find(node)->serving = where;
  protection_.node_joined(node);
  if (kept_copies_) kept_copies_->look_again();
  if (phase_ == Phase::running) recover_when_served(now);
  if (phase_ == Phase::running) protect(now);
}

/** Another crrun has begun: the daemons tell it anew where they hand images out. A recovery that does not know begins the job anew. */
void Coordinator::ask_who_serves(Now now) {
  if (protection_.on()) served_by_ms_ = now.ms + kServingMs;
}

bool Coordinator::waits_for_serving(Now now) const {
  if (now.ms >= served_by_ms_) return false;
  const std::vector<NodeIndex> living = members_.living();
  return std::any_of(living.begin(), living.end(), [this](NodeIndex node) { return !members_.at(node).serving; });
}

void Coordinator::recover_when_served(Now now) {
  if (!postponed_ || waits_for_serving(now)) return;
  served_by_ms_ = 0;
  const Cause cause = *std::exchange(postponed_, std::nullopt);
  recover(cause, now);
}

void Coordinator::protect(Now now) {
  if (!protection_.on() || postponed_) return;
  Protection::Step step = protection_.next(store_, serving(), takes_copies(), now);
  for (StoredSet& set : step.formed) store_.formed(step.wave, std::move(set));
  if (!step.formed.empty()) save_waves();
  for (Protection::Order& order : step.orders) *out_.send({order.to}).mutable_protect() = std::move(order.message);
  copy_kept();
}

Serves Coordinator::takes_copies() const {
  return [where = serving(), this](NodeIndex node) { return where(node) && !members_.at(node).draining; };
}

void Coordinator::protect_done(const Up& up, Now now) {
  if (!protection_.on()) return;
  const ProtectDone& message = up.protect_done();
  const NodeIndex from = up.from();
  const WaveNumber number = message.wave();
  const StoredWave* wave = store_.find(number);
  std::vector<Rank> kept;
  std::string error = message.error();
  for (const RankStaged& rank : message.ranks()) {
    const StoredRank* image = wave ? wave->find(rank.rank()) : nullptr;
    if (!image) continue;
    if (!rank.error().empty()) {
      if (error.empty()) error = on(rank.rank()) + ": " + rank.error();
      continue;
    }
    if (!image->on(from)) kept.push_back(rank.rank());
    if (ranks_.size() > kWholeTables && !message.finished()) continue;  // one event a node
    event({{"event", "protected-rank"},
           {"wave", number},
           {"rank", rank.rank()},
           {"node", from},
           {"begin", rank.begin_unix_ns()},
           {"end", rank.end_unix_ns()},
           {"bytes", rank.bytes()}},
          now);
  }
  const bool before = store_.safe(number);
  if (!kept.empty()) store_.found(number, from, std::move(kept));
  const bool parity = settings_.spec.redundancy().kind() == Redundancy::XOR;
  // Copies are what they are; parity that was made before a recovery is of images that may be elsewhere now.
  const bool counts = !parity || (up.recovery() == recovery_number_ && number == protection_.wave() && protection_.busy(from));
  if (parity && counts && message.finished() && error.empty() && message.unreachable().empty()) {
    store_.parity_kept(number, from);
    event({{"event", "parity-kept"}, {"wave", number}, {"node", from}, {"network_bytes", message.network_bytes()}}, now);
  }
  if (counts) protection_.done(from, message, now);
  copying_progress_[from] = {message.done_bytes(), message.total_bytes()};
  if (message.finished()) {
    copying_progress_.erase(from);
    tally_.copied_bytes += message.network_bytes();
  }
  // An order for a wave that was dropped meanwhile fails.
  if (wave && !error.empty())
    // Warn once: a full disk fails for every rank of every wave.
    out_.say(std::exchange(protecting_fails_, true) ? Log::DEBUG : Log::WARNING,
             members_.host(from) + " could not keep images of other nodes for wave " + std::to_string(number) + " (" + error +
                 "); crrun tries again; until then the loss of a node may cost this wave");
  const bool safe = !before && store_.safe(number);
  if (safe)
    wave_safe(number, now);
  else
    save_waves();
  if (phase_ != Phase::running) return;
  drain(now);
  if (phase_ == Phase::running) protect(now);
}

/** The loss of any one node leaves an image of every rank of the wave now. */
void Coordinator::wave_safe(WaveNumber number, Now now) {
  if (std::exchange(protecting_fails_, false))
    out_.say(Log::INFO, "nodes keep images of each other again: wave " + std::to_string(number) + " is safe");
  event({{"event", "wave-safe"}, {"wave", number}}, now);
  const StoredWave& wave = *store_.find(number);
  // That of an older wave was interrupted by a recovery.
  if (wave.recovery == recovery_number_) {
    tally_.protection.add(now.unix_ns - std::min(now.unix_ns, wave.unix_ns));
    interval_.staged(wave.unix_ns, now);
  }
  save_waves();  // copies may soon be the only images of their ranks: a later crrun must know of them
  prune();
}

}  // namespace reprise::job
