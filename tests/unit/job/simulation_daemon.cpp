// SPDX-License-Identifier: GPL-2.0-only
// The daemons and relays in the simulation.
#include <algorithm>
#include <csignal>

#include "simulation_parts.h"

namespace reprise::job::sim {

namespace {
// Values of the size that they have in reality.
std::string address_of(Rank rank) {
  const auto byte = [rank](int shift) { return std::to_string(rank >> shift & 255); };
  return "10." + byte(16) + "." + byte(8) + "." + byte(0) + ":41234";
}
std::int32_t pid_of(Rank rank) { return static_cast<std::int32_t>(100'000 + rank); }
std::uint64_t unix_ns(std::uint64_t us) { return 1'000'000'000ull + us * 1000; }
std::uint64_t checksum_of(WaveNumber wave, Rank rank) { return (wave * 1'000'003ull + rank + 1) * 0x9e3779b97f4a7c15; }
}  // namespace

void Cluster::pass_down(NodeIndex node, const DownPtr& message) {
  Daemon& daemon = *daemons_[node];
  if (!daemon.host || !daemon.alive || daemon.cut) return;
  if (daemon.relay)
    for (NodeIndex child : daemon.relay->down(message->down)) {
      DownPtr part = message;
      if (message->down.has_heartbeat()) {
        auto answer = std::make_shared<Parsed>();
        answer->down = daemon.relay->answer_for(child, message->down);
        answer->bytes = answer->down.ByteSizeLong();
        part = std::move(answer);
      }
      transmit(static_cast<int>(node), static_cast<int>(child), part->bytes, part->down.has_heartbeat(),
               [this, child, part] { pass_down(child, part); });
    }
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
  for (Up& one : out) forward(node, std::move(one));
  tick_relay(node);
}

/** To the daemon above, or to crrun. */
void Cluster::forward(NodeIndex node, Up up) {
  const std::size_t bytes = up.ByteSizeLong();
  const bool heartbeat = up.has_heartbeat();
  if (const auto parent = tree_ ? tree_->parent(node) : std::nullopt)
    transmit(static_cast<int>(node), static_cast<int>(*parent), bytes, heartbeat,
             [this, parent = *parent, up = std::move(up)] { pass_up(parent, up); });
  else
    transmit(static_cast<int>(node), -1, bytes, heartbeat,
             [this, node, instance = daemons_[node]->instance, up = std::move(up)] { arrived(node, instance, up); });
}

/** Children::tick(). It does nothing while nothing waits. */
void Cluster::tick_relay(NodeIndex node) {
  Daemon& daemon = *daemons_[node];
  if (!daemon.relay || daemon.relay_ticks || (!daemon.relay->joining() && !daemon.relay->beats_since())) return;
  daemon.relay_ticks = true;
  later(50'000, [this, node, instance = daemon.instance] {
    Daemon& daemon = *daemons_[node];
    if (daemon.instance != instance) return;
    daemon.relay_ticks = false;
    if (!daemon.host || !daemon.alive || daemon.cut || code_ >= 0) return;
    for (Up& late : daemon.relay->tick(now_ms())) forward(node, std::move(late));
    const auto since = daemon.relay->beats_since();
    if (since && now_ms() >= *since + model_.settings.spec.heartbeat_ms() / 8) beat_now(node);
    tick_relay(node);
  });
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
    daemon.copies.clear();
    daemon.alive = true;
    daemon.recovery = daemon.cleared = 0;
    daemon.instance = "i" + std::to_string(++instances_);
    daemon.relay_ticks = false;
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
  hello.mutable_parts()->set_packages(1);
  hello.mutable_parts()->set_numas(1);
  hello.mutable_parts()->set_cores(model_.slots);
  hello.mutable_parts()->set_hwthreads(model_.slots);
  for (const auto& [rank, process] : daemon.ranks) {
    RankState& state = *hello.add_ranks();
    state.set_rank(rank);
    state.set_incarnation(process.incarnation);
    state.set_ready(true);
  }
  for (const auto& [number, child] : daemon.spawned) {
    RankState& state = *hello.add_ranks();
    state.set_rank(number);
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
    stored.set_checksum(checksum_of(key.first, key.second));
    stored.set_committed(image.committed);
  }
  send_up(node, std::move(up));
}

void Cluster::heartbeat(NodeIndex node, const std::string& instance) {
  Daemon& daemon = *daemons_[node];
  if (!daemon.host || !daemon.alive || daemon.instance != instance || code_ >= 0) return;
  beat_now(node);
  later(model_.settings.spec.heartbeat_ms() * 1000, [this, node, instance] { heartbeat(node, instance); });
}

void Cluster::beat_now(NodeIndex node) {
  Up up;
  up.mutable_heartbeat()->set_unix_ns(now_us_);
  if (model_.settings.spec.look_ms()) stand(node, *up.mutable_heartbeat()->mutable_standing());
  send_up(node, std::move(up));
}

/** crd's Progress, which looks all the time. */
void Cluster::stand(NodeIndex node, Standing& out) const {
  const Daemon& daemon = *daemons_[node];
  std::uint64_t last = 0;
  bool runs = true;
  for (const auto& [rank, process] : daemon.ranks) {
    last = std::max(last, process.progressed_us);
    runs &= daemon.may(process);
  }
  out.set_ranks(static_cast<std::uint32_t>(daemon.ranks.size()));
  out.set_idle_ms(runs ? (now_us_ - last) / 1000 : 0);
  if (daemon.ranks.empty() || !runs) return;
  out.set_stood_ms(out.idle_ms());
  out.set_waiting(out.ranks());
  for (const auto& [rank, process] : daemon.ranks) out.add_first_waiting(rank);
}

void Cluster::watch_lease(NodeIndex node, const std::string& instance) {
  if (!model_.leases || large()) return;
  Daemon& daemon = *daemons_[node];
  if (!daemon.host || !daemon.alive || daemon.instance != instance || code_ >= 0) return;
  // crrun's death is seen as such: its host refuses connections. Then the ranks run on.
  if (now_us_ > daemon.lease_us && (crrun_alive_ || daemon.cut))
    for (auto& [rank, process] : daemon.ranks) process.stopped = true;
  later(20'000, [this, node, instance] { watch_lease(node, instance); });
}

void Cluster::ask_for_pin(NodeIndex node, Rank rank, bool release) {
  Up up;
  PinWave& request = *up.mutable_pin_wave();
  request.set_rank(rank);
  request.set_release(release);
  request.set_or_none(pin_or_none_);
  request.set_recovery(daemons_[node]->recovery);
  send_up(node, std::move(up));
}

/** @return it asks for the wave that all want, and has not got it */
bool Cluster::waits_for_pin(NodeIndex node, Rank rank) {
  Process& process = daemons_[node]->ranks.at(rank);
  if (release_at_ms_ && process.progress_ms == release_at_ms_) ask_for_pin(node, rank, process.released = true);
  if (!pin_at_ms_ || process.progress_ms != pin_at_ms_ || process.pinned) return false;
  ask_for_pin(node, rank, false);
  return true;
}

/** The ranks of the node are told. @param wave 0: there is none */
void Cluster::pinned(NodeIndex node, WaveNumber wave) {
  for (auto& [rank, process] : daemons_[node]->ranks) {
    if (process.progress_ms == pin_at_ms_) process.pinned = true;
    const auto image = daemons_[node]->images.find({wave, rank});
    if (image != daemons_[node]->images.end() && image->second.progress_ms != pin_at_ms_)
      violations_.push_back("rank " + std::to_string(rank) + " was not waiting when wave " + std::to_string(wave) + " was pinned");
  }
}

void Cluster::work(NodeIndex node, Rank rank, RecoveryNumber generation) {
  Daemon& daemon = *daemons_[node];
  const auto found = daemon.ranks.find(rank);
  if (!daemon.host || !daemon.alive || found == daemon.ranks.end() || found->second.generation != generation) return;
  Process& process = found->second;
  if (!process.running) return;
  const bool full = model_.window && process.offset >= process.seen + model_.window;
  const bool hangs = hangs_ && process.progress_ms >= hang_at_ms_;
  if (!process.stopped && !process.stuck && !full && !hangs && !waits_for_pin(node, rank)) {
    process.progress_ms += model_.step_ms;
    process.progressed_us = now_us_;
    if (model_.output) {
      const std::string line = this->line(rank, process.progress_ms);
      Up up;
      Output& output = *up.mutable_output();
      output.set_rank(rank);
      output.set_stream(1);
      output.set_offset(process.offset);
      output.set_data(line);
      output.set_recovery(process.said_in);
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
      output.set_recovery(process.said_in);
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
    output.set_recovery(daemon.ended[rank].first.said_in);
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
        daemon.parity.clear();
        daemon.copies.clear();
        hello(node);
      } else {
        if (!large()) welcomed_[node] = down.welcome().job();
        daemon.lease_us = now_us_ + model_.settings.spec.lost_after_ms() * 1000;
        for (auto& [rank, process] : daemon.ranks) {
          process.stopped = false;
          check(rank);
          if (process.released) ask_for_pin(node, rank, true);
        }
        introduce_copies(node);
        if (down.welcome().job().redundancy().kind()) serve(node);
      }
      break;
    case Down::kHeartbeat:
      for (const RelayedBeat& one : down.heartbeat().below())
        if (one.node() == node) daemon.lease_us = std::max(daemon.lease_us, one.unix_ns() + one.lease_ms() * 1000);
      if (!tree_ || !tree_->parent(node))
        daemon.lease_us = std::max(daemon.lease_us, down.heartbeat().unix_ns() + down.heartbeat().lease_ms() * 1000);
      if (model_.leases && now_us_ <= daemon.lease_us)
        for (auto& [rank, process] : daemon.ranks) process.stopped = false, check(rank);
      break;
    case Down::kLaunch:
      daemon.ranks.clear();
      daemon.copies.clear();
      daemon.spawned.clear();
      daemon.recovery = daemon.cleared = down.launch().recovery();
      after(some_time(), [this, node, ranks = ranks_here()] {
        Daemon& daemon = *daemons_[node];
        for (Rank rank : ranks) {
          daemon.ranks[rank] = {.generation = daemon.recovery, .said_in = daemon.recovery, .incarnation = daemon.recovery, .running = true};
          daemon.ranks[rank].progressed_us = now_us_;
          check(rank);
          Up started, ready;
          started.mutable_rank_started()->set_rank(rank);
          started.mutable_rank_started()->set_pid(pid_of(rank));
          started.mutable_rank_started()->set_recovery(daemon.recovery);
          send_up(node, std::move(started));
          ready.mutable_rank_ready()->mutable_address()->set_rank(rank);
          ready.mutable_rank_ready()->mutable_address()->add_addresses(address_of(rank));
          ready.mutable_rank_ready()->set_recovery(daemon.recovery);
          later(rank + 1 == model_.ranks ? model_.init_ms * 1000 : 0, [this, node, instance = daemon.instance, ready] {
            if (daemons_[node]->alive && daemons_[node]->instance == instance) send_up(node, ready);
          });
          if (model_.work_ms)
            later(model_.step_ms * 1000, [this, node, rank, generation = daemon.recovery] { work(node, rank, generation); });
        }
      });
      break;
    case Down::kWaveBegin: {
      if ((daemon.ranks.empty() && daemon.spawned.empty()) || down.wave_begin().recovery() != daemon.recovery) break;
      const bool again = std::uniform_real_distribution<>(0, 1)(random_) < model_.again;
      const std::uint64_t us = image_time(daemon.ranks.size(), model_.costs.local_disk);
      after(us, [this, node, wave = down.wave_begin().wave(), again, begun = now_us_] {
        Daemon& daemon = *daemons_[node];
        if (daemon.ranks.empty() && daemon.spawned.empty()) return;
        Up up;
        up.mutable_wave_done()->set_wave(wave);
        std::map<Rank, Process> all = daemon.ranks;
        for (const auto& [number, child] : daemon.spawned) all[number];
        for (const auto& [rank, process] : all) {
          RankWave& result = *up.mutable_wave_done()->add_ranks();
          result.set_rank(rank);
          if (again || daemon.full || process.stuck) {
            result.set_error(process.stuck ? "a connection is broken" : again ? "within MPI_Init" : "no space left on the node");
            result.set_again(again || process.stuck);
            continue;
          }
          // In reality all differ, and so none of them is left out in the state.
          result.set_inherited_bytes(model_.image_bytes / 2);
          result.set_bytes(model_.image_bytes + (model_.costs.measure ? rank % 1000 * 4096 : 0));
          result.set_checksum(checksum_of(wave, rank));
          for (std::uint32_t stream : {0u, 1u, 2u}) {
            StreamPosition& position = *result.add_streams();
            position.set_stream(stream);
            position.set_offset(stream == 1 ? process.offset : 0);
          }
          result.set_begin_unix_ns(unix_ns(begun));
          result.set_end_unix_ns(unix_ns(now_us_));
          result.set_quiesce_ns(1'000'000);
          result.set_frozen_ns(2'000'000);
          result.set_write_ns((now_us_ - begun) * 1000);
          daemon.images[{wave, rank}] = {process.progress_ms, false, false};
        }
        send_up(node, std::move(up));
      });
      break;
    }
    case Down::kWaveEnd:
      if (down.wave_end().pinned() || down.wave_end().none()) pinned(node, down.wave_end().wave());
      if (down.wave_end().none()) return;
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
      if (model_.costs.node_to_shared > 0) {
        stage(node, down.stage());
        break;
      }
      after(some_time() * 3, [this, node, stage = down.stage()] {
        Up up;
        up.mutable_staged()->set_wave(stage.wave());
        up.mutable_staged()->set_finished(true);
        for (Rank rank : stage.ranks()) *up.mutable_staged()->add_ranks() = stage_image(node, stage.wave(), rank);
        send_up(node, std::move(up));
      });
      break;
    case Down::kProtect:
      after(some_time() * 2, [this, node, order = down.protect()] { protect(node, order); });
      break;
    case Down::kKeepCopy:
      after(some_time(), [this, node, order = down.keep_copy()] { keep_copy(node, order); });
      break;
    case Down::kKeptCopied:
      if (copies_asked_[down.kept_copied().copy().rank()] == down.kept_copied().copy().version())
        copies_asked_.erase(down.kept_copied().copy().rank());
      kept_answers_.push_back(down.kept_copied());
      break;
    case Down::kPrune: {
      const std::set<WaveNumber> keep(down.prune().keep().begin(), down.prune().keep().end());
      std::erase_if(daemon.images, [&](const auto& image) { return image.second.committed && !keep.count(image.first.first); });
      std::erase_if(daemon.parity, [&](const auto& one) { return !keep.count(one.first); });
      std::erase_if(daemon.copies, [&](const auto& one) { return !keep.empty() && one.second.wave() < *keep.begin(); });
      break;
    }
    case Down::kRecover: {
      if (down.recover().recovery() <= daemon.recovery) break;
      std::vector<Rank> here = ranks_here();
      const auto first_spawned = std::lower_bound(here.begin(), here.end(), model_.ranks);
      daemon.recovery = down.recover().recovery();
      daemon.stays = down.recover().stay() && first_spawned != here.begin();
      const std::set<Rank> children = spawned_roll_back(node, down.recover());
      if (daemon.stays) {
        stay(node, down.recover(), {here.begin(), first_spawned});
        here.erase(here.begin(), first_spawned);
        if (here.empty()) break;
      } else {
        daemon.ended.clear();
      }
      const std::set<Rank> mine(here.begin(), here.end());
      std::erase_if(daemon.ranks, [&](const auto& one) { return mine.count(one.first) && message.restart.count(one.first); });
      for (auto& [rank, process] : daemon.ranks) process.running = daemon.stays && process.running;
      const auto leaves = [mine, stays = daemon.stays](const auto& one) { return !stays && !mine.count(one.first); };
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
      // What the ranks that stay read from the local disk, and what the others read from shared storage, goes on side by side.
      const Costs& costs = model_.costs;
      const std::uint64_t us = costs.local_disk > 0 ? std::max(image_time(here.size() - restart.size(), costs.local_disk),
                                                               image_time(restart.size(), costs.node_to_shared))
                                                    : some_time();
      after(us, [this, node, here, restart, wave, children, fetches = down.recover().fetch(), kept = down.recover().kept(), begun = now_us_] {
        Daemon& daemon = *daemons_[node];
        for (const KeepCopy& order : kept) keep_copy(node, order);
        const std::set<Rank> unfetched = fetch(node, wave, fetches);
        Up up;
        up.mutable_restored()->set_recovery(daemon.recovery);
        for (Rank rank : here) {
          RankRestored& result = *up.mutable_restored()->add_ranks();
          result.set_rank(rank);
          result.mutable_address()->add_addresses(address_of(rank));
          result.set_pid(pid_of(rank));
          result.set_begin_unix_ns(unix_ns(begun));
          result.set_end_unix_ns(unix_ns(now_us_));
          result.set_frozen_ns((now_us_ - begun) * 1000);
          result.set_pages(model_.image_bytes / 4096);
          result.set_pages_restored(model_.image_bytes / 8192);
          const Image* image = nullptr;
          if (const auto found = daemon.images.find({wave, rank}); found != daemon.images.end() && !found->second.damaged)
            image = &found->second;
          if (const auto found = staged_.find({wave, rank});
              !image && restart.count(rank) && found != staged_.end() && !found->second.damaged && !shared_gone_)
            image = &found->second;
          if (unfetched.count(rank)) {
            result.set_error("no node hands its image out");
            continue;
          }
          const bool there = restart.count(rank) || daemon.ranks.count(rank) || children.count(rank);
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
          if (rank >= model_.ranks) {
            result.set_restarted(restart.count(rank));
            continue;
          }
          Process& process = daemon.ranks[rank];
          if (restart.count(rank)) process.incarnation = daemon.recovery;
          result.set_restarted(restart.count(rank));
          process.generation = process.said_in = daemon.recovery;
          process.running = process.stuck = process.pinned = process.released = false;
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
      if (down.resume().recovery() != daemon.recovery || (daemon.ranks.empty() && daemon.spawned.empty())) break;
      after(some_time() / 4, [this, node, wave = down.resume().pinned()] {
        Daemon& daemon = *daemons_[node];
        if (wave) pinned(node, wave);
        Up up;
        up.mutable_resumed()->set_recovery(daemon.recovery);
        for (const auto& [number, child] : daemon.spawned) {
          up.mutable_resumed()->add_ranks()->set_rank(number);
          spawned_run(node, number);
        }
        if (daemon.stays) {
          if (up.resumed().ranks_size()) send_up(node, std::move(up));
          return stayed(node);
        }
        for (auto& [rank, process] : daemon.ranks) {
          RankResumed& result = *up.mutable_resumed()->add_ranks();
          result.set_rank(rank);
          result.set_kept(model_.costs.links);
          result.set_begin_unix_ns(unix_ns(now_us_));
          result.set_end_unix_ns(unix_ns(now_us_));
          process.running = true;
          process.progressed_us = now_us_;
          check(rank);
          if (model_.work_ms)
            later(model_.step_ms * 1000,
                  [this, node, rank = rank, generation = daemon.recovery] { work(node, rank, generation); });
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
      const auto& to = down.signal().ranks();
      for (const auto& [rank, process] : daemon.ranks)
        if (to.empty() || std::find(to.begin(), to.end(), rank) != to.end()) ranks.push_back(rank);
      if (down.signal().signal() == SIGTERM || down.signal().signal() == SIGKILL)
        for (Rank rank : ranks) exit(node, rank, down.signal().signal());
      break;
    }
    case Down::kSpawnBegin: spawn_begin(node, down.spawn_begin()); break;
    case Down::kFailed:
      for (const Rank failed : down.failed().ranks()) {
        failed_.insert(failed);
        for (auto& [rank, process] : daemon.ranks)
          if (process.stuck_with.erase(failed)) process.stuck = !process.stuck_with.empty();
      }
      break;
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

// ----------------------------------------------------------------------------------------------- staging

/** Copy one image to shared storage. @return the report of it */
RankStaged Cluster::stage_image(NodeIndex node, WaveNumber wave, Rank rank) {
  RankStaged out;
  out.set_rank(rank);
  const auto image = daemons_[node]->images.find({wave, rank});
  if (image == daemons_[node]->images.end() || image->second.damaged || shared_gone_) {
    out.set_error(shared_gone_ ? "no such file or directory" : "the image is damaged");
    return out;
  }
  staged_[image->first] = image->second;
  out.set_bytes(model_.image_bytes);
  out.set_kept_bytes(model_.image_bytes / 4);
  return out;
}

/** One image after the other, with a report after each and after 256 MB, like crd's Staging. */
void Cluster::stage(NodeIndex node, const Stage& message) {
  auto so_far = std::make_shared<Staged>();
  so_far->set_wave(message.wave());
  so_far->set_total_bytes(static_cast<std::uint64_t>(message.ranks_size()) * model_.image_bytes);
  stage_next(node, std::move(so_far), {message.ranks().rbegin(), message.ranks().rend()});
}

void Cluster::stage_next(NodeIndex node, std::shared_ptr<Staged> so_far, std::vector<Rank> ranks) {
  constexpr std::uint64_t kTellEvery = 256 << 20;
  // The rate changes only from image to image. An image is read once, and its checksum computed on the way.
  const Costs& costs = model_.costs;
  double rate = costs.node_to_shared;
  ++staging_;
  if (costs.shared > 0) rate = std::min(rate, costs.shared / static_cast<double>(staging_));
  if (costs.local_disk > 0) rate = std::min(rate, costs.local_disk);
  const Daemon& daemon = *daemons_[node];
  later(image_time(1, rate), [this, node, so_far, ranks, begun = now_us_, instance = daemon.instance,
                              recovery = daemon.recovery]() mutable {
    --staging_;
    const Daemon& daemon = *daemons_[node];
    if (!daemon.host || !daemon.alive || daemon.instance != instance || daemon.recovery != recovery) return;
    const auto tell = [&](const Staged& what) {
      Up up;
      *up.mutable_staged() = what;
      send_up(node, std::move(up));
    };
    const std::uint64_t before = so_far->done_bytes();
    so_far->set_done_bytes(before + model_.image_bytes);
    for (std::uint64_t at = before / kTellEvery + 1; at * kTellEvery <= so_far->done_bytes(); ++at) tell(*so_far);
    Staged one = *so_far;
    RankStaged& report = *one.add_ranks() = stage_image(node, so_far->wave(), ranks.back());
    report.set_begin_unix_ns(unix_ns(begun));
    report.set_end_unix_ns(unix_ns(now_us_));
    ranks.pop_back();
    one.set_finished(ranks.empty());
    tell(one);
    if (!ranks.empty()) stage_next(node, std::move(so_far), std::move(ranks));
  });
}

}  // namespace reprise::job::sim
