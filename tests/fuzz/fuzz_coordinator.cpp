// SPDX-License-Identifier: GPL-2.0-only
// The coordinator with daemons that send any message at any time. It must not crash or flood them, must send only to
// existing nodes and keep its tables consistent. It must be possible to save, reload and end it at any time.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "crrun/coordinator/coordinator.h"
#include "job_script.pb.h"
#include "proto_mutator.h"

using namespace reprise;
using namespace reprise::job;

REPRISE_FUZZ_MESSAGE(reprise::fuzz::CoordinatorRun)

namespace {

[[noreturn]] void broken(const char* what) {
  std::fprintf(stderr, "the coordinator is broken: %s\n", what);
  std::abort();
}
void need(bool good, const char* what) {
  if (!good) broken(what);
}

constexpr std::size_t kMostSteps = 200;
constexpr std::size_t kMostEffects = 20'000;      // limit per input
constexpr std::size_t kMostBytes = 16 << 20;      // limit per message down

/** Daemons that follow the protocol; also carries out effects as crrun does. */
class Job {
 public:
  explicit Job(const fuzz::CoordinatorRun& run) {
    settings_.spec.set_id("cr-fuzz");
    settings_.spec.set_ranks(1 + run.ranks() % 8);
    settings_.spec.set_local_directory("/var/tmp/reprise");
    settings_.spec.set_heartbeat_ms(500);
    if (run.shared()) settings_.spec.set_shared_directory("/shared");
    settings_.spec.set_stdin_target(run.stdin_target() == "all" || run.stdin_target() == "none" ? run.stdin_target() : "0");
    const std::uint32_t all = 1 + run.nodes() % 4 + run.spares() % 3;
    for (std::uint32_t i = 0; i < all; ++i) {
      Node node;
      node.set_index(i);
      node.set_host("node" + std::to_string(i));
      node.set_slots(1 + run.slots() % 8);
      node.set_spare(i > run.nodes() % 4);
      settings_.nodes.push_back(node);
    }
    settings_.job_directory = "/shared/cr-fuzz";
    settings_.wave_interval_ms = 2000;
    settings_.hang_after_ms = 5000;
    settings_.hang_recover = true;
    settings_.spec.set_look_ms(1000);
    settings_.recover_timeout_ms = settings_.wave_timeout_ms = 20'000;
    settings_.oversubscribe = run.oversubscribe();
    settings_.require_checkpoints = run.require_checkpoints();
    std::optional<State> state;
    auto begin = static_cast<Coordinator::Begin>(run.begin() % 3);
    if (begin != Coordinator::Begin::launch) {
      try {
        state = state_from_json(nlohmann::json::parse(run.state()), settings_.spec.ranks());
      } catch (const nlohmann::json::exception&) {
      } catch (const std::runtime_error&) {
      }
      if (!state) begin = Coordinator::Begin::launch;
    }
    coordinator_.emplace(settings_, [] { return std::string(32, 'n'); }, begin, std::move(state));
    instances_.assign(all, "instance");
    coordinator_->start(now());
    settle();
  }

