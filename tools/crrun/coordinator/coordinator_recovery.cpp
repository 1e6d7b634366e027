// SPDX-License-Identifier: GPL-2.0-only
// The coordinator's recoveries: from the loss of a node or rank until all ranks run again.
#include <algorithm>

#include "coordinator.h"
#include "slowest.h"

namespace reprise::job {

namespace {
/** The daemons prepare for the loss of so many nodes at most. */
constexpr std::size_t kMostExpected = 64;
}  // namespace

void Coordinator::node_lost(NodeIndex node, const std::string& why, Now now) {
  const std::uint64_t heard_ns = members_.at(node).heard_unix_ns;
  ++tally_.nodes_lost;
  members_.lose(node, now);
  Member& member = *members_.find(node);
  member.next_start_ms = now.ms + settings_.rejoin_every_ms;
  out_.add(StopDaemon{node});
  member.link = false;
  store_.node_lost(node);
  staging_.node_lost(node);
  protection_.node_lost(node);
  if (kept_copies_) kept_copies_->node_lost(node);
  staging_progress_.erase(node);
  copying_progress_.erase(node);
  recovering_.node_lost(node);
  watchdog_.node_lost(node);
  modex_.node_lost(node);
  board_.node_lost(node);
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < placement_.size(); ++rank) {
    if (placement_[rank] != node) continue;
    ranks.push_back(rank);
    ranks_[rank].alive = false;
  }
  refuse_drains(draining_.take(node), "was lost before it was drained");
  member.draining = false;
  event({{"event", "node-lost"}, {"node", node}, {"why", why}, {"heard", heard_ns}, {"ranks", ranks}}, now);
  out_.say(Log::WARNING, members_.host(node) + (ranks.empty() ? " (no ranks)" : " with " + rank_list(ranks)) +
                             " is lost: " + why);
}

void Coordinator::lost_nodes(const std::vector<Loss>& losses, Now now) {
  if (losses.empty()) return;
  bool needed = false;
  std::string causes;
  Cause cause{CauseKind::node_lost, ""};
  for (const Loss& loss : losses) {
    cause.heard_ns = members_.at(loss.node).heard_unix_ns;
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
    if (settings_.spec.tells_failures() && phase_ == Phase::running) {
      fail_node(loss.node, now);
      needed = false;
    }
    for (const auto& [first, family] : spawns_.all())
      if (family.lives() && phase_ == Phase::running && !needed) judge_spawn(*spawns_.find(first), now);
  }
  if (phase_ == Phase::starting) {
    for (const Loss& loss : losses)
      if (!replace_at_start(loss.node, members_.host(loss.node) + " was lost before all nodes were there.")) return end(1, true, now);
    if (!members_.any_starting()) all_there(now);
    return;
  }
  if (phase_ == Phase::ending) return save();
  cause.what = "loss of " + causes;
  if (needed || phase_ == Phase::recovering)
    recover(cause, now);
  else
    save();
}

std::vector<Rank> Coordinator::moved_since(const StoredWave& wave) const {
  std::vector<Rank> out;
  for (Rank rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].incarnation > wave.recovery) out.push_back(rank);
  for (const auto& [first, family] : spawns_.all())
    for (Rank rank = 0; family.lives() && rank < family.nodes.size(); ++rank)
      if (family.processes[rank].incarnation > wave.recovery) out.push_back(first + rank);
  return out;
}

PlacementTable Coordinator::nodes_in(const StoredWave& wave) const {
  PlacementTable out = placement_;
  const Roster roster = wave.roster();
  for (std::size_t place = out.size(); place < roster.size(); ++place)
    out.push_back(node_of(roster.number(place)).value_or(wave.ranks[place].node));
  return out;
}

std::optional<RecoveryPlan> Coordinator::plan(bool with_drained, const std::set<NodeIndex>& without) const {
  return plan_recovery(placement_, spawns_.where(), seats(with_drained, without), settings_.double_up, store_, [this](Rank rank) {
    if (rank >= ranks_.size()) {
      const Family::Process* process = spawns_.process(rank);
      return process && process->alive();
    }
    return ranks_[rank].alive && !exits_.ended(rank);
  }, serves(without));
}

