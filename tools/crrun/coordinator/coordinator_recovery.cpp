// SPDX-License-Identifier: GPL-2.0-only
// The coordinator's recoveries: from the loss of a node or rank until all ranks run again.
#include <algorithm>

#include "coordinator.h"

namespace reprise::job {

namespace {
/** Limit expectations for nodes that are merely slow: at most kInVain within a multiple of the detection time. */
constexpr std::size_t kInVain = 3;
constexpr std::uint64_t kInVainWithin = 10;
}  // namespace

void Coordinator::node_lost(NodeIndex node, const std::string& why, Now now) {
  const std::uint64_t heard_ns = members_.at(node).heard_unix_ns;
  members_.lose(node, now);
  Member& member = *members_.find(node);
  member.next_start_ms = now.ms + settings_.rejoin_every_ms;
  out_.add(StopDaemon{node});
  member.link = false;
  store_.node_lost(node);
  staging_.node_lost(node);
  staging_progress_.erase(node);
  leaving_.erase(node);
  modex_.node_lost(node);
  board_.node_lost(node);
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < placement_.size(); ++rank) {
    if (placement_[rank] != node) continue;
    ranks.push_back(rank);
    ranks_[rank].alive = false;
  }
  for (const Drain& drain : drains_)
    if (drain.node == node) out_.add(Reply{drain.request, false, members_.host(node) + " was lost before it was drained"});
  std::erase_if(drains_, [&](const Drain& drain) { return drain.node == node; });
  member.draining = false;
  event({{"event", "node-lost"}, {"node", node}, {"why", why}, {"heard", heard_ns}, {"ranks", ranks}}, now);
  out_.say(Log::WARNING, members_.host(node) + (ranks.empty() ? " (no ranks)" : " with " + rank_list(ranks)) +
                             " is lost: " + why);
}

void Coordinator::lost_nodes(const std::vector<Loss>& losses, Now now) {
  if (losses.empty()) return;
  bool needed = false;
  std::string causes;
  for (const Loss& loss : losses) {
    last_recovery_.heard_ns = members_.at(loss.node).heard_unix_ns;
    node_lost(loss.node, loss.why, now);
    causes += (causes.empty() ? "" : ", ") + members_.host(loss.node);
    for (Rank rank = 0; rank < placement_.size(); ++rank) {
      if (placement_[rank] != loss.node) continue;
      // Nothing more is needed from a rank that has ended well and whose output is complete.
      const RankInfo& info = ranks_[rank];
      needed |= !exits_.ended(rank) || !info.output[0].ended || !info.output[1].ended;
    }
    needed |= spawns_.lives_on(loss.node);
    spawns_.node_lost(loss.node);
    for (const auto& [first, family] : spawns_.all())
      if (family.lives() && phase_ == Phase::running && !needed) judge_spawn(*spawns_.find(first), now);
  }
  if (phase_ == Phase::starting) {
    for (const Loss& loss : losses)
      if (!replace_at_start(loss.node, members_.host(loss.node) + " was lost before the job had started.")) return end(1, true, now);
    if (!members_.any_starting()) all_there(now);
    return;
  }
  if (phase_ == Phase::ending) return save();
  if (needed || phase_ == Phase::recovering)
    recover("loss of " + causes, now);
  else
    save();
}

std::vector<Rank> Coordinator::moved_since(const StoredWave& wave) const {
  std::vector<Rank> out;
  for (Rank rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].incarnation > wave.recovery) out.push_back(rank);
  return out;
}

std::optional<Coordinator::Way> Coordinator::way_back(bool with_drained, const std::set<NodeIndex>& without) const {
  const auto placed = place_again(placement_, seats(with_drained, without), settings_.double_up);
  if (!placed) return std::nullopt;
  return Way{*placed, store_.choose(*placed).value_or(0)};
}

std::set<Rank> Coordinator::to_restart(const Way& way) const {
  const StoredWave& stored = *store_.find(way.wave);
  std::set<Rank> out;
  for (Rank rank = 0; rank < ranks_.size(); ++rank) {
    const RankInfo& info = ranks_[rank];
    const StoredRank& image = stored.ranks[rank];
    // A process that was started anew since the wave does not match the image. A rank that moves or has ended has no
    // process to pause.
    if (!info.alive || exits_.ended(rank) || info.incarnation > stored.recovery || !image.local || image.node != way.placement[rank])
      out.insert(rank);
  }
  return out;
}

