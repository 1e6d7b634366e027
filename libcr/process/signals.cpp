// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/signals.h"

#include <signal.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/text.h"
#include "session/checked_batch.h"

namespace reprise {
namespace {

constexpr int kSignals = 64;
constexpr std::size_t kInfoSize = 128;     // siginfo_t
constexpr std::size_t kSysPrivate = 32;    // offset of _timer._sys_private, which only the kernel uses

bool is_default(const cr_sigaction& action) {
  return action.handler == 0 && action.flags == 0 && action.restorer == 0 && action.mask == 0;
}

std::string cleaned(std::string info) {
  info.resize(kInfoSize);
  int code;
  std::memcpy(&code, info.data() + 8, sizeof code);
  if (code == SI_TIMER) std::memset(info.data() + kSysPrivate, 0, sizeof(int));
  return info;
}

int number_of(const std::string& info) {
  int number;
  std::memcpy(&number, info.data(), sizeof number);
  return number;
}

template <class Infos>
bool same(const std::vector<std::string>& now, const Infos& wanted) {
  return std::equal(now.begin(), now.end(), wanted.begin(), wanted.end(),
                    [](const std::string& a, const PendingSignal& b) { return cleaned(a) == b.siginfo(); });
}

cr_sigaction wanted_action(const Process& image, int signal) {
  cr_sigaction action = {};
  for (const SigAction& saved : image.sigactions())
    if (static_cast<int>(saved.signal()) == signal) action = {saved.handler(), saved.flags(), saved.restorer(), saved.mask()};
  return action;
}

void restore_actions(Session& session, Remote& remote, const Process& image) {
  const cr_process now = session.process();
  CheckedBatch calls(remote);
  for (int signal = 1; signal <= kSignals; ++signal) {
    if (signal == SIGKILL || signal == SIGSTOP) continue;
    const cr_sigaction wanted = wanted_action(image, signal);
    if (std::memcmp(&wanted, &now.action[signal - 1], sizeof wanted) == 0) continue;
    calls.need(sizeof wanted);
    const std::uint64_t argument = remote.argument_of(wanted);
    calls.must({SYS_rt_sigaction, {static_cast<std::uint64_t>(signal), argument, 0, sizeof(std::uint64_t)}},
               [signal] { return "the disposition of signal " + std::to_string(signal); });
  }
  calls.run();
}

/** Make @p tid consume all signals that are pending for it or for the process. */
void drain(Remote& remote, pid_t tid) {
  for (;;) {
    const std::uint64_t all = ~0ULL;
    const std::uint64_t set = remote.argument_of(all);
    const std::uint64_t none = remote.argument_of(timespec{});
    const std::int64_t got = remote.call(tid, SYS_rt_sigtimedwait, set, 0, none, sizeof(std::uint64_t));
    if (got <= 0) return;
  }
}

template <class Infos>
void queue(Remote& remote, pid_t tid, const Infos& infos, Report& report) {
  if (infos.empty()) return;
  // Use the ids of the target's pid namespace: there ours may belong to another process.
  const auto pid = static_cast<std::uint64_t>(remote.must("its pid", tid, SYS_getpid));
  const auto own = static_cast<std::uint64_t>(remote.must("its tid", tid, SYS_gettid));
  for (const PendingSignal& pending : infos) {
    std::uint64_t info;
    std::memcpy(remote.argument(kInfoSize, info), pending.siginfo().data(), std::min(kInfoSize, pending.siginfo().size()));
    const auto signal = static_cast<std::uint64_t>(number_of(pending.siginfo()));
    // The kernel accepts si_code >= 0 and SI_TKILL only if a process sends the signal to itself.
    const std::int64_t result =
        tid ? remote.call(tid, SYS_rt_tgsigqueueinfo, pid, own, signal, info)
            : remote.call(0, SYS_rt_sigqueueinfo, pid, signal, info);
    if (result < 0)
      report.warnings.push_back("pending signal " + std::to_string(signal) + " is lost: " + error_text(result));
  }
}

bool usable(const PendingSignal& pending) {
  if (pending.siginfo().size() != kInfoSize) return false;
  const int number = number_of(pending.siginfo());
  return number >= 1 && number <= kSignals && number != SIGKILL && number != SIGSTOP;
}

template <class Infos>
std::vector<PendingSignal> usable_only(const Infos& infos) {
  std::vector<PendingSignal> result;
  std::copy_if(infos.begin(), infos.end(), std::back_inserter(result), usable);
  return result;
}

}  // namespace

void collect_signals(Session& session, const cr_process& data, const std::vector<cr_thread>& threads,
                     Process& process) {
  for (int signal = 1; signal <= kSignals; ++signal) {
    const cr_sigaction& action = data.action[signal - 1];
    if (is_default(action)) continue;
    SigAction& saved = *process.add_sigactions();
    saved.set_signal(static_cast<std::uint32_t>(signal));
    saved.set_handler(action.handler);
    saved.set_flags(action.flags);
    saved.set_restorer(action.restorer);
    saved.set_mask(action.mask);
  }
  if (data.shared_pending)
    for (const std::string& info : session.pending(0)) process.add_pending()->set_siginfo(cleaned(info));
  for (const cr_thread& thread : threads) {
    if (!thread.pending) continue;
    for (Thread& saved : *process.mutable_threads())
      if (saved.tid() == thread.tid)
        for (const std::string& info : session.pending(thread.tid)) saved.add_pending()->set_siginfo(cleaned(info));
  }
}

void collect_signals(Session& session, Process& process) {
  collect_signals(session, session.process(), session.threads(), process);
}

void restore_signals(Session& session, Remote& remote, const Process& image, RestoreMode mode, Report& report) {
  (void)mode;
  session.refresh();  // signals that have come since
  restore_actions(session, remote, image);
  const auto wanted = usable_only(image.pending());
  bool differs = !same(session.pending(0), wanted);
  std::vector<pid_t> others;
  for (const cr_thread& thread : session.threads()) {
    if (!thread.pending && !differs) continue;
    const auto saved = std::find_if(image.threads().begin(), image.threads().end(),
                                    [&](const Thread& one) { return one.tid() == thread.tid; });
    const auto private_wanted =
        saved == image.threads().end() ? std::vector<PendingSignal>() : usable_only(saved->pending());
    if (!same(session.pending(thread.tid), private_wanted)) others.push_back(thread.tid);
  }
  if (!differs && others.empty()) return;
  // rt_sigtimedwait() takes the thread's own signals first, then those of the process.
  for (const pid_t tid : others) drain(remote, tid);
  drain(remote, session.pid());
  queue(remote, 0, wanted, report);
}

void restore_thread_signals(Session& session, Remote& remote, const Thread& thread, RestoreMode mode, Report& report) {
  (void)mode;
  const auto wanted = usable_only(thread.pending());
  if (wanted.empty()) return;
  const auto now = session.pending(thread.tid());
  if (same(now, wanted)) return;
  queue(remote, thread.tid(), wanted, report);
}

}  // namespace reprise
