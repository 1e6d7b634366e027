// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bounds of the caller's input: offsets and counts, kernel memory that a session can
 * allocate, times; and lent files give no more rights than the target has.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cases.h"

static struct session s;
static pid_t pid;

static void frozen(void (*body)(void)) {
  pid = target(body);
  int r = session_open(&s, pid);
  need(!r, "attach: %d", r);
  r = session_freeze(&s, 5000, 0);
  need(r > 0, "freeze: %d", r);
  r = session_arena(&s, 0);
  need(!r, "arena: %d", r);
}
static void goes_on(void) {
  int r = session_thaw(&s, 0);
  expect(!r && runs_on(), "the program does not run on after the thaw (%d)", r);
}

/* ---- the address of a batch */

static int run_at(const void *calls, unsigned ncalls, struct cr_run *out) {
  struct cr_run r = {.tid = pid, .ncalls = ncalls, .calls = (uintptr_t)calls, .timeout_ms = 2000};
  int e = session_ioctl(&s, CR_IOC_RUN, &r);
  *out = r;
  return e;
}

// A table of calls may be anywhere in the caller's memory, and nowhere else.
static void batch_place(void) {
  struct cr_run r;
  frozen(ticking);
  char *at = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(at != MAP_FAILED && !munmap(at + 2 * PAGE, PAGE), "mmap");
  const struct cr_call getpid_ = {.nr = SYS_getpid};
  for (unsigned i = 0; i <= 2 * PAGE - sizeof getpid_; i += i < 100 ? 1 : 61) {
    memcpy(at + i, &getpid_, sizeof getpid_);
    int e = run_at(at + i, 1, &r);
    expect(!e && r.done == 1 && r.ret == pid, "calls at %u: %d, result %lld", i, e, r.ret);
  }
  for (unsigned i = 0; i < CR_MAX_CALLS; i++) s.calls[i] = getpid_;
  int e = run_at(s.calls, CR_MAX_CALLS, &r);
  expect(!e && r.done == CR_MAX_CALLS && r.ret == pid, "as many calls as may be: %d, done %u", e, r.done);
  static const unsigned wrong[] = {0, CR_MAX_CALLS + 1, 1u << 26, 1u << 31, ~0u};
  for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
    e = run_at(s.calls, wrong[i], &r);
    expect(e == -EINVAL && !r.done && !r.ret, "%u calls: %d", wrong[i], e);
  }
  const void *const nowhere[] = {NULL, at + 2 * PAGE, at + 2 * PAGE - 1, (void *)0xffffffff81000000, (void *)~0ULL};
  for (size_t i = 0; i < ARRAY_SIZE(nowhere); i++) {
    e = run_at(nowhere[i], 1, &r);
    expect(e == -EFAULT && !r.done && !r.ret, "calls at %p: %d", nowhere[i], e);
  }
  goes_on();
}

/* ---- memory */

static long kilobytes(const char *key) { return file_number("/proc/meminfo", key); }

static void *stuck(void *arg) {
  (void)arg;
  if (!vfork()) {
    pause();
    _exit(0);
  }
  return NULL;
}
enum { STUCK = 8 };
static void stuck_target(void) {
  pthread_t t;
  for (int i = 0; i < STUCK; i++) pthread_create(&t, NULL, stuck, NULL);
  sleep_ms(200);
  sh->ready = 1;
  tick(0);
}

// A freeze must not allocate another request for a thread that has not parked since the last one: memory would grow.
static void failed_freezes(void) {
  enum { FREEZES = 800 };
  pid = target(stuck_target);
  need(!session_open(&s, pid), "attach");
  for (int i = 0; i < 100; i++) session_freeze(&s, 1, 0);
  long before = kilobytes("SUnreclaim:");
  int r = 0;
  for (int i = 0; i < FREEZES; i++) {
    r = session_freeze(&s, 1, 0);
    need(r < 0, "a freeze with %d threads in vfork: %d", STUCK, r);
  }
  long grown = kilobytes("SUnreclaim:") - before;
  note("the kernel's memory grew by %ld kB", grown);
  expect(r == -ETIMEDOUT && s.why.reason == CR_WHY_STUCK, "a thread in vfork: %d, reason %u", r, s.why.reason);
  // KASAN's quarantine delays freeing, so the debugging kernel relies on kmemleak instead.
  bool kept = getenv("REPRISE_SLOW") != NULL;
  expect(kept || grown < 1000, "%d failed freezes cost %ld kB", FREEZES, grown);
  expect(one_ticks(0), "the target does not run on");
  // the same with a new session each time, closed afterwards
  session_close(&s);
  before = kilobytes("SUnreclaim:");
  for (int i = 0; i < FREEZES / 3; i++) {
    need(!session_open(&s, pid), "attach");
    session_freeze(&s, 1, 0);
    session_close(&s);
  }
  grown = kilobytes("SUnreclaim:") - before;
  note("sessions: %ld kB", grown);
  expect(kept || grown < 2000, "%d closed sessions cost %ld kB", FREEZES / 3, grown);
}

