// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/threads.h"

#include <cerrno>
#include <cstring>
#include <unordered_set>

#include <elf.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"
#include "process/scheduling.h"

namespace reprise {
namespace {

constexpr std::uint64_t kAutoDisarm = 1ULL << 31;  // SS_AUTODISARM
constexpr std::uint64_t kDisable = 2;              // SS_DISABLE
constexpr std::uint64_t kRobustHead = 24;          // sizeof(struct robust_list_head)
constexpr std::uint64_t kRseqUnregister = 1;       // RSEQ_FLAG_UNREGISTER

std::string comm_of(const cr_thread& thread) { return {thread.comm, strnlen(thread.comm, sizeof thread.comm)}; }

/** Keep only the flag that a program can set; the kernel adds SS_ONSTACK. */
std::uint32_t altstack_flags(std::uint32_t flags) { return flags & static_cast<std::uint32_t>(kAutoDisarm); }

void collect_registers(Session& session, pid_t tid, ThreadRegs& regs) {
  regs.tid = tid;
  regs.regs = session.regs(tid);
  regs.xstate = session.regset(tid, NT_X86_XSTATE);
  if (regs.xstate.size() >= image::kFpregsSize) {
    // The XSAVE area begins with the FXSAVE area, whose bytes 464 to 511 are reserved for software.
    regs.fpregs = regs.xstate.substr(0, image::kFpregsSize);
    std::memset(regs.fpregs.data() + 464, 0, 48);
  } else {
    regs.fpregs = session.regset(tid, NT_PRFPREG);
  }
}

/** Restore the CR_ATTR_* that differ, by prctl. Failures are warnings: the calls need capabilities or CPU features. */
void restore_attributes(Remote& remote, const Thread& thread, std::uint32_t now, Report& report) {
  const std::uint32_t then = thread.attributes(), change = now ^ then;
  const auto set = [&](const char* what, int option, std::uint64_t a, std::uint64_t b = 0) {
    const std::int64_t result = remote.call(thread.tid(), SYS_prctl, static_cast<std::uint64_t>(option), a, b);
    if (result < 0) report.warnings.push_back(thread_name(thread) + ": " + what + " stays as it is: " + error_text(result));
  };
  if (change & CR_ATTR_NO_TSC)
    set("its PR_SET_TSC setting (time stamp counter)", PR_SET_TSC, then & CR_ATTR_NO_TSC ? PR_TSC_SIGSEGV : PR_TSC_ENABLE);
  if (change & CR_ATTR_IO_FLUSHER) set("its I/O flusher state", PR_SET_IO_FLUSHER, then & CR_ATTR_IO_FLUSHER ? 1 : 0);
  if (change & (CR_ATTR_MCE_POLICY | CR_ATTR_MCE_EARLY)) {
    const bool policy = then & CR_ATTR_MCE_POLICY;
    set("its policy for corrupted memory", PR_MCE_KILL, policy ? PR_MCE_KILL_SET : PR_MCE_KILL_CLEAR,
        !policy ? 0 : then & CR_ATTR_MCE_EARLY ? PR_MCE_KILL_EARLY : PR_MCE_KILL_LATE);
  }
}

}  // namespace

std::string thread_name(const Thread& thread) {
  return "thread " + std::to_string(thread.tid()) + (thread.comm().empty() ? "" : " (" + thread.comm() + ")");
}

void collect_threads(Session& session, std::span<const cr_thread> now, Process& process,
                     std::vector<ThreadRegs>& regs) {
  regs.resize(now.size());
  process.mutable_threads()->Reserve(static_cast<int>(now.size()));
  for (std::size_t i = 0; i < now.size(); ++i) {
    const cr_thread& from = now[i];
    collect_registers(session, from.tid, regs[i]);
    Thread& thread = *process.add_threads();
    thread.set_tid(from.tid);
    thread.set_comm(comm_of(from));
    thread.set_blocked(from.sigmask);
    thread.set_altstack_sp(from.altstack_sp);
    thread.set_altstack_size(from.altstack_size);
    thread.set_altstack_flags(altstack_flags(from.altstack_flags));
    thread.set_rseq_addr(from.rseq_addr);
    thread.set_rseq_len(from.rseq_len);
    thread.set_rseq_sig(from.rseq_sig);
    thread.set_robust_list(from.robust_list);
    thread.set_clear_child_tid(from.clear_child_tid);
    thread.set_restart_left_ns(from.restart_left_ns);
    const auto call = static_cast<std::int64_t>(regs[i].regs.orig_rax);
    thread.set_syscall(from.restart_nr ? from.restart_nr : call < 0 ? -1 : call);
    thread.set_pdeath_signal(from.pdeath_signal);
    thread.set_timer_slack_ns(from.timer_slack_ns);
    thread.set_attributes(from.attributes);
    collect_scheduling(thread);
  }
}

ThreadPlan plan_threads(std::span<const cr_thread> now, const Process& image) {
  ThreadPlan plan;
  std::unordered_set<pid_t> have, want;
  for (const cr_thread& thread : now) have.insert(thread.tid);
  for (int i = 0; i < image.threads_size(); ++i) {
    want.insert(image.threads(i).tid());
    if (!have.count(image.threads(i).tid())) plan.missing.push_back(i);
  }
  for (const cr_thread& thread : now)
    if (!want.count(thread.tid)) plan.surplus.push_back(thread);
  return plan;
}

void end_threads(Remote& remote, const ThreadPlan& plan) {
  for (const cr_thread& thread : plan.surplus) remote.exit_thread(thread);
}

void detach_rseq(Session& session, Remote& remote, const Process& image, const std::vector<cr_range>& remade) {
  for (const cr_thread& now : session.threads()) {
    if (!now.rseq_addr) continue;
    bool detach = true;
    for (const Thread& thread : image.threads())
      if (thread.tid() == now.tid)
        detach = thread.rseq_addr() != now.rseq_addr || thread.rseq_len() != now.rseq_len ||
                 thread.rseq_sig() != now.rseq_sig;
    for (const cr_range& range : remade)
      if (now.rseq_addr < range.addr + range.len && now.rseq_addr + now.rseq_len > range.addr) detach = true;
    if (detach)
      remote.must("restartable sequences", now.tid, SYS_rseq, now.rseq_addr, now.rseq_len, kRseqUnregister, now.rseq_sig);
  }
}

void restore_threads(Session& session, Remote& remote, const Process& image, bool own_rights, Report& report) {
  const std::vector<cr_thread> now = session.threads();
  for (const Thread& thread : image.threads()) {
    const cr_thread* found = nullptr;
    for (const cr_thread& candidate : now)
      if (candidate.tid == thread.tid()) found = &candidate;
    if (!found) throw Error(Failure::permanent, ESRCH, thread_name(thread) + " has been lost");
    bool queued = false;
    const auto add = [&](const Remote::Call& call) {
      remote.add(call);
      queued = true;
    };
    if (found->altstack_sp != thread.altstack_sp() || found->altstack_size != thread.altstack_size() ||
        altstack_flags(found->altstack_flags) != altstack_flags(thread.altstack_flags())) {
      struct {
        std::uint64_t sp;
        std::uint64_t flags;  // an int and padding
        std::uint64_t size;
      } stack{thread.altstack_sp(), thread.altstack_size() ? altstack_flags(thread.altstack_flags()) : kDisable,
              thread.altstack_size()};
      add({SYS_sigaltstack, {remote.argument_of(stack), 0}});
    }
    if (found->robust_list != thread.robust_list()) add({SYS_set_robust_list, {thread.robust_list(), kRobustHead}});
    if (found->clear_child_tid != thread.clear_child_tid()) add({SYS_set_tid_address, {thread.clear_child_tid()}});
    if (found->rseq_addr != thread.rseq_addr() && thread.rseq_addr())
      add({SYS_rseq, {thread.rseq_addr(), thread.rseq_len(), 0, thread.rseq_sig()}});
    if (comm_of(*found) != thread.comm()) add({SYS_prctl, {PR_SET_NAME, remote.argument(thread.comm())}});
    if (thread.timer_slack_ns() && found->timer_slack_ns != thread.timer_slack_ns())
      add({SYS_prctl, {PR_SET_TIMERSLACK, thread.timer_slack_ns()}});
    if (found->pdeath_signal != thread.pdeath_signal())
      add({SYS_prctl, {PR_SET_PDEATHSIG, static_cast<std::uint64_t>(thread.pdeath_signal())}});
    if (queued) {
      for (const std::int64_t ret : remote.run(thread.tid()))
        if (ret < 0)
          throw Error(Failure::permanent, static_cast<int>(-ret), thread_name(thread) + ": " + error_text(ret));
    }
    if (found->attributes != thread.attributes()) restore_attributes(remote, thread, found->attributes, report);
    restore_scheduling(thread, own_rights ? &remote : nullptr, report);
  }
}

}  // namespace reprise
