// SPDX-License-Identifier: GPL-2.0-only
// The coordinator's handling of streams, and of the job's end.
#include <algorithm>
#include <csignal>

#include "coordinator.h"

namespace reprise::job {

namespace {
constexpr std::uint64_t kTermMs = 5000;      ///< from SIGTERM to SIGKILL
constexpr std::uint64_t kShutdownMs = 10'000;  ///< for the daemons to end
constexpr std::uint64_t kKillMs = 2000;      ///< the same, when the user has interrupted and the ranks are killed
constexpr std::uint64_t kStreamsMs = 5000;   ///< for the last output after the last rank's end
constexpr std::uint64_t kNoLinkMs = 1000;    ///< for daemons that this crrun has not started
constexpr std::uint64_t kTellEvery = 64 << 10;
constexpr std::uint64_t kInputAhead = 4 << 20;
}  // namespace

// ---------------------------------------------------------------------------------------------- streams

void Coordinator::output(const Output& message, Now now) {
  // Output from before a rollback is repeated after it.
  if (is_current(message.rank(), message.recovery())) print(message);
  maybe_all_done(now);
}

void Coordinator::print(const Output& message) {
  const bool spawned = message.rank() >= ranks_.size();
  if (!spawned && message.stream() == 0) {
    RankInfo& info = ranks_[message.rank()];
    info.input_taken = std::max(info.input_taken, message.offset());
    send_input();
    return;
  }
  OutputStream* said = stream_of(message.rank(), message.stream());
  const auto node = node_of(message.rank());
  if (!said || !node) return;
  OutputStream& stream = *said;
  const std::size_t keep = std::max<std::size_t>(4096, settings_.output_kept_bytes / (2 * ranks_.size()));
  OutputStream::Printed printed = stream.said(message.offset(), message.data(), keep);
  if (printed.missing)
    out_.say(Log::WARNING, std::to_string(printed.missing) + " bytes of output of " + on(message.rank()) + " are lost");
  stream.ended |= message.end();
  if (!printed.data.empty() || printed.take_back || message.end())
    out_.add(WriteOutput{message.rank(), message.stream(), std::move(printed.data), printed.take_back, message.end(),
                         tag(message.rank()), stream.printed()});
  tell_seen(message.rank(), message.stream());
}

OutputStream* Coordinator::stream_of(Rank rank, std::uint32_t stream) {
  if (stream < 1 || stream > 2) return nullptr;
  return rank < ranks_.size() ? &ranks_[rank].output[stream - 1] : spawned_output(rank, stream);
}

void Coordinator::was_printed(Rank rank, std::uint32_t stream, std::uint64_t offset, std::string history) {
  if (rank < ranks_.size() && stream >= 1 && stream <= 2) ranks_[rank].output[stream - 1].continues(offset, std::move(history));
}

void Coordinator::written(Rank rank, std::uint32_t stream, std::uint64_t offset) {
  OutputStream* written = stream_of(rank, stream);
  if (!written || phase_ == Phase::finished) return;
  written->written(offset);
  tell_seen(rank, stream);
}

/** Let the daemon go on reading: it keeps a bounded part of the output that crrun has not written. */
void Coordinator::tell_seen(Rank rank, std::uint32_t stream) {
  OutputStream* said = stream_of(rank, stream);
  const auto node = node_of(rank);
  if (!said || !node || said->seen() < said->told + kTellEvery) return;
  said->told = said->seen();
  OutputSeen& seen = *out_.send({*node}).mutable_output_seen();
  seen.set_rank(rank);
  seen.set_stream(stream);
  seen.set_offset(said->seen());
}

bool Coordinator::wants_input() const {
  const std::string& target = settings_.spec.stdin_target();
  if (phase_ != Phase::running || target == "none") return false;
  for (Rank rank = 0; rank < ranks_.size(); ++rank) {
    if (target == "0" && rank != 0) break;
    // To a daemon that reports what its rank has taken, send at most kInputAhead bytes more.
    if (ranks_[rank].input_taken && input_.end_offset() > ranks_[rank].input_taken + kInputAhead) return false;
  }
  return true;
}

void Coordinator::input(const std::string& data) {
  input_.supply(data);
  send_input();
}

void Coordinator::input_end() {
  input_.end();
  send_input();
}

void Coordinator::send_input() {
  const std::string& target = settings_.spec.stdin_target();
  if (placement_.empty() || target == "none" || phase_ == Phase::ending) return;
  // A daemon rewinds a rank's input when it restores the rank: input that arrives before would be lost.
  if (recovering_.round() && recovering_.round()->step() == RecoveryRound::Step::restoring) return;
  for (Rank rank = 0; rank < ranks_.size(); ++rank) {
    if (target == "0" && rank != 0) break;
    RankInfo& info = ranks_[rank];
    if (!info.started) continue;
    const bool end = input_.ended() && !info.input_end_sent;
    if (info.input_sent >= input_.end_offset() && !end) continue;
    info.input_sent = std::max(info.input_sent, input_.base());
    Stdin& message = *out_.send({placement_[rank]}).mutable_stdin();
    message.set_rank(rank);
    message.set_offset(info.input_sent);
    message.set_data(input_.from(info.input_sent).value_or(""));
    message.set_end(input_.ended());
    info.input_sent = input_.end_offset();
    info.input_end_sent = input_.ended();
  }
}

// ------------------------------------------------------------------------------------------------- ends

void Coordinator::rank_exited(const RankExited& message, Now now) {
  if (!is_current(message.rank(), message.recovery())) return;
  if (message.rank() >= ranks_.size()) return spawned_exited(message, now);
  RankInfo& info = ranks_[message.rank()];
  info.alive = false;
  event({{"event", "rank-exit"},
         {"rank", message.rank()},
         {"node", placement_[message.rank()]},
         {"status", message.wait_status()},
         {"finalized", message.finalized()}},
        now);
  if (phase_ == Phase::starting && begin_ == Begin::attach) {
    info.ended_before = message;  // attached() looks at it when all are there
    return;
  }
  if (phase_ == Phase::ending) {
    // This end may be the cause of the job's end: use its exit code if none is set yet.
    exits_.exited(message.rank(), message.wait_status(), true, false, Remedy::none, false);
    return ending_tick(now);
  }
  const Remedy remedy = settings_.spec.tells_failures()   ? Remedy::program
                        : settings_.spec.no_checkpoints() ? Remedy::none
                                                          : Remedy::images;
  const std::string rank = on(message.rank()) + " ", error = rank + Exits::error_words(message.wait_status());
  switch (exits_.exited(message.rank(), message.wait_status(), message.finalized(), info.ready, remedy,
                        store_.newest().has_value())) {
    case ExitMeaning::fine:
      if (phase_ == Phase::recovering) break;
      abort_wave(GivenUp::rank_ended, rank + Exits::words(message.wait_status()), now);
      maybe_all_done(now);
      break;
    case ExitMeaning::tell:
      out_.say(Log::WARNING, error + ": the program is told");
      tell_failed({message.rank()}, now);
      maybe_all_done(now);
      break;
    case ExitMeaning::restart:
      out_.say(Log::WARNING, error);
      recover({CauseKind::rank_died, "death of rank " + std::to_string(message.rank())}, now);
      break;
    case ExitMeaning::end_job:
      out_.say(Log::ERROR, error +
                               (exits_.restarts(message.rank())
                                    ? ", after " + std::to_string(exits_.restarts(message.rank())) +
                                          " restarts since the last wave"
                                    : "") +
                               ": the job is ended");
      end(exits_.code(), true, now);
      break;
  }
}

void Coordinator::maybe_all_done(Now now) {
  if (phase_ != Phase::running || !exits_.all() || spawns_.any_live()) return;
  const bool said = spawned_done() && std::all_of(ranks_.begin(), ranks_.end(), [](const RankInfo& rank) {
    return rank.output[0].ended && rank.output[1].ended;
  });
  if (!said) {
    // A child process of a rank may hold its output open for long.
    if (!streams_deadline_ms_) streams_deadline_ms_ = now.ms + kStreamsMs;
    if (now.ms < streams_deadline_ms_) return;
  }
  end(exits_.final_code(), false, now);
}

void Coordinator::end(int code, bool kill, Now now) {
  if (phase_ == Phase::finished) return;
  if (phase_ != Phase::ending) begin_end(code, now);
  shut_down(kill, now);
}

/** No wave, recovery or drain goes on. */
void Coordinator::begin_end(int code, Now now) {
  abort_wave(GivenUp::job_end, "the job ends", now);
  enter(Phase::ending);
  recovering_.end();
  exit_code_ = code;
  refuse_checkpoints("the job is ending");
  refuse_drains(draining_.take_all(), "is not drained: the job is ending");
  event({{"event", "job-end"}, {"code", code}, {"restartable", keeps_waves()}}, now);
  save();  // before anybody is told: a later crrun ends the job, too
}

void Coordinator::restartable_end(const std::string& why, Now now) {
  const bool staged = store_.newest_staged().has_value();
  out_.say(Log::ERROR, why + ": the job is ended" + (staged ? "" : "; no wave is in shared storage: start it from the beginning"));
  end(staged ? kRestartable : 1, true, now);
}

void Coordinator::shut_down(bool kill, Now now) {
  shutdown_sent_ = true;
  shutdown_ms_ = now.ms;
  finish_by_ms_ = now.ms + (interrupted_ && kill ? kKillMs : kShutdownMs);
  Shutdown& message = *out_.send().mutable_shutdown();
  message.set_kill(kill);
  message.set_keep_images(settings_.keep_images);
  ending_tick(now);
}

void Coordinator::ending_tick(Now now) {
  if (phase_ != Phase::ending) return;
  if (!shutdown_sent_) {
    // SIGTERM has been sent: wait for ranks that end by it; kill the others at the deadline.
    if (exits_.all() || now.ms >= kill_at_ms_) shut_down(true, now);
    return;
  }
  bool links = false, unlinked = false;
  for (const Member& member : members_.all()) {
    links |= member.link && member.state != NodeState::lost;
    unlinked |= !member.link && member.connected && member.state == NodeState::up && begin_ == Begin::launch && member.welcomed;
  }
  const bool waiting = links || (unlinked && now.ms < shutdown_ms_ + kNoLinkMs);
  if (waiting && now.ms < finish_by_ms_) return;
  std::string silent;
  for (const Member& member : members_.all())
    if (member.link && member.state == NodeState::up) silent += (silent.empty() ? "" : ", ") + member.node.host();
  if (!silent.empty() && !interrupted_)
    out_.say(Log::WARNING, "the daemons on " + silent + " have not confirmed the job's end; they end when they learn of it");
  for (const Member& member : members_.all())
    if (member.link) out_.add(StopDaemon{member.node.index()});
  enter(Phase::finished);
  if (exit_code_ != 0)
    say_what_is_kept();
  else if (!settings_.keep_images)
    store_.forget_after(0);
  save();
  if (exit_code_ == 0 && !settings_.keep_images) out_.add(RemoveStaged{});
  out_.add(Finish{exit_code_});
}

/** Whether a later crrun can restart the job from a wave in shared storage. */
bool Coordinator::keeps_waves() const { return exit_code_ != 0 && store_.newest_staged().has_value(); }

void Coordinator::say_what_is_kept() {
  if (!keeps_waves() || settings_.job_directory.empty()) return;
  const std::string& where = settings_.job_directory;
  std::uint64_t bytes = 0;
  for (const auto& [number, wave] : store_.waves())
    for (const StoredRank& rank : wave.ranks) bytes += rank.staged ? rank.bytes : 0;
  out_.say(Log::INFO, "wave " + std::to_string(*store_.newest_staged()) + " is kept in " + where + " (" +
                          std::to_string((bytes + (1 << 20) - 1) >> 20) + " MB); restart the job with: crrun --restart " + where +
                          "; remove it with: crjob remove " + where);
}

void Coordinator::interrupt(int code, Now now) {
  if (phase_ == Phase::finished) return;
  if (interrupted_ || phase_ == Phase::starting || placement_.empty()) {
    interrupted_ = true;
    if (phase_ != Phase::ending) out_.say(Log::WARNING, "the job is killed");
    return end(code, true, now);
  }
  interrupted_ = true;
  if (phase_ == Phase::ending) return end(code, true, now);
  begin_end(code, now);
  kill_at_ms_ = now.ms + kTermMs;
  out_.say(Log::WARNING, "the ranks get SIGTERM; they are killed after " + std::to_string(kTermMs / 1000) +
                             " s, or at once when you press Ctrl-C again");
  out_.send().mutable_signal()->set_signal(SIGTERM);
}

void Coordinator::signal(int number, Now now) {
  if (!admit(Input::signal)) return;
  if (settings_.leave_on.count(number) && !leaving_.any() && phase_ != Phase::ending && !settings_.spec.no_checkpoints())
    return leave(std::string("SIG") + ::sigabbrev_np(number), now);
  if (settings_.leave_on.count(number)) return interrupt(128 + number, now);
  if (settings_.rollback_on.count(number) && !settings_.spec.no_checkpoints()) {
    // While the ranks go back there is nothing to do.
    if (phase_ == Phase::running) recover({CauseKind::request, std::string("request by SIG") + ::sigabbrev_np(number)}, now);
    return;
  }
  if (number == SIGINT || number == SIGTERM || number == SIGHUP) return interrupt(128 + number, now);
  out_.send().mutable_signal()->set_signal(number);
}

void Coordinator::replaced(Now now) {
  if (!admit(Input::replaced)) return;
  out_.say(Log::ERROR, "another crrun has taken over " + settings_.job_directory + ": the ranks that this one has started are killed");
  end(1, true, now);
}

void Coordinator::request_end(std::uint64_t request, Now now) {
  if (!admit(Input::request_end)) return;
  out_.add(Reply{request, true, settings_.spec.id() + " ends"});
  interrupt(128 + SIGTERM, now);
}

}  // namespace reprise::job
