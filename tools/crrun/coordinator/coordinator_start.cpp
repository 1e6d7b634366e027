// SPDX-License-Identifier: GPL-2.0-only
// The coordinator's start: from the first Hello until the ranks are launched, restarted or taken over; and daemons that join
// later.
#include <algorithm>
#include <limits>
#include <stdexcept>

#include "coordinator.h"
#include "job/programs.h"

namespace reprise::job {

namespace {
/** Time that daemons have to connect to a crrun that attaches. */
constexpr std::uint64_t kAttachMs = 5000;
/** No number of a state may be larger: later ones must not overflow. */
constexpr std::uint32_t kLargest = std::numeric_limits<std::uint32_t>::max() / 2;
}  // namespace

/** Check what the parts rely on without further checks. */
void Coordinator::check_state(const State& state) const {
  const auto refuse = [](const std::string& what) { throw std::runtime_error("the job's state cannot be used: " + what); };
  // A restarted job may have other nodes: its ranks are placed anew.
  if (begin_ == Begin::attach) {
    if (state.placement.empty()) refuse("it does not say where the ranks are; start the job anew");
    for (NodeIndex node : state.placement)
      if (node >= settings_.nodes.size()) refuse("a rank is on node " + std::to_string(node) + ", which the job does not have");
  }
  if (state.next_wave > kLargest || state.recovery > kLargest || state.next_family > kLargest || state.next_number > kLargest)
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
         {"argv", command_line(settings_.spec)},
         {"nodes", nodes}},
        now);
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
  std::map<WaveNumber, std::vector<Rank>> found;
  for (const StoredImage& image : up.hello().images()) {
    const StoredWave* wave = store_.find(image.wave());
    const StoredRank* known = wave ? wave->find(image.rank()) : nullptr;
    if (known && known->checksum == image.checksum() && !known->on(up.from())) found[image.wave()].push_back(image.rank());
  }
  for (auto& [wave, ranks] : found) store_.found(wave, up.from(), std::move(ranks));
  if (begin_ != Begin::attach) return;
  for (const RankState& state : up.hello().ranks()) {
    if (state.rank() >= ranks_.size() || placement_.empty() || placement_[state.rank()] != up.from()) continue;
    RankInfo& rank = ranks_[state.rank()];
    rank.alive = rank.started = !state.exited() && state.incarnation() == rank.incarnation;
    rank.ready = state.ready();
    rank.pid = state.pid();
    rank.bound_to = state.bound_to();
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
    if (settings_.spec.tells_failures()) return fail_node(node, now);
    recover({CauseKind::new_daemon, members_.host(node) + " has a new daemon"}, now);
    return;
  }
  switch (members_.hello(node, up.instance(), up.hello(), now)) {
    case Greeting::joined:
      if (begin_ != Begin::launch) adopt(up);
      staging_.node_joined();
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
  staging_.node_joined();
  introduce_processes(node);
  if (phase_ != Phase::starting || begin_ == Begin::attach) save();  // nothing is saved before the launch
}

/**
 * A node was lost before the job could start: a spare takes its place. While crrun attaches nothing is replaced: a recovery
 * moves the node's ranks when the other nodes are there.
 * @return false: there is none, and the user has been told
 */
bool Coordinator::replace_at_start(NodeIndex node, const std::string& why) {
  if (begin_ == Begin::attach) {
    out_.say(Log::WARNING, why);
    save();  // it stays lost for another crrun
    return true;
  }
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
  Mapped mapped = map_at_launch(settings_.spec, seats(true), settings_.oversubscribe);
  if (const auto* why = std::get_if<std::string>(&mapped)) {
    out_.say(Log::ERROR, *why);
    return end(1, true, now);
  }
  placement_ = std::get<PlacementTable>(std::move(mapped));
  moved_ = true;
  welcome_all();
  if (begin_ == Begin::restart) {
    enter(Phase::running);
    return recover({CauseKind::restart, "restart of the job"}, now);
  }
  launch(now);
}

