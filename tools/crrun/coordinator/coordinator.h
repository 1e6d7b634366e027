// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The coordinator: connects its parts. Inputs are function calls with the current time; after each call, take()
 * returns the effects. It does no I/O, reads no clock and has no threads, so that tests can produce every sequence.
 * phases.h has the table of what each input does in each phase.
 */
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "domain.h"
#include "draining.h"
#include "effects.h"
#include "exits.h"
#include "fences.h"
#include "interval.h"
#include "kept_copies.h"
#include "leaving.h"
#include "links.h"
#include "mapping.h"
#include "membership.h"
#include "metrics.h"
#include "phases.h"
#include "pin.h"
#include "placement.h"
#include "protection.h"
#include "recovery.h"
#include "spawns.h"
#include "state.h"
#include "store.h"
#include "streams.h"
#include "types.h"
#include "watchdog.h"
#include "waves.h"

namespace reprise::job {

class Coordinator {
 public:
  using Phase = job::Phase;
  enum class Begin {
    launch,   ///< a new job
    restart,  ///< from the newest usable wave in the state; all ranks as new processes
    attach,   ///< daemons and ranks are already running
  };
  /** Returns 32 random bytes. */
  using Nonce = std::function<std::string()>;

  /** Throws std::runtime_error when @p state does not belong to a job with these @p settings. */
  Coordinator(Settings settings, Nonce nonce, Begin begin = Begin::launch, std::optional<State> state = std::nullopt);

  void start(Now now);
  void message(const Up& up, Now now);
  /** The ssh or srun of a node has ended. @param certain the daemon itself is known to have ended */
  void link_ended(NodeIndex node, bool certain, const std::string& why, Now now);
  /** The connection of a daemon has ended. It may come again, but the node is suspected. */
  void connection_closed(NodeIndex node, const std::string& instance, Now now);
  void tick(Now now);
  /** Another crrun has taken JOBDIR over: the ranks that this one has started must end. */
  void replaced(Now now);
  /** A signal that crrun received (SIGINT and the like). */
  void signal(int number, Now now);
  /**
   * Attach, before start(): an earlier crrun has written a stream up to @p offset; the last of it is @p history. Of streams
   * that this is not called for nothing is known: what the daemons have kept is written again.
   */
  void was_printed(Rank rank, std::uint32_t stream, std::uint64_t offset, std::string history);
  /** Output of a WriteOutput has been written, up to its offset. */
  void written(Rank rank, std::uint32_t stream, std::uint64_t offset);
  void input(const std::string& data);
  void input_end();
  /** Requests of crjob; each is answered by a Reply with the same number. */
  void request_checkpoint(std::uint64_t request, Now now);
  void request_drain(std::uint64_t request, const std::string& host, Now now);
  void request_end(std::uint64_t request, Now now);

  std::vector<Effect> take() { return out_.take(); }
  State state() const;
  nlohmann::json status(Now now) const;
  /** For --metrics. The time left of the leases is the shortest since the last call. */
  Metrics take_metrics(Now now);

  Phase phase() const { return phase_; }
  /** @return changes of phase that phases.h does not allow, for tests */
  const std::vector<std::string>& unforeseen() const { return unforeseen_; }
  RecoveryNumber recovery() const { return recovery_number_; }
  const PlacementTable& placement() const { return placement_; }
  const Membership& members() const { return members_; }
  const Store& store() const { return store_; }
  bool wave_under_way() const { return round_.has_value(); }
  /** Whether standard input may be read: the ranks have taken nearly all of the earlier input. */
  bool wants_input() const;

 private:
  struct RankInfo {
    bool alive = false;  ///< a process of it runs, as far as crrun knows
    bool started = false, ready = false;
    std::int32_t pid = 0;
    RecoveryNumber incarnation = 0;
    RankAddress address;
    std::string bound_to;  ///< in mpirun's words; "": it is not bound, or this crrun does not know
    std::array<OutputStream, 2> output;
    std::uint64_t input_sent = 0, input_taken = 0;
    bool input_end_sent = false;
    std::optional<RankExited> ended_before;  ///< it had ended when this crrun attached
  };

