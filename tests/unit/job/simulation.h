// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file A cluster in one process, without time passing: the real coordinator and, where wanted, the real relays, with
 * daemons that do what docs/job-protocol.md says, a network, and failures. Also what bench/job/simulate measures.
 */
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "crrun/coordinator/coordinator.h"
#include "crrun/held.h"
#include "crrun/routes.h"
#include "crrun/state_log.h"
#include "job/lost_links.h"
#include "job/relay.h"
#include "simulation_costs.h"

namespace reprise::job::sim {

struct Model {
  std::uint32_t nodes = 3, spares = 1, slots = 2, ranks = 6;
  std::uint64_t seed = 1;
  bool shared = true;
  std::uint32_t fan_out = 0;              ///< of the tree; 0: a star
  std::uint64_t latency_us = 200;
  std::uint64_t message_us = 0;           ///< cost at sender and receiver, each handles one at a time
  double bytes_per_us = 0;                ///< 0: no limit
  std::uint64_t image_us = 20'000;        ///< to take or restore an image: so long at most
  bool fixed_times = false;               ///< always exactly so long
  std::uint64_t image_bytes = 1000;
  std::uint64_t work_ms = 10'000;         ///< that each rank has to do; 0: it never ends, and says nothing
  std::uint64_t init_ms = 0;              ///< from the start of the last rank's process to its MPI_Init
  std::uint64_t step_ms = 500;            ///< between its lines of output
  bool output = true;
  std::size_t line_bytes = 0;             ///< length of a line, at least
  std::uint64_t window = 0;               ///< output that a daemon keeps until crrun has seen it; 0: no limit
  bool leases = true;                     ///< daemons that are cut off stop their ranks
  double again = 0;                       ///< how often a wave is refused for the moment
  Costs costs;
  Settings settings;                      ///< nodes and spec are filled in
};

class Cluster {
 public:
  explicit Cluster(Model model);
  ~Cluster();