/** Tell the daemons to prepare while it is uncertain whether a node is lost. */
void Coordinator::expect_losses(Now now) {
  std::set<NodeIndex> nodes;
  if (!round_ && expected_.allowed(now) && !settings_.spec.no_checkpoints())
    nodes = members_.doubtful(now);
  if (!nodes.empty()) {
    std::vector<bool> has_ranks(members_.all().size());
    for (NodeIndex node : placement_) has_ranks.at(node) = true;
    for (NodeIndex node : spawns_.nodes()) has_ranks.at(node) = true;
    std::erase_if(nodes, [&](NodeIndex node) { return !has_ranks.at(node); });
  }
  // So many at once are hardly lost: crrun or the network is slow, and preparations would make it slower.
  if (nodes.size() > kMostExpected) nodes.clear();
  if (!expected_.set(nodes, now)) return;
  Recover message;
  if (!nodes.empty())
    if (const auto wanted = plan(false, nodes); wanted && wanted->wave) wanted->fill(message, store_, serving(nodes));
  event({{"event", "nodes-silent"}, {"nodes", nodes}}, now);
  *out_.send().mutable_expect() = std::move(message);
}

void Coordinator::recover(const Cause& cause, Now now) {
  if (phase_ == Phase::ending || phase_ == Phase::finished) return;
  const std::string cannot_stay = std::exchange(cannot_stay_, {});
  if (phase_ == Phase::starting && begin_ == Begin::attach) return save();  // attached() looks at it when all are there
  if (waits_for_serving(now)) {
    if (!postponed_) postponed_ = cause;
    return save();
  }
  postponed_.reset();
  report_ = {};
  report_.cause = cause.what;
  report_.detected_ns = now.unix_ns;
  if (settings_.spec.no_checkpoints()) {
    out_.say(Log::ERROR, "without checkpoints the job cannot continue after the " + cause.what);
    return end(1, true, now);
  }
  abort_wave(GivenUp::recovery, "the " + cause.what, now);
  if (is_failure(cause.kind))
    interval_.failed(cause.silence_ms(now), now);
  else
    interval_.stopped(now);
  staging_.reset();
  protection_.reset();
  staging_progress_.clear();
  copying_progress_.clear();

  // First try the preferred placement. If no wave allows it, leave those ranks in place that need not move.
  std::optional<RecoveryPlan> wanted = plan(false);
  if (draining_.any() && !(wanted && wanted->wave)) {
    wanted = plan(true);
    draining_.start_over();
  }
  if (!wanted) {
    std::vector<Rank> homeless;
    for (Rank rank = 0; rank < placement_.size(); ++rank)
      if (!members_.up(placement_[rank])) homeless.push_back(rank);
    return restartable_end("there is no node left for " + rank_list(homeless), now);
  }
  DomainChoice choice = domain_of(*wanted, cause);
  if (!cannot_stay.empty()) choice.why_all = cannot_stay;
  enter(Phase::recovering);
  expected_.recovering();
  ++recovery_number_;
  links_.recovering();
  if (choice.domain == Domain::all) {
    own_since_ = recovery_number_;
    fences_.reset();
  } else {
    fences_.others_went_back(ranks_.size());
  }
  note_lost(*wanted);
  recovering_.end();
  const StoredWave* const wave = store_.find(wanted->wave);
  recovering_.depart(wave ? nodes_in(*wave) : placement_, wave ? wanted->nodes : wanted->placement,
                     [this](NodeIndex node) { return members_.up(node); });
  count_recovery(cause, wanted->placement, now);
  placement_ = wanted->placement;
  moved_ = true;
  roll_back_spawns(*wanted, choice.domain);
  const WaveNumber newest = store_.newest().value_or(0);
  if (!wanted->wave) {
    if (newest)
      out_.say(Log::WARNING, "no wave is left for which every rank's image is available" +
                                 std::string(settings_.spec.shared_directory().empty() && !protection_.on() ? " (there is no --shared)" : "") +
                                 ": the job begins anew");
    return relaunch(cause, now);
  }
  if (wanted->wave != newest)
    out_.say(Log::WARNING, "wave " + std::to_string(newest) + " is not completely available: the job goes back to wave " +
                               std::to_string(wanted->wave));
  begin_recovery(*wanted, cause, choice, now);
}

