// SPDX-License-Identifier: GPL-2.0-only
#include "simulation.h"

#include <algorithm>
#include <csignal>

namespace reprise::job::sim {

struct Cluster::Parsed {
  Down down;
  std::size_t bytes = 0;
  std::map<NodeIndex, std::vector<Rank>> ranks_at;
  std::set<Rank> restart;
};

namespace {
struct Process {
  RecoveryNumber generation = 0;  ///< recovery that it last went on in, or was started by
  RecoveryNumber incarnation = 0;
  bool running = false;           ///< else it stands still within a recovery
  bool stopped = false;           ///< by its daemon, which is cut off
  bool stuck = false;             ///< waits for a message that was lost
  std::uint64_t progress_ms = 0, offset = 0, seen = 0;
};
}  // namespace

struct Cluster::Daemon {
  bool host = true;    ///< the machine is on
  bool alive = false;  ///< the daemon runs
  bool cut = false, linked = false, full = false;
  std::string instance;
  RecoveryNumber recovery = 0;
  RecoveryNumber cleared = 0;  ///< the processes of ranks that this recovery has moved away have ended
  std::uint64_t lease_us = 0;  ///< the ranks may run until then
  std::map<Rank, Process> ranks;
  std::map<Rank, std::pair<Process, int>> ended;  ///< with their wait status
  std::set<Rank> spawned;
  std::map<std::pair<WaveNumber, Rank>, Image> images;
  std::unique_ptr<Relay> relay;
  bool may(const Process& process) const { return host && alive && process.running && !process.stopped; }
};

Cluster::Cluster(Model model) : model_(std::move(model)), random_(model_.seed) {
  Settings& settings = model_.settings;
  settings.job_directory = "/shared/job";
  settings.spec.set_id("job");
  settings.spec.set_ranks(model_.ranks);
  settings.spec.add_argv("program");
  settings.spec.set_local_directory("/local");
  if (model_.shared) settings.spec.set_shared_directory("/shared");
  settings.spec.set_stdin_target("0");
  if (!settings.spec.heartbeat_ms()) settings.spec.set_heartbeat_ms(static_cast<std::uint32_t>(settings.lost_after_ms / 6));
  settings.spec.set_lost_after_ms(static_cast<std::uint32_t>(settings.lost_after_ms * 2 / 3));
  for (std::uint32_t i = 0; i < model_.nodes + model_.spares; ++i) {
    Node node;
    node.set_index(i);
    node.set_host("node" + std::to_string(i));
    node.set_slots(model_.slots);
    node.set_spare(i >= model_.nodes);
    settings.nodes.push_back(node);
    daemons_.push_back(std::make_unique<Daemon>());
  }
  if (model_.fan_out) tree_ = std::make_unique<Tree>(model_.nodes + model_.spares, model_.fan_out);
  output_.resize(model_.ranks);
  begin(Coordinator::Begin::launch, std::nullopt);
}

Cluster::~Cluster() = default;

void Cluster::begin(Coordinator::Begin how, std::optional<State> state) {
  coordinator_ = std::make_unique<Coordinator>(model_.settings, [] { return std::string(32, 'n'); }, how, std::move(state));
  ++coordinator_generation_;
  crrun_alive_ = true;
  has_saved_ = false;
  code_ = -1;
  for (Rank rank = 0; how == Coordinator::Begin::attach && rank < model_.ranks; ++rank) {
    const std::string& all = output_[rank];
    coordinator_->was_printed(rank, 1, all.size(), all.substr(all.size() - std::min<std::size_t>(all.size(), 4096)));
    coordinator_->was_printed(rank, 2, 0, "");
  }
  coordinator_->start(now());
  apply();
  tick(coordinator_generation_);
}

void Cluster::later(std::uint64_t us, std::function<void()> what) { queue_.push({now_us_ + us, order_++, std::move(what)}); }

void Cluster::at(std::uint64_t ms, std::function<void()> what) {
  later(ms * 1000 > now_us_ ? ms * 1000 - now_us_ : 0, std::move(what));
}

void Cluster::when(std::function<bool(const nlohmann::json&)> matches, std::function<void()> what) {
  triggers_.emplace_back(std::move(matches), std::move(what));
}

bool Cluster::run_while(const std::function<bool()>& condition, std::uint64_t limit_ms) {
  const std::uint64_t end = now_us_ + limit_ms * 1000;
  while (condition()) {
    if (queue_.empty() || queue_.top().us > end) return false;
    Later next = queue_.top();
    queue_.pop();
    now_us_ = next.us;
    next.what();
  }
  return true;
}

bool Cluster::run(std::uint64_t limit_ms) {
  return run_while([this] { return code_ < 0; }, limit_ms);
}

void Cluster::run_until(std::uint64_t ms) {
  at(ms, [] {});
  run_while([&] { return now_us_ < ms * 1000; });
}

std::uint64_t Cluster::some_time() {
  return model_.fixed_times ? model_.image_us : std::uniform_int_distribution<std::uint64_t>(1, model_.image_us)(random_);
}

void Cluster::transmit(int from, int to, std::size_t bytes, bool heartbeat, std::function<void()> arrived) {
  if (!heartbeat) {
    ++traffic_.all;
    traffic_.all_bytes += bytes;
  }
  if (!heartbeat && (from < 0 || to < 0)) {
    ++traffic_.at_crrun;
    traffic_.crrun_bytes += bytes;
  }
  const auto cost = model_.message_us +
                    (model_.bytes_per_us > 0 ? static_cast<std::uint64_t>(static_cast<double>(bytes) / model_.bytes_per_us) : 0);
  std::uint64_t sent = now_us_;
  if (cost) {
    std::uint64_t& busy = busy_us_[from].first;
    sent = busy = std::max(busy, now_us_) + cost;
  }
  later(sent + model_.latency_us - now_us_, [this, to, cost, arrived = std::move(arrived)] {
    if (!cost) return arrived();
    std::uint64_t& busy = busy_us_[to].second;
    busy = std::max(busy, now_us_) + cost;
    later(busy - now_us_, arrived);
  });
}

// ------------------------------------------------------------------------------------------------ crrun

void Cluster::tick(std::uint64_t generation) {
  if (!crrun_alive_ || generation != coordinator_generation_) return;
  coordinator_->tick(now());
  apply();
  if (code_ < 0) later(100'000, [this, generation] { tick(generation); });
}

void Cluster::apply() {
  for (std::vector<Effect> effects; crrun_alive_ && !(effects = coordinator_->take()).empty();)
    for (Effect& effect : effects) {
      if (auto* one = std::get_if<SendDown>(&effect)) send_down(one->down);
      if (auto* one = std::get_if<StartDaemon>(&effect)) start_daemon(one->node);
      if (auto* one = std::get_if<StopDaemon>(&effect)) daemons_[one->node]->linked = false;
      if (auto* one = std::get_if<SaveState>(&effect)) {
        has_saved_ = true;
        for (const Record& record : one->records)
          update(saved_, model_.ranks > 2000 ? record
                                                 : record_from_json(nlohmann::json::parse(to_json(record).dump()), model_.ranks));
      }
      if (auto* one = std::get_if<RemoveStaged>(&effect))
        std::erase_if(staged_, [&](const auto& image) { return !one->wave || image.first.first == one->wave; });
      if (auto* one = std::get_if<Say>(&effect); one && one->level != Log::DEBUG) said_.push_back(one->text);
      if (auto* one = std::get_if<WriteOutput>(&effect)) {
        if (one->stream == 1 && one->rank < output_.size()) output_[one->rank] += one->data;
        coordinator_->written(one->rank, one->stream, one->offset);
      }
      if (auto* one = std::get_if<Reply>(&effect)) replies_[one->request] = {one->ok, one->text};
      if (auto* one = std::get_if<Finish>(&effect)) code_ = one->code;
      if (auto* one = std::get_if<TimelineEvent>(&effect)) {
        const nlohmann::json& line = one->line;
        if ((line.at("event") == "wave-commit" || line.at("event") == "resume") && !spawned().empty())
          violations_.push_back(line.at("event").get<std::string>() + " while spawned processes run");
        if (line.at("event") == "wave-commit") committed_.insert(line.at("wave").get<WaveNumber>());
        if (line.at("event") == "recovery-begin") {
          // Nothing may be given up that could be had.
          const WaveNumber wave = line.at("wave");
          for (WaveNumber newer : committed_) {
            bool whole = newer > wave;
            for (Rank rank = 0; whole && rank < model_.ranks; ++rank) {
              const auto image = staged_.find({newer, rank});
              whole = image != staged_.end() && !image->second.damaged;
            }
            const StoredWave* known = coordinator_->store().find(newer);
            if (whole && known && known->staged())
              violations_.push_back("back to wave " + std::to_string(wave) + " though " + std::to_string(newer) + " is staged");
          }
          std::erase_if(committed_, [&](WaveNumber newer) { return newer > wave; });
        }
        const auto name = line.at("event").get<std::string>();
        if (model_.ranks <= 2000 || name.find("rank") == std::string::npos) {
          ++counts_[name];
          timeline_.push_back(line);
        }
        for (std::size_t i = 0; i < triggers_.size(); ++i)
          if (triggers_[i].first(line)) {
            later(0, triggers_[i].second);
            triggers_.erase(triggers_.begin() + static_cast<std::ptrdiff_t>(i--));
          }
      }
    }
  check_saved();
}

/** What is saved is what a later crrun must know, at every moment. */
void Cluster::check_saved() {
  if (coordinator_ && !coordinator_->unforeseen().empty())
    violations_.push_back("a change of phase is not in the table: " + coordinator_->unforeseen().front());
  if (!crrun_alive_ || !has_saved_ || model_.ranks > 2000) return;
  if (const State now = coordinator_->state(); now != saved_)
    violations_.push_back("what is saved is not the state: " + nlohmann::json::diff(to_json(saved_), to_json(now)).dump());
}

void Cluster::send_down(const Down& down) {
  auto message = std::make_shared<Parsed>();
  message->down = down;
  message->bytes = down.ByteSizeLong();
  const auto table = [&](const auto& placements) {
    for (const Placement& one : placements) message->ranks_at[one.node()].push_back(one.rank());
  };
  if (down.has_launch()) table(down.launch().placement());
  if (down.has_expect()) expectations_.push_back(down.expect());
  if (down.has_recover()) {
    recoveries_.push_back(down.recover());
    table(down.recover().placement());
    message->restart.insert(down.recover().restart().begin(), down.recover().restart().end());
  }
  std::set<NodeIndex> to(down.to().begin(), down.to().end());
  const auto send = [&](NodeIndex node) {
    transmit(-1, static_cast<int>(node), message->bytes, message->down.has_heartbeat(), [this, node, message] { pass_down(node, message); });
  };
  if (!tree_) {
    const std::vector<NodeIndex> all = to.empty() ? coordinator_->members().living() : std::vector<NodeIndex>(to.begin(), to.end());
    for (NodeIndex node : all) send(node);
    return;
  }
  // To the top of each branch that has somebody to whom it goes.
  std::set<NodeIndex> tops;
  if (to.empty())
    for (NodeIndex node = 0; node < std::min<std::size_t>(model_.fan_out, daemons_.size()); ++node) tops.insert(node);
  for (NodeIndex node : to) {
    while (const auto parent = tree_->parent(node)) node = *parent;
    tops.insert(node);
  }
  for (NodeIndex node : tops) send(node);
}

// --------------------------------------------------------------------------------------------- the wire

void Cluster::pass_down(NodeIndex node, const DownPtr& message) {
  Daemon& daemon = *daemons_[node];
  if (!daemon.host || !daemon.alive || daemon.cut) return;
  if (daemon.relay)
    for (NodeIndex child : daemon.relay->down(message->down))
      transmit(static_cast<int>(node), static_cast<int>(child), message->bytes, message->down.has_heartbeat(),
               [this, child, message] { pass_down(child, message); });
  const auto& to = message->down.to();
  if (to.empty() || std::find(to.begin(), to.end(), node) != to.end()) received(node, *message);
}

void Cluster::send_up(NodeIndex node, Up up) {
  Daemon& daemon = *daemons_[node];
  up.set_from(node);
  up.set_instance(daemon.instance);
  up.set_recovery(daemon.cleared);
  pass_up(node, up);
}

void Cluster::pass_up(NodeIndex node, const Up& up) {
  Daemon& daemon = *daemons_[node];
  if (!daemon.host || daemon.cut) return;
  if (!daemon.alive) {
    // A relay that is still being started: its children try again until it is there.
    if (tree_ && up.from() != node && code_ < 0 && daemon.linked) later(10'000, [this, node, up] { pass_up(node, up); });
    return;
  }
  std::vector<Up> out{up};
  if (daemon.relay) out = daemon.relay->up(up, now_us_ / 1000);
  for (Up& one : out) {
    const auto parent = tree_ ? tree_->parent(node) : std::nullopt;
    if (parent) {
      transmit(static_cast<int>(node), static_cast<int>(*parent), one.ByteSizeLong(), one.has_heartbeat(),
               [this, parent = *parent, one] { pass_up(parent, one); });
      continue;
    }
    transmit(static_cast<int>(node), -1, one.ByteSizeLong(), one.has_heartbeat(), [this, one = std::move(one)] {
      if (!crrun_alive_ || daemons_[one.from()]->cut) return;
      coordinator_->message(one, now());
      apply();
    });
  }
}

// ------------------------------------------------------------------------------------------ the daemons

void Cluster::start_daemon(NodeIndex node) {
  daemons_[node]->linked = true;
  const std::uint64_t generation = coordinator_generation_;
  later(50'000 + some_time(), [this, node, generation] {
    Daemon& daemon = *daemons_[node];
    if (!daemon.linked) return;
    if (!daemon.host || daemon.cut) {
      later(1'000'000, [this, node, generation] {
        if (!crrun_alive_ || generation != coordinator_generation_ || !daemons_[node]->linked) return;
        coordinator_->link_ended(node, false, "no route to host", now());
        apply();
      });
      return;
    }
    // A new daemon takes the place of an old one, whose ranks end with it; its images stay on the disk.
    daemon.ranks.clear();
  daemon.spawned.clear();
    daemon.alive = true;
    daemon.recovery = daemon.cleared = 0;
    daemon.instance = "i" + std::to_string(++instances_);
    if (tree_) {
      std::map<std::uint32_t, std::set<std::uint32_t>> below;
      for (NodeIndex child : tree_->children(node)) {
        const auto all = tree_->below(child);
        below[child] = {all.begin(), all.end()};
      }
      if (!below.empty()) daemon.relay = std::make_unique<Relay>(node, daemon.instance, std::move(below), 200);
    }
    daemon.lease_us = now_us_ + model_.settings.spec.lost_after_ms() * 1000;
    hello(node);
    heartbeat(node, daemon.instance);
    watch_lease(node, daemon.instance);
  });
}

void Cluster::hello(NodeIndex node) {
  Daemon& daemon = *daemons_[node];
  Up up;
  Hello& hello = *up.mutable_hello();
  hello.set_module_loaded(true);
  for (const auto& [rank, process] : daemon.ranks) {
    RankState& state = *hello.add_ranks();
    state.set_rank(rank);
    state.set_incarnation(process.incarnation);
    state.set_ready(true);
  }
  for (const auto& [rank, ended] : daemon.ended) {
    RankState& state = *hello.add_ranks();
    state.set_rank(rank);
    state.set_incarnation(ended.first.incarnation);
    state.set_ready(true);
    state.set_exited(true);
    state.set_status(ended.second);
    state.set_finalized(ended.second == 0);
  }
  for (const auto& [key, image] : daemon.images) {
    StoredImage& stored = *hello.add_images();
    stored.set_wave(key.first);
    stored.set_rank(key.second);
    stored.set_checksum(key.first * 1000 + key.second + 1);
    stored.set_committed(image.committed);
  }
  send_up(node, std::move(up));
}

void Cluster::heartbeat(NodeIndex node, const std::string& instance) {
  Daemon& daemon = *daemons_[node];
  if (!daemon.host || !daemon.alive || daemon.instance != instance || code_ >= 0) return;
  Up up;
  up.mutable_heartbeat()->set_unix_ns(now_us_);
  send_up(node, std::move(up));
  if (daemon.relay) {
    for (const Up& late : daemon.relay->tick(now_us_ / 1000))
      transmit(static_cast<int>(node), -1, late.ByteSizeLong(), late.has_heartbeat(), [this, late] {
        if (crrun_alive_) coordinator_->message(late, now()), apply();
      });
  }
  later(model_.settings.spec.heartbeat_ms() * 1000, [this, node, instance] { heartbeat(node, instance); });
}

void Cluster::watch_lease(NodeIndex node, const std::string& instance) {
  if (!model_.leases || model_.ranks > 2000) return;
  Daemon& daemon = *daemons_[node];
  if (!daemon.host || !daemon.alive || daemon.instance != instance || code_ >= 0) return;
  // crrun's death is seen as such: its host refuses connections. Then the ranks run on.
  if (now_us_ > daemon.lease_us && (crrun_alive_ || daemon.cut))
    for (auto& [rank, process] : daemon.ranks) process.stopped = true;
  later(20'000, [this, node, instance] { watch_lease(node, instance); });
}

void Cluster::work(NodeIndex node, Rank rank, RecoveryNumber generation) {
  Daemon& daemon = *daemons_[node];
  const auto found = daemon.ranks.find(rank);
  if (!daemon.host || !daemon.alive || found == daemon.ranks.end() || found->second.generation != generation) return;
  Process& process = found->second;
  if (!process.running) return;
  const bool full = model_.window && process.offset >= process.seen + model_.window;
  if (!process.stopped && !process.stuck && !full) {
    process.progress_ms += model_.step_ms;
    if (model_.output) {
      const std::string line = this->line(rank, process.progress_ms);
      Up up;
      Output& output = *up.mutable_output();
      output.set_rank(rank);
      output.set_stream(1);
      output.set_offset(process.offset);
      output.set_data(line);
      output.set_recovery(daemon.recovery);
      process.offset += line.size();
      send_up(node, std::move(up));
    }
    if (process.progress_ms >= model_.work_ms) return exit(node, rank, 0);
  }
  later(model_.step_ms * 1000, [this, node, rank, generation] { work(node, rank, generation); });
}

/** What the last crrun has not confirmed. */
void Cluster::say_again(NodeIndex node) {
  Daemon& daemon = *daemons_[node];
  const auto say = [&](Rank rank, const Process& process, bool end) {
    for (std::uint32_t stream : {1u, 2u}) {
      Up up;
      Output& output = *up.mutable_output();
      output.set_rank(rank);
      output.set_stream(stream);
      output.set_offset(stream == 1 ? process.seen : 0);
      if (stream == 1) output.set_data(expected_output(rank).substr(process.seen, process.offset - process.seen));
      output.set_end(end);
      output.set_recovery(daemon.recovery);
      send_up(node, std::move(up));
    }
  };
  for (const auto& [rank, process] : daemon.ranks) say(rank, process, false);
  for (const auto& [rank, ended] : daemon.ended) say(rank, ended.first, ended.second == 0);
}

void Cluster::exit(NodeIndex node, Rank rank, int status) {
  Daemon& daemon = *daemons_[node];
  daemon.ended[rank] = {daemon.ranks[rank], status};
  daemon.ranks.erase(rank);
  for (std::uint32_t stream : {1u, 2u}) {
    Up up;
    Output& output = *up.mutable_output();
    output.set_rank(rank);
    output.set_stream(stream);
    output.set_offset(stream == 1 ? expected_output(rank).size() : 0);
    output.set_end(true);
    output.set_recovery(daemon.recovery);
    if (status == 0) send_up(node, std::move(up));
  }
  Up up;
  RankExited& exited = *up.mutable_rank_exited();
  exited.set_rank(rank);
  exited.set_wait_status(status);
  exited.set_finalized(status == 0);
  exited.set_recovery(daemon.recovery);
  send_up(node, std::move(up));
}

void Cluster::received(NodeIndex node, const Parsed& message) {
  Daemon& daemon = *daemons_[node];
  const Down& down = message.down;
  const std::string instance = daemon.instance;
  const auto ranks_here = [&] {
    const auto found = message.ranks_at.find(node);
    return found == message.ranks_at.end() ? std::vector<Rank>{} : found->second;
  };
  // Of what takes time: only if the daemon is still the same, and has heard of nothing newer.
  const auto after = [&](std::uint64_t us, std::function<void()> what) {
    later(us, [this, node, instance, recovery = daemon.recovery, what = std::move(what)] {
      const Daemon& daemon = *daemons_[node];
      if (daemon.host && daemon.alive && daemon.instance == instance && daemon.recovery == recovery) what();
    });
  };
  switch (down.what_case()) {
    case Down::kWelcome:
      if (down.welcome().stale()) {
        daemon.ranks.clear();
  daemon.spawned.clear();
        daemon.images.clear();
        hello(node);
      } else {
        daemon.lease_us = now_us_ + model_.settings.spec.lost_after_ms() * 1000;
        for (auto& [rank, process] : daemon.ranks) process.stopped = false, check(rank);
      }
      break;
    case Down::kHeartbeat:
      for (const RelayedBeat& one : down.heartbeat().below())
        if (one.node() == node) daemon.lease_us = std::max(daemon.lease_us, one.unix_ns() + one.lease_ms() * 1000);
      if (!tree_ || !tree_->parent(node))
        daemon.lease_us = std::max(daemon.lease_us, down.heartbeat().unix_ns() + down.heartbeat().lease_ms() * 1000);
      if (now_us_ <= daemon.lease_us)
        for (auto& [rank, process] : daemon.ranks) process.stopped = false, check(rank);
      break;
    case Down::kLaunch:
      daemon.ranks.clear();
  daemon.spawned.clear();
      daemon.recovery = daemon.cleared = down.launch().recovery();
      after(some_time(), [this, node, ranks = ranks_here()] {
        Daemon& daemon = *daemons_[node];
        for (Rank rank : ranks) {
          daemon.ranks[rank] = {daemon.recovery, daemon.recovery, true, false, 0, 0};
          check(rank);
          Up started, ready;
          started.mutable_rank_started()->set_rank(rank);
          started.mutable_rank_started()->set_recovery(daemon.recovery);
          send_up(node, std::move(started));
          ready.mutable_rank_ready()->mutable_address()->set_rank(rank);
          ready.mutable_rank_ready()->mutable_address()->add_addresses("10.0.0.1:40000");
          ready.mutable_rank_ready()->set_recovery(daemon.recovery);
          later(rank + 1 == model_.ranks ? model_.init_ms * 1000 : 0, [this, node, instance = daemon.instance, ready] {
            if (daemons_[node]->alive && daemons_[node]->instance == instance) send_up(node, ready);
          });
          later(model_.step_ms * 1000, [this, node, rank, generation = daemon.recovery] { work(node, rank, generation); });
        }
      });
      break;
    case Down::kWaveBegin: {
      if (daemon.ranks.empty() || down.wave_begin().recovery() != daemon.recovery) break;
      const bool again = std::uniform_real_distribution<>(0, 1)(random_) < model_.again;
      after(some_time(), [this, node, wave = down.wave_begin().wave(), again] {
        Daemon& daemon = *daemons_[node];
        if (daemon.ranks.empty()) return;
        Up up;
        up.mutable_wave_done()->set_wave(wave);
        for (const auto& [rank, process] : daemon.ranks) {
          RankWave& result = *up.mutable_wave_done()->add_ranks();
          result.set_rank(rank);
          if (again || daemon.full || process.stuck) {
            result.set_error(process.stuck ? "a connection is broken" : again ? "within MPI_Init" : "no space left on the node");
            result.set_again(again || process.stuck);
            continue;
          }
          result.set_bytes(model_.image_bytes);
          result.set_checksum(wave * 1000 + rank + 1);
          StreamPosition& position = *result.add_streams();
          position.set_stream(1);
          position.set_offset(process.offset);
          daemon.images[{wave, rank}] = {process.progress_ms, false, false};
        }
        send_up(node, std::move(up));
      });
      break;
    }
    case Down::kWaveEnd:
      for (auto image = daemon.images.begin(); image != daemon.images.end();) {
        if (image->first.first == down.wave_end().wave() && !down.wave_end().commit() && !image->second.committed) {
          image = daemon.images.erase(image);
          continue;
        }
        if (image->first.first == down.wave_end().wave()) image->second.committed = true;
        ++image;
      }
      break;
    case Down::kStage:
      after(some_time() * 3, [this, node, stage = down.stage()] {
        Up up;
        up.mutable_staged()->set_wave(stage.wave());
        up.mutable_staged()->set_finished(true);
        for (Rank rank : stage.ranks()) {
          RankStaged& result = *up.mutable_staged()->add_ranks();
          result.set_rank(rank);
          const auto image = daemons_[node]->images.find({stage.wave(), rank});
          if (image == daemons_[node]->images.end() || image->second.damaged || shared_gone_)
            result.set_error(shared_gone_ ? "no such file or directory" : "the image is damaged");
          else
            staged_[image->first] = image->second;
        }
        send_up(node, std::move(up));
      });
      break;
    case Down::kPrune: {
      const std::set<WaveNumber> keep(down.prune().keep().begin(), down.prune().keep().end());
      std::erase_if(daemon.images, [&](const auto& image) { return image.second.committed && !keep.count(image.first.first); });
      break;
    }
    case Down::kRecover: {
      if (down.recover().recovery() <= daemon.recovery) break;
      daemon.recovery = down.recover().recovery();
      daemon.spawned.clear();
      daemon.ended.clear();
      const std::vector<Rank> here = ranks_here();
      const std::set<Rank> mine(here.begin(), here.end());
      std::erase_if(daemon.ranks, [&](const auto& one) { return mine.count(one.first) && message.restart.count(one.first); });
      for (auto& [rank, process] : daemon.ranks) process.running = false;
      const auto leaves = [mine](const auto& one) { return !mine.count(one.first); };
      if (std::none_of(daemon.ranks.begin(), daemon.ranks.end(), leaves))
        daemon.cleared = daemon.recovery;
      else
        after(some_time(), [this, node, leaves] {  // killing takes its time
          std::erase_if(daemons_[node]->ranks, leaves);
          daemons_[node]->cleared = daemons_[node]->recovery;
        });
      std::map<Rank, std::uint64_t> offsets;
      const WaveNumber wave = down.recover().wave();
      std::set<Rank> restart;
      for (Rank rank : here)
        if (message.restart.count(rank)) restart.insert(rank);
      after(some_time(), [this, node, here, restart, wave] {
        Daemon& daemon = *daemons_[node];
        Up up;
        up.mutable_restored()->set_recovery(daemon.recovery);
        for (Rank rank : here) {
          RankRestored& result = *up.mutable_restored()->add_ranks();
          result.set_rank(rank);
          result.mutable_address()->add_addresses("10.0.0.1:40000");
          const Image* image = nullptr;
          if (const auto found = daemon.images.find({wave, rank}); found != daemon.images.end() && !found->second.damaged)
            image = &found->second;
          if (const auto found = staged_.find({wave, rank});
              !image && restart.count(rank) && found != staged_.end() && !found->second.damaged && !shared_gone_)
            image = &found->second;
          const bool there = restart.count(rank) || daemon.ranks.count(rank);
          if (!image || !there) {
            result.set_error(image ? "the process is gone" : "the image is damaged");
            result.set_image_bad(!image);
            continue;
          }
          for (NodeIndex other = 0; restart.count(rank) && other < daemons_.size(); ++other) {
            const auto old = daemons_[other]->ranks.find(rank);
            if (other != node && old != daemons_[other]->ranks.end() && daemons_[other]->host && !old->second.stopped)
              violations_.push_back("rank " + std::to_string(rank) + " is started while its old process is there");
          }
          Process& process = daemon.ranks[rank];
          if (restart.count(rank)) process.incarnation = daemon.recovery;
          process.generation = daemon.recovery;
          process.running = process.stuck = false;
          process.progress_ms = image->progress_ms;
          process.offset = 0;
          for (std::uint64_t at = model_.step_ms; model_.output && at <= process.progress_ms; at += model_.step_ms)
            process.offset += line(rank, at).size();
          process.seen = process.offset;
        }
        send_up(node, std::move(up));
      });
      break;
    }
    case Down::kResume:
      if (down.resume().recovery() != daemon.recovery || daemon.ranks.empty()) break;
      after(some_time() / 4, [this, node] {
        Daemon& daemon = *daemons_[node];
        Up up;
        up.mutable_resumed()->set_recovery(daemon.recovery);
        for (auto& [rank, process] : daemon.ranks) {
          up.mutable_resumed()->add_ranks()->set_rank(rank);
          process.running = true;
          check(rank);
          later(model_.step_ms * 1000, [this, node, rank = rank, generation = daemon.recovery] { work(node, rank, generation); });
        }
        send_up(node, std::move(up));
      });
      break;
    case Down::kOutputSeen: {
      const auto found = daemon.ranks.find(down.output_seen().rank());
      if (found != daemon.ranks.end() && down.output_seen().stream() == 1)
        found->second.seen = std::max(found->second.seen, down.output_seen().offset());
      break;
    }
    case Down::kSignal: {
      std::vector<Rank> ranks;
      for (const auto& [rank, process] : daemon.ranks) ranks.push_back(rank);
      if (down.signal().signal() == SIGTERM || down.signal().signal() == SIGKILL)
        for (Rank rank : ranks) exit(node, rank, down.signal().signal());
      break;
    }
    case Down::kSpawnBegin: spawn_begin(node, down.spawn_begin()); break;
    case Down::kSpawnReply: spawn_replies_.push_back(down.spawn_reply()); break;
    case Down::kShutdown: {
      daemon.ranks.clear();
  daemon.spawned.clear();
      if (!down.shutdown().keep_images()) daemon.images.clear();
      const bool linked = daemon.linked;
      daemon.alive = false;
      later(model_.latency_us, [this, node, linked] {
        if (!crrun_alive_ || !linked) return;
        coordinator_->link_ended(node, true, "its daemon ended with exit code 0", now());
        apply();
      });
      break;
    }
    default: break;
  }
}

// ------------------------------------------------------------------------------------ spawned processes

void Cluster::spawn(Rank parent, std::uint32_t count, std::uint64_t lasting_ms) {
  Up up;
  up.mutable_spawn()->set_id(++questions_);
  up.mutable_spawn()->set_from(parent);
  up.mutable_spawn()->set_recovery(coordinator_->recovery());
  SpawnApp& app = *up.mutable_spawn()->add_apps();
  app.add_argv("child");
  app.add_argv(std::to_string(lasting_ms));
  app.set_processes(count);
  if (const auto node = where(parent)) send_up(*node, std::move(up));
}

std::map<Rank, NodeIndex> Cluster::spawned() const {
  std::map<Rank, NodeIndex> out;
  for (NodeIndex node = 0; node < daemons_.size(); ++node)
    if (daemons_[node]->host && daemons_[node]->alive)
      for (Rank number : daemons_[node]->spawned) out[number] = node;
  return out;
}

void Cluster::spawn_begin(NodeIndex node, const SpawnBegin& message) {
  Daemon& daemon = *daemons_[node];
  if (message.recovery() != daemon.recovery) return;
  Up known;
  known.mutable_spawn_known()->set_recovery(message.recovery());
  known.mutable_spawn_known()->set_index(message.index());
  send_up(node, std::move(known));
  for (int rank = 0; rank < message.node_of_rank_size(); ++rank) {
    if (message.node_of_rank(rank) != node) continue;
    const Rank number = message.first() + static_cast<Rank>(rank);
    daemon.spawned.insert(number);
    Up started;
    started.mutable_rank_started()->set_rank(number);
    started.mutable_rank_started()->set_recovery(daemon.recovery);
    send_up(node, std::move(started));
    later(std::stoull(message.apps(0).argv(1)) * 1000, [this, node, number] { spawned_exit(node, number, 0); });
  }
}

void Cluster::spawned_exit(NodeIndex node, Rank number, int status) {
  Daemon& daemon = *daemons_[node];
  if (!daemon.host || !daemon.alive || !daemon.spawned.erase(number)) return;
  for (std::uint32_t stream : {1u, 2u}) {
    Up up;
    up.mutable_output()->set_rank(number);
    up.mutable_output()->set_stream(stream);
    up.mutable_output()->set_end(true);
    up.mutable_output()->set_recovery(daemon.recovery);
    send_up(node, std::move(up));
  }
  Up up;
  up.mutable_rank_exited()->set_rank(number);
  up.mutable_rank_exited()->set_wait_status(status);
  up.mutable_rank_exited()->set_finalized(status == 0);
  up.mutable_rank_exited()->set_recovery(daemon.recovery);
  send_up(node, std::move(up));
}

// ------------------------------------------------------------------------------------- what goes wrong

void Cluster::kill_node(NodeIndex node) {
  Daemon& daemon = *daemons_[node];
  daemon.host = daemon.alive = false;
  daemon.ranks.clear();
  daemon.spawned.clear();
  // ssh gives up long after.
  later(15'000'000, [this, node, generation = coordinator_generation_] {
    if (!crrun_alive_ || generation != coordinator_generation_ || !daemons_[node]->linked || daemons_[node]->host) return;
    coordinator_->link_ended(node, false, "timed out", now());
    apply();
  });
}

void Cluster::boot_node(NodeIndex node) {
  daemons_[node]->host = true;
  daemons_[node]->alive = false;
}

void Cluster::kill_daemon(NodeIndex node) {
  Daemon& daemon = *daemons_[node];
  if (!daemon.alive) return;
  daemon.alive = false;
  daemon.ranks.clear();
  daemon.spawned.clear();
  later(model_.latency_us, [this, node, instance = daemon.instance] {
    if (!crrun_alive_) return;
    coordinator_->connection_closed(node, instance, now());
    apply();
    if (!daemons_[node]->linked) return;
    coordinator_->link_ended(node, false, "its connection ended", now());
    apply();
  });
}

void Cluster::kill_rank(Rank rank, int signal) {
  for (NodeIndex node = 0; node < daemons_.size(); ++node)
    if (daemons_[node]->host && daemons_[node]->alive) {
      if (daemons_[node]->spawned.count(rank)) return spawned_exit(node, rank, signal);
      if (daemons_[node]->ranks.count(rank)) return exit(node, rank, signal);
    }
}

void Cluster::abort(Rank rank, int status) {
  Up up;
  up.mutable_abort()->set_rank(rank);
  up.mutable_abort()->set_status(status);
  if (const auto node = where(rank)) send_up(*node, std::move(up));
}

void Cluster::break_link(Rank one, Rank other, int error) {
  for (NodeIndex node = 0; node < daemons_.size(); ++node) {
    Daemon& daemon = *daemons_[node];
    for (auto [rank, peer] : {std::pair{one, other}, std::pair{other, one}}) {
      const auto found = daemon.ranks.find(rank);
      if (!daemon.host || !daemon.alive || found == daemon.ranks.end() || !found->second.running) continue;
      found->second.stuck |= error == ENODATA;
      Up up;
      LinkLost& lost = *up.mutable_link_lost();
      lost.set_rank(rank);
      lost.set_peer(peer);
      lost.set_error(error);
      lost.set_why("cut");
      lost.set_recovery(found->second.generation);
      send_up(node, std::move(up));
    }
  }
}

void Cluster::cut(NodeIndex node, bool off) {
  daemons_[node]->cut = off;
  if (!off && daemons_[node]->host && daemons_[node]->alive) hello(node);
}

void Cluster::damage(WaveNumber wave, Rank rank, bool local, bool staged) {
  for (auto& daemon : daemons_)
    if (auto found = daemon->images.find({wave, rank}); local && found != daemon->images.end()) found->second.damaged = true;
  if (auto found = staged_.find({wave, rank}); staged && found != staged_.end()) found->second.damaged = true;
}

void Cluster::local_full(NodeIndex node, bool full) { daemons_[node]->full = full; }

void Cluster::break_crrun() {
  crrun_alive_ = false;
  ++coordinator_generation_;
  for (auto& daemon : daemons_) daemon->linked = false;
  later(1'000'000, [this] {
    begin(Coordinator::Begin::attach, saved_);
    for (NodeIndex node = 0; node < daemons_.size(); ++node)
      if (daemons_[node]->host && daemons_[node]->alive && !daemons_[node]->cut)
        later(100'000 + some_time(), [this, node] {
          if (!daemons_[node]->host || !daemons_[node]->alive) return;
          hello(node);
          say_again(node);
        });
  });
}

void Cluster::restart_with(std::vector<NodeIndex> dead) {
  for (NodeIndex node = 0; node < daemons_.size(); ++node) {
    daemons_[node]->host = std::find(dead.begin(), dead.end(), node) == dead.end();
    daemons_[node]->alive = false;
    daemons_[node]->ranks.clear();
    daemons_[node]->spawned.clear();
    daemons_[node]->ended.clear();
    daemons_[node]->images.clear();
  }
  begin(Coordinator::Begin::restart, saved_);
}

// --------------------------------------------------------------------------------------- what was seen

void Cluster::check(Rank rank) {
  int count = 0;
  for (const auto& daemon : daemons_)
    if (const auto found = daemon->ranks.find(rank); found != daemon->ranks.end() && daemon->may(found->second)) ++count;
  if (count > 1)
    violations_.push_back("rank " + std::to_string(rank) + " runs " + std::to_string(count) + " times at " +
                          std::to_string(now_ms()) + " ms");
}

std::optional<NodeIndex> Cluster::where(Rank rank) const {
  std::optional<NodeIndex> out;
  for (NodeIndex node = 0; node < daemons_.size(); ++node) {
    const auto found = daemons_[node]->ranks.find(rank);
    if (found == daemons_[node]->ranks.end() || !daemons_[node]->may(found->second)) continue;
    if (out) return std::nullopt;
    out = node;
  }
  return out;
}

std::string Cluster::expected_output(Rank rank) const {
  std::string out;
  for (std::uint64_t at = model_.step_ms; model_.output && at <= model_.work_ms; at += model_.step_ms)
    out += line(rank, at);
  return out;
}

std::string Cluster::line(Rank rank, std::uint64_t progress_ms) const {
  const std::string text = std::to_string(rank) + " at " + std::to_string(progress_ms);
  return text + std::string(model_.line_bytes > text.size() ? model_.line_bytes - text.size() : 0, ' ') + "\n";
}

std::size_t Cluster::count(const std::string& event) const {
  const auto found = counts_.find(event);
  return found == counts_.end() ? 0 : found->second;
}

bool Cluster::said(const std::string& part) const {
  return std::any_of(said_.begin(), said_.end(), [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

}  // namespace reprise::job::sim
