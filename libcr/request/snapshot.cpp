// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/snapshot.h"

#include <cerrno>
#include <map>

#include "image/writer.h"
#include "process/memory.h"
#include "process/threads.h"
#include "request/agent.h"
#include "request/pause.h"
#include "request/rollback.h"
#include "request/stopwatch.h"
#include "request/unchanged.h"
#include "request/write_image.h"

namespace reprise {
namespace {

/** Thaw, because the caller goes on using the session. Ignore errors, so that they do not replace the first one. */
void thaw_after_failure(Session& session) {
  try {
    session.thaw();
  } catch (const Error&) {  // the process has exited
  }
}

/** Notify the program's agent. @return nullptr unless options.notify */
std::unique_ptr<Agent> call_agent(Session& session, unsigned phase, const SnapshotOptions& options) {
  if (!options.notify) return nullptr;
  return std::make_unique<Agent>(session, phase, options.request_flags, options.agent_timeout_ms);
}

/** Registers and interrupted calls as they are now: calls with a timeout have been made again. Target frozen. */
void refresh_threads(Session& session, State& state) {
  session.refresh();
  Process now;
  std::vector<ThreadRegs> regs;
  collect_threads(session, session.threads(), now, regs);
  std::map<pid_t, int> index;
  for (int i = 0; i < now.threads_size(); ++i) index[now.threads(i).tid()] = i;
  for (int i = 0; i < state.process.threads_size(); ++i) {
    Thread& thread = *state.process.mutable_threads(i);
    const auto found = index.find(thread.tid());
    if (found == index.end()) throw Error(Failure::temporary, ESRCH, thread_name(thread) + " has ended");
    const Thread& one = now.threads(found->second);
    thread.set_restart_left_ns(one.restart_left_ns());
    thread.set_syscall(one.syscall());
    state.regs[static_cast<std::size_t>(i)] = std::move(regs[static_cast<std::size_t>(found->second)]);
  }
}

}  // namespace

Snapshot::Snapshot(Session& session, const SnapshotOptions& options)
    : session_(&session), options_(options), state_(std::make_unique<State>()) {}

Snapshot::Snapshot(Snapshot&& other) noexcept
    : session_(std::exchange(other.session_, nullptr)),
      options_(other.options_),
      state_(std::move(other.state_)),
      packed_(std::move(other.packed_)),
      one_call_(std::move(other.one_call_)),
      has_differed_(other.has_differed_),
      trust_(other.trust_),
      report_(std::move(other.report_)) {}

Snapshot::~Snapshot() {
  if (!session_) return;
  try {
    session_->drop_snapshot();
  } catch (const Error&) {  // the session was closed or has another one
  }
}

Snapshot Snapshot::take(Session& session, const SnapshotOptions& options) {
  Snapshot made(session, options);
  State& state = *made.state_;
  Report& report = made.report_;
  enter(Stage::open);
  const std::uint64_t begin = Stopwatch::now();
  Stopwatch watch;
  collect_running(session, state);
  report.open_ns = watch.lap();
  enter(Stage::callbacks);
  const auto agent = call_agent(session, CR_PHASE_CHECKPOINT, options);
  state.process.set_has_agent(agent && agent->present());
  report.agent_ns = watch.lap();
  enter(Stage::freeze);
  report.freeze_ns = session.freeze(options.timeout_ms).ns;
  try {
    enter(Stage::collect);
    collect_frozen(session, state, report);
    enter(Stage::snapshot);
    watch.lap();
    const cr_snapshot snapshot = session.snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, state.id);
    report.snapshot_ns = watch.lap();
    report.pages = snapshot.pages;
    report.kernel_bytes = snapshot.overhead;
    enter(Stage::outcome);
    if (agent) agent->outcome(CR_PHASE_CONTINUE);
    enter(Stage::thaw);
    report.frozen_ns = session.thaw();
  } catch (...) {
    thaw_after_failure(session);
    throw;
  }
  report.image_taken_unix_ns = static_cast<std::uint64_t>(state.process.taken_unix_ns());
  state.process.set_frozen_ns(report.frozen_ns);
  made.one_call_ = OneCall::of(state, options.own_channel);
  report.total_ns = Stopwatch::now() - begin;
  return made;
}