void Coordinator::launch(Now now) {
  enter(Phase::running);
  ranks_run(now);
  save();
  Launch& message = *out_.send().mutable_launch();
  message.set_recovery(recovery_number_);
  message.set_wave(next_wave_ - 1);
  for (Rank rank = 0; rank < placement_.size(); ++rank) {
    Placement& placement = *message.add_placement();
    placement.set_rank(rank);
    placement.set_node(placement_[rank]);
  }
  event({{"event", "launch"}, {"recovery", recovery_number_}, {"placement", placement_}}, now);
  clock_.running(now, settings_.wave_at_start);
  plan_wave(now.ms, now);
}

void Coordinator::attached(Now now) {
  begin_ = Begin::launch;  // from here on like any other job
  enter(Phase::running);
  ranks_run(now);
  check_module();
  std::vector<NodeIndex> silent;
  for (Member& member : members_.all())
    if (member.state == NodeState::starting) silent.push_back(member.node.index());
  welcome_all();
  ask_who_serves(now);
  if (was_ending_with_) return end(*was_ending_with_, true, now);  // daemons that did not come back have ended
  for (NodeIndex node : silent) node_lost(node, "its daemon did not come back to crrun", now);
  // An open wave is void. A committed wave may not have been announced yet.
  const WaveNumber newest = store_.newest().value_or(0);
  if (newest) {
    WaveEnd& commit = *out_.send().mutable_wave_end();
    commit.set_wave(newest);
    commit.set_commit(true);
    commit.set_pinned(newest == pin_.wave());
  }
  // The number of a wave is saved before it begins, and it has ended before the next one begins.
  if (next_wave_ - 1 > newest) {
    WaveEnd& abort = *out_.send().mutable_wave_end();
    abort.set_wave(next_wave_ - 1);
    abort.set_why("crrun was started again");
  }
  std::vector<Rank> dead;
  for (Rank rank = 0; rank < ranks_.size(); ++rank)
    if (!ranks_[rank].alive && !ranks_[rank].ended_before && !failed_.count(rank)) dead.push_back(rank);
  if (settings_.spec.tells_failures()) {
    attached_telling(std::exchange(dead, {}), now);
    if (phase_ != Phase::running) return;
  }
  if (was_recovering_) return recover({CauseKind::attach, "crrun was started again during a recovery"}, now);
  if (was_spawning_) return recover({CauseKind::attach, "start of another crrun while spawned processes ran"}, now);
  if (!dead.empty()) return recover({CauseKind::rank_died, rank_list(dead) + " died while no crrun ran"}, now);
  save();
  out_.say(Log::INFO, "attached to " + settings_.spec.id() + (failed_.empty() ? ": no rank was lost" : ""));
  clock_.running(now, settings_.wave_at_start && !newest);
  for (const auto& [number, wave] : store_.waves()) watchdog_.committed(number, {now.ms - age_of(wave, now), 0});
  plan_wave(now.ms - (newest ? age_of(*store_.find(newest), now) : 0), now);
  for (RankInfo& rank : ranks_)
    if (const auto ended = std::exchange(rank.ended_before, std::nullopt); ended && phase_ == Phase::running) rank_exited(*ended, now);
}

void Coordinator::start_tick(Now now) {
  const bool attach = begin_ == Begin::attach;
  if (now.ms < started_ms_ + (attach ? settings_.lost_after_ms + kAttachMs : settings_.start_timeout_ms)) return;
  if (attach) return attached(now);
  for (Member& member : members_.all()) {
    if (member.state != NodeState::starting) continue;
    const std::string what = "the daemon on " + member.node.host() + " has not reported within " +
                             std::to_string(settings_.start_timeout_ms / 1000) + " s: can it reach this host (see --interface)?";
    members_.lose(member.node.index(), now);
    out_.add(StopDaemon{member.node.index()});
    if (!replace_at_start(member.node.index(), what)) return end(1, true, now);
  }
  all_there(now);
}

}  // namespace reprise::job