  /** Until the job has ended. @return false when it has not within so long */
  bool run(std::uint64_t limit_ms = 600'000);
  void run_until(std::uint64_t ms);
  bool run_while(const std::function<bool()>& condition, std::uint64_t limit_ms = 120'000);
  /** Do something at a moment, or, when @p matches, as soon as such an event is in the timeline. */
  void at(std::uint64_t ms, std::function<void()> what);
  void when(std::function<bool(const nlohmann::json&)> matches, std::function<void()> what);

  // what happens to the cluster
  void kill_node(NodeIndex node);
  void boot_node(NodeIndex node);
  void kill_daemon(NodeIndex node);
  void kill_rank(Rank rank, int signal);
  void abort(Rank rank, int status);  ///< it calls MPI_Abort
  /** Messages between two ranks are lost with their connection: both wait for ever, unless they are rolled back. */
  void break_link(Rank one, Rank other, int error = ENODATA);
  /**
   * From this progress on all ranks wait for a message that never comes, so many times: each recovery counts as one of them.
   * 0 times: they go on.
   */
  void hang(std::uint64_t progress_ms, unsigned times) { hang_at_ms_ = progress_ms, hangs_ = times; }
  /** At this progress each rank asks for a wave to be pinned, and waits for it; at the other one it releases it. 0: never. */
  void pin(std::uint64_t progress_ms, std::uint64_t release_ms, bool or_none = false) {
    pin_at_ms_ = progress_ms, release_at_ms_ = release_ms, pin_or_none_ = or_none;
  }
  /** Messages pass between these ranks and spawned processes: they cannot stay when the others go back to a wave that has begun. */
  void cross(const std::set<Rank>& ranks) {
    for (Rank rank : ranks) crossed_[rank] = begun_wave_;
  }
  /** These ranks communicate with nobody for a while, and answer nothing. */
  void compute(std::set<Rank> ranks) { computing_ = std::move(ranks); }
  void cut(NodeIndex node, bool off);
  void damage(WaveNumber wave, Rank rank, bool local, bool staged);
  void break_crrun();   ///< and a new one attaches, after a second
  void local_full(NodeIndex node, bool full);
  /** The node's daemon copies no images from others for a while. */
  void keeps_none(NodeIndex node, bool none);
  void shared_gone(bool gone) { shared_gone_ = gone; }
  void restart_with(std::vector<NodeIndex> dead);
  /** @p parent spawns so many processes, which last so long and end well. Their PMIx question is the next of its node's. */
  void spawn(Rank parent, std::uint32_t count, std::uint64_t lasting_ms);
  /** One of these processes ends well before its time. */
  void end_spawned(Rank number);
  /** A rank asks for a copy of its kept memory. */
  void copy_kept(Rank rank);
  /** What ranks were told of their copies, in order. */
  const std::vector<KeptCopied>& kept_answers() const { return kept_answers_; }
  /** @return the version of a rank's copy that a node has; 0: none */
  std::uint64_t copy_on(NodeIndex node, Rank rank) const;
  const std::vector<SpawnReply>& spawn_replies() const { return spawn_replies_; }
  /** Ranks of which the daemons have been told that they have failed, in order. */
  std::vector<Rank> failed() const { return {failed_.begin(), failed_.end()}; }
  /** What crrun has told the daemons to expect, and what it then asked of them. */
  const std::vector<Recover>& expectations() const { return expectations_; }
  const std::vector<Recover>& recoveries() const { return recoveries_; }
  const std::vector<Resume>& resumes() const { return resumes_; }
  /** Where processes that were spawned run, by their numbers. */
  std::map<Rank, NodeIndex> spawned() const;

  Coordinator& coordinator() { return *coordinator_; }
  std::uint64_t now_ms() const { return now_us_ / 1000; }
  int code() const { return code_; }
  const std::string& output(Rank rank) const { return output_.at(rank); }
  std::string expected_output(Rank rank) const;
  std::string line(Rank rank, std::uint64_t progress_ms) const;
  const std::vector<nlohmann::json>& timeline() const { return timeline_; }
  std::size_t count(const std::string& event) const;
  /** How often crrun has said something with this in it. */
  std::size_t times_said(const std::string& part) const;
  std::size_t staged_images() const { return staged_.size(); }
  bool is_staged(WaveNumber wave) const { return staged_.lower_bound({wave, 0}) != staged_.lower_bound({wave + 1, 0}); }
  const std::vector<std::string>& said() const { return said_; }
  bool said(const std::string& part) const;
  const std::map<std::uint64_t, std::pair<bool, std::string>>& replies() const { return replies_; }
  /** What must never happen, and did. */
  const std::vector<std::string>& violations() const { return violations_; }
  /** How far a rank has come; nothing: it does not run anywhere. */
  std::optional<std::uint64_t> progress_ms(Rank rank) const;
  /** Node that a rank runs on now; none: nowhere, or in two places. */
  std::optional<NodeIndex> where(Rank rank) const;
  /** The job as each daemon knows it. */
  std::vector<JobSpec> welcomed() const {
    std::vector<JobSpec> out;
    for (const auto& [node, job] : welcomed_) out.push_back(job);
    return out;
  }
  const State& saved() const { return saved_; }
  std::mt19937_64& random() { return random_; }

  /** Messages and bytes, heartbeats apart; what crrun has written, if it is measured. */
  struct Traffic {
    std::uint64_t at_crrun = 0, crrun_bytes = 0, all = 0, all_bytes = 0;
    std::uint64_t saved_bytes = 0, timeline_bytes = 0;
  };
  const Traffic& traffic() const { return traffic_; }
  const Meter::Sum& cpu() const { return meter_.sum(); }
  void reset_traffic() { traffic_ = {}, meter_.reset(); }

 private:
  struct Daemon;
  struct Parsed;
  using DownPtr = std::shared_ptr<const Parsed>;
  struct Image {
    std::uint64_t progress_ms = 0;
    bool committed = false, damaged = false;
  };

  void begin(Coordinator::Begin how, std::optional<State> state);
  void arrived(NodeIndex via, const std::string& instance, const Up& up);
  void apply();
  void release();
  void carry_out(Effect& effect, const std::vector<NodeIndex>& living);
  void save(std::vector<Record> records);
  void write_state();
  void written(const Changes& changes);
  void event(const nlohmann::json& line);
  void check_saved();
  /** Too large for checks that look at all ranks again and again. */
  bool large() const { return model_.ranks > 2000; }
  void later(std::uint64_t us, std::function<void()> what);
  Now now() const { return {now_us_ / 1000 + 1000, 1'000'000'000ull + now_us_ * 1000}; }
  /** Over the wire between two ends (-1: crrun), with what it costs. */
  void transmit(int from, int to, std::size_t bytes, bool heartbeat, std::function<void()> arrived);
  void send_down(const Down& down, const std::vector<NodeIndex>& living);
  void pass_down(NodeIndex node, const DownPtr& message);
  void send_up(NodeIndex node, Up up);
  void pass_up(NodeIndex node, const Up& up);
  void forward(NodeIndex node, Up up);
  void tick_relay(NodeIndex node);
  void received(NodeIndex node, const Parsed& message);
  void start_daemon(NodeIndex node);
  void heartbeat(NodeIndex node, const std::string& instance);
  void beat_now(NodeIndex node);
  void stand(NodeIndex node, Standing& out) const;
  void watch_lease(NodeIndex node, const std::string& instance);
  void tick(std::uint64_t generation);
  void work(NodeIndex node, Rank rank, RecoveryNumber generation);
  void ask_for_pin(NodeIndex node, Rank rank, bool release);
  bool waits_for_pin(NodeIndex node, Rank rank);
  void pinned(NodeIndex node, WaveNumber wave);
  void exit(NodeIndex node, Rank rank, int status);
  void say_again(NodeIndex node);
  void check(Rank rank);
  void stay(NodeIndex node, const Recover& message, const std::vector<Rank>& here);
  void stayed(NodeIndex node);
  void spawn_begin(NodeIndex node, const SpawnBegin& message);
  WaveNumber gone_back_to_ = 0;  ///< in the newest recovery
  void spawned_run(NodeIndex node, Rank number);
  std::set<Rank> spawned_roll_back(NodeIndex node, const Recover& message);
  void spawned_exit(NodeIndex node, Rank number, int status);
  void hello(NodeIndex node);
  std::uint64_t some_time();
  std::uint64_t image_time(std::size_t images, double bandwidth);
  void stage(NodeIndex node, const Stage& message);
  void stage_next(NodeIndex node, std::shared_ptr<Staged> so_far, std::vector<Rank> ranks);
  void serve(NodeIndex node);
  const Image* handed_out(const ImageSource& source, WaveNumber wave, Rank rank) const;
  void protect(NodeIndex node, const Protect& order);
  std::optional<std::vector<std::uint64_t>> parity_of(const google::protobuf::RepeatedPtrField<ImageSource>& sources, WaveNumber wave) const;
  const Image* rebuilt(const Fetch& order, WaveNumber wave, Rank rank, Image& room) const;
  std::set<Rank> fetch(NodeIndex node, WaveNumber wave, const google::protobuf::RepeatedPtrField<Fetch>& orders);
  void tell_copy(NodeIndex node, const KeptCopy& copy, const std::string& error, bool asked);
  bool keep_copy(NodeIndex node, const KeepCopy& order);
  void introduce_copies(NodeIndex node);
  RankStaged stage_image(NodeIndex node, WaveNumber wave, Rank rank);
  void links_break(const std::vector<Rank>& dead);
  void report_links(NodeIndex node, Rank rank, RecoveryNumber generation, const std::vector<Rank>& peers);

  Model model_;
  std::mt19937_64 random_;
  std::unique_ptr<Coordinator> coordinator_;
  std::uint64_t coordinator_generation_ = 0;
  bool crrun_alive_ = false;
  std::vector<std::unique_ptr<Daemon>> daemons_;
  std::unique_ptr<Tree> tree_;
  struct Later {
    std::uint64_t us, order;
    std::function<void()> what;
    bool operator<(const Later& other) const {
      return us != other.us ? us > other.us : order > other.order;
    }
  };
  std::priority_queue<Later> queue_;
  std::uint64_t now_us_ = 0, order_ = 0, instances_ = 0;
  std::map<int, std::pair<std::uint64_t, std::uint64_t>> busy_us_;  ///< sending, receiving
  std::map<std::pair<WaveNumber, Rank>, Image> staged_;
  bool shared_gone_ = false;
  std::uint64_t hang_at_ms_ = 0;
  unsigned hangs_ = 0;
  std::uint64_t pin_at_ms_ = 0, release_at_ms_ = 0;
  bool pin_or_none_ = false;
  std::vector<std::string> output_;
  Held held_;
  std::uint64_t newest_change_ = 0;
  struct Disk {
    Changes queue;
    bool busy = false;
    std::size_t log_bytes = 0, snapshot_bytes = 0;
  } disk_;        ///< of crrun
  State newest_;  ///< with what is not saved yet; only if it is measured
  Meter meter_;
  Routes routes_{"crrun"};  ///< only if it is measured: the simulated network has its own
  std::size_t staging_ = 0;  ///< images that are being copied to shared storage
  State saved_;
  bool has_saved_ = false;  ///< by the crrun that lives
  std::set<WaveNumber> committed_;
  int code_ = -1;
  std::vector<nlohmann::json> timeline_;
  std::map<std::string, std::size_t> counts_;  ///< of it, by event
  std::vector<std::string> said_, violations_;
  std::map<std::uint64_t, std::pair<bool, std::string>> replies_;
  std::vector<std::pair<std::function<bool(const nlohmann::json&)>, std::function<void()>>> triggers_;
  Traffic traffic_;
  std::vector<SpawnReply> spawn_replies_;
  std::vector<KeptCopied> kept_answers_;
  std::uint64_t copies_made_ = 0;
  std::map<Rank, std::uint64_t> copies_asked_;  ///< versions that ranks wait for
  std::set<Rank> failed_, computing_;
  WaveNumber begun_wave_ = 0;           ///< the newest
  std::map<Rank, WaveNumber> crossed_;  ///< by rank: begun_wave_ when messages have last passed between it and spawned processes
  std::set<RecoveryNumber> unable_to_stay_;  ///< in these a rank has said that it cannot
  std::vector<Recover> expectations_, recoveries_;
  std::vector<Resume> resumes_;
  std::uint64_t questions_ = 0;
  std::map<NodeIndex, JobSpec> welcomed_;
};

}  // namespace reprise::job::sim