std::optional<Snapshot> Snapshot::load(Session& session, const PauseOptions& options, Report& report) {
  const std::uint64_t begin = Stopwatch::now();
  const Image image = open_for_pause(options, report);
  SnapshotOptions own;
  own.timeout_ms = options.timeout_ms;
  own.agent_timeout_ms = options.agent_timeout_ms;
  own.request_flags = options.request_flags;
  Snapshot made(session, own);
  State& state = *made.state_;
  // What the image says, not what is found now: it is more exact where the pause keeps something as it is.
  state.process = image.process();
  state.regs = image.threads();
  state.shared = SharedContents::copy(
      image.blob_bytes(), [&](std::uint64_t offset, void* buf, std::size_t len) { image.read_blob(offset, buf, len); });
  state.id = image.id();  // so that a pause from the image, too, needs only what has changed
  made.trust_ = trusts(image);
  std::string lost;
  pause_to(session, image, false, options, report, [&] {
    try {
      enter(Stage::snapshot);
      Stopwatch watch;
      collect_digests(session, state.process);
      refresh_threads(session, state);
      const cr_snapshot snapshot = session.snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, state.id);
      report.snapshot_ns = watch.lap();
      report.kernel_bytes = snapshot.overhead;
    } catch (const Error& error) {
      lost = error.what();
    }
  });
  report.total_ns = Stopwatch::now() - begin;
  made.report_ = report;
  if (lost.empty()) {
    made.one_call_ = OneCall::of(state, false);
    return made;
  }
  report.warnings.push_back("its state is not kept in memory: " + lost);
  return {};
}

bool Snapshot::rollback_by_one_call(const RestoreOptions& restore, Report& report) {
  // A process in which more has changed once is likely to do that again: then the attempt costs more than it saves.
  if (!one_call_ || !one_call_->fits(restore.shared_memory) || std::exchange(has_differed_, false)) return false;
  try {
    has_differed_ = !one_call_->roll_back(*session_, options_.timeout_ms, report);
  } catch (...) {
    if (one_call_->broken()) end_process(*session_, state_->process);
    throw;
  }
  return !has_differed_;
}

void Snapshot::rollback_by_steps(const RestoreOptions& restore, Agent* agent, Report& report) {
  Session& session = *session_;
  report.freeze_ns = session.freeze(options_.timeout_ms).ns;
  RollbackSource source;
  source.in_session = true;
  source.own_channel = options_.own_channel;
  source.pages.id = state_->id;
  source.blob = [this](std::uint64_t offset, void* buf, std::size_t len) { state_->shared.read(offset, buf, len); };
  source.read_page = [&session](std::uint64_t addr, char(&page)[4096]) {
    try {
      session.read_snapshot(addr, page, sizeof page);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  RestoreOptions trusting = restore;
  trusting.trust = trust_;
  Rollback rollback(session, state_->process, state_->regs, trusting, RestoreMode::pause, std::move(source));
  try {
    rollback.run(report);
  } catch (...) {
    if (!rollback.committed()) thaw_after_failure(session);
    throw;
  }
  const bool saved = options_.notify && state_->process.has_agent();
  rollback.carry_out(Stage::outcome, [&] {
    if (agent) agent->outcome(saved ? CR_PHASE_PAUSED : CR_PHASE_ABORTED, saved);
  });
  rollback.carry_out(Stage::thaw, [&] { report.frozen_ns = session.thaw(); });
}

void Snapshot::set_aside() {
  if (packed_) return;
  try {
    packed_ = PackedState::of(*state_);
  } catch (const Error&) {  // it stays as it is
    return;
  }
  one_call_.reset();
}

void Snapshot::take_out() {
  if (!packed_) return;
  packed_->restore(*state_);
  packed_.reset();
  one_call_ = OneCall::of(*state_, options_.own_channel);
}

Report Snapshot::rollback(const RestoreOptions& restore) {
  enter(Stage::open);
  Report report;
  const std::uint64_t begin = Stopwatch::now();
  Stopwatch watch;
  take_out();
  check_image(state_->process, restore, RestoreMode::pause);
  report.open_ns = watch.lap();
  enter(Stage::callbacks);
  const auto agent = call_agent(*session_, CR_PHASE_PAUSE, options_);
  report.agent_ns = watch.lap();
  enter(Stage::freeze);
  // An agent hears the outcome before the process goes on.
  const bool heard = (agent && agent->present()) || state_->process.has_agent();
  if (heard || !rollback_by_one_call(restore, report)) rollback_by_steps(restore, agent.get(), report);
  report.pages = report_.pages;
  report.image_taken_unix_ns = report_.image_taken_unix_ns;
  report.total_ns = Stopwatch::now() - begin;
  return report;
}

Report Snapshot::write(const std::string& path, bool clobber, bool sync, const Progress& progress) {
  enter(Stage::write);
  Report report = report_;
  Stopwatch watch;
  take_out();
  report.image = path;
  ImageWriter writer(path, WriterOptions{.clobber = clobber, .sync = sync});
  write_image(*session_, writer, *state_, {}, progress, report);
  report.write_ns = watch.lap();
  return report;
}

}  // namespace reprise
