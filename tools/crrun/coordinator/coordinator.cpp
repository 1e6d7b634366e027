// SPDX-License-Identifier: GPL-2.0-only
#include "coordinator.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace reprise::job {

namespace {
constexpr std::uint64_t kStaleEveryMs = 1000;
}  // namespace

const char* name(Phase phase) {
  switch (phase) {
    case Phase::starting: return "starting";
    case Phase::running: return "running";
    case Phase::recovering: return "recovering";
    case Phase::ending: return "ending";
    case Phase::finished: return "ended";
  }
  return "?";
}

Coordinator::Coordinator(Settings settings, Nonce nonce, Begin begin, std::optional<State> state)
    : settings_(std::move(settings)),
      nonce_(std::move(nonce)),
      begin_(begin),
      members_(settings_.nodes, settings_.lost_after_ms, settings_.shortest_silence_ms, settings_.spec.heartbeat_ms()),
      store_(settings_.job_directory, settings_.spec.local_directory() + "/" + settings_.spec.id()),
      staging_(settings_.staging_nodes),
      protection_(settings_.spec.redundancy(), settings_.failure_groups, settings_.nodes.size()),
      clock_(settings_.wave_interval_ms),
      interval_(settings_.node_mtbf_ms, settings_.wave_share),
      exits_(settings_.spec.ranks(), settings_.max_restarts),
      links_(settings_.max_failed_recoveries),
      watchdog_(settings_.hang_after_ms, settings_.spec.look_ms()),
      input_(settings_.input_kept_bytes),
      ranks_(settings_.spec.ranks()),
      next_number_(settings_.spec.ranks()),
      pin_(settings_.spec.ranks()),
      expected_(settings_.lost_after_ms) {
  if (settings_.spec.redundancy().kind() == Redundancy::PARTNER) kept_copies_.emplace(settings_.spec.redundancy().count());
  if (!state) return;
  recovery_number_ = own_since_ = state->recovery;
  check_state(*state);
  next_wave_ = state->next_wave;
  next_family_ = state->next_family;
  next_number_ = std::max<Rank>(state->next_number, settings_.spec.ranks());
  next_context_ = state->next_context;
  interval_.go_on_from(state->learned);
  if (state->pinned) pin_.pinned(state->pinned);
  if (state->pin_refused) pin_.refuse();
  for (Rank rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].incarnation = state->incarnation[rank];
  for (auto& [number, wave] : state->waves) {
    // Another allocation numbers its nodes differently: only staged images are certain.
    if (begin == Begin::restart) wave.sets.clear();
    if (begin == Begin::restart)
      for (StoredRank& rank : wave.ranks) rank.local = false, rank.copies.clear();
    store_.commit(std::move(wave));
  }
  if (begin != Begin::attach) return;
  placement_ = state->placement;
  was_recovering_ = state->phase == "recovering";
  failed_ = state->failed;
  was_spawning_ = state->spawned;
  if (state->phase == "ending") was_ending_with_ = state->exit_code;
  for (Member& member : members_.all()) {
    const NodeIndex node = member.node.index();
    if (state->lost.count(node)) member.state = NodeState::lost;
    member.draining = state->draining.count(node) > 0;
    member.node.set_spare(state->spares.count(node) > 0);
  }
  for (RankInfo& rank : ranks_)
    for (OutputStream& stream : rank.output) stream.joined_late();
}

namespace {
Input input_of(const Up& up) {
  switch (up.what_case()) {
    case Up::kHello: return Input::hello;
    case Up::kHeartbeat: return Input::heartbeat;
    case Up::kRankStarted: return Input::rank_started;
    case Up::kRankReady: return Input::rank_ready;
    case Up::kRankExited: return Input::rank_exited;
    case Up::kWaveDone: return Input::wave_done;
    case Up::kPinWave: return Input::pin_wave;
    case Up::kStaged: return Input::staged;
    case Up::kProtectDone: return Input::protect_done;
    case Up::kServing: return Input::serving;
    case Up::kHasCopy: return Input::has_copy;
    case Up::kRestored: return Input::restored;
    case Up::kResumed: return Input::resumed;
    case Up::kOutput: return Input::output;
    case Up::kLinkLost: return Input::link_lost;
    case Up::kAbort: return Input::abort;
    case Up::kLog: return Input::log;
    case Up::kSpawn: return Input::spawn;
    case Up::kSpawnKnown: return Input::spawn_known;
    default: return Input::pmix;
  }
}
}  // namespace

