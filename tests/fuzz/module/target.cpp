// SPDX-License-Identifier: GPL-2.0-only
// A target: a process whose threads behave like an ordinary program's, and execute orders.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "cr.h"
#include "world.h"

namespace fuzz {
namespace {

int number;

void* address(uint64_t v) { return reinterpret_cast<void*>(v); }

// The session's arena in this process: its pages by their offset in the arena's file.
struct Arena {
  uint64_t start = 0, end = 0;
};
Arena arena() {
  Arena found;
  char line[512];
  FILE* f = fopen("/proc/self/maps", "re");
  if (!f) return found;
  while (fgets(line, sizeof line, f)) {
    unsigned long from, to;
    if (!strstr(line, CR_DEVICE) || sscanf(line, "%lx-%lx", &from, &to) != 2) continue;
    if (!found.start) found.start = from;
    found.end = to;
  }
  fclose(f);
  return found;
}

void* short_thread(void* arg) {
  sleep_us(unsigned(uint64_t(arg) % 100) * 1000);
  return nullptr;
}

int vm_child(void* arg) {
  sleep_us(unsigned(uint64_t(arg) % 200) * 1000);
  syscall(SYS_exit, 0);
  return 0;
}

void* agent(void* arg) {
  int fd = open(CR_DEVICE, O_RDWR | O_CLOEXEC);
  cr_agent a = {};
  if (!arg && ioctl(fd, CR_IOC_AGENT_WAIT, &a)) return nullptr;
  for (int i = 0; i < 3; i++) {
    a = {};
    a.status = int(uint64_t(arg) % 3 == 2 ? 5 : 0);
    if (ioctl(fd, CR_IOC_AGENT_READY, &a) || ioctl(fd, CR_IOC_AGENT_WAIT, &a)) break;
  }
  close(fd);
  return nullptr;
}

void start(void* (*run)(void*), uint64_t arg) {
  pthread_t t;
  if (!pthread_create(&t, nullptr, run, address(arg))) pthread_detach(t);
}

void execute(int path) { execve(targets->path[path], targets->argv, targets->envp); }

void obey(const Order& o) {
  const uint64_t a0 = o.arg[0], a1 = o.arg[1], a2 = o.arg[2];
  alignas(16) static char stacks[4][16384];
  static int next_stack;
  switch (o.command) {
    case kFork:
      if (!fork()) {
        sleep_us(unsigned(a0 % 200) * 1000);
        _exit(0);
      }
      break;
    case kVforkExec:
      if (!vfork()) {
        if (a0 & 1) sleep_us(30000);
        execve(targets->path[a0 >> 1 & 1], targets->argv, targets->envp);
        _exit(1);
      }
      break;
    case kCloneThread: start(short_thread, a0); break;
    case kCloneVm:
      clone(vm_child, stacks[next_stack++ & 3] + 16384, CLONE_VM | (a0 & 1 ? CLONE_FILES | CLONE_FS : 0) | SIGCHLD, address(a0));
      break;
    case kExitThread: syscall(SYS_exit, 0); break;
    case kExitGroup: _exit(0);
    case kExec: execute(0); break;
    case kExecSuid: execute(1); break;
    case kMmap:
      if (a0 >= kHeapAt && a0 < kHeapAt + kHeapSize && a1 <= kHeapSize)
        mmap(address(a0), a1, int(a2 & 7), MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      break;
    case kMunmap:
      if (a0 >= kHeapAt && a0 < kHeapAt + kHeapSize) munmap(address(a0), a1);
      break;
    case kMprotect: mprotect(address(a0), a1, int(a2 & 7)); break;
    case kMremap: (void)!mremap(address(a0), a1, a2, MREMAP_MAYMOVE); break;
    case kMadvise: madvise(address(a0), a1, int(a2)); break;
    case kTouch:
      for (uint64_t i = a0 % 1024; i < 1024; i += 1 + a1 % 64) static_cast<volatile uint64_t*>(address(kHeapAt))[i * 512] = i + a0;
      break;
    case kArenaMprotect:
    case kArenaMunmap:
    case kArenaMremap:
    case kArenaWrite:
    case kArenaOver:
    case kArenaAdvise: {
      Arena r = arena();
      if (!r.start) break;
      uint64_t at = r.start + (a0 & 3) * 4096, len = a1 < r.end - at ? a1 : r.end - at;
      if (o.command == kArenaMprotect) mprotect(address(at), len, int(a2 & 7));
      if (o.command == kArenaMunmap) munmap(address(at), len);
      if (o.command == kArenaMremap) (void)!mremap(address(at), len, a2, MREMAP_MAYMOVE);
      if (o.command == kArenaWrite && !mprotect(address(at), 4096, 7)) memset(address(at + a1 % 4096 / 2), 0x90, 64);
      if (o.command == kArenaOver) mmap(address(at), len, int(a2 & 7), MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      if (o.command == kArenaAdvise) madvise(address(at), len, int(a2));
      break;
    }
    case kAgent: start(agent, 0); break;
    case kAgentReady: start(agent, 1 + a0 % 2); break;
    case kNanosleep: sleep_us(unsigned(a0 % 300) * 1000); break;
    case kFutex: {
      static uint32_t word;
      timespec t = {0, long(a0 % 300) * 1000000};
      syscall(SYS_futex, &word, FUTEX_WAIT, 0, &t, nullptr, 0);
      break;
    }
    case kPoll: poll(nullptr, 0, int(a0 % 300)); break;
    case kEpoll: {
      epoll_event e;
      int fd = epoll_create1(EPOLL_CLOEXEC);
      epoll_wait(fd, &e, 1, int(a0 % 300));
      close(fd);
      break;
    }
    case kSpin:
      for (uint64_t i = 0; i < (a0 % 64) * 100000; i++) __asm__ volatile("" : "+r"(i));
      break;
    case kLimit: {
      const int which[] = {RLIMIT_AS, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_NPROC, RLIMIT_STACK, RLIMIT_DATA};
      rlimit l;
      getrlimit(__rlimit_resource(which[a0 % 6]), &l);
      l.rlim_cur = a1 < l.rlim_max ? a1 : l.rlim_max;
      setrlimit(__rlimit_resource(which[a0 % 6]), &l);
      break;
    }
    case kUndumpable: prctl(PR_SET_DUMPABLE, a0 & 1); break;
    case kUffdHeap: {  // no handler answers: a faulting thread waits until the target ends
      int fd = int(syscall(SYS_userfaultfd, O_CLOEXEC));
      uffdio_api api = {};
      api.api = UFFD_API;
      uffdio_register reg = {};
      reg.range = {kHeapAt + a0 % 512 * 4096, (1 + a1 % 16) * 4096};
      reg.mode = UFFDIO_REGISTER_MODE_MISSING;
      if (fd >= 0 && !ioctl(fd, UFFDIO_API, &api)) ioctl(fd, UFFDIO_REGISTER, &reg);
      break;
    }
    case kIoUring: {
      char params[120] = {};
      syscall(SYS_io_uring_setup, 4, params);
      break;
    }
    case kAltstack: {
      stack_t s = {};
      s.ss_sp = stacks[0];
      s.ss_size = sizeof stacks[0];
      sigaltstack(&s, nullptr);
      break;
    }
    case kFds:
      for (uint64_t i = 0; i < a0 % 64; i++) (void)!dup(0);
      break;
    case kLock: mlock(address(a0), a1); break;
    case kStop: raise(SIGSTOP); break;
    case kUnshare: unshare(a0 & 1 ? CLONE_FILES : CLONE_FS); break;
    case kSeccomp: {
      sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
      sock_fprog prog = {1, &allow};
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
      break;
    }
    default: break;
  }
}

// What a thread does between two orders: sleep in the kernel in various ways, write memory, compute.
void idle(int thread, Order& o, uint32_t seen, unsigned turn) {
  timespec t = {0, 20000000};
  auto* heap = static_cast<volatile unsigned char*>(address(kHeapAt));
  switch (thread) {
    case 1:
      for (unsigned i = 0; i < 100; i++) heap[(turn * 8191 + i * 997) % 0x100000] = (unsigned char)turn;
      [[fallthrough]];
    case 0: syscall(SYS_futex, &o.seq, FUTEX_WAIT, seen, &t, nullptr, 0); break;
    case 2: poll(nullptr, 0, 20); break;
    default: nanosleep(&t, nullptr);
  }
}

void* run_thread(void* arg) {
  int thread = int(uint64_t(arg));
  cover_thread(kLanes + number * kTargetThreads + thread);
  auto& me = targets->target[number];
  Order& o = me.order[thread];
  uint32_t seen = o.seq;
  me.tid[thread] = gettid();
  for (unsigned turn = 0;; turn++) {
    if (o.seq == seen) {
      idle(thread, o, seen, turn);
      continue;
    }
    seen = o.seq;
    obey(o);
    o.ack = seen;
  }
}

}  // namespace

void target(int which) {
  number = which;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "fuzz-target");
  cgroup_write("t" + std::to_string(which) + "/cgroup.procs", "0");
  munmap(world, sizeof *world);
  cover_leave();
  for (auto& i : inbox) close(i[0]), close(i[1]);
  if (which != kTargets - 1 && (setresgid(kUser, kUser, kUser) || setresuid(kUser, kUser, kUser))) _exit(2);
  prctl(PR_SET_DUMPABLE, 1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of ids clears it (commit_creds())
  if (mmap(address(kHeapAt), kHeapSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
    _exit(3);
  madvise(address(kHeapAt), kHeapSize / 2, MADV_NOHUGEPAGE);
  for (uint64_t i = 0; i < kHeapSize; i += 3 * 4096) *static_cast<volatile uint64_t*>(address(kHeapAt + i)) = i;
  int threads = which == 2 ? 1 : kTargetThreads;
  for (int i = 1; i < threads; i++) start(run_thread, uint64_t(i));
  run_thread(nullptr);
  _exit(0);
}

}  // namespace fuzz