  // coordinator.cpp
  /** An input arrives. @return whether it counts in this phase */
  bool admit(Input input);
  /** Change the phase; the row of the last input must allow it. */
  void enter(Phase next);
  void moved_away(NodeIndex node, RecoveryNumber recovery, Now now);
  void rank_started(const RankStarted& message, Now now);
  void say_binding(Rank rank, const std::string& bound_to);
  void rank_ready(const RankReady& message);
  void aborted(const Abort& message, Now now);
  void daemon_says(const Log& log, NodeIndex from);
  void link_lost(const LinkLost& message, Now now);
  void repair_links(Now now);
  void from_lost(NodeIndex node, Now now);
  void heartbeat(const Up& up, Now now);
  std::vector<Seat> seats(bool with_drained, const std::set<NodeIndex>& without = {}) const;
  std::string on(Rank rank) const;
  void event(nlohmann::json line, Now now);
  Facts facts() const;
  Layout layout() const;
  void save();
  void add_learned(SaveState& effect);
  void save_waves();
  void pmix(const Up& up, Now now);
  std::optional<NodeIndex> node_of(Rank rank) const;
  std::string tag(Rank rank) const;

  // coordinator_start.cpp
  void check_state(const State& state) const;
  void hello(const Up& up, Now now);
  void welcome(NodeIndex node, bool stale);
  void fill_welcome(Welcome& message, NodeIndex node, bool stale) const;
  void welcome_all();
  void start_tick(Now now);
  void all_there(Now now);
  bool check_module();
  bool replace_at_start(NodeIndex node, const std::string& why);
  void launch(Now now);
  void attached(Now now);
  void adopt(const Up& up);
  void node_joined(NodeIndex node);

  // coordinator_spawn.cpp
  void spawn(const Up& up, Now now);
  void spawn_known(const Up& up, Now now);
  void spawned_started(const RankStarted& message, Now now);
  void spawned_exited(const RankExited& message, Now now);
  void spawned_gone(Family& family, Now now);
  void judge_spawn(Family& family, Now now);
  void tell_spawn(const Family& family, std::optional<NodeIndex> late = std::nullopt);
  void answer_spawn(Family& family, int status, const std::string& why, Now now);
  void roll_back_spawns(const RecoveryPlan& plan, Domain domain);
  bool spawned_done() const;
  OutputStream* spawned_output(Rank rank, std::uint32_t stream);

  // coordinator_failures.cpp
  void tell_failed(std::vector<Rank> ranks, Now now);
  void fail_node(NodeIndex node, Now now);
  void spawned_failed(Family& family, const std::string& why, Now now);
  void fail_link(const LinkLost& message);
  void introduce_processes(NodeIndex node);
  void attached_telling(std::vector<Rank> dead, Now now);

  // coordinator_waves.cpp
  void wave_tick(Now now);
  void begin_wave(Now now);
  void wave_done(const WaveDone& message, Now now);
  void judge_wave(Now now);
  void commit_wave(Now now);
  void abort_wave(GivenUp reason, const std::string& why, Now now);
  void staged(const Staged& message, NodeIndex from, Now now);
  void stage(Now now);
  void prune();
  /** The files of a staged wave that does not count any more. */
  void drop_staged(WaveNumber wave);
  void drain(Now now);
  /** Whether ranks or spawned processes are on the node. */
  bool in_use(NodeIndex node) const;
  /** Whether all that runs has a place elsewhere than on this node, and than on those whose drain is ready. */
  bool can_do_without(NodeIndex node) const;
  void give_up(std::vector<Draining::Drain> drains, const std::string& reason);
  void refuse_drains(std::vector<Draining::Drain> drains, const std::string& why);
  std::string no_wave_reason() const;
  /** @return why users get no checkpoint and no drain: no_wave_reason(), or that a wave is pinned; "": they get them */
  std::string refusal() const;
  void refuse_checkpoints(const std::string& why);
  bool all_ready(Now now);

  // coordinator_protection.cpp
  /** @return where nodes hand images out, except these */
  Serving serving(const std::set<NodeIndex>& without = {}) const;
  Serves serves(const std::set<NodeIndex>& without = {}) const;
  void note_serving(NodeIndex node, const Relaying& where, Now now);
  void ask_who_serves(Now now);
  bool waits_for_serving(Now now) const;
  void recover_when_served(Now now);
  void protect(Now now);
  void protect_done(const Up& up, Now now);
  void wave_safe(WaveNumber number, Now now);
  /** @return whether a node may be given copies */
  Serves takes_copies() const;

