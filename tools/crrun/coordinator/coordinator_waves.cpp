// SPDX-License-Identifier: GPL-2.0-only
// The coordinator's waves: begin, commit, abort, stage, prune, drain.
#include <algorithm>

#include "coordinator.h"
#include "slowest.h"

namespace reprise::job {

namespace {
/** Time after which the user learns that a wave which is due waits for ranks to call MPI_Init. */
constexpr std::uint64_t kTellOfInitMs = 30'000;
/** Time during which waves fail for temporary reasons before the user learns of it. */
constexpr std::uint64_t kTellOfAgainMs = 30'000;
/** A wave at the start is tried again so soon, for so long. */
constexpr std::uint64_t kAgainAtStartMs = 50, kSoonAtStartMs = 5'000;
/** The ranks wait for the wave that they have asked for. */
constexpr std::uint64_t kPinAgainMs = 2'000;
/** A job that leaves tries again soon when a wave fails. */
constexpr std::uint64_t kLeaveAgainMs = 2'000;
/** Why a node is not drained. */
constexpr const char* kNoSlots = "no other node has slots for its ranks";
}  // namespace

std::string Coordinator::no_wave_reason() const {
  if (settings_.spec.no_checkpoints()) return "no checkpoints can be taken in this job";
  if (phase_ == Phase::ending || phase_ == Phase::finished) return "the job is ending";
  if (exits_.any()) return "a rank has ended already";
  if (pin_.refused()) return "the program goes on without the wave that it has asked for, and needs no other one";
  if (const std::string some = spawns_.partly_ended(); !some.empty())
    return "some processes of MPI_Comm_spawn " + some + " have ended, and others run; the next wave is taken when these have ended, too";
  return "";
}

std::string Coordinator::refusal() const {
  const std::string reason = no_wave_reason();
  if (!reason.empty() || !pin_.wave()) return reason;
  return "the program has asked that all recoveries go back to wave " + std::to_string(pin_.wave());
}

void Coordinator::refuse_checkpoints(const std::string& why) {
  for (std::uint64_t request : std::exchange(checkpoint_requests_, {})) out_.add(Reply{request, false, "no checkpoint: " + why});
}

void Coordinator::wave_tick(Now now) {
  if (round_) {
    judge_wave(now);
    if (round_ || phase_ != Phase::running) return;
  }
  give_pin_up(now);
  if (const std::string reason = refusal(); !reason.empty()) {
    refuse_checkpoints(reason);
    give_up(draining_.take_all(), reason);
  }
  // Copies do not depend on whether another wave can be taken: somebody may wait for them.
  if (!postponed_) {
    protect(now);
    stage(now);
  }
  if (const std::string reason = no_wave_reason(); !reason.empty()) {
    if (!spawns_.partly_ended().empty() && clock_.due(now) && !std::exchange(told_of_spawned_, true))
      out_.say(Log::INFO, "no wave: " + reason);
    return leave_in_time(now);
  }
  if (postponed_) return;
  drain(now);
  if (phase_ != Phase::running) return;
  if (prune_wanted_) prune();
  leave_tick(now);
  if (phase_ != Phase::running) return;
  // A wave with a silent node would fail, and would disturb the preparations for the node's loss.
  const bool last = (leaving_.any() && !leaving_.needs_wave(store_)) || pin_.wave();
  if (clock_.due(now) && !last && !expected_.any() && !copying_lags(now) && !waits_for_progress() && all_ready(now)) begin_wave(now);
}

void Coordinator::give_up(std::vector<Draining::Drain> drains, const std::string& reason) {
  if (drains.empty()) return;
  for (const Draining::Drain& drain : drains) members_.find(drain.node)->draining = false;
  refuse_drains(std::move(drains), "was not drained: " + reason);
  save();
}

/** Whether every rank has called MPI_Init: before that its transport cannot take part in a wave. */
bool Coordinator::all_ready(Now now) {
  std::vector<Rank> open;
  for (Rank rank = 0; rank < ranks_.size(); ++rank)
    if (!ranks_[rank].ready) open.push_back(rank);
  std::size_t spawned = 0;
  for (const auto& [first, family] : spawns_.all())
    for (const Family::Process& process : family.processes) spawned += family.lives() && (!family.answered || !process.ready);
  if (open.empty() && !spawned) return true;
  std::string who = open.empty() ? "" : rank_list(open);
  if (spawned) who += (who.empty() ? "" : " and ") + std::to_string(spawned) + " spawned processes";
  if (now.ms >= *clock_.next_ms() + kTellOfInitMs && std::exchange(waiting_for_, who) != who)
    out_.say(Log::INFO, "no wave yet: " + who + (open.size() + spawned == 1 ? " has" : " have") + " not called MPI_Init");
  return false;
}

void Coordinator::begin_wave(Now now) {
  Roster roster(static_cast<Rank>(ranks_.size()));
  for (const auto& [first, family] : spawns_.all())
    if (family.lives()) roster.add(first, static_cast<Rank>(family.nodes.size()));
  round_.emplace(next_wave_++, recovery_number_, std::move(roster), now, settings_.wave_timeout_ms);
  draining_.wave_begins(round_->wave());
  pin_.begun(round_->wave());
  border_.wave_begins(round_->wave());
  leave_time_.begun(round_->wave(), now);
  save();  // no later crrun may give the number to another wave
  WaveBegin& message = *out_.send().mutable_wave_begin();
  message.set_wave(round_->wave());
  message.set_recovery(recovery_number_);
  message.set_timeout_ms(static_cast<std::uint32_t>(settings_.quiesce_timeout_ms));
  for (const auto& [first, family] : spawns_.all())
    if (family.lives()) message.add_spawned(first);
  event({{"event", "wave-begin"}, {"wave", round_->wave()}}, now);
}

void Coordinator::wave_done(const WaveDone& message, Now now) {
  if (!round_) return;
  round_->done(message);
  judge_wave(now);
}

void Coordinator::judge_wave(Now now) {
  switch (round_->verdict(now)) {
    case WaveRound::Verdict::pending: break;
    case WaveRound::Verdict::complete: commit_wave(now); break;
    case WaveRound::Verdict::again: abort_wave(GivenUp::put_off, round_->why(), now); break;
    case WaveRound::Verdict::failed: abort_wave(GivenUp::error, round_->why(), now); break;
    case WaveRound::Verdict::late: abort_wave(GivenUp::late, round_->why(), now); break;
  }
}

void Coordinator::commit_wave(Now now) {
  const std::vector<RankImage>& images = round_->results();
  const Roster& roster = round_->roster();
  Slowest slowest(placement_);
  for (std::size_t place = 0; place < images.size(); ++place) slowest.add(roster.number(place), images[place].end_unix_ns);
  StoredWave wave;
  wave.wave = round_->wave();
  wave.recovery = round_->recovery();
  wave.unix_ns = now.unix_ns;
  wave.pinned = pin_.takes(wave.wave);
  wave.ranks.reserve(images.size());
  for (const auto& [first, family] : spawns_.all())
    if (roster.place(first)) wave.families.push_back({family.index, first, static_cast<Rank>(family.nodes.size()), family.parent, family.apps});
  for (std::size_t place = 0; place < images.size(); ++place) {
    const RankImage& image = images[place];
    const Rank rank = roster.number(place);
    const NodeIndex node = *node_of(rank);
    wave.ranks.push_back({node, true, false, image.bytes, image.checksum,
                          {image.offsets[0], image.offsets[1], image.offsets[2]}});
    if (!slowest.is(rank)) continue;
    event({{"event", "wave-rank"},
           {"wave", wave.wave},
           {"rank", rank},
           {"node", node},
           {"begin", image.begin_unix_ns},
           {"end", image.end_unix_ns},
           {"quiesce_ns", image.quiesce_ns},
           {"frozen_ns", image.frozen_ns},
           {"write_ns", image.write_ns},
           {"bytes", image.bytes},
           {"inherited", image.inherited}},
          now);
  }
  measure_wave(now);
  watchdog_.committed(wave.wave, round_->begun());
  const std::uint64_t bytes = wave.bytes(), begun_ms = round_->begun().ms;
  const WaveNumber number = wave.wave;
  const bool pinned = wave.pinned;
  if (pinned) pin_.pinned(number);
  store_.commit(std::move(wave));
  exits_.progressed();
  spawns_.committed();
  border_.committed(number);
  links_.committed();
  last_wave_error_.clear();
  again_since_ms_.reset();
  told_of_again_ = false;
  round_.reset();
  // This is the commit: the state must be on disk before any daemon learns of it.
  save();
  WaveEnd& message = *out_.send().mutable_wave_end();
  message.set_wave(number);
  message.set_commit(true);
  message.set_pinned(pinned);
  event({{"event", "wave-commit"}, {"wave", number}, {"bytes", bytes}, {"pinned", pinned}}, now);
  for (std::uint64_t request : std::exchange(checkpoint_requests_, {}))
    out_.add(Reply{request, true, "wave " + std::to_string(number) + " is committed"});
  clock_.committed(now);
  plan_wave(begun_ms, now);
  if (draining_.needs_wave() || pin_.wanted()) clock_.request(now);
  prune();
  drain(now);
  if (phase_ != Phase::running) return;
  protect(now);
  stage(now);
}

void Coordinator::abort_wave(GivenUp reason, const std::string& why, Now now) {
  if (!round_) return;
  const WaveNumber wave = round_->wave();
  const bool again = passes(reason);
  ++tally_.given_up[static_cast<std::size_t>(reason)];
  round_.reset();
  draining_.wave_aborted(wave);
  WaveEnd& message = *out_.send().mutable_wave_end();
  message.set_wave(wave);
  message.set_why(why);
  event({{"event", "wave-abort"}, {"wave", wave}, {"why", why}, {"again", again}}, now);
  if (phase_ != Phase::running) return;
  clock_.aborted(now, again);
  if (pin_.wanted()) clock_.no_later_than(now.ms + (again ? kAgainAtStartMs : kPinAgainMs));
  if (again) {
    if (!again_since_ms_) again_since_ms_ = now.ms;
    // The ranks are about to leave MPI_Init, and perhaps somebody waits for this wave before he gives them work.
    if (settings_.wave_at_start && !store_.newest() && now.ms < *again_since_ms_ + kSoonAtStartMs) clock_.no_later_than(now.ms + kAgainAtStartMs);
    if (now.ms >= *again_since_ms_ + kTellOfAgainMs && !std::exchange(told_of_again_, true))
      out_.say(Log::INFO, "waves are put off for " + std::to_string((now.ms - *again_since_ms_) / 1000) + " s now (" + why +
                              "); crrun tries again");
    return;
  }
  // Report the same reason only once; waves are still attempted.
  if (why != last_wave_error_)
    out_.say(Log::WARNING, "wave " + std::to_string(wave) + " was given up (" + why + "); " +
                               (store_.newest() ? "wave " + std::to_string(*store_.newest()) + " still counts"
                                                : "no wave counts yet"));
  last_wave_error_ = why;
  refuse_checkpoints(why);
}

void Coordinator::request_checkpoint(std::uint64_t request, Now now) {
  if (!admit(Input::request_checkpoint)) return;
  const std::string reason = refusal();
  if (!reason.empty()) {
    out_.add(Reply{request, false, "no checkpoint: " + reason});
    return;
  }
  checkpoint_requests_.push_back(request);
  if (phase_ == Phase::running && !round_) {
    clock_.request(now);
    wave_tick(now);
  }
}

// --------------------------------------------------------------------------------------------- staging

void Coordinator::stage(Now now) {
  if (settings_.spec.shared_directory().empty()) return;
  for (const Staging::Order& order :
       staging_.next(store_, [this](NodeIndex node) { return members_.up(node); }, now)) {
    Stage& message = *out_.send({order.node}).mutable_stage();
    message.set_wave(order.wave);
    for (Rank rank : order.ranks) message.add_ranks(rank);
  }
}

void Coordinator::staged(const Staged& message, NodeIndex from, Now now) {
  staging_progress_[from] = {message.done_bytes(), message.total_bytes()};
  bool well = true, whole = false;
  for (const RankStaged& rank : message.ranks()) {
    if (!rank.error().empty()) {
      well = false;
      // Warn once: a full file system fails for every rank of every wave.
      const Log::Level level = std::exchange(staging_fails_, true) ? Log::DEBUG : Log::WARNING;
      out_.say(level, "the image of " + on(rank.rank()) + " in wave " + std::to_string(message.wave()) +
                          " could not be copied to shared storage (" + rank.error() +
                          "); crrun tries again; until then only the images on the nodes are available");
      continue;
    }
    tally_.staged_bytes += rank.bytes() - std::min(rank.bytes(), rank.kept_bytes());
    whole |= store_.staged(message.wave(), rank.rank());
    if (ranks_.size() > kWholeTables && !message.finished()) continue;  // one event a node
    event({{"event", "staged-rank"},
           {"wave", message.wave()},
           {"rank", rank.rank()},
           {"node", from},
           {"begin", rank.begin_unix_ns()},
           {"end", rank.end_unix_ns()},
           {"bytes", rank.bytes()},
           {"kept", rank.kept_bytes()}},
          now);
  }
  if (message.finished()) {
    staging_.finished(from, well, now);
    staging_progress_.erase(from);
  }
  if (whole) {
    if (std::exchange(staging_fails_, false))
      out_.say(Log::INFO, "waves are copied to shared storage again: wave " + std::to_string(message.wave()) + " is there");
    event({{"event", "wave-staged"}, {"wave", message.wave()}}, now);
    leave_time_.staged(message.wave(), now);
    measure_staging(message.wave(), now);
  }
  // A staged image may soon be the only one of its rank: a later crrun must know of it.
  if (whole || message.finished()) save_waves();
  if (whole) prune();
  if (phase_ != Phase::running) return;
  drain(now);
  if (phase_ == Phase::running) stage(now);
}

void Coordinator::drop_staged(WaveNumber wave) { out_.add(RemoveStaged{wave, settings_.spec.incremental() > 0}); }

void Coordinator::prune() {
  // The running recovery may still fall back to an older wave.
  prune_wanted_ = phase_ == Phase::recovering;
  if (prune_wanted_) return;
  const std::vector<WaveNumber> dropped = store_.prune({staging_.wave(), protection_.wave(), pin_.wave()});
  if (kept_copies_ && !store_.waves().empty()) kept_copies_->prune(store_.waves().begin()->first);
  // Until a wave is safe, the loss of a node restarts the job from the beginning: keep the streams from their start.
  if (store_.newest_safe()) {
    spawns_.forget(store_.waves());
    for (Rank rank = 0; rank < ranks_.size(); ++rank)
      for (std::uint32_t stream : {1u, 2u}) ranks_[rank].output[stream - 1].forget(store_.oldest_offset(rank, stream));
    if (settings_.spec.stdin_target() == "0") input_.forget(store_.oldest_offset(0, 0));
  }
  if (!dropped.empty()) save_waves();
  // Send it even if nothing is dropped: spares then prepare for the ranks of the newest wave.
  Prune& message = *out_.send().mutable_prune();
  for (const auto& [number, wave] : store_.waves()) message.add_keep(number);
  for (WaveNumber wave : dropped) drop_staged(wave);
}

// ----------------------------------------------------------------------------------------------- leaving

/** A last wave; when it is in shared storage, the job ends so that a later crrun can go on. */
void Coordinator::leave(const std::string& why, Now now) {
  leaving_.begin(pin_.wave() ? pin_.wave() : round_ ? round_->wave() : next_wave_, why);
  staging_.hurry(leaving_.since());
  const std::string reason = no_wave_reason();
  const auto staged = store_.newest_staged();
  std::string then = ": the job takes a last wave, and ends when that is in shared storage";
  if (pin_.wave())
    then = ": the job ends when the wave that the program has asked for is in shared storage; what it has computed since is lost";
  else if (!reason.empty())
    then = ": no last wave can be taken now (" + reason + "). The job runs on; if it is ended, " +
           (staged ? "crrun --restart goes on from wave " + std::to_string(*staged) : "it begins anew");
  out_.say(Log::WARNING, why + then);
  event({{"event", "leave"}, {"why", why}, {"wave", leaving_.since()}}, now);
  clock_.no_later_than(now.ms);
}

/** The batch system ends the job soon. */
void Coordinator::leave_in_time(Now now) {
  const std::uint64_t end_ms = settings_.wall_end_unix_s * 1000, now_ms = now.unix_ns / 1'000'000;
  if (!end_ms || leaving_.any() || phase_ != Phase::running || settings_.spec.no_checkpoints()) return;
  if (now_ms + leave_time_.needed_ms() < end_ms) return;
  leave("the time of this job in the batch system ends in " + std::to_string((end_ms - std::min(end_ms, now_ms)) / 1000) + " s", now);
}

void Coordinator::leave_tick(Now now) {
  if (!leaving_.any()) return leave_in_time(now);
  if (leaving_.needs_wave(store_) && !round_) clock_.no_later_than(now.ms + kLeaveAgainMs);
  if (!leaving_.may_end(store_)) return;
  out_.say(Log::WARNING, "wave " + std::to_string(*store_.newest_staged()) + " is in shared storage: the job is ended, as announced");
  end(kRestartable, true, now);
}

// ---------------------------------------------------------------------------------------------- draining

void Coordinator::request_drain(std::uint64_t request, const std::string& host, Now now) {
  if (!admit(Input::request_drain)) return;
  const auto refuse = [&](const std::string& why) { out_.add(Reply{request, false, host + " is not drained: " + why}); };
  const auto node = members_.by_host(host);
  if (!node) return refuse("it is no node of this job");
  if (!members_.up(*node)) return refuse("it is lost");
  if (phase_ != Phase::running && phase_ != Phase::recovering)
    return refuse(std::string("the job is ") + name(phase_));
  if (const std::string reason = refusal(); !reason.empty()) return refuse(reason);
  Member& member = *members_.find(*node);
  if (!in_use(*node)) {
    member.draining = true;
    save();
    out_.add(Reply{request, true, host + " has no ranks, and will not be given any"});
    return;
  }
  if (settings_.spec.shared_directory().empty() && !protection_.on())
    return refuse("without --shared or --redundancy no other node can read its images");
  if (!can_do_without(*node)) return refuse(kNoSlots);
  member.draining = true;
  save();
  draining_.add(request, *node);
  clock_.request(now);
  if (phase_ == Phase::running) wave_tick(now);
}

void Coordinator::refuse_drains(std::vector<Draining::Drain> drains, const std::string& why) {
  for (const Draining::Drain& drain : drains) out_.add(Reply{drain.request, false, members_.host(drain.node) + " " + why});
}

bool Coordinator::in_use(NodeIndex node) const {
  return std::find(placement_.begin(), placement_.end(), node) != placement_.end() || spawns_.lives_on(node);
}

bool Coordinator::can_do_without(NodeIndex node) const {
  std::vector<Seat> places = seats(false);
  for (Seat& seat : places)
    if (seat.node == node) seat.usable = false;
  PlacementTable all = placement_;
  for (const auto& [number, where] : spawns_.where()) all.push_back(where);
  return place_again(all, places, settings_.double_up).has_value();
}

/** What the drains need next. */
void Coordinator::drain(Now now) {
  if (phase_ != Phase::running || !draining_.any()) return;
  const Draining::Step step = draining_.next(store_, settings_.spec.shared_directory().empty() ? nullptr : &staging_, protection_.on(),
                                             round_ ? round_->wave() : 0, [this](const StoredWave& wave) { return nodes_in(wave); });
  if (step.wave_wanted && !clock_.next_ms()) clock_.request(now);
  for (const Draining::Order& order : step.stage) {
    Stage& message = *out_.send({order.node}).mutable_stage();
    message.set_wave(order.wave);
    for (Rank rank : order.ranks) message.add_ranks(rank);
  }
  if (!step.move || round_) return;
  // Nodes may have been lost since the request. A recovery that moves nothing would follow each wave from now on.
  for (const NodeIndex node : draining_.ready_nodes())
    if (!can_do_without(node)) give_up(draining_.take(node), kNoSlots);
  if (draining_.ready_nodes().empty()) return;
  std::string hosts;
  for (NodeIndex node : draining_.ready_nodes()) hosts += (hosts.empty() ? "" : ", ") + members_.host(node);
  recover({CauseKind::drain, "drain of " + hosts}, now);
}

}  // namespace reprise::job