bool Coordinator::admit(Input input) {
  admitted_ = rule(input).in(phase_);
  return admitted_.admitted;
}

void Coordinator::enter(Phase next) {
  if (next != phase_ && !(admitted_.next & cells::bit(next)))
    unforeseen_.push_back(std::string(name(phase_)) + " to " + name(next));
  phase_ = next;
}

void Coordinator::message(const Up& up, Now now) {
  if (phase_ == Phase::finished) return;
  const NodeIndex from = up.from();
  const Input input = input_of(up);
  if (input == Input::hello) return admit(input) ? hello(up, now) : void();
  if (!members_.heard(from, up.instance(), now)) return from_lost(from, now);
  moved_away(from, up.recovery(), now);
  // Before the launch no daemon has ranks that it could report about.
  if (placement_.empty() && input != Input::heartbeat && input != Input::log) return;
  if (!admit(input)) return;
  switch (input) {
    case Input::heartbeat: return heartbeat(up, now);
    case Input::rank_started: return rank_started(up.rank_started(), now);
    case Input::rank_ready: return rank_ready(up.rank_ready());
    case Input::rank_exited: return rank_exited(up.rank_exited(), now);
    case Input::wave_done: return wave_done(up.wave_done(), now);
    case Input::pin_wave: return pin_wave(up.pin_wave(), from, now);
    case Input::staged: return staged(up.staged(), from, now);
    case Input::protect_done: return protect_done(up, now);
    case Input::serving: return note_serving(from, up.serving(), now);
    case Input::has_copy: return has_copy(up.has_copy(), from, now);
    case Input::restored: return restored(up.restored(), now);
    case Input::resumed: return resumed(up.resumed(), now);
    case Input::output: return output(up.output(), now);
    case Input::link_lost: return link_lost(up.link_lost(), now);
    case Input::abort: return is_current(up.abort().rank(), up.recovery()) ? aborted(up.abort(), now) : void();
    case Input::log: return daemon_says(up.log(), from);
    case Input::spawn: return spawn(up, now);
    case Input::spawn_known: return spawn_known(up, now);
    default: return pmix(up, now);
  }
}

/** A node has reached @p recovery: what moved away by then has ended there. */
void Coordinator::moved_away(NodeIndex node, RecoveryNumber recovery, Now now) {
  if (recovery < recovery_number_ || !recovering_.moved_away(node)) return;
  if (admit(Input::moved_away)) judge_recovery(now);
}

void Coordinator::rank_started(const RankStarted& message, Now now) {
  if (message.recovery() != recovery_number_) return;
  if (message.rank() >= ranks_.size()) return spawned_started(message, now);
  RankInfo& rank = ranks_[message.rank()];
  rank.started = rank.alive = message.error().empty();
  rank.pid = message.pid();
  if (rank.started) say_binding(message.rank(), message.bound_to());
  if (rank.started) return send_input();
  out_.say(Log::ERROR, on(message.rank()) + " could not be started: " + message.error());
  end(127, true, now);
}

void Coordinator::say_binding(Rank rank, const std::string& bound_to) {
  ranks_[rank].bound_to = bound_to;
  if (!settings_.spec.report_bindings()) return;
  // As mpirun --report-bindings has it.
  out_.say(Log::INFO, "[" + members_.host(placement_[rank]) + ":" + std::to_string(ranks_[rank].pid) + "] Rank " + std::to_string(rank) +
                          (bound_to.empty() ? " is not bound (or bound to all available processors)" : " bound to " + bound_to));
}

void Coordinator::rank_ready(const RankReady& message) {
  if (message.recovery() != recovery_number_) return;
  const Rank number = message.address().rank();
  if (number < ranks_.size()) {
    ranks_[number].ready = true;
    ranks_[number].address = message.address();
  } else if (Family* family = spawns_.find(number)) {
    family->processes[number - family->first].ready = true;
    family->processes[number - family->first].address = message.address();
  }
}

void Coordinator::aborted(const Abort& message, Now now) {
  out_.say(Log::ERROR, "MPI_Abort was called by " + on(message.rank()) + " with code " + std::to_string(message.status()) +
                           (message.message().empty() ? "" : ": " + message.message()));
  end(message.status() & 0xff ? message.status() & 0xff : 1, true, now);
}

void Coordinator::daemon_says(const Log& log, NodeIndex from) {
  out_.say(log.level(), (log.about_rank() ? on(log.rank()) : members_.host(from)) + ": " + log.text());
}