  // coordinator_kept.cpp
  void has_copy(const HasCopy& message, NodeIndex from, Now now);
  void copy_kept();

  void leave(const std::string& why, Now now);
  void leave_in_time(Now now);
  void leave_tick(Now now);

  // coordinator_pin.cpp
  void pin_wave(const PinWave& message, NodeIndex from, Now now);
  void tell_pinned(NodeIndex node);
  void give_pin_up(Now now);
  void note_lost(const RecoveryPlan& plan);

  // coordinator_interval.cpp
  void ranks_run(Now now);
  void measure_wave(Now now);
  void measure_staging(WaveNumber wave, Now now);
  void plan_wave(std::uint64_t from_ms, Now now);
  std::uint64_t age_of(const StoredWave& wave, Now now) const;
  WaveNumber wave_in_copying() const;
  bool copying_lags(Now now) const;
  /** @return the interval between waves at present; 0: they are taken on request */
  std::uint64_t wave_interval_ms() const { return chosen_ ? chosen_->interval_ms : settings_.wave_interval_ms; }

  // coordinator_metrics.cpp
  void count_recovery(const Cause& cause, const PlacementTable& next, Now now);
  void measure_recovery(Now now);

  // status.cpp
  /** @return number of ranks and spawned processes that live, by node */
  std::map<NodeIndex, std::uint32_t> ranks_on_nodes() const;

  // coordinator_hang.cpp
  void watch(Now now);
  void hang(Now now);
  std::string hang_words() const;
  void roll_back_hang(Now now);
  bool waits_for_progress() const;

  // coordinator_recovery.cpp
  void node_lost(NodeIndex node, const std::string& why, Now now);
  void lost_nodes(const std::vector<Loss>& losses, Now now);
  void recover(const Cause& cause, Now now);
  std::optional<RecoveryPlan> plan(bool with_drained, const std::set<NodeIndex>& without = {}) const;
  DomainChoice domain_of(const RecoveryPlan& plan, const Cause& cause) const;
  void go_over_to_all(const std::vector<RecoveryRound::Failure>& failures, Now now);
  void begin_recovery(const RecoveryPlan& plan, const Cause& cause, const DomainChoice& choice, Now now);
  void say_recovery(const RecoveryPlan& plan, const Cause& cause, const DomainChoice& choice);
  std::string words(const std::vector<Rank>& numbers) const;
  void relaunch(const Cause& cause, Now now);
  void expect_losses(Now now);
  void restored(const Restored& message, Now now);
  void note_fetched(const Restored& message);
  void resumed(const Resumed& message, Now now);
  void judge_recovery(Now now);
  void resume(Now now);
  void recovery_failed(Now now);
  void recovery_done(Now now);
  void send(std::optional<Recovering::Order> order);
  void roll_back_streams(const StoredWave* wave);
  std::vector<Rank> moved_since(const StoredWave& wave) const;
  /** Whether what is said of a rank in a recovery counts: it was not taken back since. */
  bool is_current(Rank rank, RecoveryNumber recovery) const {
    return recovery == recovery_number_ || (rank < ranks_.size() && recovery >= own_since_ && recovery < recovery_number_);
  }
  /** @return where the processes of a wave are now, or were when it was taken, by place in its roster */
  PlacementTable nodes_in(const StoredWave& wave) const;

  // coordinator_end.cpp
  void rank_exited(const RankExited& message, Now now);
  void maybe_all_done(Now now);
  void end(int code, bool kill, Now now);
  void begin_end(int code, Now now);
  void restartable_end(const std::string& why, Now now);
  bool keeps_waves() const;
  void say_what_is_kept();
  void shut_down(bool kill, Now now);
  void ending_tick(Now now);
  void interrupt(int code, Now now);
  void output(const Output& message, Now now);
  void print(const Output& message);
  OutputStream* stream_of(Rank rank, std::uint32_t stream);
  void tell_seen(Rank rank, std::uint32_t stream);
  void send_input();