/** Tell the daemons to prepare while it is uncertain whether a node is lost. */
void Coordinator::expect_losses(Now now) {
  std::erase_if(expected_in_vain_ms_, [&](std::uint64_t ms) { return now.ms > ms + kInVainWithin * settings_.lost_after_ms; });
  std::set<NodeIndex> nodes;
  if (!round_ && expected_in_vain_ms_.size() < kInVain && !settings_.spec.no_checkpoints())
    for (NodeIndex node : members_.doubtful(now))
      if (std::find(placement_.begin(), placement_.end(), node) != placement_.end()) nodes.insert(node);
  if (nodes == expected_) return;
  Recover message;
  if (nodes.empty()) {
    expected_in_vain_ms_.push_back(now.ms);
  } else if (const auto way = way_back(false, nodes); way && way->wave) {
    fill_recover(message, *way, to_restart(*way));
  }
  event({{"event", "nodes-silent"}, {"nodes", nodes}}, now);
  expected_ = std::move(nodes);
  *out_.send().mutable_expect() = std::move(message);
}

void Coordinator::recover(const std::string& cause, Now now) {
  if (phase_ == Phase::ending || phase_ == Phase::finished) return;
  if (phase_ == Phase::starting && begin_ == Begin::attach) return;  // attached() looks at it when all are there
  last_recovery_.cause = cause;
  last_recovery_.detected_ns = now.unix_ns;
  const bool no_checkpoints = settings_.spec.no_checkpoints();
  if (no_checkpoints) {
    out_.say(Log::ERROR, "without checkpoints the job cannot continue after the " + cause);
    return end(1, true, now);
  }
  abort_wave("the " + cause, false, now);
  phase_ = Phase::recovering;
  expected_.clear();  // the daemons take what fits
  ++recovery_number_;
  links_.recovering();
  fences_.reset();
  staging_.reset();
  staging_progress_.clear();

  // First try the preferred placement. If no wave allows it, leave those ranks in place that need not move.
  std::optional<Way> way = way_back(false);
  if (!drains_.empty() && !(way && way->wave)) {
    way = way_back(true);
    for (Drain& drain : drains_) drain.ready = false, drain.wave = 0;
  }
  if (!way) {
    std::vector<Rank> homeless;
    for (Rank rank = 0; rank < placement_.size(); ++rank)
      if (!members_.up(placement_[rank])) homeless.push_back(rank);
    return restartable_end("there is no node left for " + rank_list(homeless), now);
  }
  const WaveNumber wave = way->wave;
  const bool had_waves = store_.newest().has_value();
  const WaveNumber newest = store_.newest().value_or(0);
  // Nodes that have not answered in the recovery before may still have processes that it moved away.
  std::erase_if(leaving_, [this](NodeIndex node) { return !members_.up(node); });
  const bool others_leave = !leaving_.empty();
  restarting_.reset();
  std::set<NodeIndex> to;
  for (Rank rank = 0; rank < placement_.size(); ++rank) {
    if (way->placement[rank] == placement_[rank] || !members_.up(placement_[rank])) continue;
    leaving_.insert(placement_[rank]);
    to.insert(way->placement[rank]);
  }
  placement_ = way->placement;
  moved_ = true;
  void_spawns(wave);
  if (!wave) {
    if (had_waves)
      out_.say(Log::WARNING, "no wave is left for which every rank's image is available" +
                                 std::string(settings_.spec.shared_directory().empty() ? " (there is no --shared)" : "") +
                                 ": the job begins anew");
    return relaunch(now);
  }
  if (wave != newest)
    out_.say(Log::WARNING, "wave " + std::to_string(newest) + " is not completely available: the job goes back to wave " +
                               std::to_string(wave));
  const std::vector<WaveNumber> voided = store_.forget_after(wave);
  const std::set<Rank> restart = to_restart(*way);
  for (Rank rank : restart) {
    ranks_[rank].alive = false;
    ranks_[rank].incarnation = recovery_number_;
  }
  exits_.rolled_back();
  recovering_.emplace(recovery_number_, wave, static_cast<std::uint32_t>(ranks_.size()), restart, now,
                      settings_.recover_timeout_ms);
  last_recovery_.recovery = recovery_number_;
  last_recovery_.wave = wave;
  last_recovery_.restarted.assign(restart.begin(), restart.end());
  last_recovery_.restored_ns = last_recovery_.resumed_ns = 0;
  last_recovery_.decided_ns = now.unix_ns;
  save();
  for (WaveNumber later : voided) out_.add(RemoveStaged{later});
  event({{"event", "recovery-begin"},
         {"recovery", recovery_number_},
         {"wave", wave},
         {"cause", cause},
         {"heard", last_recovery_.heard_ns},
         {"restart", restart},
         {"placement", placement_}},
        now);
  last_recovery_.heard_ns = 0;
  std::string text = "recovery " + std::to_string(recovery_number_) + " (" + cause + "): back to wave " +
                     std::to_string(wave) + ", " +
                     (restart.empty() ? "no rank is restarted"
                                      : rank_list(last_recovery_.restarted) +
                                            (restart.size() == 1 ? " is restarted" : " are restarted"));
  std::set<NodeIndex> hosts;
  for (Rank rank : restart) hosts.insert(placement_[rank]);
  if (hosts.size() == 1) text += " on " + members_.host(*hosts.begin());
  out_.say(Log::INFO, text);
  roll_back_streams(store_.find(wave));
  Recover message;
  message.set_recovery(recovery_number_);
  message.set_deadline_ms(settings_.recover_timeout_ms);
  fill_recover(message, *way, restart);
  // A node that takes a rank of a living node over must not start it beside the old process.
  if (others_leave) to.insert(hosts.begin(), hosts.end());
  std::erase_if(to, [this](NodeIndex node) { return leaving_.count(node) > 0; });
  if (to.empty()) {
    *out_.send().mutable_recover() = std::move(message);
    return;
  }
  std::vector<NodeIndex> at_once;
  for (NodeIndex node : members_.living())
    if (!to.count(node)) at_once.push_back(node);
  if (!at_once.empty()) *out_.send(at_once).mutable_recover() = message;
  restarting_.emplace(Restarting{{to.begin(), to.end()}, std::move(message)});
}