void Coordinator::pmix(const Up& up, Now) {
  const NodeIndex from = up.from();
  switch (up.what_case()) {
    case Up::kFence: {
      if (up.fence().recovery() != recovery_number_) break;
      if (is_mixed(up.fence(), ranks_.size())) border_.crossed();
      const auto context = [this] {
        const std::uint64_t id = next_context_++;
        save();  // before a daemon gets the context id
        return id;
      };
      if (auto done = fences_.contribute(from, up.fence(), placement_, spawns_.where(), context))
        *out_.send(done->to).mutable_fence_done() = std::move(done->message);
      break;
    }
    case Up::kModexBlob:
      for (Modex::Answer& answer : modex_.put(up.modex_blob()))
        *out_.send({answer.to}).mutable_modex_reply() = std::move(answer.reply);
      break;
    case Up::kModexRequest:
      if (auto answer = modex_.ask(from, up.modex_request()))
        *out_.send({answer->to}).mutable_modex_reply() = std::move(answer->reply);
      break;
    case Up::kPublish:
      border_.crossed();
      for (Board::Answer& answer : board_.publish(from, up.publish()))
        *out_.send({answer.to}).mutable_lookup_reply() = std::move(answer.reply);
      break;
    case Up::kLookup:
      border_.crossed();
      if (auto answer = board_.lookup(from, up.lookup()))
        *out_.send({answer->to}).mutable_lookup_reply() = std::move(answer->reply);
      break;
    case Up::kPmixEvent: {
      border_.crossed();
      std::vector<NodeIndex> others;
      std::set<NodeIndex> wanted;
      for (Rank rank : up.pmix_event().targets())
        if (const auto node = node_of(rank)) wanted.insert(*node);
      for (NodeIndex node : members_.living())
        if (node != from && (up.pmix_event().targets().empty() || wanted.count(node))) others.push_back(node);
      if (!others.empty()) *out_.send(others).mutable_pmix_event() = up.pmix_event();
      break;
    }
    default: break;
  }
}

void Coordinator::link_lost(const LinkLost& message, Now now) {
  if (!is_current(message.rank(), message.recovery())) return;
  const std::string what = on(message.rank()) + " and " + (node_of(message.peer()) ? on(message.peer()) : "a spawned process");
  event({{"event", "link-lost"},
         {"rank", message.rank()},
         {"peer", message.peer()},
         {"error", message.error()},
         {"why", message.why()}},
        now);
  if (settings_.spec.tells_failures() && message.error() == ENODATA) return fail_link(message);
  switch (links_.lost(message, what, now)) {
    case LinkMeaning::unreachable:
      out_.say(Log::WARNING, "there has been no connection between " + what + " for a minute (" + message.why() + ": " +
                                 std::strerror(message.error()) + "): the job waits for it; look for a firewall or a broken network");
      [[fallthrough]];
    case LinkMeaning::retry:
      if (message.peer() < placement_.size()) members_.suspect(placement_[message.peer()]);
      break;
    case LinkMeaning::recover: repair_links(now); break;
    case LinkMeaning::give_up:
      restartable_end("messages between " + what + " were lost with their connection, after " +
                          std::to_string(links_.recoveries()) + " recoveries from such losses since the last wave",
                      now);
      break;
    case LinkMeaning::no_room:
      restartable_end(on(message.rank()) + " has no descriptors left for connections to other ranks (" + message.why() +
                          "): raise the limit of open files (ulimit -n, LimitNOFILE of sshd or slurmd)",
                      now);
      break;
  }
}

/** Messages that were lost with a connection come again only if all ranks go back to a wave. */
void Coordinator::repair_links(Now now) {
  if (phase_ == Phase::running && links_.due(now)) recover({CauseKind::link_broken, "broken connection between " + links_.what()}, now);
}