DomainChoice Coordinator::domain_of(const RecoveryPlan& plan, const Cause& cause) const {
  return choose_domain({.cause = cause.kind,
                        .running = phase_ == Phase::running,
                        .placement = placement_,
                        .plan = plan,
                        .store = store_,
                        .spawns = spawns_,
                        .ended = exits_.any(),
                        .pinned = pin_.wave() || pin_.waiting(),
                        .draining = draining_.any(),
                        .collective = fences_.await_own(ranks_.size()),
                        .link_broken = links_.pending(),
                        .quiet = border_.quiet_since(plan.wave)});
}

void Coordinator::begin_recovery(const RecoveryPlan& plan, const Cause& cause, const DomainChoice& choice, Now now) {
  const bool all = choice.domain == Domain::all;
  const std::vector<WaveNumber> voided = store_.forget_after(plan.wave);
  border_.taken_back_to(plan.wave);
  std::set<NodeIndex> hosts;
  for (Rank rank : plan.restart) {
    if (Family::Process* process = spawns_.process(rank)) {
      process->incarnation = recovery_number_;
    } else {
      ranks_[rank].alive = false;
      ranks_[rank].incarnation = recovery_number_;
    }
    hosts.insert(*node_of(rank));
  }
  tally_.ranks_restarted += plan.restart.size();
  if (all) {
    exits_.rolled_back();
    pin_.rolled_back(store_.find(plan.wave));
  } else {
    stays_for_ = cause;
  }
  report_.recovery = recovery_number_;
  report_.wave = plan.wave;
  report_.own_stay = !all;
  report_.restarted.assign(plan.restart.begin(), plan.restart.end());
  report_.decided_ns = now.unix_ns;
  save();
  for (WaveNumber later : voided) drop_staged(later);
  event({{"event", "recovery-begin"},
         {"recovery", recovery_number_},
         {"wave", plan.wave},
         {"cause", cause.what},
         {"domain", name(choice.domain)},
         {"why_all", choice.why_all},
         {"heard", cause.heard_ns},
         {"restart", plan.restart},
         {"placement", placement_}},
        now);
  say_recovery(plan, cause, choice);
  if (all) roll_back_streams(store_.find(plan.wave));
  Recover message;
  message.set_recovery(recovery_number_);
  message.set_stay(!all);
  message.set_deadline_ms(settings_.recover_timeout_ms);
  plan.fill(message, store_, serving());
  if (kept_copies_) {
    kept_copies_->fill(message, serving());
    kept_copies_->look_again();  // ranks are on other nodes now
  }
  for (SpawnBegin& spawned : *message.mutable_spawned()) {
    spawned.set_recovery(recovery_number_);
    spawned.set_wave(next_wave_ - 1);
  }
  RecoveryRound round(recovery_number_, plan.wave, store_.find(plan.wave)->roster(), plan.restart, now, settings_.recover_timeout_ms);
  for (Recovering::Order& order : recovering_.begin(std::move(round), std::move(message), members_.living(), hosts)) send(std::move(order));
}

/** @return the ranks of the job, then spawned processes by their names */
std::string Coordinator::words(const std::vector<Rank>& numbers) const {
  std::vector<Rank> own;
  std::string spawned;
  for (Rank number : numbers) {
    if (number < ranks_.size())
      own.push_back(number);
    else
      spawned += (spawned.empty() ? "" : ", ") + on(number);
  }
  return own.empty() ? spawned : rank_list(own) + (spawned.empty() ? "" : ", " + spawned);
}