/** The processes that moved away have ended: the nodes that they moved to may start them. */
void Coordinator::start_moved() {
  if (!restarting_ || !leaving_.empty()) return;
  *out_.send(restarting_->nodes).mutable_recover() = std::move(restarting_->message);
  restarting_.reset();
}

void Coordinator::fill_recover(Recover& message, const Way& way, const std::set<Rank>& restart) const {
  message.set_wave(way.wave);
  for (Rank rank = 0; rank < way.placement.size(); ++rank) {
    Placement& placement = *message.add_placement();
    placement.set_rank(rank);
    placement.set_node(way.placement[rank]);
    if (ranks_.size() <= kWholeTables || restart.count(rank)) *message.add_images() = store_.place(way.wave, rank, way.placement[rank]);
  }
  for (Rank rank : restart) message.add_restart(rank);
}

void Coordinator::relaunch(Now now) {
  const std::vector<WaveNumber> voided = store_.forget_after(0);
  recovering_.reset();
  exits_.rolled_back();
  modex_.clear();
  board_.clear();
  for (RankInfo& rank : ranks_) {
    rank.alive = rank.started = rank.ready = false;
    rank.incarnation = recovery_number_;
    rank.address.Clear();
  }
  moved_ = true;
  out_.say(Log::INFO, "recovery " + std::to_string(recovery_number_) + " (" + last_recovery_.cause +
                          "): all ranks are started from the beginning");
  event({{"event", "recovery-begin"},
         {"recovery", recovery_number_},
         {"wave", 0},
         {"cause", last_recovery_.cause},
         {"heard", last_recovery_.heard_ns},
         {"placement", placement_}},
        now);
  last_recovery_.recovery = recovery_number_;
  last_recovery_.wave = 0;
  last_recovery_.decided_ns = last_recovery_.restored_ns = last_recovery_.resumed_ns = now.unix_ns;
  last_recovery_.heard_ns = 0;
  last_recovery_.restarted.clear();
  roll_back_streams(nullptr);
  for (const Drain& drain : std::exchange(drains_, {}))
    out_.add(Reply{drain.request, true, members_.host(drain.node) + " is empty; the job was started from the beginning"});
  launch(now);
  for (WaveNumber wave : voided) out_.add(RemoveStaged{wave});
  event({{"event", "recovery-done"}, {"recovery", recovery_number_}}, now);
}