void Coordinator::heartbeat(const Up& up, Now now) {
  const auto note = [this, now](NodeIndex node, const auto& beat) {
    Member& member = *members_.find(node);
    member.free_local_bytes = beat.free_local_bytes();
    member.image_bytes = beat.image_bytes();
    member.load = beat.load();
    if (beat.has_standing()) watchdog_.heard(node, beat.standing(), now);
  };
  const Heartbeat& beat = up.heartbeat();
  note(up.from(), beat);
  // Return the daemon's own unix_ns: its ranks may run for a lease from that time on. crrun heard the heartbeat
  // later and waits longer before it restarts the ranks elsewhere. The same holds for the daemons whose heartbeats this
  // one carries.
  Down answer;
  answer.add_to(up.from());
  answer.mutable_heartbeat()->set_unix_ns(beat.unix_ns());
  // Waves and recoveries make every node busy: they read and write all images.
  const bool all_busy = round_ || phase_ == Phase::recovering;
  const auto busy = [&](NodeIndex node) { return all_busy || staging_.busy().count(node) > 0 || protection_.busy(node); };
  answer.mutable_heartbeat()->set_lease_ms(members_.beat(up.from(), busy(up.from()), now));
  std::vector<std::pair<NodeIndex, RecoveryNumber>> heard;
  std::vector<NodeIndex> lost;
  for (const RelayedBeat& one : beat.below()) {
    if (!members_.heard(one.node(), one.instance(), now)) {
      lost.push_back(one.node());
      continue;
    }
    note(one.node(), one);
    heard.emplace_back(one.node(), one.recovery());
    answer.add_to(one.node());
    RelayedBeat& mine = *answer.mutable_heartbeat()->add_below();
    mine.set_node(one.node());
    mine.set_unix_ns(one.unix_ns());
    // When the node above it fails, it first has to find its own way to crrun.
    mine.set_lease_ms(members_.beat(one.node(), true, now));
  }
  out_.send() = std::move(answer);
  for (NodeIndex node : lost) from_lost(node, now);
  for (const auto& [node, recovery] : heard) moved_away(node, recovery, now);
}

void Coordinator::from_lost(NodeIndex node, Now now) {
  Member* member = members_.find(node);
  if (!member || member->state != NodeState::lost) return;
  if (member->told_stale_ms && now.ms < member->told_stale_ms + kStaleEveryMs) return;
  member->told_stale_ms = now.ms;
  welcome(node, true);
}

std::vector<Seat> Coordinator::seats(bool with_drained, const std::set<NodeIndex>& without) const {
  std::vector<Seat> out;
  for (const Member& member : members_.all()) {
    Seat seat{member.node.index(), member.node.slots(), member.node.spare(),
              member.state == NodeState::up && !without.count(member.node.index()), member.node.host(), member.parts};
    if (member.draining) {
      // Its ranks may stay, but no further ranks are placed there.
      seat.slots = 0;
      if (draining_.ready(seat.node) && !with_drained) seat.usable = false;
    }
    out.push_back(seat);
  }
  return out;
}

void Coordinator::tick(Now now) {
  if (!admit(Input::tick)) return;
  // While crrun itself was stopped, the silence of others means nothing.
  if (last_tick_ms_ && now.ms > last_tick_ms_ + settings_.spec.heartbeat_ms()) members_.excuse(now.ms - last_tick_ms_);
  last_tick_ms_ = now.ms;
  if (settings_.run_timeout_ms && phase_ != Phase::ending && now.ms >= started_ms_ + settings_.run_timeout_ms) {
    out_.say(Log::ERROR, "the job has run for the " + std::to_string(settings_.run_timeout_ms / 1000) +
                             " s of --timeout: it is ended");
    end(124, true, now);
  }
  if (phase_ == Phase::ending) return ending_tick(now);
  if (phase_ == Phase::starting) return start_tick(now);
  lost_nodes(members_.silent(now), now);
  if (phase_ == Phase::recovering) judge_recovery(now);
  if (phase_ == Phase::ending) return;
  for (NodeIndex node : members_.to_start(now, settings_.rejoin_every_ms)) out_.add(StartDaemon{node});
  maybe_all_done(now);
  if (phase_ == Phase::running) recover_when_served(now);
  if (phase_ == Phase::running) repair_links(now);
  if (phase_ == Phase::running) expect_losses(now);
  if (phase_ == Phase::running) watch(now);
  if (phase_ == Phase::running) wave_tick(now);
}

void Coordinator::link_ended(NodeIndex node, bool certain, const std::string& why, Now now) {
  Member* member = members_.find(node);
  if (!member) return;
  member->link = false;
  member->link_died = true;
  if (certain) member->connected = false;
  if (!admit(Input::link_ended)) return;
  if (phase_ == Phase::ending) return ending_tick(now);
  switch (member->state) {
    case NodeState::starting:
      members_.lose(node, now);
      member->next_start_ms = now.ms + settings_.rejoin_every_ms;
      if (!replace_at_start(node, "no daemon could be started on " + member->node.host() + ": " + why + ".")) return end(1, true, now);
      if (!members_.any_starting()) all_there(now);
      break;
    case NodeState::up:
      // The end of ssh may be the network's fault; if the connection is closed as well, the daemon has ended.
      if (!certain && member->connected) {
        members_.suspect(node);
        break;
      }
      lost_nodes({{node, why}}, now);
      break;
    case NodeState::lost: break;
  }
}