void Coordinator::say_recovery(const RecoveryPlan& plan, const Cause& cause, const DomainChoice& choice) {
  std::string text = "recovery " + std::to_string(recovery_number_) + " (" + cause.what + "): back to wave " +
                     std::to_string(plan.wave) + ", " +
                     (plan.restart.empty() ? "no rank is restarted"
                                           : words(report_.restarted) +
                                                 (plan.restart.size() == 1 ? " is restarted" : " are restarted"));
  std::set<NodeIndex> hosts;
  for (Rank rank : plan.restart) hosts.insert(*node_of(rank));
  if (hosts.size() == 1) text += " on " + members_.host(*hosts.begin());
  if (choice.domain == Domain::spawned) text += "; only spawned processes go back";
  if (!choice.why_all.empty()) text += "; all go back, not only the spawned processes: " + choice.why_all;
  out_.say(Log::INFO, text);
}

void Coordinator::send(std::optional<Recovering::Order> order) {
  if (order) *out_.send(order->first).mutable_recover() = std::move(order->second);
}

void Coordinator::relaunch(const Cause& cause, Now now) {
  const std::vector<WaveNumber> voided = store_.forget_after(0);
  exits_.rolled_back();
  pin_.rolled_back(nullptr);
  lost_.clear();
  restarting_.clear();
  modex_.clear();
  board_.clear();
  if (kept_copies_) kept_copies_->clear();
  for (RankInfo& rank : ranks_) {
    rank.alive = rank.started = rank.ready = false;
    rank.incarnation = recovery_number_;
    rank.address.Clear();
  }
  tally_.ranks_restarted += ranks_.size();
  moved_ = true;
  out_.say(Log::INFO, "recovery " + std::to_string(recovery_number_) + " (" + cause.what +
                          "): all ranks are started from the beginning");
  event({{"event", "recovery-begin"},
         {"recovery", recovery_number_},
         {"wave", 0},
         {"cause", cause.what},
         {"domain", name(Domain::all)},
         {"heard", cause.heard_ns},
         {"placement", placement_}},
        now);
  report_.recovery = recovery_number_;
  report_.decided_ns = report_.restored_ns = report_.resumed_ns = now.unix_ns;
  roll_back_streams(nullptr);
  for (const Draining::Drain& drain : draining_.take_all())
    out_.add(Reply{drain.request, true, members_.host(drain.node) + " is empty; the job was started from the beginning"});
  launch(now);
  for (WaveNumber wave : voided) drop_staged(wave);
  event({{"event", "recovery-done"}, {"recovery", recovery_number_}}, now);
  measure_recovery(now);
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
  const RecoveryRound* const round = recovering_.round();
  if (message.recovery() != recovery_number_ || !round || round->step() != RecoveryRound::Step::restoring) return;
  const auto was_asked = [this](const RankRestored& rank) { return rank.stays() == (report_.own_stay && rank.rank() < ranks_.size()); };
  if (!std::all_of(message.ranks().begin(), message.ranks().end(), was_asked)) return;
  note_fetched(message);
  Slowest slowest(placement_);
  for (const RankRestored& rank : message.ranks()) slowest.add(rank.rank(), rank.end_unix_ns());
  for (const RankRestored& rank : message.ranks()) {
    // Joined answers can come twice, the second time after the rank has ended.
    Family::Process* const process = spawns_.process(rank.rank());
    if ((rank.rank() >= ranks_.size() && !process) || round->answered(rank.rank())) continue;
    if (rank.stays()) continue;
    if (slowest.is(rank.rank()) || !rank.error().empty())
      event({{"event", "restored-rank"},
             {"recovery", recovery_number_},
             {"rank", rank.rank()},
             {"node", *node_of(rank.rank())},
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
    if (process) {
      process->ended = !rank.error().empty();
      if (process->ended) continue;
      process->address = rank.address();
      if (rank.restarted()) process->incarnation = recovery_number_;
      continue;
    }
    RankInfo& info = ranks_[rank.rank()];
    info.alive = rank.error().empty();
    if (!info.alive) continue;
    info.pid = rank.pid();
    info.address = rank.address();
    info.started = info.ready = true;
    if (rank.restarted()) say_binding(rank.rank(), rank.bound_to());
    // A daemon also restarts a rank that it was to pause and found dead.
    if (rank.restarted() && std::exchange(info.incarnation, recovery_number_) != recovery_number_) {
      moved_ = true;
      lost_.insert(rank.rank());
    }
  }
  recovering_.restored(message);
  judge_recovery(now);
}

/** A node keeps the images that it has read from other nodes to restart ranks. */
void Coordinator::note_fetched(const Restored& message) {
  const StoredWave& wave = *store_.find(recovering_.round()->wave());
  std::map<NodeIndex, std::vector<Rank>> fetched;
  for (const RankRestored& rank : message.ranks()) {
    const StoredRank* image = wave.find(rank.rank());
    const auto node = node_of(rank.rank());
    if (rank.restarted() && rank.error().empty() && image && node && !image->staged && !image->on(*node)) fetched[*node].push_back(rank.rank());
  }
  for (auto& [node, ranks] : fetched) store_.found(wave.wave, node, std::move(ranks));
  if (!fetched.empty()) save_waves();
}

void Coordinator::resumed(const Resumed& message, Now now) {
  if (message.recovery() != recovery_number_) return;
  Slowest slowest(placement_);
  for (const RankResumed& rank : message.ranks()) slowest.add(rank.rank(), rank.end_unix_ns());
  for (const RankResumed& rank : message.ranks()) {
    Family::Process* const process = spawns_.process(rank.rank());
    if (rank.rank() >= ranks_.size() && !process) continue;
    if (report_.own_stay && !process) continue;
    if (slowest.is(rank.rank()) || !rank.error().empty())
      event({{"event", "resumed-rank"},
             {"recovery", recovery_number_},
             {"rank", rank.rank()},
             {"node", *node_of(rank.rank())},
             {"begin", rank.begin_unix_ns()},
             {"end", rank.end_unix_ns()},
             {"discarded_bytes", rank.discarded_bytes()},
             {"kept", rank.kept()},
             {"closed", rank.closed()},
             {"error", rank.error()}},
            now);
    if (rank.error().empty()) continue;
    if (process)
      process->ended = true;
    else
      ranks_[rank.rank()].alive = false;
  }
  recovering_.resumed(message);
  judge_recovery(now);
}

void Coordinator::judge_recovery(Now now) {
  send(recovering_.departed());
  switch (recovering_.verdict(now)) {
    case Recovering::Verdict::pending: break;
    case Recovering::Verdict::resume: resume(now); break;
    case Recovering::Verdict::complete: recovery_done(now); break;
    case Recovering::Verdict::failed: recovery_failed(now); break;
  }
}

void Coordinator::resume(Now now) {
  recovering_.resume(now);
  report_.restored_ns = now.unix_ns;
  const StoredWave& wave = *store_.find(recovering_.round()->wave());
  Resume& message = *out_.send().mutable_resume();
  message.set_recovery(recovery_number_);
  message.set_nonce(nonce_());
  for (Rank rank : moved_since(wave)) message.add_moved(rank);
  message.set_pinned(pin_.wave());
  for (Rank rank : lost_)
    if (pin_.wave()) message.add_lost(rank);
  for (Rank rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_.size() > kWholeTables && ranks_[rank].incarnation <= wave.recovery) continue;
    RankAddress& address = *message.add_addresses();
    address = ranks_[rank].address;
    address.set_rank(rank);
    address.set_incarnation(ranks_[rank].incarnation);
  }
  for (const StoredFamily& family : wave.families)
    for (Rank number = family.first; number < family.first + family.count; ++number) {
      const Family::Process& process = *spawns_.process(number);
      if (ranks_.size() > kWholeTables && process.incarnation <= wave.recovery) continue;
      RankAddress& address = *message.add_addresses();
      address = process.address;
      address.set_rank(number);
      address.set_incarnation(process.incarnation);
    }
  event({{"event", "resume"}, {"recovery", recovery_number_}}, now);
  send_input();
}

/** That ranks cannot stay is nobody's fault. */
void Coordinator::go_over_to_all(const std::vector<RecoveryRound::Failure>& failures, Now now) {
  std::string why;
  std::size_t others = 0;
  for (const RecoveryRound::Failure& failure : failures) {
    if (!failure.stays) continue;
    if (why.empty())
      why = on(failure.rank) + ": " + failure.error;
    else
      ++others;
  }
  cannot_stay_ = why + (others ? ", and " + std::to_string(others) + " more" : "");
  recover(Cause(stays_for_), now);
}

void Coordinator::recovery_failed(Now now) {
  const RecoveryRound round = *recovering_.round();
  event({{"event", "recovery-failed"}, {"recovery", recovery_number_}}, now);
  bool counts = false;
  std::set<NodeIndex> unable;
  const bool stay = std::any_of(round.failures().begin(), round.failures().end(), [](const auto& failure) { return failure.stays; });
  for (const RecoveryRound::Failure& failure : round.failures()) {
    if (failure.stays) continue;
    if (Family::Process* process = spawns_.process(failure.rank))
      process->ended = true;
    else
      ranks_[failure.rank].alive = false;
    if (failure.image_bad) {
      out_.say(Log::WARNING, "the image of " + on(failure.rank) + " in wave " + std::to_string(round.wave()) +
                                 " is missing or damaged: " + failure.error);
      store_.damaged(round.wave(), failure.rank, *node_of(failure.rank));
      continue;
    }
    counts = true;
    out_.say(Log::WARNING, on(failure.rank) + " could not be " + (failure.restarted ? "restarted" : "paused") + ": " +
                               failure.error);
    if (failure.restarted) unable.insert(*node_of(failure.rank));
  }
  if (stay) return go_over_to_all(round.failures(), now);
  const std::set<NodeIndex> silent = recovering_.silent([this](Rank rank) { return node_of(rank); });
  if (counts) ++failed_recoveries_;
  if (failed_recoveries_ >= settings_.max_failed_recoveries)
    return restartable_end(std::to_string(failed_recoveries_) + " recoveries in a row have failed", now);
  // Give up a node that fails repeatedly or does not answer.
  for (NodeIndex node : unable)
    if (++failures_of_node_[node] >= 2 && members_.living().size() > 1 && members_.up(node))
      node_lost(node, "it could not restart its ranks", now);
  for (NodeIndex node : silent)
    if (members_.up(node)) node_lost(node, "it did not finish its part of the recovery in time", now);
  recover({CauseKind::failed, "failure of recovery " + std::to_string(round.recovery())}, now);
}

void Coordinator::recovery_done(Now now) {
  recovering_.end();
  enter(Phase::running);
  interval_.recovered(now);
  measure_recovery(now);
  ranks_run(now);
  failed_recoveries_ = 0;
  failures_of_node_.clear();
  lost_.clear();
  restarting_.clear();
  report_.resumed_ns = now.unix_ns;
  event({{"event", "recovery-done"}, {"recovery", recovery_number_}}, now);
  const auto ms = [&](std::uint64_t from, std::uint64_t to) { return std::to_string((to - from) / 1'000'000) + " ms"; };
  out_.say(Log::INFO, "recovery " + std::to_string(recovery_number_) + " is done after " +
                          ms(report_.detected_ns, now.unix_ns) + " (restore " +
                          ms(report_.decided_ns, report_.restored_ns) + ", resume " +
                          ms(report_.restored_ns, now.unix_ns) + ")");
  for (const Draining::Drain& drain : draining_.take_done([this](NodeIndex node) { return in_use(node); }))
    out_.add(Reply{drain.request, true, "the ranks of " + members_.host(drain.node) + " run elsewhere"});
  save();
  // Waves that have begun since are over, as all ranks must know: a process that is spawned from now on has missed them, and
  // ranks connect only to ranks that know of the same waves.
  if (next_wave_ - 1 > report_.wave) {
    WaveEnd& over = *out_.send().mutable_wave_end();
    over.set_wave(next_wave_ - 1);
    over.set_why(report_.cause);
  }
  Prune& message = *out_.send().mutable_prune();
  for (const auto& [number, wave] : store_.waves()) message.add_keep(number);
  prune();
  plan_wave(now.ms, now);
  clock_.running(now, !settings_.wave_at_start);
  for (const Up& up : std::exchange(early_spawns_, {})) spawn(up, now);
}

}  // namespace reprise::job