  void step(const fuzz::CoordinatorStep& step) {
    const auto node = [&](std::uint32_t any) { return static_cast<NodeIndex>(any % instances_.size()); };
    now_ms_ += 1;
    switch (step.what_case()) {
      case fuzz::CoordinatorStep::kUp: {
        Up up = step.up();
        if (!step.raw()) fit(up);
        coordinator_->message(up, now());
        break;
      }
      case fuzz::CoordinatorStep::kObey: obey(step.obey()); break;
      case fuzz::CoordinatorStep::kTickMs: tick(step.tick_ms() % 100'000); break;
      case fuzz::CoordinatorStep::kLinkEnded:
        coordinator_->link_ended(step.link_ended().node() % (instances_.size() + 1), step.link_ended().certain(), "it ended", now());
        break;
      case fuzz::CoordinatorStep::kConnectionClosed:
        coordinator_->connection_closed(node(step.connection_closed()), instances_[node(step.connection_closed())], now());
        break;
      case fuzz::CoordinatorStep::kSignal: coordinator_->signal(step.signal(), now()); break;
      case fuzz::CoordinatorStep::kInput: coordinator_->input(step.input()); break;
      case fuzz::CoordinatorStep::kInputEnd: coordinator_->input_end(); break;
      case fuzz::CoordinatorStep::kCheckpoint: coordinator_->request_checkpoint(++requests_, now()); break;
      case fuzz::CoordinatorStep::kDrain:
        coordinator_->request_drain(++requests_, "node" + std::to_string(step.drain() % (instances_.size() + 1)), now());
        break;
      case fuzz::CoordinatorStep::kEnd: coordinator_->request_end(++requests_, now()); break;
      default: break;
    }
    settle();
  }

  /** Wherever the job is, the user can end it. */
  void finish() {
    for (int i = 0; i < 3; ++i) {
      coordinator_->signal(2, now());
      settle();
    }
    for (int i = 0; i < 60 && coordinator_->phase() != Coordinator::Phase::finished; ++i) tick(1000), settle();
    need(coordinator_->phase() == Coordinator::Phase::finished, "it cannot be ended");
    need(finished_ == 1, "it has not said once that it has finished");
  }

 private:
  Now now() const { return {now_ms_, 1'000'000'000ull + now_ms_ * 1'000'000}; }
  void tick(std::uint64_t ms) {
    now_ms_ += ms;
    coordinator_->tick(now());
  }

  /** Adjust @p up so that it comes from a daemon that counts, and belongs to the current recovery. */
  void fit(Up& up) const {
    up.set_from(static_cast<NodeIndex>(up.from() % instances_.size()));
    if (up.instance().empty() || !up.has_hello()) up.set_instance(instances_[up.from()]);
    const RecoveryNumber recovery = coordinator_->recovery();
    up.set_recovery(recovery);
    switch (up.what_case()) {
      case Up::kRankStarted: up.mutable_rank_started()->set_recovery(recovery); break;
      case Up::kRankReady: up.mutable_rank_ready()->set_recovery(recovery); break;
      case Up::kRankExited: up.mutable_rank_exited()->set_recovery(recovery); break;
      case Up::kRestored: up.mutable_restored()->set_recovery(recovery); break;
      case Up::kResumed: up.mutable_resumed()->set_recovery(recovery); break;
      case Up::kOutput: up.mutable_output()->set_recovery(recovery); break;
      case Up::kFence: up.mutable_fence()->set_recovery(recovery); break;
      case Up::kSpawn: up.mutable_spawn()->set_recovery(recovery); break;
      case Up::kSpawnKnown: up.mutable_spawn_known()->set_recovery(recovery); break;
      case Up::kWaveDone:
        if (wave_ && up.wave_done().wave() < 2) up.mutable_wave_done()->set_wave(wave_);
        break;
      default: break;
    }
  }

  /** Let the daemons answer what they have been sent since. */
  void obey(const fuzz::Obey& how) {
    const std::vector<Down> told = std::exchange(told_, {});
    const auto say = [&](NodeIndex node, Up up) {
      if (how.not_by() == node + 1) return;
      up.set_from(node);
      up.set_instance(instances_[node]);
      up.set_recovery(coordinator_->recovery());
      coordinator_->message(up, now());
    };
    for (NodeIndex node = 0; node < instances_.size(); ++node) {
      Up hello;
      hello.mutable_hello()->set_module_loaded(true);
      if (std::exchange(starting_[node], false)) say(node, hello);
    }
    for (const Down& down : told) {
      if (down.has_welcome() && down.welcome().stale()) {
        for (NodeIndex node : down.to()) {
          if (node >= instances_.size()) continue;
          instances_[node] += "'";
          starting_[node] = true;
        }
        continue;
      }
      const auto where = [&](Rank rank) {
        const PlacementTable& table = coordinator_->placement();
        return rank < table.size() ? table[rank] : 0;
      };
      const Rank ranks = settings_.spec.ranks();
      for (Rank rank = 0; rank < ranks; ++rank) {
        Up up;
        switch (down.what_case()) {
          case Down::kLaunch: {
            up.mutable_rank_started()->set_rank(rank);
            up.mutable_rank_started()->set_recovery(down.launch().recovery());
            say(where(rank), up);
            up.mutable_rank_ready()->mutable_address()->set_rank(rank);
            up.mutable_rank_ready()->set_recovery(down.launch().recovery());
            say(where(rank), up);
            break;
          }
          case Down::kWaveBegin: {
            up.mutable_wave_done()->set_wave(down.wave_begin().wave());
            RankWave& one = *up.mutable_wave_done()->add_ranks();
            one.set_rank(rank);
            if (rank == 0) one.set_error(how.error());
            say(where(rank), up);
            break;
          }
          case Down::kRecover: {
            up.mutable_restored()->set_recovery(down.recover().recovery());
            RankRestored& one = *up.mutable_restored()->add_ranks();
            one.set_rank(rank);
            if (rank == 0) one.set_error(how.error()), one.set_image_bad(how.image_bad());
            say(where(rank), up);
            break;
          }
          case Down::kResume: {
            up.mutable_resumed()->set_recovery(down.resume().recovery());
            up.mutable_resumed()->add_ranks()->set_rank(rank);
            say(where(rank), up);
            break;
          }
          case Down::kStage: {
            if (std::find(down.stage().ranks().begin(), down.stage().ranks().end(), rank) == down.stage().ranks().end()) break;
            up.mutable_staged()->set_wave(down.stage().wave());
            up.mutable_staged()->add_ranks()->set_rank(rank);
            up.mutable_staged()->set_finished(true);
            say(where(rank), up);
            break;
          }
          default: break;
        }
      }
      if (down.has_spawn_begin())
        for (NodeIndex node = 0; node < instances_.size(); ++node) {
          Up up;
          up.mutable_spawn_known()->set_recovery(down.spawn_begin().recovery());
          up.mutable_spawn_known()->set_index(down.spawn_begin().index());
          say(node, up);
          for (int i = 0; i < down.spawn_begin().node_of_rank_size(); ++i) {
            if (down.spawn_begin().node_of_rank(i) != node) continue;
            up.mutable_rank_started()->set_rank(down.spawn_begin().first() + static_cast<Rank>(i));
            up.mutable_rank_started()->set_recovery(down.spawn_begin().recovery());
            say(node, up);
          }
        }
      if (down.has_shutdown())
        for (NodeIndex node = 0; node < instances_.size(); ++node) coordinator_->link_ended(node, true, "it was told to", now());
    }
    for (NodeIndex node = 0; node < instances_.size(); ++node) {
      Up beat;
      beat.mutable_heartbeat()->set_unix_ns(now().unix_ns);
      say(node, beat);
    }
    coordinator_->tick(now());
  }

  void settle() {
    std::vector<Effect> effects = coordinator_->take();
    need(effects.size() <= kMostEffects, "one input has too many effects");
    for (Effect& effect : effects) {
      if (auto* send = std::get_if<SendDown>(&effect)) {
        for (NodeIndex node : send->down.to()) need(node < instances_.size(), "a message is for a node that is not there");
        need(send->down.ByteSizeLong() <= kMostBytes, "a message is too large");
        if (send->down.has_wave_begin()) wave_ = send->down.wave_begin().wave();
        if (told_.size() < 1000) told_.push_back(std::move(send->down));
      } else if (const auto* start = std::get_if<StartDaemon>(&effect)) {
        need(start->node < instances_.size(), "a daemon is to be started on a node that is not there");
        starting_[start->node] = true;
        instances_[start->node] += "+";
      } else if (const auto* line = std::get_if<TimelineEvent>(&effect)) {
        line->line.dump();
      } else if (const auto* end = std::get_if<Finish>(&effect)) {
        need(end->code >= 0 && end->code <= 255, "the exit code is none");
        ++finished_;
      } else if (const auto* saved = std::get_if<SaveState>(&effect)) {
        has_saved_ = true;
        for (const Record& record : saved->records)
          update(saved_, record_from_json(nlohmann::json::parse(to_json(record).dump()), settings_.spec.ranks()));
      }
    }
    need(coordinator_->unforeseen().empty(), "a change of phase is not in the table");
    State state = coordinator_->state();
    state.learned = saved_.learned;  // is saved with the next change
    need(!has_saved_ || saved_ == state, "what is saved is not its state");
    const PlacementTable& table = coordinator_->placement();
    need(table.empty() || table.size() == settings_.spec.ranks(), "the placement is not of all ranks");
    for (NodeIndex node : table) need(node < instances_.size(), "a rank is placed on a node that is not there");
    for (const auto& [number, wave] : coordinator_->store().waves())
      need(number == wave.wave && wave.ranks.size() == settings_.spec.ranks(), "a stored wave is not whole");
    coordinator_->status(now()).dump();
    coordinator_->wants_input();
  }

  Settings settings_;
  std::optional<Coordinator> coordinator_;
  State saved_;
  bool has_saved_ = false;
  std::vector<std::string> instances_;
  std::map<NodeIndex, bool> starting_;
  std::vector<Down> told_;
  WaveNumber wave_ = 0;
  std::uint64_t now_ms_ = 1000, requests_ = 0;
  int finished_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::CoordinatorRun run;
  if (!run.ParseFromArray(data, static_cast<int>(size)) || run.steps_size() > static_cast<int>(kMostSteps)) return 0;
  Job job(run);
  for (const auto& step : run.steps()) job.step(step);
  job.finish();
  return 0;
}