static struct pit pit;
struct counted {
  const char *name;
  unsigned long request;
  uint64_t count;
};
static union {
  struct cr_array array;
  struct cr_dirty dirty;
  struct cr_restore restore;
} absurd_arg;
static volatile int ended_with, has_ended;
static void *absurd(void *arg) {
  const struct counted *c = arg;
  struct cr_array a = {.buf = (uintptr_t)pit.at, .count = c->count};
  if (c->request == CR_IOC_DIRTY)
    absurd_arg.dirty = (struct cr_dirty){.id = "one", .ranges = a};
  else if (c->request == CR_IOC_RESTORE)
    absurd_arg.restore = (struct cr_restore){.source_fd = -1, .scope = a.buf, .nscope = a.count};
  else
    absurd_arg.array = a;
  ended_with = session_ioctl(&s, c->request, &absurd_arg);
  has_ended = 1;
  return NULL;
}
static bool waits_or_ended(void *arg) {
  struct pollfd p = {pit.uffd, POLLIN, 0};
  (void)arg;
  return has_ended || poll(&p, 1, 0) == 1;
}

// The module must allocate memory for existing objects, not for the room that the caller claims to have.
static void absurd_counts(void) {
  static const uint64_t counts[] = {1u << 20, 1u << 26, 1ULL << 32, 1ULL << 60, ~0ULL};
  static const struct {
    const char *name;
    unsigned long request;
  } requests[] = {{"THREADS", CR_IOC_THREADS},     {"VMAS", CR_IOC_VMAS}, {"FDS", CR_IOC_FDS},
                  {"SNAP_RUNS", CR_IOC_SNAP_RUNS}, {"SNAP_CLEAN", CR_IOC_SNAP_CLEAN}, {"DIRTY", CR_IOC_DIRTY}, {"RESTORE", CR_IOC_RESTORE}};
  struct cr_snapshot snapshot = {.flags = CR_SNAP_PAGES | CR_SNAP_TRACK, .id = "one"};
  frozen(ticking);
  need(!session_ioctl(&s, CR_IOC_SNAPSHOT, &snapshot), "snapshot");
  for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
    for (size_t k = 0; k < ARRAY_SIZE(counts); k++) {
      struct counted c = {requests[i].name, requests[i].request, counts[k]};
      pthread_t t;
      if (!pit_open(&pit, 4 << 20)) skip("no userfaultfd");
      long before = kilobytes("MemFree:");
      has_ended = 0;
      need(!pthread_create(&t, NULL, absurd, &c), "pthread_create");
      need(soon(waits_or_ended, NULL, 15), "%s with room for %#llx does nothing", c.name, (unsigned long long)c.count);
      sleep_ms(20);
      long taken = before - kilobytes("MemFree:");
      pit_fill(&pit);
      pthread_join(t, NULL);
      pit_close(&pit);
      expect(taken < 24000, "%s with room for %#llx takes %ld kB", c.name, (unsigned long long)c.count, taken);
      bool unread = c.request == CR_IOC_RESTORE && ended_with == -EFAULT;  // its buffer is shorter than the count
      expect(!ended_with || ended_with == -EINVAL || ended_with == -E2BIG || unread, "%s with room for %#llx: %d", c.name,
             (unsigned long long)c.count, ended_with);
    }
  goes_on();
}