  Settings settings_;
  Nonce nonce_;
  Begin begin_;
  Outbox out_;
  Phase phase_ = Phase::starting;
  Cell admitted_ = cells::x;             ///< of the last input
  std::vector<std::string> unforeseen_;  ///< changes of phase that are not in the table
  Membership members_;
  Store store_;
  Staging staging_;
  Protection protection_;
  std::optional<KeptCopies> kept_copies_;  ///< nothing: nodes keep no copies
  WaveClock clock_;
  Interval interval_;
  std::optional<IntervalChoice> chosen_;  ///< the newest one; nothing unless crrun chooses
  Exits exits_;
  std::set<Rank> failed_;  ///< the program has been told of them, see JobSpec.tells_failures
  std::set<Rank> condemned_;  ///< are being killed, and will be told of
  Links links_;
  Watchdog watchdog_;
  Fences fences_;
  Modex modex_;
  Board board_;
  Spawns spawns_;
  std::vector<Up> early_spawns_;  ///< requests that came before the recovery was over
  InputStream input_;
  std::vector<RankInfo> ranks_;
  PlacementTable placement_;
  bool moved_ = false;  ///< placement_ or an incarnation has changed since the last save()
  std::optional<Facts> saved_facts_;  ///< nothing: nothing is saved yet
  Learned saved_learned_;
  RecoveryNumber recovery_number_ = 0;
  RecoveryNumber own_since_ = 0;  ///< the one that has last taken the job's own ranks back; since then they have stayed
  Border border_;
  std::string cannot_stay_;       ///< why the recovery that begins now is of all: an own rank could not stay in the one before
  Cause stays_for_{CauseKind::failed, ""};  ///< of the newest recovery in which own ranks were to stay
  WaveNumber next_wave_ = 1;
  std::uint32_t next_family_ = 1;     ///< index of the next spawned namespace; never reused
  Rank next_number_ = 0;              ///< number of the next spawned process; never reused
  std::uint64_t next_context_ = 1;    ///< id of the next group context; never reused
  std::optional<WaveRound> round_;
  Pin pin_;
  bool told_of_pin_ = false;    ///< the user has been told that the wave that all ranks want cannot be taken
  std::set<Rank> lost_;         ///< since the ranks ran last: their processes or nodes were lost
  std::set<Rank> restarting_;   ///< since then, these have been ended to be started anew
  Recovering recovering_;
  Expectation expected_;
  RecoveryReport report_;  ///< of the newest recovery
  Tally tally_;
  struct Standstill {
    CauseKind cause;
    std::uint64_t since_ms;
  };
  std::optional<Standstill> standstill_;  ///< the ranks do not run, because of a recovery
  unsigned failed_recoveries_ = 0;  ///< in a row
  std::map<NodeIndex, unsigned> failures_of_node_;
  std::vector<std::uint64_t> checkpoint_requests_;
  Draining draining_;
  Leaving leaving_;
  LeaveTime leave_time_;
  bool prune_wanted_ = false;
  bool was_recovering_ = false;  ///< attached in the middle of a recovery
  std::optional<int> was_ending_with_;  ///< attached to a job that was ending, with this exit code
  bool was_spawning_ = false;    ///< attached to a job with spawned processes
  bool told_of_spawned_ = false;  ///< the user has been told that spawned processes prevent waves
  std::map<NodeIndex, std::pair<std::uint64_t, std::uint64_t>> staging_progress_, copying_progress_;
  std::string last_wave_error_;
  std::optional<std::uint64_t> again_since_ms_;  ///< since then every wave has failed for a temporary reason
  bool told_of_again_ = false;
  std::string waiting_for_;  ///< the user has been told that no wave begins before these ranks have called MPI_Init
  bool staging_fails_ = false;  ///< since the last wave that was completely staged
  bool protecting_fails_ = false;  ///< since the last wave that was safe
  std::optional<Cause> postponed_;  ///< of a recovery that waits until all nodes have said where they hand images out
  std::uint64_t served_by_ms_ = 0;  ///< it does not wait longer
  std::uint64_t last_tick_ms_ = 0;
  std::uint64_t started_ms_ = 0, begun_unix_ns_ = 0;
  std::uint64_t streams_deadline_ms_ = 0;
  // ending
  int exit_code_ = 0;
  bool shutdown_sent_ = false, interrupted_ = false;
  std::uint64_t kill_at_ms_ = 0, finish_by_ms_ = 0, shutdown_ms_ = 0;
};

}  // namespace reprise::job
