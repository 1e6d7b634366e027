// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/timers.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "base/proc_dir.h"
#include "process/timer_list.h"
#include "session/checked_batch.h"

namespace reprise {
namespace {

constexpr int kRestoreIds = 77;        // PR_TIMER_CREATE_RESTORE_IDS, Linux 6.15
constexpr int kRestoreIdsOff = 0, kRestoreIdsOn = 1, kRestoreIdsGet = 2;
constexpr int kMostSkipped = 1 << 22;  // most identifiers to skip one by one
constexpr std::int64_t kSecond = 1'000'000'000;

// The kernel's struct sigevent, without the C library's union.
struct KernelSigevent {
  std::uint64_t value;
  int signal;
  int notify;
  int tid;
  int pad[11];
};
static_assert(sizeof(KernelSigevent) == 64);

timespec to_timespec(std::int64_t ns) { return {static_cast<time_t>(ns / kSecond), static_cast<long>(ns % kSecond)}; }
std::int64_t to_ns(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

timeval to_timeval(std::uint64_t ns) {
  // Round up: a zero it_value would disarm the timer.
  const std::uint64_t us = (ns + 999) / 1000;
  return {static_cast<time_t>(us / 1'000'000), static_cast<suseconds_t>(us % 1'000'000)};
}

std::vector<Timers::Posix> list_timers(pid_t pid) {
  const auto text = ProcDir(pid).try_read("timers");
  return text ? parse_timers(*text) : std::vector<Timers::Posix>();
}

/** Does this kernel create timers with requested identifiers (PR_TIMER_CREATE_RESTORE_IDS)? */
bool restores_ids() { return ::prctl(kRestoreIds, kRestoreIdsGet, 0, 0, 0) >= 0; }

KernelSigevent sigevent_of(Remote& remote, const Timers::Posix& timer) {
  KernelSigevent event = {};
  event.value = timer.value();
  event.signal = timer.signal();
  event.notify = timer.notify();
  // The kernel expects the tid in the target's own pid namespace.
  if (timer.tid()) event.tid = static_cast<int>(remote.must("its tid", timer.tid(), SYS_gettid));
  return event;
}

/**
 * Create a timer.
 * @param id  in: the requested identifier; out: the assigned one
 * @return 0 or -errno
 */
std::int64_t create(Remote& remote, const Timers::Posix& timer, const KernelSigevent& event, int& id) {
  const std::uint64_t event_at = remote.argument_of(event);
  std::uint64_t id_at;
  auto* shared = static_cast<int*>(remote.argument(sizeof(int), id_at));
  *shared = id;
  const std::size_t call = remote.add(
      {SYS_timer_create, {static_cast<std::uint64_t>(static_cast<std::int64_t>(timer.clock())), event_at, id_at}}, false);
  const std::int64_t result = remote.run()[call];
  id = *shared;
  return result;
}

void remove(Remote& remote, int id) {
  remote.call(0, SYS_timer_delete, static_cast<std::uint64_t>(id));
}

/** Create and delete @p count timers, in batches, to advance the kernel's next identifier from @p from on. */
void skip(Remote& remote, int from, int count) {
  KernelSigevent event = {};
  event.notify = SIGEV_NONE;
  while (count > 0) {
    const std::uint64_t event_at = remote.argument_of(event);
    std::uint64_t id_at;
    remote.argument(sizeof(int), id_at);
    int batch = 0;
    while (batch < count && remote.room(2, 0)) {
      remote.add({SYS_timer_create, {CLOCK_MONOTONIC, event_at, id_at}}, false);
      remote.add({SYS_timer_delete, {static_cast<std::uint64_t>(from + batch)}}, false);
      ++batch;
    }
    remote.run();
    from += batch;
    count -= batch;
  }
}

[[noreturn]] void fail(const Timers::Posix& timer, const std::string& what, std::int64_t code) {
  throw Error(Failure::permanent, static_cast<int>(code < 0 ? -code : code),
              "timer " + std::to_string(timer.id()) + ": " + what + ": " + error_text(code));
}

/**
 * Create a timer with its saved identifier.
 * @param by_wish  the kernel assigns requested identifiers; otherwise count up to the identifier
 */
void create_with_id(Remote& remote, const Timers::Posix& timer, bool by_wish) {
  const KernelSigevent event = sigevent_of(remote, timer);
  int id = timer.id();
  std::int64_t result = create(remote, timer, event, id);
  if (result < 0) fail(timer, "cannot be made", result);
  if (id == timer.id()) return;
  remove(remote, id);
  if (by_wish || id > timer.id() || timer.id() - id > kMostSkipped)
    fail(timer, "cannot have its identifier (the kernel gives " + std::to_string(id) + ")", EEXIST);
  skip(remote, id + 1, timer.id() - id - 1);
  result = create(remote, timer, event, id);
  if (result < 0) fail(timer, "cannot be made", result);
  if (id != timer.id()) fail(timer, "cannot have its identifier (the kernel gives " + std::to_string(id) + ")", EEXIST);
}

void set_times(Remote& remote, const std::vector<const Timers::Posix*>& timers) {
  CheckedBatch calls(remote);
  for (const Timers::Posix* timer : timers) {
    const itimerspec spec = {to_timespec(timer->interval_ns()), to_timespec(timer->value_ns())};
    calls.need(sizeof spec);
    const std::uint64_t argument = remote.argument_of(spec);
    calls.must({SYS_timer_settime, {static_cast<std::uint64_t>(timer->id()), 0, argument, 0}},
               [timer] { return "timer " + std::to_string(timer->id()) + ": cannot be set"; });
  }
  calls.run();
}

void restore_interval_timers(Session& session, Remote& remote, const Process& image) {
  const cr_process now = session.process();
  for (int which = 0; which < 3; ++which) {
    std::uint64_t value = 0, interval = 0;
    for (const Timers::Interval& saved : image.timers().itimers())
      if (saved.which() == which) value = saved.value_ns(), interval = saved.interval_ns();
    if (!value && !now.itimer_value_ns[which]) continue;
    itimerval timer = {};
    if (value) timer = {to_timeval(interval), to_timeval(value)};
    const std::uint64_t argument = remote.argument_of(timer);
    const std::size_t call = remote.add({SYS_setitimer, {static_cast<std::uint64_t>(which), argument, 0}}, false);
    if (const std::int64_t result = remote.run()[call]; result < 0)
      throw Error(Failure::permanent, static_cast<int>(-result),
                  "interval timer " + std::to_string(which) + ": " + error_text(result));
  }
}

}  // namespace

void collect_timers(Session& session, const cr_process& data, LazyRemote& remote, Process& process) {
  Timers& timers = *process.mutable_timers();
  for (int which = 0; which < 3; ++which) {
    if (!data.itimer_value_ns[which]) continue;
    auto* saved = timers.add_itimers();
    saved->set_which(which);
    saved->set_value_ns(data.itimer_value_ns[which]);
    saved->set_interval_ns(data.itimer_interval_ns[which]);
  }
  for (Timers::Posix& timer : list_timers(session.pid())) {
    const auto id = static_cast<std::uint64_t>(timer.id());
    std::uint64_t at;
    auto* left = static_cast<itimerspec*>(remote->argument(sizeof(itimerspec), at));
    const std::size_t get = remote->add({SYS_timer_gettime, {id, at}}, false);
    const std::size_t overrun = remote->add({SYS_timer_getoverrun, {id}}, false);
    const auto results = remote->run();
    if (results[get] < 0) fail(timer, "its time cannot be read", results[get]);
    timer.set_value_ns(to_ns(left->it_value));
    timer.set_interval_ns(to_ns(left->it_interval));
    timer.set_overrun(results[overrun] > 0 ? static_cast<std::uint32_t>(results[overrun]) : 0);
    *timers.add_posix() = timer;
  }
}

void collect_timers(Session& session, LazyRemote& remote, Process& process) {
  collect_timers(session, session.process(), remote, process);
}

void check_timers_live(Session& session, LazyRemote& remote, const Process& image, RestoreMode mode) {
  if (image.timers().posix_size() == 0 || restores_ids()) return;
  const auto refuse_far = [](const Timers::Posix& timer, int next) {
    if (timer.id() - next <= kMostSkipped) return;
    throw Error(Failure::refused, ERANGE,
                "timer " + std::to_string(timer.id()) + " has too high an identifier: before Linux 6.15 the kernel "
                    "assigns it only by counting up to it");
  };
  if (mode == RestoreMode::restart) {  // a new process counts from 0
    // Identifiers grow from one timer to the next: the n-th timer skips those between n and its own.
    int before = 0;
    for (const Timers::Posix& timer : image.timers().posix()) refuse_far(timer, before++);
    return;
  }
  const auto plan = plan_timers(image.timers(), list_timers(session.pid()));
  if (plan.create.empty()) return;
  // Identifiers only grow: create and delete a timer to find the next one. That uses up one identifier.
  Timers::Posix probe;
  probe.set_clock(CLOCK_MONOTONIC);
  KernelSigevent event = {};
  event.notify = SIGEV_NONE;
  int next = 0;
  const std::int64_t result = create(*remote, probe, event, next);
  if (result < 0) fail(probe, "cannot be made", result);
  remove(*remote, next);
  for (const Timers::Posix* timer : plan.create) {
    refuse_far(*timer, next);
    if (timer->id() <= next)
      throw Error(Failure::refused, EEXIST,
                  "timer " + std::to_string(timer->id()) +
                      " was deleted since the checkpoint, and this kernel cannot give its identifier again (Linux 6.15 "
                      "can): restart the image instead");
  }
}

void restore_timers(Session& session, Remote& remote, const Process& image, RestoreMode mode, Report& report) {
  (void)mode;
  (void)report;
  restore_interval_timers(session, remote, image);
  const auto live = list_timers(session.pid());
  if (live.empty() && image.timers().posix_size() == 0) return;
  const auto plan = plan_timers(image.timers(), live);
  for (const int id : plan.remove) remove(remote, id);
  if (!plan.create.empty()) {
    const bool by_wish = remote.call(0, SYS_prctl, kRestoreIds, kRestoreIdsOn) >= 0;
    for (const Timers::Posix* timer : plan.create) create_with_id(remote, *timer, by_wish);
    if (by_wish) remote.call(0, SYS_prctl, kRestoreIds, kRestoreIdsOff);
  }
  set_times(remote, plan.set);
}

}  // namespace reprise