static void high_target(void) {
  struct rlimit l = {1 << 20, 1 << 20};
  setrlimit(RLIMIT_NOFILE, &l);
  sh->value[0] = dup2(0, (1 << 20) - 1);
  sh->value[1] = dup2(0, 500000);
  ticking();
}
static void high_descriptors(void) {
  static struct cr_fd fds[1024];
  frozen(high_target);
  need(sh->value[0] > 500000, "dup2: %ld", sh->value[0]);
  for (int i = 0; i < 20; i++) {
    struct cr_array a = {.buf = (uintptr_t)fds, .count = ARRAY_SIZE(fds)};
    int r = session_ioctl(&s, CR_IOC_FDS, &a);
    need(!r && a.count >= 3, "FDS: %d, %llu", r, a.count);
    expect(fds[a.count - 1].fd == sh->value[0] && fds[a.count - 2].fd == 500000 && fds[a.count - 1].same_as == 0,
           "the last descriptors are %d and %d", fds[a.count - 2].fd, fds[a.count - 1].fd);
  }
  goes_on();
}

/* ---- times */

static void long_times(void) {
  static const unsigned times[] = {~0u, 1u << 31, (1u << 31) - 1, 3600001};
  pid = target(ticking);
  need(!session_open(&s, pid), "attach");
  for (size_t i = 0; i < ARRAY_SIZE(times); i++)
    for (int k = 0; k < 3; k++) {
      int r = session_freeze(&s, k == 1 ? 0 : times[i], k == 2 ? 0 : times[i]);
      expect(r == THREADS || r == -EINVAL, "freeze with times of %u ms: %d", times[i], r);
      if (r < 0) continue;
      expect(stands_still(), "freeze with times of %u ms: it moves", times[i]);
      need(!session_arena(&s, 0), "arena");
      struct cr_run run;
      s.calls[0] = (struct cr_call){.nr = SYS_getpid};
      r = session_run(&s, pid, 1, 0, times[i], &run);
      expect((!r && run.ret == pid) || r == -EINVAL, "a call with a time of %u ms: %d", times[i], r);
      goes_on();
    }
  struct cr_notify n = {.phase = CR_PHASE_CHECKPOINT, .timeout_ms = ~0u};
  int r = session_ioctl(&s, CR_IOC_NOTIFY, &n);
  expect(r == -ENOENT || r == -EINVAL, "notify: %d", r);
}

static void *idle_run(void *arg) {
  struct timespec *ts = (struct timespec *)(void *)(s.data + 4096);
  struct cr_run run;
  *ts = (struct timespec){4, 0};
  s.calls[0] = (struct cr_call){.nr = SYS_nanosleep, .arg = {s.arena.data_addr + 4096, 0}};
  *(volatile pid_t *)arg = gettid();
  int r = session_run(&s, pid, 1, 0, 10000, &run);
  expect(!r && !run.ret, "nanosleep: %d, %lld", r, run.ret);
  return NULL;
}
static void idle_wakes(void) {
  pthread_t t;
  volatile pid_t tid = 0;
  char name[64];
  frozen(ticking);
  need(!pthread_create(&t, NULL, idle_run, (void *)&tid), "pthread_create");
  while (!tid) sleep_ms(1);
  sleep_ms(500);
  snprintf(name, sizeof name, "/proc/self/task/%d/status", tid);
  long before = file_number(name, "\nvoluntary_ctxt_switches:");
  sleep_ms(2000);
  long woken = file_number(name, "\nvoluntary_ctxt_switches:") - before;
  note("%ld times in 2 s", woken);
  expect(before >= 0 && woken < 60, "a requester that waits for a call wakes %ld times in 2 s", woken);
  pthread_join(t, NULL);
  goes_on();
}

/* ---- lent files */