void Coordinator::roll_back_streams(const StoredWave* wave) {
  bool lost_input = false;
  for (Rank rank = 0; rank < ranks_.size(); ++rank) {
    RankInfo& info = ranks_[rank];
    for (std::size_t i = 0; i < 2; ++i) {
      info.output[i].rolled_back(wave ? wave->ranks[rank].offsets[i + 1] : 0);
      info.output[i].ended = false;
    }
    info.input_sent = info.input_taken = wave ? wave->ranks[rank].offsets[0] : 0;
    info.input_end_sent = false;
    const bool reads = settings_.spec.stdin_target() == "all" || (settings_.spec.stdin_target() == "0" && rank == 0);
    lost_input |= reads && !input_.from(info.input_sent);
  }
  if (lost_input)
    out_.say(Log::WARNING, "crrun does not keep enough standard input: a part of it cannot be sent again");
}

void Coordinator::restored(const Restored& message, Now now) {
  if (!recovering_ || message.recovery() != recovery_number_) return;
  for (const RankRestored& rank : message.ranks()) {
    if (rank.rank() >= ranks_.size()) continue;
    RankInfo& info = ranks_[rank.rank()];
    event({{"event", "restored-rank"},
           {"recovery", recovery_number_},
           {"rank", rank.rank()},
           {"node", placement_[rank.rank()]},
           {"begin", rank.begin_unix_ns()},
           {"end", rank.end_unix_ns()},
           {"frozen_ns", rank.frozen_ns()},
           {"pages", rank.pages()},
           {"pages_restored", rank.pages_restored()},
           {"shared_bytes", rank.shared_bytes_read()},
           {"restarted", rank.restarted()},
           {"stood_by", rank.stood_by()},
           {"fresh_pmix", rank.fresh_pmix()},
           {"error", rank.error()}},
          now);
    info.alive = rank.error().empty();
    if (!info.alive) continue;
    info.pid = rank.pid();
    info.address = rank.address();
    info.started = info.ready = true;
    // A daemon also restarts a rank that it was to pause and found dead.
    if (rank.restarted() && std::exchange(info.incarnation, recovery_number_) != recovery_number_) moved_ = true;
  }
  recovering_->restored(message);
  judge_recovery(now);
}

void Coordinator::resumed(const Resumed& message, Now now) {
  if (!recovering_ || message.recovery() != recovery_number_) return;
  for (const RankResumed& rank : message.ranks()) {
    if (rank.rank() >= ranks_.size()) continue;
    event({{"event", "resumed-rank"},
           {"recovery", recovery_number_},
           {"rank", rank.rank()},
           {"node", placement_[rank.rank()]},
           {"begin", rank.begin_unix_ns()},
           {"end", rank.end_unix_ns()},
           {"discarded_bytes", rank.discarded_bytes()},
           {"kept", rank.kept()},
           {"closed", rank.closed()},
           {"error", rank.error()}},
          now);
    if (!rank.error().empty()) ranks_[rank.rank()].alive = false;
  }
  recovering_->resumed(message);
  judge_recovery(now);
}

void Coordinator::judge_recovery(Now now) {
  if (!recovering_) return;
  start_moved();
  if (recovering_->all_answered() && recovering_->failures().empty()) {
    if (recovering_->step() == RecoveryRound::Step::resuming) return recovery_done(now);
    // The ranks must not continue before the processes that moved away have ended on their old nodes.
    if (leaving_.empty()) return resume(now);
  }
  // Wait for all answers, so that the next attempt considers all failures; but not for ever.
  const bool all_known = recovering_->all_answered() && !recovering_->failures().empty();
  if (all_known || recovering_->late(now)) recovery_failed(now);
}

