// SPDX-License-Identifier: GPL-2.0-only
// The table of actions. A new ioctl is an entry in ops(): name, weight, number and the members of its structure.
#include <sys/mman.h>
#include <sys/syscall.h>

#include "executor.h"

#ifndef SYS_mseal
#define SYS_mseal 462
#endif

namespace fuzz {
namespace {

constexpr uint8_t kAll = 7, kRoot = 4;

#define M(type, member, kind, limit) \
  {#member, Kind::kind, offsetof(struct type, member), sizeof(((struct type*)nullptr)->member), limit}
#define SLOT {"s", Kind::kSlot, 0, 0, kSlots - 1}
#define AT {"at", Kind::kPlace, 0, 0, 0}
#define N(name, kind, limit) {name, Kind::kind, 0, 0, limit}
#define IOCTL(name, weight, request, ...) {name, weight, kAll, do_ioctl, request, {SLOT, AT __VA_OPT__(, ) __VA_ARGS__}}
#define ARRAY M(cr_array, buf, kBuffer, 0), M(cr_array, count, kCount, 0)

const std::vector<Op> kOps = {
    // the file of the session
    {"open", 1, kAll, do_open, 0, {SLOT}},
    {"close", 2, kAll, do_close, 0, {SLOT}},
    {"dup", 1, kAll, do_dup, 0, {SLOT, N("to", kSlot, kSlots - 1)}},
    {"send", 2, kAll, do_send, 0, {SLOT, N("to", kNumber, kExecutors - 1)}},
    {"recv", 2, kAll, do_recv, 0, {SLOT}},
    {"hold", 1, kAll, do_hold, 0, {SLOT, N("ms", kMs, 0)}},
    {"mmap", 1, kAll, do_mmap, 0, {SLOT, N("offset", kLength, 0), N("len", kLength, 0), N("prot", kProt, 0)}},
    {"munmap", 1, kAll, do_munmap, 0, {SLOT}},
    {"read", 3, kAll, do_read, 0, {SLOT, N("buf", kBuffer, 0), N("len", kLength, 0), N("at", kAddress, 0)}},
    {"raw_ioctl", 1, kAll, do_raw_ioctl, 0, {SLOT, AT, N("nr", kNumber, 31), N("dir", kNumber, 3), N("size", kNumber, 5000)}},

    // the ioctls
    IOCTL("info", 1, CR_IOC_INFO),
    IOCTL("attach", 1, CR_IOC_ATTACH, M(cr_attach, mem_fd, kDescriptor, 0), M(cr_attach, flags, kFlags, 0), M(cr_attach, reserved, kFlags, 0)),
    IOCTL("freeze", 6, CR_IOC_FREEZE, M(cr_freeze, timeout_ms, kMs, 0), M(cr_freeze, thaw_after_ms, kMs, 0), M(cr_freeze, reserved, kFlags, 0)),
    IOCTL("thaw", 5, CR_IOC_THAW, M(cr_thaw, flags, kFlags, 1), M(cr_thaw, reserved, kFlags, 0)),
    IOCTL("commit", 2, CR_IOC_COMMIT),
    IOCTL("threads", 2, CR_IOC_THREADS, ARRAY),
    IOCTL("get_regs", 6, CR_IOC_GET_REGS, M(cr_regs, tid, kTid, 0), M(cr_regs, type, kRegset, 0), M(cr_regs, buf, kBuffer, 0), M(cr_regs, len, kCount, 0)),
    // writes the registers that the lane has read last, with one word changed
    IOCTL("set_regs", 3, CR_IOC_SET_REGS, M(cr_regs, tid, kTid, 0), M(cr_regs, type, kRegset, 0), M(cr_regs, buf, kBuffer, 0), M(cr_regs, len, kCount, 0),
          N("word", kNumber, 26), N("value", kWord, 0)),
    IOCTL("set_sigmask", 2, CR_IOC_SET_SIGMASK, M(cr_sigmask, tid, kTid, 0), M(cr_sigmask, reserved, kFlags, 0), M(cr_sigmask, mask, kWord, 0)),
    IOCTL("set_restart", 2, CR_IOC_SET_RESTART, M(cr_restart, tid, kTid, 0), M(cr_restart, reserved, kFlags, 0)),
    IOCTL("process", 1, CR_IOC_PROCESS),
    IOCTL("vmas", 2, CR_IOC_VMAS, ARRAY),
    IOCTL("fds", 2, CR_IOC_FDS, ARRAY),
    IOCTL("sigpending", 2, CR_IOC_SIGPENDING, M(cr_sigpending, tid, kTid, 0), M(cr_sigpending, reserved, kFlags, 0), M(cr_sigpending, infos.buf, kBuffer, 0),
          M(cr_sigpending, infos.count, kCount, 0)),
    IOCTL("get_file", 2, CR_IOC_GET_FILE, M(cr_get_file, kind, kNumber, 2), M(cr_get_file, which, kWord, 0)),
    IOCTL("put_file", 2, CR_IOC_PUT_FILE, M(cr_put_file, fd, kDescriptor, 0), M(cr_put_file, flags, kFlags, 1), M(cr_put_file, reserved, kFlags, 0)),
    IOCTL("sharers", 1, CR_IOC_SHARERS, M(cr_sharers, fd, kDescriptor, 0), M(cr_sharers, flags, kFlags, 0), M(cr_sharers, reserved, kFlags, 0)),
    IOCTL("arena", 3, CR_IOC_ARENA, M(cr_arena, addr, kAddress, 0)),
    IOCTL("run", 5, CR_IOC_RUN, M(cr_run, tid, kTid, 0), M(cr_run, ncalls, kNumber, 4), M(cr_run, calls, kOffset, 0), M(cr_run, flags, kFlags, 1),
          M(cr_run, timeout_ms, kMs, 0)),
    IOCTL("snapshot", 5, CR_IOC_SNAPSHOT, M(cr_snapshot, flags, kFlags, 15), M(cr_snapshot, reserved, kFlags, 0), M(cr_snapshot, id, kId, 0), M(cr_snapshot, next, kId, 0)),
    IOCTL("snap_runs", 2, CR_IOC_SNAP_RUNS, ARRAY),
    IOCTL("snap_clean", 2, CR_IOC_SNAP_CLEAN, ARRAY),
    IOCTL("snap_drop", 1, CR_IOC_SNAP_DROP),
    IOCTL("dirty", 3, CR_IOC_DIRTY, M(cr_dirty, id, kId, 0), M(cr_dirty, ranges.buf, kBuffer, 0), M(cr_dirty, ranges.count, kCount, 0)),
    IOCTL("restore", 6, CR_IOC_RESTORE, M(cr_restore, source_fd, kDescriptor, 0), M(cr_restore, flags, kFlags, 7), M(cr_restore, id, kId, 0),
          M(cr_restore, runs, kRuns, 0), M(cr_restore, nruns, kCount, 0), M(cr_restore, scope, kScope, 0), M(cr_restore, nscope, kCount, 0),
          M(cr_restore, max_workers, kNumber, 8)),
    IOCTL("lineage", 1, CR_IOC_LINEAGE, M(cr_lineage, id, kId, 0), M(cr_lineage, flags, kFlags, 1), M(cr_lineage, reserved, kFlags, 0)),
    IOCTL("digest", 1, CR_IOC_DIGEST),
    IOCTL("set_threads", 2, CR_IOC_SET_THREADS, M(cr_set_threads, threads, kBuffer, 0), M(cr_set_threads, count, kCount, 0), M(cr_set_threads, room, kCount, 0),
          M(cr_set_threads, reserved, kFlags, 0)),
    IOCTL("rollback", 6, CR_IOC_ROLLBACK, M(cr_rollback, freeze.timeout_ms, kMs, 0), M(cr_rollback, pages.source_fd, kDescriptor, 0),
          M(cr_rollback, pages.flags, kFlags, 3), M(cr_rollback, pages.scope, kScope, 0), M(cr_rollback, pages.nscope, kCount, 0),
          M(cr_rollback, threads.threads, kBuffer, 0), M(cr_rollback, threads.count, kCount, 0), M(cr_rollback, counter.addr, kAddress, 0)),
    IOCTL("agent_wait", 1, CR_IOC_AGENT_WAIT, M(cr_agent, flags, kFlags, 1), M(cr_agent, status, kNumber, 200)),
    IOCTL("agent_ready", 1, CR_IOC_AGENT_READY, M(cr_agent, flags, kFlags, 0), M(cr_agent, status, kNumber, 200)),
    IOCTL("notify", 2, CR_IOC_NOTIFY, M(cr_notify, phase, kNumber, 7), M(cr_notify, flags, kFlags, 3), M(cr_notify, timeout_ms, kMs, 0)),
    IOCTL("outcome", 2, CR_IOC_OUTCOME, M(cr_notify, phase, kNumber, 7), M(cr_notify, flags, kFlags, 3), M(cr_notify, timeout_ms, kMs, 0)),
#ifdef CR_IOC_LEASE
    IOCTL("lease", 3, CR_IOC_LEASE, M(cr_lease, until_ns, kSoon, 0), M(cr_lease, flags, kFlags, 1)),
#endif

    // calls by parked threads: through the table or directly; and arbitrary writes to the table's memory
    {"call", 3, kAll, do_call, 0,
     {SLOT, N("offset", kOffset, 0), N("flags", kFlags, 1), N("nr", kNr, 0), N("a0", kWord, 0), N("a1", kWord, 0), N("a2", kWord, 0), N("a3", kWord, 0),
      N("a4", kWord, 0), N("a5", kWord, 0)}},
    {"run1", 24, kAll, do_run1, 0,
     {SLOT, N("tid", kTid, 0), N("flags", kFlags, 1), N("ms", kMs, 0), N("nr", kNr, 0), N("a0", kWord, 0), N("a1", kWord, 0), N("a2", kWord, 0),
      N("a3", kWord, 0), N("a4", kWord, 0), N("a5", kWord, 0)}},
    {"poke", 1, kAll, do_poke, 0, {SLOT, N("offset", kOffset, 0), N("value", kWord, 0)}},

    // the target
    {"order", 12, kAll, do_order, 0, {N("t", kTarget, 0), N("thread", kNumber, 3), N("what", kCommand, 0), N("a0", kWord, 0), N("a1", kWord, 0), N("a2", kWord, 0)}},
    {"order_wait", 4, kAll, do_order_wait, 0,
     {N("t", kTarget, 0), N("thread", kNumber, 3), N("what", kCommand, 0), N("a0", kWord, 0), N("a1", kWord, 0), N("a2", kWord, 0)}},
    {"kill", 4, kAll, do_kill, 0, {N("t", kTarget, 0), N("thread", kNumber, 3), N("signal", kSignal, 0)}},
    {"ptrace", 2, kAll, do_ptrace, 0, {N("t", kTarget, 0), N("thread", kNumber, 3), N("ms", kMs, 0)}},
    {"proc_read", 2, kAll, do_proc_read, 0, {N("t", kTarget, 0), N("which", kNumber, 7)}},
    {"clear_refs", 1, kAll, do_clear_refs, 0, {N("t", kTarget, 0), N("value", kNumber, 5)}},

    // the machine
    {"cgroup_freeze", 2, kRoot, do_cgroup_freeze, 0, {N("t", kTarget, 0), N("on", kNumber, 1)}},
    {"memory_high", 1, kRoot, do_memory_high, 0, {N("t", kTarget, 0), N("bytes", kLength, 0)}},
    {"memory_max", 1, kRoot, do_memory_max, 0, {N("bytes", kNumber, 1 << 24)}},
    {"reclaim", 2, kRoot, do_reclaim, 0, {N("t", kTarget, 0), N("bytes", kLength, 0)}},
    {"hotplug", 1, kRoot, do_hotplug, 0, {N("on", kNumber, 1)}},
    {"unload", 1, kRoot, do_unload, 0, {}},
    {"load", 1, kRoot, do_load, 0, {}},
    {"sysctl", 1, kRoot, do_sysctl, 0, {N("which", kNumber, 4)}},

    // the order of lanes, and the end of the lane's own executor
    {"sleep", 3, kAll, do_sleep, 0, {N("ms", kMs, 0)}},
    {"flag", 2, kAll, do_flag, 0, {N("n", kNumber, kFlags - 1)}},
    {"await", 2, kAll, do_await, 0, {N("n", kNumber, kFlags - 1)}},
    {"die", 2, kAll, do_die, 0, {}},
};

constexpr Kind A = Kind::kAddress, L = Kind::kLength, Z = Kind::kNone, P = Kind::kProt, W = Kind::kNumber, F = Kind::kMapFlags;

// Root's targets also make these calls: none has effects beyond the process.
const std::vector<Name> kCalls = {
    {"getpid", SYS_getpid, {}},
    {"gettid", SYS_gettid, {}},
    {"geteuid", SYS_geteuid, {}},
    {"read", SYS_read, {W, A, L}},
    {"getrandom", SYS_getrandom, {A, L}},
    {"poll", SYS_poll, {A, Z, W}},
    {"pause", SYS_pause, {}},
    {"nanosleep", SYS_nanosleep, {A, A}},
    {"futex", SYS_futex, {A, W, W, Z}},
    {"sched_yield", SYS_sched_yield, {}},
    {"mmap", SYS_mmap, {A, L, P, F, Kind::kDescriptor, Z}},
    {"munmap", SYS_munmap, {A, L}},
    {"mprotect", SYS_mprotect, {A, L, P}},
    {"mremap", SYS_mremap, {A, L, L, W, A}},
    {"madvise", SYS_madvise, {A, L, Kind::kAdvice}},
    {"mlock", SYS_mlock, {A, L}},
    {"mseal", SYS_mseal, {A, L}},
    {"brk", SYS_brk, {A}},
    {"remap_file_pages", SYS_remap_file_pages, {A, L, Z, W}},
    {"clone", SYS_clone, {Kind::kCloneFlags, A}},
    {"clone3", SYS_clone3, {A, W}},
    {"fork", SYS_fork, {}},
    {"vfork", SYS_vfork, {}},
    {"wait4", SYS_wait4, {W, A, W}},
    {"exit", SYS_exit, {W}},
    {"exit_group", SYS_exit_group, {W}},
    {"rt_sigreturn", SYS_rt_sigreturn, {}},
    {"rt_sigprocmask", SYS_rt_sigprocmask, {W, A, A, W}},
    {"rt_sigaction", SYS_rt_sigaction, {W, A, A, W}},
    {"rt_sigtimedwait", SYS_rt_sigtimedwait, {A, A, A, W}},
    {"sigaltstack", SYS_sigaltstack, {A, A}},
    {"execve", SYS_execve, {Kind::kString, Z, Z}},
    {"dup", SYS_dup, {W}},
    {"dup2", SYS_dup2, {W, W}},
    {"close", SYS_close, {W}},
    {"close_range", SYS_close_range, {W, Kind::kWord, W}},
    {"pipe", SYS_pipe, {A}},
    {"prctl", SYS_prctl, {W, W, A, A, Z}},
    {"arch_prctl", SYS_arch_prctl, {W, A}},
    {"set_robust_list", SYS_set_robust_list, {A, W}},
    {"set_tid_address", SYS_set_tid_address, {A}},
    {"rseq", SYS_rseq, {A, W, W, Kind::kWord}},
    {"userfaultfd", SYS_userfaultfd, {W}},
    {"membarrier", SYS_membarrier, {W, W}},
    {"setresuid", SYS_setresuid, {Kind::kWord, Kind::kWord, Kind::kWord}},
    {"unshare", SYS_unshare, {Kind::kCloneFlags}},
    {"setsid", SYS_setsid, {}},
    {"io_uring_setup", SYS_io_uring_setup, {W, A}},
    {"io_setup", SYS_io_setup, {W, A}},
};

const std::vector<Name> kCommandNames = {
    {"nop", kNop, {}},
    {"fork", kFork, {W}},
    {"vfork_exec", kVforkExec, {W}},
    {"clone_thread", kCloneThread, {W}},
    {"clone_vm", kCloneVm, {W}},
    {"exit_thread", kExitThread, {}},
    {"exit_group", kExitGroup, {}},
    {"exec", kExec, {}},
    {"exec_suid", kExecSuid, {}},
    {"mmap", kMmap, {A, L, P}},
    {"munmap", kMunmap, {A, L}},
    {"mprotect", kMprotect, {A, L, P}},
    {"mremap", kMremap, {A, L, L}},
    {"madvise", kMadvise, {A, L, Kind::kAdvice}},
    {"touch", kTouch, {W, W}},
    {"arena_mprotect", kArenaMprotect, {W, L, P}},
    {"arena_munmap", kArenaMunmap, {W, L}},
    {"arena_mremap", kArenaMremap, {W, L, L}},
    {"arena_write", kArenaWrite, {W, W}},
    {"arena_over", kArenaOver, {W, L, P}},
    {"arena_advise", kArenaAdvise, {W, L, Kind::kAdvice}},
    {"agent", kAgent, {}},
    {"agent_ready", kAgentReady, {W}},
    {"nanosleep", kNanosleep, {W}},
    {"futex", kFutex, {W}},
    {"poll", kPoll, {W}},
    {"spin", kSpin, {W}},
    {"limit", kLimit, {W, L}},
    {"undumpable", kUndumpable, {W}},
    {"uffd_heap", kUffdHeap, {W, L}},
    {"io_uring", kIoUring, {}},
    {"altstack", kAltstack, {}},
    {"fds", kFds, {W}},
    {"lock", kLock, {A, L}},
    {"stop", kStop, {}},
    {"unshare", kUnshare, {W}},
    {"epoll", kEpoll, {W}},
    {"seccomp", kSeccomp, {}},
};

}  // namespace

const std::vector<Op>& ops() { return kOps; }
const std::vector<Name>& calls() { return kCalls; }
const std::vector<Name>& commands() { return kCommandNames; }

int find_op(std::string_view name) {
  for (size_t i = 0; i < kOps.size(); i++)
    if (name == kOps[i].name) return int(i);
  return -1;
}

const Name* named(const std::vector<Name>& list, uint64_t value) {
  for (const Name& n : list)
    if (n.value == value) return &n;
  return nullptr;
}

}  // namespace fuzz