enum { PRIVATE_READ, PRIVATE_WRITE, SHARED_READ, SHARED_WRITE, MEMFD_PRIVATE, MAPPINGS };
static char file_name[64];
static void mapping_target(void) {
  static const struct {
    int open, prot, flags;
  } how[] = {{O_RDWR, PROT_READ, MAP_PRIVATE},
             {O_RDWR, PROT_READ | PROT_WRITE, MAP_PRIVATE},
             {O_RDONLY, PROT_READ, MAP_SHARED},
             {O_RDWR, PROT_READ | PROT_WRITE, MAP_SHARED},
             {0, PROT_READ, MAP_PRIVATE}};
  for (int i = 0; i < MAPPINGS; i++) {
    int fd = i == MEMFD_PRIVATE ? memfd_create("private", 0) : open(file_name, how[i].open);
    if (fd < 0 || (i == MEMFD_PRIVATE && ftruncate(fd, PAGE))) abort();
    sh->at[i] = mmap(NULL, PAGE, how[i].prot, how[i].flags, fd, 0);
    if (sh->at[i] == MAP_FAILED) abort();
    if (i == SHARED_WRITE)
      sh->value[0] = fd;
    else
      close(fd);
  }
  ticking();
}
static void lent_mappings(void) {
  static const char *const names[] = {"a private read-only mapping", "a private mapping", "a shared read-only mapping",
                                      "a shared mapping", "a private mapping of a memfd"};
  snprintf(file_name, sizeof file_name, "/tmp/mapped-%d", getpid());
  int fd = open(file_name, O_RDWR | O_CREAT, 0600);
  need(fd >= 0 && !ftruncate(fd, PAGE), "%s: errno %d", file_name, errno);
  frozen(mapping_target);
  for (int i = 0; i < MAPPINGS; i++) {
    struct cr_get_file g = {.kind = CR_FILE_VMA, .which = (uintptr_t)sh->at[i]};
    int r = session_ioctl(&s, CR_IOC_GET_FILE, &g);
    need(!r, "file of %s: %d", names[i], r);
    int mode = fcntl(g.fd, F_GETFL) & O_ACCMODE;
    expect(mode == (i == SHARED_WRITE ? O_RDWR : O_RDONLY), "the file of %s has access mode %d", names[i], mode);
    ssize_t n = pwrite(g.fd, "x", 1, 0);
    expect(n == (i == SHARED_WRITE ? 1 : -1), "the file of %s can%s be written", names[i], n == 1 ? "" : "not");
    void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, g.fd, 0);
    expect((at != MAP_FAILED) == (i == SHARED_WRITE), "the file of %s is mapped %p", names[i], at);
    char byte;
    expect(pread(g.fd, &byte, 1, 0) == 1, "the file of %s cannot be read", names[i]);
    if (i == SHARED_WRITE) {  // a separate open file description: the target's offset must not change
      lseek(g.fd, 77, SEEK_SET);
      long offset = session_call(&s, pid, SYS_lseek, (uint64_t)sh->value[0], 0, SEEK_CUR, 0, 0, 0);
      expect(!offset, "the target's offset moved to %ld", offset);
    }
    close(g.fd);
  }
  struct cr_get_file g = {.kind = CR_FILE_EXE};
  int r = session_ioctl(&s, CR_IOC_GET_FILE, &g);
  expect(!r && (fcntl(g.fd, F_GETFL) & O_ACCMODE) == O_RDONLY, "the executable: %d", r);
  goes_on();
  unlink(file_name);
}

/* ---- registers */

static void partial_registers(void) {
  frozen(ticking);
  struct user_regs_struct before, now, full;
  struct cr_regs g = {.tid = pid, .type = NT_PRSTATUS, .buf = (uintptr_t)&before, .len = sizeof before};
  need(!session_ioctl(&s, CR_IOC_GET_REGS, &g), "registers");
  for (unsigned len = 1; len <= sizeof before; len += len < 16 ? 1 : 8) {
    need(session_call(&s, pid, SYS_getpid, 0) == pid, "a call");
    full = before;
    full.r15 ^= 1;
    g = (struct cr_regs){.tid = pid, .type = NT_PRSTATUS, .buf = (uintptr_t)&full, .len = len};
    int r = session_ioctl(&s, CR_IOC_SET_REGS, &g);
    expect(!r || r == -EINVAL, "%u bytes of registers: %d", len, r);
    g = (struct cr_regs){.tid = pid, .type = NT_PRSTATUS, .buf = (uintptr_t)&now, .len = sizeof now};
    need(!session_ioctl(&s, CR_IOC_GET_REGS, &g), "registers");
    expect(now.rip == before.rip && now.rsp == before.rsp && now.r13 == before.r13 && now.rbp == before.rbp,
           "after %u bytes of registers were set: rip %#llx, not %#llx", len, now.rip, before.rip);
    g = (struct cr_regs){.tid = pid, .type = NT_PRSTATUS, .buf = (uintptr_t)&before, .len = sizeof before};
    need(!session_ioctl(&s, CR_IOC_SET_REGS, &g), "registers put back");
  }
  need(session_call(&s, pid, SYS_getpid, 0) == pid, "a call");
  g = (struct cr_regs){.tid = pid, .type = NT_PRSTATUS, .buf = (uintptr_t)&before, .len = 8};
  session_ioctl(&s, CR_IOC_SET_REGS, &g);
  goes_on();
}