void Coordinator::connection_closed(NodeIndex node, const std::string& instance, Now now) {
  Member* member = members_.find(node);
  if (!member || member->state != NodeState::up || member->instance != instance) return;
  member->connected = false;
  members_.suspect(node);
  if (!admit(Input::connection_closed)) return;
  if (phase_ == Phase::ending) return ending_tick(now);
  if (!member->link_died || member->link) return;
  lost_nodes({{node, "its daemon has ended"}}, now);
}

std::optional<NodeIndex> Coordinator::node_of(Rank rank) const {
  if (rank < placement_.size()) return placement_[rank];
  const Family* family = spawns_.find(rank);
  return family && !family->voided ? std::optional(family->nodes[rank - family->first]) : std::nullopt;
}

std::string Coordinator::on(Rank rank) const {
  const Family* family = spawns_.find(rank);
  std::string out = "rank " + std::to_string(family ? rank - family->first : rank);
  if (family) out += " of " + tag(rank).substr(0, tag(rank).find(','));
  if (const auto node = node_of(rank)) out += " on " + members_.host(*node);
  return out;
}

std::string Coordinator::tag(Rank rank) const {
  const Family* family = spawns_.find(rank);
  if (!family) return settings_.spec.id() + "," + std::to_string(rank);
  return settings_.spec.id() + "." + std::to_string(family->index) + "," + std::to_string(rank - family->first);
}

void Coordinator::event(nlohmann::json line, Now now) {
  line["t"] = now.unix_ns;
  out_.add(TimelineEvent{std::move(line)});
}

Facts Coordinator::facts() const {
  Facts out;
  out.id = settings_.spec.id();
  out.phase = name(postponed_ ? Phase::recovering : phase_);
  out.recovery = recovery_number_;
  out.next_wave = next_wave_;
  out.next_family = next_family_;
  out.next_number = next_number_;
  out.next_context = next_context_;
  out.spawned = spawns_.any_live();
  out.failed = failed_;
  out.pinned = pin_.wave();
  out.pin_refused = pin_.refused();
  for (const Member& member : members_.all()) {
    if (member.state == NodeState::lost) out.lost.insert(member.node.index());
    if (member.draining) out.draining.insert(member.node.index());
    if (member.node.spare()) out.spares.insert(member.node.index());
  }
  out.exit_code = exit_code_;
  return out;
}

Layout Coordinator::layout() const {
  Layout out{placement_, {}};
  for (const RankInfo& rank : ranks_) out.incarnation.push_back(rank.incarnation);
  return out;
}

State Coordinator::state() const { return {facts(), layout(), store_.waves(), interval_.learned()}; }

/** Save all that has changed. */
void Coordinator::save() {
  SaveState effect;
  Facts now = facts();
  std::vector<StoreChange> changes = store_.take_changes();
  if (!saved_facts_) {
    effect.records.emplace_back(State{now, layout(), store_.waves(), interval_.learned()});
    saved_learned_ = interval_.learned();
  } else {
    if (now != *saved_facts_) effect.records.emplace_back(now);
    if (moved_) effect.records.emplace_back(layout());
    for (StoreChange& change : changes) effect.records.emplace_back(std::move(change));
    add_learned(effect);
  }
  saved_facts_ = std::move(now);
  moved_ = false;
  if (!effect.records.empty()) out_.add(std::move(effect));
}

void Coordinator::add_learned(SaveState& effect) {
  if (interval_.learned() == saved_learned_) return;
  saved_learned_ = interval_.learned();
  effect.records.emplace_back(saved_learned_);
}

/** Save the changes of the stored waves only: its costs do not depend on the number of nodes. */
void Coordinator::save_waves() {
  if (!saved_facts_) return save();
  SaveState effect;
  for (StoreChange& change : store_.take_changes()) effect.records.emplace_back(std::move(change));
  add_learned(effect);
  if (!effect.records.empty()) out_.add(std::move(effect));
}

}  // namespace reprise::job
