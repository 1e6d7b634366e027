// SPDX-License-Identifier: GPL-2.0-only
// Actions on targets and on the machine, and actions that order the lanes.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "executor.h"

namespace fuzz {
namespace {

pid_t thread_of(const uint64_t* v) {
  const auto& t = targets->target[v[0] % kTargets];
  pid_t tid = t.tid[v[1] % kTargetThreads];
  return tid ? tid : t.pid.load();
}

Order& give(Context& c, const uint64_t* v) {
  Order& o = targets->target[v[0] % kTargets].order[v[1] % kTargetThreads];
  o.command = uint32_t(v[2]);
  for (int i = 0; i < 3; i++) o.arg[i] = resolve(c, c.slots[0], v[3 + i]);
  o.seq++;
  syscall(SYS_futex, &o.seq, FUTEX_WAKE, 100, nullptr, nullptr, 0);
  return o;
}

std::string of_target(uint64_t t, const char* file) { return "t" + std::to_string(t % kTargets) + "/" + file; }
long done(bool ok) { return ok ? 0 : -errno; }

}  // namespace

FUZZ_ACTION(do_order) {
  (void)a;
  give(c, v);
  return 0;
}

FUZZ_ACTION(do_order_wait) {
  (void)a;
  Order& o = give(c, v);
  uint32_t seq = o.seq;
  for (int i = 0; i < 100 && int32_t(o.ack - seq) < 0; i++) sleep_us(1000);
  return int32_t(o.ack - seq) < 0 ? -ETIMEDOUT : 0;
}

// Signals a target's thread, or with thread 0 its process. Never 0 or less: that would be many processes.
FUZZ_ACTION(do_kill) {
  (void)a, (void)c;
  pid_t tid = thread_of(v), pid = targets->target[v[0] % kTargets].pid;
  if (tid <= 1 || pid <= 1) return -ESRCH;
  return done(!(v[1] % kTargetThreads ? syscall(SYS_tgkill, pid, tid, int(v[2] & 63)) : kill(pid, int(v[2] & 63))));
}

FUZZ_ACTION(do_ptrace) {
  (void)a, (void)c;
  pid_t tid = thread_of(v);
  if (tid <= 1) return -ESRCH;
  if (ptrace(PTRACE_SEIZE, tid, 0, 0)) return -errno;
  ptrace(PTRACE_INTERRUPT, tid, 0, 0);
  for (uint64_t i = 0; i < v[2] % 128; i++) {
    if (waitpid(tid, nullptr, __WALL | WNOHANG) == tid && i % 2) ptrace(PTRACE_CONT, tid, 0, 0);
    sleep_us(1000);
  }
  return done(!ptrace(PTRACE_DETACH, tid, 0, 0));
}

FUZZ_ACTION(do_proc_read) {
  (void)a, (void)c;
  static const char* const files[] = {"maps", "smaps", "status", "pagemap", "syscall", "stat", "environ", "numa_maps"};
  return get_file("/proc/" + std::to_string(targets->target[v[0] % kTargets].pid) + "/" + files[v[1] % 8]).empty() ? -EIO : 0;
}

FUZZ_ACTION(do_clear_refs) {
  (void)a, (void)c;
  return done(put_file("/proc/" + std::to_string(targets->target[v[0] % kTargets].pid) + "/clear_refs", std::to_string(v[1] % 6)));
}

FUZZ_ACTION(do_cgroup_freeze) {
  (void)a, (void)c;
  return done(cgroup_write(of_target(v[0], "cgroup.freeze"), v[1] & 1 ? "1" : "0"));
}

FUZZ_ACTION(do_memory_high) {
  (void)a, (void)c;
  return done(cgroup_write(of_target(v[0], "memory.high"), v[1] < 4096 ? "max" : std::to_string(v[1])));
}

FUZZ_ACTION(do_memory_max) {  // limits the executors: allocations in the module fail, or their caller is OOM-killed
  (void)a, (void)c;
  return done(cgroup_write("e/memory.max", v[0] < 4096 ? "max" : std::to_string((1 << 20) + v[0])));
}

FUZZ_ACTION(do_reclaim) {
  (void)a, (void)c;
  return done(cgroup_write(of_target(v[0], "memory.reclaim"), std::to_string(v[1] % (16 << 20))));
}

FUZZ_ACTION(do_hotplug) {
  (void)a, (void)c;
  return done(put_file("/sys/devices/system/cpu/cpu1/online", v[0] & 1 ? "1" : "0"));
}

FUZZ_ACTION(do_unload) {
  (void)a, (void)c, (void)v;
  return module_unload() ? 0 : -EBUSY;
}

FUZZ_ACTION(do_load) {
  (void)a, (void)c, (void)v;
  module_load();
  return 0;
}

FUZZ_ACTION(do_sysctl) {
  (void)a, (void)c;
  static const char* const what[][2] = {{"/sys/kernel/mm/ksm/run", "1"},
                                        {"/proc/sys/vm/compact_memory", "1"},
                                        {"/proc/sys/vm/drop_caches", "3"},
                                        {"/sys/kernel/mm/ksm/run", "2"},
                                        {"/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "1"}};
  return done(put_file(what[v[0] % 5][0], what[v[0] % 5][1]));
}

FUZZ_ACTION(do_sleep) {
  (void)a, (void)c;
  sleep_us(unsigned(v[0] % 101) * 1000);
  return 0;
}

FUZZ_ACTION(do_flag) {
  (void)a, (void)c;
  auto& f = world->flag[v[0] % kFlags];
  f = 1;
  syscall(SYS_futex, &f, FUTEX_WAKE, 100, nullptr, nullptr, 0);
  return 0;
}

FUZZ_ACTION(do_await) {
  (void)a, (void)c;
  auto& f = world->flag[v[0] % kFlags];
  timespec t = {0, 20000000};
  for (int i = 0; i < 4 && !f; i++) syscall(SYS_futex, &f, FUTEX_WAIT, 0, &t, nullptr, 0);
  return f ? 0 : -ETIMEDOUT;
}

FUZZ_ACTION(do_die) {
  (void)a, (void)c, (void)v;
  return kill(getpid(), SIGKILL);
}

}  // namespace fuzz