/* ---- rseq, syscall user dispatch, agents */

static volatile char selector;
static void on_sigsys(int sig) {
  (void)sig;
  selector = 0;
  sh->wrong++;
}
static void dispatch_target(void) {
  signal(SIGSYS, on_sigsys);
  if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector)) sh->value[0] = errno;
  sh->ready = 1;
  selector = 1;
  for (;;) sh->ticks[0]++;
}
static void user_dispatch(void) {
  pid = target(dispatch_target);
  if (sh->value[0]) skip("no syscall user dispatch");
  sleep_ms(50);
  int r = session_open(&s, pid);
  if (!r) r = session_freeze(&s, 5000, 0);
  note("attach and freeze: %d, reason %u", r, s.why.reason);
  if (r < 0) {
    expect(r == -EOPNOTSUPP && s.why.reason > CR_WHY_SHADOW_STACK, "refused: %d, reason %u", r, s.why.reason);
  } else {
    need(!session_arena(&s, 0), "arena");
    long got = session_call(&s, pid, SYS_getpid, 0);
    expect(got == pid, "a call: %ld", got);
    session_thaw(&s, 0);
  }
  expect(one_ticks(0) && !sh->wrong, "it does not run on as before: state %c, %ld times SIGSYS", task_state(pid), sh->wrong);
}

static void on_alarm(int sig) { (void)sig; }
static void register_agent(void *arg) {
  int dev = *(int *)arg;
  struct sigaction a = {.sa_handler = on_alarm};
  struct itimerval often = {{0, 20000}, {0, 20000}};
  struct cr_agent agent = {0};
  sigaction(SIGALRM, &a, NULL);
  if (dev < 0) dev = open(CR_DEVICE, O_RDWR);
  setitimer(ITIMER_REAL, &often, NULL);
  int r = ioctl(dev, CR_IOC_AGENT_WAIT, &agent);
  _exit(r && errno == EINTR ? 0 : errno);
}
// An agent whose process has ended serves no process, even if its descriptor is still open.
static void agents_gone(void) {
  enum { TIMES = 40 };
  int devs[TIMES], status;
  for (int i = 0; i < TIMES; i++) {
    devs[i] = open(CR_DEVICE, O_RDWR);
    bool ended = ends(process(register_agent, &devs[i]), 10, &status);
    need(ended && !status, "process %d cannot register on an inherited descriptor: errno %d", i, status >> 8);
  }
  int own = -1;
  for (int i = 0; i < 3 * TIMES; i++) {
    bool ended = ends(process(register_agent, &own), 10, &status);
    need(ended && !status, "process %d cannot register: errno %d", i, status >> 8);
  }
  // a request to a process without an agent does not wait for another process's agent
  pid = target(ticking);
  need(!session_open(&s, pid), "attach");
  struct cr_notify n = {.phase = CR_PHASE_CHECKPOINT, .timeout_ms = 1000};
  int r = session_ioctl(&s, CR_IOC_NOTIFY, &n);
  expect(r == -ENOENT, "notify: %d", r);
}

/* ---- limits for one user, and the device's permissions */

static void parameter(const char *name, const char *value) {
  char path[100];
  snprintf(path, sizeof path, "/sys/module/cr/parameters/%s", name);
  int fd = open(path, O_WRONLY);
  need(fd >= 0 && write(fd, value, strlen(value)) > 0, "%s: errno %d", path, errno);
  close(fd);
}

static void become_user(void) {
  if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000)) _exit(9);
}