void Coordinator::resume(Now now) {
  recovering_->resume(now);
  last_recovery_.restored_ns = now.unix_ns;
  const StoredWave& wave = *store_.find(recovering_->wave());
  Resume& message = *out_.send().mutable_resume();
  message.set_recovery(recovery_number_);
  message.set_nonce(nonce_());
  for (Rank rank : moved_since(wave)) message.add_moved(rank);
  for (Rank rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_.size() > kWholeTables && ranks_[rank].incarnation <= wave.recovery) continue;
    RankAddress& address = *message.add_addresses();
    address = ranks_[rank].address;
    address.set_rank(rank);
    address.set_incarnation(ranks_[rank].incarnation);
  }
  event({{"event", "resume"}, {"recovery", recovery_number_}}, now);
  send_input();
}

void Coordinator::recovery_failed(Now now) {
  const RecoveryRound round = *recovering_;
  event({{"event", "recovery-failed"}, {"recovery", recovery_number_}}, now);
  bool counts = false;
  std::set<NodeIndex> unable;
  for (const RecoveryRound::Failure& failure : round.failures()) {
    ranks_[failure.rank].alive = false;
    if (failure.image_bad) {
      out_.say(Log::WARNING, "the image of " + on(failure.rank) + " in wave " + std::to_string(round.wave()) +
                                 " is missing or damaged: " + failure.error);
      store_.damaged(round.wave(), failure.rank);
      continue;
    }
    counts = true;
    out_.say(Log::WARNING, on(failure.rank) + " could not be " + (failure.restarted ? "restarted" : "paused") + ": " +
                               failure.error);
    if (failure.restarted) unable.insert(placement_[failure.rank]);
  }
  const std::vector<Rank> missing = round.missing();
  std::set<NodeIndex> silent = leaving_;
  for (Rank rank : missing) {
    // A node that was to wait for others has not been asked.
    const NodeIndex node = placement_[rank];
    const auto waits = [&](const Restarting& some) { return std::count(some.nodes.begin(), some.nodes.end(), node) > 0; };
    if (!restarting_ || !waits(*restarting_)) silent.insert(node);
  }
  if (counts) ++failed_recoveries_;
  if (failed_recoveries_ >= settings_.max_failed_recoveries)
    return restartable_end(std::to_string(failed_recoveries_) + " recoveries in a row have failed", now);
  // Give up a node that fails repeatedly or does not answer.
  for (NodeIndex node : unable)
    if (++failures_of_node_[node] >= 2 && members_.living().size() > 1 && members_.up(node))
      node_lost(node, "it could not restart its ranks", now);
  for (NodeIndex node : silent)
    if (members_.up(node)) node_lost(node, "it did not finish its part of the recovery in time", now);
  recover("failure of recovery " + std::to_string(round.recovery()), now);
}

void Coordinator::recovery_done(Now now) {
  recovering_->finish(now);
  recovering_.reset();
  phase_ = Phase::running;
  failed_recoveries_ = 0;
  failures_of_node_.clear();
  last_recovery_.resumed_ns = now.unix_ns;
  event({{"event", "recovery-done"}, {"recovery", recovery_number_}}, now);
  const auto ms = [&](std::uint64_t from, std::uint64_t to) { return std::to_string((to - from) / 1'000'000) + " ms"; };
  out_.say(Log::INFO, "recovery " + std::to_string(recovery_number_) + " is done after " +
                          ms(last_recovery_.detected_ns, now.unix_ns) + " (restore " +
                          ms(last_recovery_.decided_ns, last_recovery_.restored_ns) + ", resume " +
                          ms(last_recovery_.restored_ns, now.unix_ns) + ")");
  std::erase_if(drains_, [&](const Drain& drain) {
    const bool gone = std::find(placement_.begin(), placement_.end(), drain.node) == placement_.end();
    if (gone) out_.add(Reply{drain.request, true, "the ranks of " + members_.host(drain.node) + " run elsewhere"});
    return gone;
  });
  save();
  Prune& message = *out_.send().mutable_prune();
  for (const auto& [number, wave] : store_.waves()) message.add_keep(number);
  prune();
  clock_.running(now, true);
  for (const Up& up : std::exchange(early_spawns_, {})) spawn(up, now);
}

}  // namespace reprise::job
