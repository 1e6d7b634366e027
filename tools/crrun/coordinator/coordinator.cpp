// SPDX-License-Identifier: GPL-2.0-only
#include "coordinator.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace reprise::job {

namespace {
constexpr std::uint64_t kStaleEveryMs = 1000;
/** Time that daemons have to connect to a crrun that attaches. */
constexpr std::uint64_t kAttachMs = 5000;
/** Number of waves that may have begun since the state was last saved; a daemon that reports a later wave is wrong. */
constexpr WaveNumber kUnsavedWaves = 100'000;
/** Of these, the last waves that may still be open. */
constexpr WaveNumber kOpenWaves = 64;
}  // namespace

const char* name(Coordinator::Phase phase) {
  switch (phase) {
    case Coordinator::Phase::starting: return "starting";
    case Coordinator::Phase::running: return "running";
    case Coordinator::Phase::recovering: return "recovering";
    case Coordinator::Phase::ending: return "ending";
    case Coordinator::Phase::finished: return "ended";
  }
  return "?";
}

Coordinator::Coordinator(Settings settings, Nonce nonce, Begin begin, std::optional<State> state)
    : settings_(std::move(settings)),
      nonce_(std::move(nonce)),
      begin_(begin),
      members_(settings_.nodes, settings_.lost_after_ms, settings_.spec.heartbeat_ms()),
      store_(settings_.job_directory, settings_.spec.local_directory() + "/" + settings_.spec.id()),
      staging_(settings_.staging_nodes),
      clock_(settings_.wave_interval_ms),
      exits_(settings_.spec.ranks(), settings_.max_restarts),
      links_(settings_.max_failed_recoveries),
      input_(settings_.input_kept_bytes),
      ranks_(settings_.spec.ranks()),
      next_number_(settings_.spec.ranks()) {
  if (!state) return;
  recovery_number_ = state->recovery;
  check_state(*state);
  next_wave_ = state->next_wave;
  last_known_wave_ = next_wave_ + kUnsavedWaves;
  next_family_ = state->next_family;
  next_number_ = std::max<Rank>(state->next_number, settings_.spec.ranks());
  next_context_ = state->next_context;
  for (Rank rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].incarnation = state->incarnation[rank];
  for (auto& [number, wave] : state->waves) {
    // Another allocation numbers its nodes differently: only staged images are certain.
    if (begin == Begin::restart)
      for (StoredRank& rank : wave.ranks) rank.local = false;
    store_.commit(std::move(wave));
  }
  if (begin != Begin::attach) return;
  placement_ = state->placement;
  was_recovering_ = state->phase == "recovering";
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

/** Check what the parts rely on without further checks. */
void Coordinator::check_state(const State& state) const {
  const auto refuse = [](const std::string& what) { throw std::runtime_error("the job's state cannot be used: " + what); };
  // A restarted job may have other nodes: its ranks are placed anew.
  if (begin_ == Begin::attach) {
    if (state.placement.empty()) refuse("it does not say where the ranks are; start the job anew");
    for (NodeIndex node : state.placement)
      if (node >= settings_.nodes.size()) refuse("a rank is on node " + std::to_string(node) + ", which the job does not have");
  }
  constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max() - 2 * kUnsavedWaves;
  if (state.next_wave > most || state.recovery > most || state.next_family > most || state.next_number > most)
    refuse("its numbers are used up");
  for (const auto& [number, wave] : state.waves)
    if (number >= state.next_wave || number == 0) refuse("wave " + std::to_string(number) + " was not begun yet");
}

void Coordinator::start(Now now) {
  started_ms_ = now.ms;
  begun_unix_ns_ = now.unix_ns;
  nlohmann::json nodes = nlohmann::json::array();
  for (Member& member : members_.all()) {
    nodes.push_back({{"index", member.node.index()}, {"host", member.node.host()}, {"spare", member.node.spare()}});
    if (begin_ == Begin::attach) continue;
    member.link = true;
    member.since_ms = now.ms;
    out_.add(StartDaemon{member.node.index()});
  }
  const char* const how[] = {"launch", "restart", "attach"};
  event({{"event", "job-begin"},
         {"how", how[static_cast<int>(begin_)]},
         {"id", settings_.spec.id()},
         {"ranks", ranks_.size()},
         {"argv", std::vector<std::string>(settings_.spec.argv().begin(), settings_.spec.argv().end())},
         {"nodes", nodes}},
        now);
}

void Coordinator::message(const Up& up, Now now) {
  if (phase_ == Phase::finished) return;
  const NodeIndex from = up.from();
  if (up.has_hello()) return hello(up, now);
  if (!members_.heard(from, up.instance(), now)) return from_lost(from, now);
  if (up.recovery() >= recovery_number_ && leaving_.erase(from)) judge_recovery(now);
  // Before the launch no daemon has ranks that it could report about.
  if (placement_.empty() && !up.has_heartbeat() && !up.has_log()) return;
  switch (up.what_case()) {
    case Up::kHeartbeat: heartbeat(up, now); break;
    case Up::kRankStarted: {
      const RankStarted& started = up.rank_started();
      if (started.recovery() != recovery_number_) break;
      if (started.rank() >= ranks_.size()) {
        spawned_started(started, now);
        break;
      }
      RankInfo& rank = ranks_[started.rank()];
      rank.started = rank.alive = started.error().empty();
      rank.pid = started.pid();
      if (started.error().empty()) {
        send_input();
        break;
      }
      if (phase_ == Phase::ending) break;
      out_.say(Log::ERROR, on(started.rank()) + " could not be started: " + started.error());
      end(127, true, now);
      break;
    }
    case Up::kRankReady:
      if (up.rank_ready().recovery() != recovery_number_) break;
      if (up.rank_ready().address().rank() >= ranks_.size()) {
        const Rank number = up.rank_ready().address().rank();
        if (Family* family = spawns_.find(number)) family->processes[number - family->first].ready = true;
        break;
      }
      ranks_[up.rank_ready().address().rank()].ready = true;
      ranks_[up.rank_ready().address().rank()].address = up.rank_ready().address();
      break;
    case Up::kRankExited: rank_exited(up.rank_exited(), now); break;
    case Up::kSpawn: spawn(up, now); break;
    case Up::kSpawnKnown: spawn_known(up, now); break;
    case Up::kWaveDone:
      if (!round_) break;
      round_->done(up.wave_done());
      judge_wave(now);
      break;
    case Up::kStaged: staged(up.staged(), from, now); break;
    case Up::kRestored: restored(up.restored(), now); break;
    case Up::kResumed: resumed(up.resumed(), now); break;
    case Up::kOutput:
      output(up.output(), up.output().recovery() == recovery_number_);
      maybe_all_done(now);
      break;
    case Up::kLinkLost: link_lost(up.link_lost(), now); break;
    case Up::kAbort:
      if (phase_ == Phase::ending || up.recovery() != recovery_number_) break;
      out_.say(Log::ERROR, "MPI_Abort was called by " + on(up.abort().rank()) + " with code " +
                               std::to_string(up.abort().status()) +
                               (up.abort().message().empty() ? "" : ": " + up.abort().message()));
      end(up.abort().status() & 0xff ? up.abort().status() & 0xff : 1, true, now);
      break;
    case Up::kLog: {
      const Log& log = up.log();
      out_.say(log.level(), (log.about_rank() ? on(log.rank()) : members_.host(from)) + ": " + log.text());
      break;
    }
    default: pmix(up, now); break;
  }
}

void Coordinator::pmix(const Up& up, Now) {
  const NodeIndex from = up.from();
  switch (up.what_case()) {
    case Up::kFence: {
      if (up.fence().recovery() != recovery_number_) break;
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
      for (Board::Answer& answer : board_.publish(from, up.publish()))
        *out_.send({answer.to}).mutable_lookup_reply() = std::move(answer.reply);
      break;
    case Up::kLookup:
      if (auto answer = board_.lookup(from, up.lookup()))
        *out_.send({answer->to}).mutable_lookup_reply() = std::move(answer->reply);
      break;
    case Up::kPmixEvent: {
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
  if (message.recovery() != recovery_number_ || (phase_ != Phase::running && phase_ != Phase::recovering)) return;
  const std::string what = on(message.rank()) + " and " + (node_of(message.peer()) ? on(message.peer()) : "a spawned process");
  event({{"event", "link-lost"},
         {"rank", message.rank()},
         {"peer", message.peer()},
         {"error", message.error()},
         {"why", message.why()}},
        now);
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
  if (phase_ == Phase::running && links_.due(now)) recover("broken connection between " + links_.what(), now);
}

void Coordinator::heartbeat(const Up& up, Now now) {
  const auto note = [this](NodeIndex node, const auto& beat) {
    Member& member = *members_.find(node);
    member.free_local_bytes = beat.free_local_bytes();
    member.image_bytes = beat.image_bytes();
    member.load = beat.load();
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
  const bool all_busy = round_ || recovering_;
  const auto busy = [&](NodeIndex node) { return all_busy || staging_.busy().count(node) > 0; };
  answer.mutable_heartbeat()->set_lease_ms(members_.beat(up.from(), busy(up.from()), now));
  bool moved = false;
  std::vector<NodeIndex> lost;
  for (const RelayedBeat& one : beat.below()) {
    if (!members_.heard(one.node(), one.instance(), now)) {
      lost.push_back(one.node());
      continue;
    }
    note(one.node(), one);
    moved |= one.recovery() >= recovery_number_ && leaving_.erase(one.node()) > 0;
    answer.add_to(one.node());
    RelayedBeat& mine = *answer.mutable_heartbeat()->add_below();
    mine.set_node(one.node());
    mine.set_unix_ns(one.unix_ns());
    mine.set_lease_ms(members_.beat(one.node(), busy(one.node()), now));
  }
  out_.send() = std::move(answer);
  for (NodeIndex node : lost) from_lost(node, now);
  if (moved) judge_recovery(now);
}

void Coordinator::from_lost(NodeIndex node, Now now) {
  Member* member = members_.find(node);
  if (!member || member->state != NodeState::lost) return;
  if (member->told_stale_ms && now.ms < member->told_stale_ms + kStaleEveryMs) return;
  member->told_stale_ms = now.ms;
  welcome(node, true);
}

void Coordinator::welcome(NodeIndex node, bool stale) {
  fill_welcome(*out_.send({node}).mutable_welcome(), node, stale);
  if (!stale) members_.find(node)->welcomed = true;
}

void Coordinator::welcome_all() {
  if (members_.all().size() <= kWholeTables) {
    for (NodeIndex node : members_.living()) welcome(node, false);
    return;
  }
  // One message for all daemons: the list of nodes is long in a large job. Each daemon knows its own index.
  fill_welcome(*out_.send().mutable_welcome(), 0, false);
  for (NodeIndex node : members_.living()) members_.find(node)->welcomed = true;
}

void Coordinator::fill_welcome(Welcome& message, NodeIndex node, bool stale) const {
  *message.mutable_job() = settings_.spec;
  message.set_node(node);
  for (const Member& member : members_.all()) *message.add_nodes() = member.node;
  message.set_recovery(recovery_number_);
  message.set_stale(stale);
  message.set_parent(node);
}

void Coordinator::adopt(const Up& up) {
  // An image that matches the store's record is usable on this node, wherever it was taken.
  for (const StoredImage& image : up.hello().images()) {
    const StoredWave* wave = store_.find(image.wave());
    if (!wave || image.rank() >= wave->ranks.size() || wave->ranks[image.rank()].checksum != image.checksum()) continue;
    StoredWave changed = *wave;
    if (changed.ranks[image.rank()].local) continue;
    changed.ranks[image.rank()].node = up.from();
    changed.ranks[image.rank()].local = true;
    store_.commit(std::move(changed));
  }
  if (begin_ != Begin::attach) return;
  for (const StoredImage& image : up.hello().images())
    if (image.wave() < last_known_wave_) next_wave_ = std::max(next_wave_, image.wave() + 1);
  for (const RankState& state : up.hello().ranks()) {
    if (state.rank() >= ranks_.size() || placement_.empty() || placement_[state.rank()] != up.from()) continue;
    RankInfo& rank = ranks_[state.rank()];
    rank.alive = rank.started = !state.exited() && state.incarnation() == rank.incarnation;
    rank.ready = state.ready();
    rank.pid = state.pid();
    if (!state.exited() || state.incarnation() != rank.incarnation) continue;
    RankExited& ended = rank.ended_before.emplace();
    ended.set_rank(state.rank());
    ended.set_wait_status(state.status());
    ended.set_finalized(state.finalized());
    ended.set_recovery(recovery_number_);
  }
}

void Coordinator::hello(const Up& up, Now now) {
  const NodeIndex node = up.from();
  if (phase_ == Phase::ending) {
    if (members_.find(node)) {
      members_.hello(node, up.instance(), up.hello(), now);
      save();
      Shutdown& message = *out_.send({node}).mutable_shutdown();
      message.set_kill(true);
      message.set_keep_images(settings_.keep_images);
    }
    return;
  }
  if (members_.up(node) && members_.at(node).instance != up.instance()) {
    // The old daemon and its ranks are gone. The new one may have images, but nothing is known about them.
    node_lost(node, "its daemon was replaced by another", now);
    const Greeting greeting = members_.hello(node, up.instance(), up.hello(), now);
    welcome(node, greeting != Greeting::rejoined);
    if (greeting == Greeting::rejoined) node_joined(node);
    recover(members_.host(node) + " has a new daemon", now);
    return;
  }
  switch (members_.hello(node, up.instance(), up.hello(), now)) {
    case Greeting::joined:
      if (begin_ != Begin::launch) adopt(up);
      if (phase_ != Phase::starting)
        welcome(node, false);
      else if (!members_.any_starting())
        all_there(now);
      break;
    case Greeting::again:
      if (phase_ != Phase::starting) welcome(node, false);
      break;
    case Greeting::rejoined:
      welcome(node, false);
      node_joined(node);
      event({{"event", "node-back"}, {"node", node}}, now);
      out_.say(Log::INFO, members_.host(node) + " is back, as a spare");
      break;
    case Greeting::stale: from_lost(node, now); break;
    case Greeting::replaced:
    case Greeting::unknown: break;
  }
}

void Coordinator::node_joined(NodeIndex node) {
  failures_of_node_.erase(node);
  save();
}

/**
 * A node was lost before the job could start: a spare takes its place.
 * @return false: there is none, and the user has been told
 */
bool Coordinator::replace_at_start(NodeIndex node, const std::string& why) {
  Member* spare = nullptr;
  for (Member& member : members_.all())
    if (!spare && member.node.spare() && member.state != NodeState::lost) spare = &member;
  if (members_.at(node).node.spare()) {
    out_.say(Log::WARNING, why + " The job runs without this spare");
    return true;
  }
  if (!spare) {
    out_.say(Log::ERROR, why + " No spare is left that could take its place: the job could not be started");
    return false;
  }
  out_.say(Log::WARNING, why + " The spare " + spare->node.host() + " takes its place");
  spare->node.set_spare(false);
  members_.find(node)->node.set_spare(true);  // if it comes back
  return true;
}

bool Coordinator::check_module() {
  std::string hosts, problem;
  for (const Member& member : members_.all()) {
    if (member.state != NodeState::up || member.module_loaded) continue;
    hosts += (hosts.empty() ? "" : ", ") + member.node.host();
    problem = member.module_problem;
  }
  if (hosts.empty() || settings_.spec.no_checkpoints()) return true;
  if (settings_.require_checkpoints) {
    out_.say(Log::ERROR, "no checkpoints can be taken on " + hosts + " (" + problem + "): load the module cr there");
    return false;
  }
  out_.say(Log::WARNING, "no checkpoints can be taken on " + hosts + " (" + problem +
                             "): the job runs without checkpoints and will not survive a lost node; load the module cr there");
  settings_.spec.set_no_checkpoints(true);
  return true;
}

void Coordinator::all_there(Now now) {
  if (begin_ == Begin::attach) return attached(now);
  if (begin_ == Begin::restart && std::any_of(members_.all().begin(), members_.all().end(), [](const Member& member) {
        return member.state == NodeState::up && !member.module_loaded;
      }))
    settings_.require_checkpoints = true;
  if (!check_module()) return end(1, true, now);
  const auto placed =
      place_at_launch(static_cast<std::uint32_t>(ranks_.size()), seats(true), settings_.map_by_node, settings_.oversubscribe);
  if (!placed) {
    out_.say(Log::ERROR, "there are not enough slots on the nodes for " + std::to_string(ranks_.size()) +
                             " ranks: name more nodes, give slots (--hosts node1:4), or use --oversubscribe");
    return end(1, true, now);
  }
  placement_ = *placed;
  moved_ = true;
  welcome_all();
  if (begin_ == Begin::restart) {
    phase_ = Phase::running;
    return recover("restart of the job", now);
  }
  launch(now);
}

void Coordinator::launch(Now now) {
  phase_ = Phase::running;
  save();
  Launch& message = *out_.send().mutable_launch();
  message.set_recovery(recovery_number_);
  for (Rank rank = 0; rank < placement_.size(); ++rank) {
    Placement& placement = *message.add_placement();
    placement.set_rank(rank);
    placement.set_node(placement_[rank]);
  }
  event({{"event", "launch"}, {"recovery", recovery_number_}, {"placement", placement_}}, now);
  clock_.running(now, false);
}

void Coordinator::attached(Now now) {
  begin_ = Begin::launch;  // from here on like any other job
  phase_ = Phase::running;
  check_module();
  std::vector<NodeIndex> silent;
  for (Member& member : members_.all())
    if (member.state == NodeState::starting) silent.push_back(member.node.index());
  welcome_all();
  if (was_ending_with_) return end(*was_ending_with_, true, now);  // daemons that did not come back have ended
  for (NodeIndex node : silent) node_lost(node, "its daemon did not come back to crrun", now);
  // An open wave is void. A committed wave may not have been announced yet.
  const WaveNumber newest = store_.newest().value_or(0);
  if (newest) {
    WaveEnd& commit = *out_.send().mutable_wave_end();
    commit.set_wave(newest);
    commit.set_commit(true);
  }
  const WaveNumber first = std::max(newest + 1, next_wave_ - std::min(next_wave_, kOpenWaves));
  for (WaveNumber wave = first; wave <= next_wave_; ++wave) {
    WaveEnd& abort = *out_.send().mutable_wave_end();
    abort.set_wave(wave);
    abort.set_why("crrun was started again");
  }
  ++next_wave_;
  std::vector<Rank> dead;
  for (Rank rank = 0; rank < ranks_.size(); ++rank)
    if (!ranks_[rank].alive && !ranks_[rank].ended_before) dead.push_back(rank);
  if (was_recovering_) return recover("crrun was started again during a recovery", now);
  if (was_spawning_) return recover("start of another crrun while spawned processes ran", now);
  if (!dead.empty()) return recover(rank_list(dead) + " died while no crrun ran", now);
  save();
  out_.say(Log::INFO, "attached to " + settings_.spec.id() + ": no rank was lost");
  clock_.running(now, false);
  for (RankInfo& rank : ranks_)
    if (const auto ended = std::exchange(rank.ended_before, std::nullopt); ended && phase_ == Phase::running) rank_exited(*ended, now);
}

std::vector<Seat> Coordinator::seats(bool with_drained, const std::set<NodeIndex>& without) const {
  std::vector<Seat> out;
  for (const Member& member : members_.all()) {
    Seat seat{member.node.index(), member.node.slots(), member.node.spare(),
              member.state == NodeState::up && !without.count(member.node.index())};
    if (member.draining) {
      // Its ranks may stay, but no further ranks are placed there.
      seat.slots = 0;
      const bool ready = std::any_of(drains_.begin(), drains_.end(),
                                     [&](const Drain& drain) { return drain.node == seat.node && drain.ready; });
      if (ready && !with_drained) seat.usable = false;
    }
    out.push_back(seat);
  }
  return out;
}

void Coordinator::tick(Now now) {
  if (phase_ == Phase::finished) return;
  // While crrun itself was stopped, the silence of others means nothing.
  if (last_tick_ms_ && now.ms > last_tick_ms_ + settings_.spec.heartbeat_ms()) members_.excuse(now.ms - last_tick_ms_);
  last_tick_ms_ = now.ms;
  if (settings_.run_timeout_ms && phase_ != Phase::ending && now.ms >= started_ms_ + settings_.run_timeout_ms) {
    out_.say(Log::ERROR, "the job has run for the " + std::to_string(settings_.run_timeout_ms / 1000) +
                             " s of --timeout: it is ended");
    end(124, true, now);
  }
  if (phase_ == Phase::ending) return ending_tick(now);
  if (phase_ == Phase::starting) {
    const bool attach = begin_ == Begin::attach;
    if (now.ms < started_ms_ + (attach ? settings_.lost_after_ms + kAttachMs : settings_.start_timeout_ms)) return;
    if (attach) return attached(now);
    for (Member& member : members_.all()) {
      if (member.state != NodeState::starting) continue;
      const std::string what = "the daemon on " + member.node.host() + " has not reported within " +
                               std::to_string(settings_.start_timeout_ms / 1000) +
                               " s: can it reach this host (see --interface)?";
      members_.lose(member.node.index(), now);
      out_.add(StopDaemon{member.node.index()});
      if (!replace_at_start(member.node.index(), what)) return end(1, true, now);
    }
    return all_there(now);
  }
  lost_nodes(members_.silent(now), now);
  if (phase_ == Phase::recovering) judge_recovery(now);
  if (phase_ == Phase::ending) return;
  for (NodeIndex node : members_.to_start(now, settings_.rejoin_every_ms)) out_.add(StartDaemon{node});
  maybe_all_done(now);
  if (phase_ == Phase::running) repair_links(now);
  if (phase_ == Phase::running) expect_losses(now);
  if (phase_ == Phase::running) wave_tick(now);
}

void Coordinator::link_ended(NodeIndex node, bool certain, const std::string& why, Now now) {
  Member* member = members_.find(node);
  if (!member) return;
  member->link = false;
  member->link_died = true;
  if (phase_ == Phase::finished) return;
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
  if (phase_ == Phase::ending || phase_ == Phase::finished || !member->link_died || member->link) return;
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
  out.phase = name(phase_);
  out.recovery = recovery_number_;
  out.next_wave = next_wave_;
  out.next_family = next_family_;
  out.next_number = next_number_;
  out.next_context = next_context_;
  out.spawned = spawns_.any_live();
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

State Coordinator::state() const { return {facts(), layout(), store_.waves()}; }

/** Save all that has changed. */
void Coordinator::save() {
  SaveState effect;
  Facts now = facts();
  std::vector<StoreChange> changes = store_.take_changes();
  if (!saved_facts_) {
    effect.records.emplace_back(State{now, layout(), store_.waves()});
  } else {
    if (now != *saved_facts_) effect.records.emplace_back(now);
    if (moved_) effect.records.emplace_back(layout());
    for (StoreChange& change : changes) effect.records.emplace_back(std::move(change));
  }
  saved_facts_ = std::move(now);
  moved_ = false;
  if (!effect.records.empty()) out_.add(std::move(effect));
}

/** Save the changes of the stored waves only: its costs do not depend on the number of nodes. */
void Coordinator::save_waves() {
  if (!saved_facts_) return save();
  SaveState effect;
  for (StoreChange& change : store_.take_changes()) effect.records.emplace_back(std::move(change));
  if (!effect.records.empty()) out_.add(std::move(effect));
}

}  // namespace reprise::job
