// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/registers.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include <elf.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"
#include "process/clocks.h"
#include "process/threads.h"
#include "process/xstate.h"

namespace reprise {
namespace {

// Return values with which the kernel marks an interrupted system call that it will restart.
constexpr long long kRestartNoHandler = -514;  // ERESTARTNOHAND: EINTR if a handler runs, else again
constexpr long long kRestartBlock = -516;      // ERESTART_RESTARTBLOCK: again, with the time that is left
constexpr std::uint64_t kNoTimeout = ~std::uint64_t{0};
constexpr std::int64_t kSecond = 1000000000;

struct Timespec {
  std::int64_t sec, nsec;
};

Timespec timespec_of(std::uint64_t ns) {
  return {static_cast<std::int64_t>(ns / kSecond), static_cast<std::int64_t>(ns % kSecond)};
}

/** @return @p clock in the time namespace of @p pid */
std::uint64_t now_ns(clockid_t clock, pid_t pid) {
  std::int64_t ns = clock_ns(clock);
  if (clock == CLOCK_MONOTONIC) ns += clock_offsets(pid).monotonic - clock_offsets(::getpid()).monotonic;
  return static_cast<std::uint64_t>(ns);
}

/**
 * Build the interrupted call with its remaining timeout.
 * @return false if it is not one of the calls that the kernel restarts with a restart block
 */
bool remaining_call(Remote& remote, const Thread& thread, const user_regs_struct& regs, long& nr,
                    std::uint64_t (&arg)[6]) {
  const std::uint64_t left = thread.restart_left_ns();
  nr = static_cast<long>(thread.syscall());
  const std::uint64_t original[6] = {regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9};
  std::copy(std::begin(original), std::end(original), arg);
  switch (nr) {
    case SYS_poll:
      // Round up: a call must not time out early, but may be a millisecond late.
      arg[2] = std::min<std::uint64_t>((left + 999999) / 1000000, 0x7fffffff);
      return true;
    case SYS_nanosleep:
      arg[0] = remote.argument_of(timespec_of(left));
      return true;
    case SYS_clock_nanosleep:
      arg[1] = 0;
      arg[2] = remote.argument_of(timespec_of(left));
      return true;
    case SYS_futex: {
      const int op = static_cast<int>(regs.rsi) & FUTEX_CMD_MASK;
      if (op != FUTEX_WAIT && op != FUTEX_WAIT_BITSET) return false;
      // FUTEX_WAIT takes a relative timeout, FUTEX_WAIT_BITSET an absolute one.
      const clockid_t clock = regs.rsi & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC;
      arg[3] = remote.argument_of(timespec_of(op == FUTEX_WAIT ? left : now_ns(clock, thread.tid()) + left));
      return true;
    }
    default:
      return false;
  }
}

/** Resume a thread that was in a call whose state is in the kernel's restart block: make the call again, or EINTR. */
void resume_call(Remote& remote, const Thread& thread, user_regs_struct& regs, Report& report) {
  auto& ax = reinterpret_cast<long long&>(regs.rax);
  if (thread.restart_left_ns() == kNoTimeout && thread.syscall() == SYS_poll) {
    ax = kRestartNoHandler;
    return;
  }
  long nr;
  std::uint64_t arg[6];
  if (thread.restart_left_ns() != kNoTimeout && remaining_call(remote, thread, regs, nr, arg)) {
    const std::int64_t ret = remote.block(thread.tid(), nr, arg);
    ax = ret;
    if (ret >= -511) regs.orig_rax = static_cast<unsigned long long>(-1);  // the call has returned: nothing to restart
    return;
  }
  report.warnings.push_back(thread_name(thread) + ": its system call " + std::to_string(thread.syscall()) +
                            " ends with EINTR: the time it had left is not known");
  ax = -EINTR;
  regs.orig_rax = static_cast<unsigned long long>(-1);
}

std::span<const char> bytes_of(const user_regs_struct& regs) {
  return {reinterpret_cast<const char*>(&regs), sizeof regs};
}

void set_registers(Session& session, const Thread& thread, const user_regs_struct& regs) {
  session.set_regset(thread.tid(), NT_PRSTATUS, bytes_of(regs));
}

/** Is it parked in a call whose state is in the kernel's restart block? */
bool needs_restart(const user_regs_struct& regs) {
  return static_cast<long long>(regs.orig_rax) >= 0 && static_cast<long long>(regs.rax) == kRestartBlock;
}

cr_thread_regs registers_of(const Thread& thread, const ThreadRegs& saved) {
  cr_thread_regs one{};
  one.tid = thread.tid();
  one.sigmask = thread.blocked();
  one.general = reinterpret_cast<std::uintptr_t>(&saved.regs);
  one.extended = reinterpret_cast<std::uintptr_t>(saved.xstate.data());
  one.extended_len = saved.xstate.size();
  return one;
}

/** The threads that one call can set: registers of this processor, and no restart block. */
std::vector<cr_thread_regs> simple_threads(const Process& image, const std::vector<ThreadRegs>& regs) {
  std::vector<cr_thread_regs> threads;
  for (int i = 0; i < image.threads_size(); ++i) {
    const ThreadRegs& saved = regs[static_cast<std::size_t>(i)];
    if (!saved.xstate.empty() && !needs_restart(saved.regs)) threads.push_back(registers_of(image.threads(i), saved));
  }
  return threads;
}

}  // namespace

std::vector<cr_thread_regs> thread_registers(const Process& image, const std::vector<ThreadRegs>& regs) {
  std::vector<cr_thread_regs> threads;
  for (int i = 0; i < image.threads_size(); ++i) {
    const ThreadRegs& saved = regs[static_cast<std::size_t>(i)];
    if (saved.xstate.empty()) return {};
    threads.push_back(registers_of(image.threads(i), saved));
    if (needs_restart(saved.regs)) threads.back().flags = CR_REGS_RESTART;
  }
  return threads;
}

void restore_registers(Session& session, Remote& remote, const Process& image, const std::vector<ThreadRegs>& regs,
                       bool in_session, bool same_processor, Report& report) {
  const XstateLayout& here = xstate_layout_here();
  if (same_processor) session.set_threads(simple_threads(image, regs));
  for (int i = 0; i < image.threads_size(); ++i) {
    const Thread& thread = image.threads(i);
    const ThreadRegs& saved = regs[static_cast<std::size_t>(i)];
    user_regs_struct general = saved.regs;
    const bool parked = needs_restart(general);
    if (same_processor && !saved.xstate.empty() && !parked) continue;
    bool set = false;
    if (parked) {
      if (in_session) {
        set_registers(session, thread, general);
        set = session.set_restart(thread.tid());
      }
      if (!set) resume_call(remote, thread, general, report);
    }
    if (!set) set_registers(session, thread, general);
    if (!saved.xstate.empty())
      session.set_regset(thread.tid(), NT_X86_XSTATE,
                         fitted_xstate(saved.xstate, xstate_layout_of(image.host(), saved.xstate), here, false, ""));
    else if (!saved.fpregs.empty())
      session.set_regset(thread.tid(), NT_PRFPREG, saved.fpregs);
    session.set_sigmask(thread.tid(), thread.blocked());
  }
}

void restore_rseq_pointers(Session& session, const Process& image, const std::vector<pid_t>& threads,
                           const std::function<bool(std::uint64_t addr, char (&page)[4096])>& read_page) {
  constexpr std::uint64_t pointer_offset = 8;  // of rseq_cs in struct rseq
  char page[4096];
  for (const Thread& thread : image.threads()) {
    if (!thread.rseq_addr() || std::find(threads.begin(), threads.end(), thread.tid()) == threads.end()) continue;
    const std::uint64_t at = thread.rseq_addr() + pointer_offset;
    std::uint64_t saved = 0, now = 0;
    if (!read_page(at & ~std::uint64_t{4095}, page)) continue;
    std::memcpy(&saved, page + (at & 4095), sizeof saved);
    session.read_mem(at, &now, sizeof now);
    if (now != saved) session.write_mem(at, &saved, sizeof saved);
  }
}

}  // namespace reprise