static void of_a_user(void *arg) {
  become_user();
  enum { ALLOWED = 8 };
  int devs[ALLOWED + 1], n = 0;
  (void)arg;
  while (n <= ALLOWED && (devs[n] = open(CR_DEVICE, O_RDWR)) >= 0) n++;
  if (n != ALLOWED || errno != EDQUOT) _exit(1);
  close(devs[--n]);
  if ((devs[n] = open(CR_DEVICE, O_RDWR)) < 0) _exit(2);
  n++;
  while (n) close(devs[--n]);
  int r = session_open(&s, pid);
  if (r) _exit(3);
  r = session_freeze(&s, 5000, 0);
  if (r != -EDQUOT) _exit(4);
  _exit(0);
}
static void users_target(void) {
  become_user();
  prctl(PR_SET_DUMPABLE, 1);
  ticking();
}
static void ceilings(void) {
  int status = 0;
  struct stat st;
  need(!stat(CR_DEVICE, &st) && !chmod(CR_DEVICE, 0666), "%s: errno %d", CR_DEVICE, errno);
  pid = target(users_target);
  parameter("max_sessions", "8");
  parameter("max_threads", "3");
  bool ended = ends(process(of_a_user, NULL), 20, &status);
  int root[20], opened = 0;
  while (opened < 20 && (root[opened] = open(CR_DEVICE, O_RDWR)) >= 0) opened++;
  parameter("max_sessions", "4096");
  parameter("max_threads", "131072");
  chmod(CR_DEVICE, st.st_mode & 0777);
  expect(ended && !status, "a user beyond his ceilings: wait status %#x", status);
  expect(opened == 20, "root is held to a user's ceiling: %d sessions", opened);
  while (opened) close(root[--opened]);
  expect(runs_on(), "the target does not run on");
}

// clone() beyond the limit of held threads fails; one within the limit succeeds even if its session has no other room.
static void clones_to_the_ceiling(void *arg) {
  bool room = arg != NULL;
  struct cr_thread t[THREADS + 8];
  become_user();
  if (session_open(&s, pid) || session_freeze(&s, 5000, 0) != THREADS || session_arena(&s, 0)) _exit(1);
  uint64_t flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
  for (int i = 0; i < 50; i++) {
    long born = session_call(&s, pid, SYS_clone, flags, s.arena.data_addr + s.arena.data_size, 0, 0, 0, 0);
    if (room ? born <= 0 : born != SESSION_FAILED - EDQUOT) _exit(2);
    if (session_threads(&s, t, ARRAY_SIZE(t)) != THREADS + room) _exit(3);
    if (room && session_call(&s, (pid_t)born, SYS_exit, 0) != SESSION_ENDED) _exit(4);
  }
  _exit(session_thaw(&s, 0) ? 5 : 0);
}
static void clone_ceiling(void) {
  char ceiling[16];
  struct stat st;
  need(!stat(CR_DEVICE, &st) && !chmod(CR_DEVICE, 0666), "%s: errno %d", CR_DEVICE, errno);
  for (int room = 0; room < 2; room++) {
    int status = 0;
    pid = target(users_target);
    snprintf(ceiling, sizeof ceiling, "%d", THREADS + room);
    parameter("max_threads", ceiling);
    bool ended = ends(process(clones_to_the_ceiling, room ? &room : NULL), 20, &status);
    parameter("max_threads", "131072");
    expect(ended && !status, "room for %d: wait status %#x", room, status);
    expect(runs_on(), "room for %d: the target does not run on", room);
    kill(pid, SIGKILL);
  }
  chmod(CR_DEVICE, st.st_mode & 0777);
}

static void device_mode(void) {
  struct stat was, st;
  need(!stat(CR_DEVICE, &was), "%s: errno %d", CR_DEVICE, errno);
  if (system("rmmod cr && insmod /lib/modules/$(uname -r)/updates/cr.ko")) skip("the module cannot be reloaded");
  bool there = !stat(CR_DEVICE, &st);
  chmod(CR_DEVICE, was.st_mode & 0777);
  expect(there && (st.st_mode & 0777) == 0660 && st.st_uid == 0 && st.st_gid == 0, "%s has mode %o, uid %u, gid %u",
         CR_DEVICE, st.st_mode & 0777, st.st_uid, st.st_gid);
}

int main(int argc, char **argv) {
  static const struct tcase cases[] = {
      {"batch_place", batch_place},
      {"failed_freezes", failed_freezes, 60},
      {"absurd_counts", absurd_counts},
      {"high_descriptors", high_descriptors},
      {"long_times", long_times},
      {"idle_wakes", idle_wakes},
      {"lent_mappings", lent_mappings},
      {"partial_registers", partial_registers},
      {"user_dispatch", user_dispatch},
      {"agents_gone", agents_gone},
      {"ceilings", ceilings},
      {"clone_ceiling", clone_ceiling},
      {"device_mode", device_mode},
  };
  return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
