// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/rollback.h"

#include <cerrno>
#include <exception>
#include <new>

#include "base/text.h"
#include "descriptors/descriptors.h"
#include "process/credentials_of_threads.h"
#include "process/environment.h"
#include "process/generation.h"
#include "process/guards.h"
#include "process/kept_live.h"
#include "process/layout.h"
#include "process/ldt.h"
#include "process/new_ids.h"
#include "process/locking.h"
#include "process/memory_limits.h"
#include "process/numa.h"
#include "process/registers.h"
#include "process/shared.h"
#include "process/sharing.h"
#include "process/signals.h"
#include "process/stop.h"
#include "process/threads.h"
#include "process/timers.h"
#include "process/xstate.h"
#include "request/identity.h"
#include "request/stopwatch.h"
#include "request/unchanged.h"
#include "restore/kept_memory.h"
#include "restore/nameless_files.h"
#include "restore/on_behalf.h"

namespace reprise {

/** Everything that prepare() determines and creates before the commit. */
struct Rollback::Plan {
  explicit Plan(Session& session, std::uint64_t gap) : remote(session, gap) {}
  LazyRemote remote;
  std::vector<cr_vma> vmas;        // of the target before the rollback
  bool same_processor = false;     // the registers are of this machine, in this boot
  Unchanged same;                  // what is as in the image
  bool own_rights = false;         // the target sets limits, priorities and OOM score itself
  Limits limits_before{};          // with own_rights: before any was raised
  std::optional<OnBehalf> behalf;  // opens what the image names
  std::uint64_t gap = 0;  // unused address space before the arena, for MappingFiles
  std::uint64_t extra = 0;  // bytes of both
  cr_process now{};
  FutureFlags future;
  std::vector<cr_range> policies;  // mappings that have a NUMA policy of their own
  MappingPlan mappings;
  MappingFiles files;
  WiderLimits limits;
  std::uint64_t generation = 0;  // the generation number after the rollback
  std::set<int> kept;  // shared objects of the image that the rollback leaves unchanged
  std::map<pid_t, pid_t> new_ids;  // of threads, where they have changed
  ThreadPlan threads;
  PreparedDescriptors descriptors;
  std::optional<NamelessFiles> nameless;
  SharedRoom room;
  UniqueFd cwd;  // new directory in place of a deleted working directory; empty if none is needed
};

void check_image(const Process& image, const RestoreOptions& options, RestoreMode mode) {
  check_descriptors(image, options, mode);
  check_environment(image, options, mode);
  check_kept_memory(image, options);
}

/** Compare the mappings, and find room for the arena. */
std::unique_ptr<Rollback::Plan> Rollback::begin_plan() {
  std::vector<cr_vma> vmas = session_.vmas();
  if (mode_ == RestoreMode::pause) adopt_kept_memory(session_, vmas, image_);
  MappingPlan mappings = plan_mappings(vmas, image_);
  const std::uint64_t arena = session_.arena_size();
  const std::uint64_t room = MappingFiles::gap_size(mappings, image_);
  // The arena must overlap neither the current mappings nor those of the image.
  const std::uint64_t gap = find_gap(vmas, image_, arena + room);
  auto made = std::make_unique<Plan>(session_, gap + room);
  made->gap = gap;
  made->extra = arena + room;
  made->vmas = std::move(vmas);
  made->mappings = std::move(mappings);
  return made;
}

/** Plan the generation number and wider limits, when all else about memory is known. */
void Rollback::plan_memory(Plan& plan) {
  plan.generation = next_generation(session_, plan.vmas, image_);
  const std::uint64_t pages = source_.pages.file && !source_.pages.others_right ? source_.pages.file->page_count() : 0;
  plan.limits = check_memory_limits(session_, plan.vmas, image_, plan.mappings, plan.extra, pages * image::kPage);
}

std::unique_ptr<Rollback::Plan> Rollback::prepare(Report& report) {
  enter(Stage::compare);
  Stopwatch watch;
  auto made = begin_plan();
  Plan& plan = *made;
  const std::vector<cr_vma>& vmas = plan.vmas;
  // First of all: this replaces the tids in image_, and later comparisons use the new ones.
  if (mode_ == RestoreMode::restart && !options_.restore_pid) {
    if (options_.pid_namespace)
      make_threads_with_own_ids(session_, *plan.remote, image_);
    else
      plan.new_ids = make_threads_with_new_ids(session_, *plan.remote, image_);
    report.threads_made = static_cast<std::uint64_t>(image_.threads_size() - 1);
  }
  // With a new identity after a restart, or without tracking, it may be another process.
  plan.same_processor = mode_ == RestoreMode::pause && (source_.in_session || source_.pages.tracked);
  if (plan.same_processor) plan.same = compare_digests(session_, image_, source_.own_channel, options_.shared_memory);
  const Unchanged& same = plan.same;
  plan.own_rights = mode_ == RestoreMode::pause && !options_.trust;
  if (!same.process || !same.mappings) plan.now = session_.process();
  if (plan.own_rights) plan.limits_before = read_limits(session_);
  plan.policies = with_policy(vmas);
  const OnBehalf behalf = mode_ == RestoreMode::pause ? OnBehalf::of_target(session_, plan.remote, image_)
                                                      : OnBehalf::of_image(image_, options_);
  plan.behalf = behalf;
  plan.files = source_.files                  ? std::move(*source_.files)
               : mode_ == RestoreMode::restart ? MappingFiles::for_restart(image_, options_, &plan.mappings)
                                               : MappingFiles::for_pause(session_, vmas, plan.mappings, image_, behalf);
  plan.nameless.emplace(session_, image_, options_, mode_, source_.blob);
  if (!same.descriptors)
    plan.descriptors =
        check_descriptors_live(session_, image_, options_, mode_, plan.files.size(), behalf, *plan.nameless);
  plan.files.add_nameless(image_, *plan.nameless);
  if (!same.process || !same.threads)
    plan.cwd = check_environment_live(session_, image_, options_, mode_, behalf, *plan.nameless);
  plan.nameless->finish(report);
  if (mode_ == RestoreMode::pause && !same.mappings) check_seals(session_, vmas, image_);
  plan.kept = check_sharing(session_, vmas, image_, plan.files, options_, mode_, source_.blob, report);
  plan.room = SharedRoom::take(session_, image_, options_, mode_, source_.blob, plan.files, *plan.nameless, plan.kept);
  plan_memory(plan);
  if (!same.process) check_timers_live(session_, plan.remote, image_, mode_);
  if (!same.threads) plan.threads = plan_threads(session_.threads(), image_);
  if (!plan.same_processor || !plan.threads.missing.empty())
    check_xstate(image_, regs_, plan.threads.missing, mode_, report);

  report.collect_ns += watch.lap();
  std::vector<cr_range> changed = plan.mappings.remade(image_);
  changed.insert(changed.end(), source_.dirty.begin(), source_.dirty.end());
  source_.pages.changed = merged(std::move(changed));
  enter(Stage::verify);
  if (source_.verify) source_.verify(source_.pages.changed);
  report.verify_ns += watch.lap();
  enter(Stage::birth);
  // Last, because a later failure would have to undo it.
  make_threads(session_, *plan.remote, image_, plan.threads);
  report.threads_ns += watch.lap();
  return made;
}

/** As prepare(), for run_memory(). */
std::unique_ptr<Rollback::Plan> Rollback::prepare_memory(Report& report) {
  enter(Stage::compare);
  Stopwatch watch;
  auto made = begin_plan();
  made->now = session_.process();
  made->policies = with_policy(made->vmas);
  made->files = MappingFiles::for_restart(image_, options_, &made->mappings);
  plan_memory(*made);
  source_.pages.changed = page_scope(image_);
  report.collect_ns += watch.lap();
  return made;
}

struct Rollback::Step {
  Stage stage;
  void (Rollback::*make)(Plan&, Report&);
  std::uint64_t Report::*time;
};

/** The steps of a restore after the commit, in order. */
const Rollback::Step Rollback::kSteps[] = {
    {Stage::surplus, &Rollback::end_surplus, &Report::threads_ns},
    {Stage::mappings, &Rollback::restore_address_space, &Report::mappings_ns},
    {Stage::pages, &Rollback::restore_private_memory, &Report::pages_ns},
    // Until here the changes are visible to the process only.
    {Stage::hold, nullptr, nullptr},
    {Stage::descriptors, &Rollback::restore_files, &Report::descriptors_ns},
    {Stage::shared, &Rollback::restore_shared_memory, &Report::shared_ns},
    {Stage::process, &Rollback::restore_process, &Report::process_ns},
    {Stage::threads, &Rollback::restore_each_thread, &Report::threads_ns},
};

void Rollback::end_surplus(Plan& plan, Report&) {
  widen_limits(session_, plan.limits);
  make_room(session_, plan.descriptors);
  end_threads(*plan.remote, plan.threads);
  if (!plan.same.threads || !plan.same.mappings)
    detach_rseq(session_, *plan.remote, image_, plan.mappings.remade(image_));
}

void Rollback::restore_address_space(Plan& plan, Report& report) {
  if (plan.same.mappings && plan.same.process) return;
  plan.future = end_future_locks(*plan.remote, plan.now.future, plan.mappings, image_);
  plan.files.apply(session_, *plan.remote, plan.mappings, image_, plan.gap, report);
  restore_numa(*plan.remote, plan.policies, image_, report);
  restore_layout(session_, *plan.remote, plan.now, image_, options_, mode_, report);
}

void Rollback::restore_private_memory(Plan& plan, Report& report) {
  restore_pages(session_, image_, source_.pages, report);
  restore_guards(session_, *plan.remote, image_);
  restore_generation(session_, image_, plan.generation);
  tell_new_ids(session_, image_, plan.new_ids);
  if (plan.same.mappings && plan.same.process) return;
  restore_locks(session_, *plan.remote, plan.future, plan.mappings, image_, report);
}

void Rollback::restore_files(Plan& plan, Report& report) {
  if (plan.same.descriptors) {
    restore_unchanged_descriptors(session_, image_, options_, *plan.behalf, plan.same.content, report);
    return;
  }
  restore_descriptors(session_, *plan.remote, image_, options_, mode_, *plan.behalf, report,
                      std::move(plan.descriptors));
}

void Rollback::restore_shared_memory(Plan& plan, Report& report) {
  restore_shared(session_, image_, options_, mode_, source_.blob, *plan.nameless, plan.kept);
  plan.files.keep(report);
  plan.room.keep();
}

void Rollback::restore_process(Plan& plan, Report& report) {
  if (plan.same.process && plan.same.threads) return;
  restore_environment(session_, *plan.remote, image_, options_, mode_, *plan.behalf, report, std::move(plan.cwd));
  restore_ldt(session_, *plan.remote, image_);
  end_stop(session_, *plan.remote, image_);
  restore_signals(session_, *plan.remote, image_, mode_, report);
  restore_timers(session_, *plan.remote, image_, mode_, report);
}

void Rollback::restore_each_thread(Plan& plan, Report& report) {
  Remote& remote = *plan.remote;
  const Unchanged& same = plan.same;
  if (!same.threads) {
    restore_threads(session_, remote, image_, plan.own_rights, report);
    for (const Thread& thread : image_.threads()) restore_thread_signals(session_, remote, thread, mode_, report);
    restore_credentials(session_, remote, image_, report);
  }
  if (!same.process || !plan.limits.limits.empty() || plan.descriptors.limit)
    restore_limits(session_, image_, plan.limits_before, plan.own_rights ? &remote : nullptr, report);
  if (!same.process) begin_stop(session_, remote, image_);
  // The kernel changes it with credentials.
  if (!same.process || !same.threads) restore_dumpable(session_, remote, image_, report);
  restore_registers(session_, remote, image_, regs_, source_.in_session, plan.same_processor, report);
  restore_rseq_pointers(session_, image_, remote.used(), source_.read_page);
}

void end_process(Session& session, const Process& image) {
  int code = EIO;
  Stage stage = current_stage();
  std::string why;
  try {
    throw;
  } catch (const Error& error) {
    code = error.code();
    if (error.stage() != Stage::none) stage = error.stage();
    why = error.what();
  } catch (const std::bad_alloc&) {
    code = ENOMEM;
    why = "not enough memory";
  } catch (const std::exception& error) {
    why = error.what();
  }
  // Kill the target: its state is inconsistent.
  try {
    session.thaw(true);
  } catch (const Error&) {
  }
  stage_of_thread = stage;
  throw Error(Failure::permanent, code,
              "process " + process_name(image) + " could not be brought back and has been killed in stage " +
                  stage_name(stage) + ": " + why);
}

void Rollback::commit(Plan& plan) {
  try {
    enter(Stage::commit);
    session_.commit();
  } catch (...) {
    unmake_threads(session_, *plan.remote);
    throw;
  }
  committed_ = true;
}

void Rollback::run_memory(Report& report) {
  const std::unique_ptr<Plan> made = prepare_memory(report);
  Plan& plan = *made;
  commit(plan);
  Stopwatch watch;
  carry_out(Stage::surplus, [&] { end_surplus(plan, report); });
  carry_out(Stage::mappings, [&] { restore_address_space(plan, report); });
  report.mappings_ns += watch.lap();
  carry_out(Stage::pages, [&] {
    restore_pages(session_, image_, source_.pages, report);
    restore_guards(session_, *plan.remote, image_);
  });
  report.pages_ns += watch.lap();
}

void Rollback::run(Report& report) {
  report.pid = session_.pid();
  report.comm = image_.comm();
  const std::unique_ptr<Plan> made = prepare(report);
  Plan& plan = *made;
  report.threads = static_cast<std::uint64_t>(image_.threads_size());
  report.threads_made += plan.threads.missing.size();
  report.threads_ended = plan.threads.surplus.size();
  report.mappings = static_cast<std::uint64_t>(image_.mappings_size());
  report.descriptors = static_cast<std::uint64_t>(image_.descriptors_size());
  commit(plan);
  for (const Step& step : kSteps) {
    Stopwatch watch;
    if (step.make) {
      carry_out(step.stage, [&] { (this->*step.make)(plan, report); });
    } else if (source_.hold) {
      enter(step.stage);
      source_.hold();
    }
    if (step.time) report.*step.time += watch.lap();
  }
}

}  // namespace reprise
