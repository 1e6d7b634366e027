// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module's ioctls, without libcr: freezing, reading state, system calls by
 * parked threads, snapshots, tracking, restoring, and what must be refused.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cr.h"

#define PAGE 4096UL
#define PAGES 512UL  // of the target's memory
#define THREADS 6

static int number, failed;
static void tap(int ok, const char *what) {
  printf("%sok %d - %s%s%s\n", ok ? "" : "not ", ++number, what, ok ? "" : " # errno ", ok ? "" : strerror(errno));
  fflush(stdout);
  failed += !ok;
}

/* ---- the target: its memory is checked from outside through a shared page */
struct shared {
  volatile int command, done, ready;
  volatile long ticks[THREADS];
  volatile long eintr;
  unsigned char *heap;
};
static struct shared *sh;

static void *ticker(void *arg) {
  long i = (long)arg;
  int pipes[2];
  if (pipe(pipes)) abort();
  struct pollfd p = {pipes[0], POLLIN, 0};
  for (;;) {
    if (i & 1) {
      if (poll(&p, 1, 20) < 0) sh->eintr++;
    }
    sh->ticks[i]++;
  }
  return NULL;
}

static void target(void) {
  unsigned char *heap = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(heap, PAGES * PAGE, MADV_NOHUGEPAGE);
  for (unsigned long i = 0; i < PAGES; i += 2) memset(heap + i * PAGE, (int)(i & 0xff) + 1, PAGE);
  sh->heap = heap;
  for (long i = 1; i < THREADS; i++) {
    pthread_t t;
    pthread_create(&t, NULL, ticker, (void *)i);
  }
  sh->ready = 1;
  for (;;) {
    sh->ticks[0]++;
    int c = sh->command;
    if (!c || sh->done == c) {
      usleep(1000);
      continue;
    }
    if (c % 2)  // change the memory
      for (unsigned long i = 0; i < PAGES; i += 7) memset(heap + i * PAGE, 0xee, PAGE);
    else
      munmap(heap + 8 * PAGE, PAGE), mmap(heap + 8 * PAGE, PAGE, 3, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sh->done = c;
  }
}

static int command(int c) {
  sh->command = c;
  for (int i = 0; i < 5000; i++) {
    if (sh->done == c) return 1;
    usleep(1000);
  }
  return 0;
}

/* ---- the session */
static pid_t pid;
static int dev, mem;
static int io(unsigned long request, void *arg) { return ioctl(dev, request, arg); }

static int frozen_still(void) {
  long before[THREADS], moved = 0;
  for (int i = 0; i < THREADS; i++) before[i] = sh->ticks[i];
  usleep(100000);
  for (int i = 0; i < THREADS; i++) moved += sh->ticks[i] != before[i];
  return !moved;
}

static int runs_on(void) {
  long before[THREADS], moved = 0;
  for (int i = 0; i < THREADS; i++) before[i] = sh->ticks[i];
  for (int n = 0; n < 100 && moved < THREADS; n++) {
    usleep(20000);
    moved = 0;
    for (int i = 0; i < THREADS; i++) moved += sh->ticks[i] != before[i];
  }
  return moved == THREADS;
}

static int attach(pid_t p) {
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/mem", p);
  if (mem > 0) close(mem);
  mem = open(name, O_RDWR | O_CLOEXEC);
  dev = open(CR_DEVICE, O_RDWR | O_CLOEXEC);
  struct cr_attach a = {.mem_fd = mem};
  int r = io(CR_IOC_ATTACH, &a);
  if (r) return -(int)a.why.reason;
  return a.pid;
}

static int freeze(void) {
  struct cr_freeze f = {.timeout_ms = 5000};
  if (io(CR_IOC_FREEZE, &f)) return -(int)f.why.reason - 1000;
  return (int)f.nthreads;
}

static int thaw(void) {
  struct cr_thaw t = {0};
  return io(CR_IOC_THAW, &t);
}

static struct cr_call table[CR_MAX_CALLS];
static char *data;  // of the arena
static struct cr_arena where;
static int map_arena(unsigned long at) {
  memset(&where, 0, sizeof where);
  where.addr = at;
  if (io(CR_IOC_ARENA, &where)) return 0;
  if (!data) data = mmap(NULL, where.data_size, PROT_READ | PROT_WRITE, MAP_SHARED, dev, 0);
  return data != MAP_FAILED;
}

static long call(pid_t tid, unsigned nr, unsigned long a, unsigned long b, unsigned long c, unsigned long d,
                 unsigned long e) {
  struct cr_run r = {.tid = tid, .ncalls = 1, .calls = (unsigned long)table};
  table[0] = (struct cr_call){.nr = nr, .arg = {a, b, c, d, e}};
  if (io(CR_IOC_RUN, &r)) return -100000 - errno;
  return r.gone ? -99999 : r.ret;
}

static int heap_right(void) {
  unsigned char page[PAGE];
  for (unsigned long i = 0; i < PAGES; i++) {
    if (pread(mem, page, PAGE, (off_t)((unsigned long)sh->heap + i * PAGE)) != (ssize_t)PAGE) return 0;
    unsigned char want = i % 2 ? 0 : (unsigned char)((i & 0xff) + 1);
    for (unsigned long k = 0; k < PAGE; k += 97)
      if (page[k] != want) return 0;
  }
  return 1;
}

static struct cr_range scope[4096];
static unsigned long get_scope(void) {
  static struct cr_vma v[4096];
  struct cr_array a = {.buf = (unsigned long)v, .count = 4096};
  unsigned long n = 0;
  if (io(CR_IOC_VMAS, &a)) return 0;
  for (unsigned long i = 0; i < a.count; i++)
    if (v[i].flags & CR_VMA_PAGES) scope[n++] = (struct cr_range){v[i].start, v[i].end - v[i].start};
  return n;
}

static void test_freeze(void) {
  struct cr_thread t[64];
  struct cr_array a = {.buf = (unsigned long)t, .count = 64};
  tap(attach(pid) == pid, "attach by /proc/PID/mem");
  tap(io(CR_IOC_THREADS, &a) < 0 && errno == ENOTCONN, "threads of a running process: ENOTCONN");
  tap(freeze() == THREADS, "freeze parks every thread");
  tap(frozen_still(), "nothing moves");
  tap(!io(CR_IOC_THREADS, &a) && a.count == THREADS && t[0].tid == pid && t[0].flags & CR_THREAD_LEADER,
      "threads, leader first");
  a.count = 2;
  tap(io(CR_IOC_THREADS, &a) < 0 && errno == ENOBUFS && a.count == THREADS, "short buffer: ENOBUFS and the number");
  struct user_regs_struct u;
  struct cr_regs r = {.tid = t[1].tid, .type = NT_PRSTATUS, .buf = (unsigned long)&u, .len = sizeof u};
  tap(!io(CR_IOC_GET_REGS, &r) && r.len == sizeof u && u.rip, "general registers");
  tap(!io(CR_IOC_SET_REGS, &r), "the same registers back");
  static char extended[CR_MAX_REGSET];
  struct cr_regs x = {.tid = t[1].tid, .type = NT_X86_XSTATE, .buf = (unsigned long)extended, .len = sizeof extended};
  tap(!io(CR_IOC_GET_REGS, &x) && x.len >= 576, "extended registers");
  struct cr_thread_regs one[2] = {
      {.tid = t[1].tid, .sigmask = t[1].sigmask | 1UL << (SIGUSR2 - 1), .general = (unsigned long)&u, .extended = (unsigned long)extended, .extended_len = x.len},
      {.tid = t[1].tid, .sigmask = t[1].sigmask, .general = (unsigned long)&u}};
  struct cr_set_threads set = {.threads = (unsigned long)one, .count = 1, .room = (unsigned)x.len};
  a.count = 64;
  tap(!io(CR_IOC_SET_THREADS, &set) && set.done == 1 && !io(CR_IOC_THREADS, &a) && t[1].sigmask == one[0].sigmask,
      "registers and signal mask in one call");
  set.count = 2;
  a.count = 64;
  tap(!io(CR_IOC_SET_THREADS, &set) && set.done == 2 && !io(CR_IOC_THREADS, &a) && t[1].sigmask == one[1].sigmask,
      "twice in one call, the second time without extended registers");
  one[1].tid = 1;
  tap(io(CR_IOC_SET_THREADS, &set) < 0 && errno == ESRCH && set.done == 1 && set.why.reason == CR_WHY_THREAD,
      "no thread of the target: ESRCH, and how many are set");
  one[1] = (struct cr_thread_regs){.tid = t[1].tid, .general = 8};
  tap(io(CR_IOC_SET_THREADS, &set) < 0 && errno == EFAULT, "no memory: EFAULT");
  one[0].flags = 2;
  tap(io(CR_IOC_SET_THREADS, &set) < 0 && errno == EINVAL && !set.done, "an unknown flag: EINVAL");
  one[0].flags = 0;
  set.room--;
  tap(io(CR_IOC_SET_THREADS, &set) < 0 && errno == EINVAL, "more extended registers than room: EINVAL");
  set = (struct cr_set_threads){.threads = (unsigned long)one, .count = CR_MAX_THREADS + 1};
  tap(io(CR_IOC_SET_THREADS, &set) < 0 && errno == EINVAL, "too many threads: EINVAL");
  set = (struct cr_set_threads){.threads = (unsigned long)one, .count = 1, .room = CR_MAX_REGSET + 1};
  tap(io(CR_IOC_SET_THREADS, &set) < 0 && errno == EINVAL, "too large registers: EINVAL");
  set = (struct cr_set_threads){.reserved = 1};
  tap(io(CR_IOC_SET_THREADS, &set) < 0 && errno == EINVAL, "a reserved member: EINVAL");
  set.reserved = 0;
  tap(!io(CR_IOC_SET_THREADS, &set) && !set.done, "no thread: nothing to do");
  tap(!thaw() && runs_on(), "thaw: every thread runs on");
  for (int i = 0; i < 50; i++) {
    if (freeze() != THREADS || thaw()) {
      tap(0, "50 freezes");
      return;
    }
    usleep(3000);
  }
  tap(runs_on() && !sh->eintr, "50 freezes in a row, no EINTR in the program");
}

static void test_run(void) {
  tap(freeze() == THREADS && map_arena(0), "map the arena");
  tap(call(pid, SYS_getpid, 0, 0, 0, 0, 0) == pid, "getpid by the leader");
  struct cr_thread t[64];
  struct cr_array a = {.buf = (unsigned long)t, .count = 64};
  io(CR_IOC_THREADS, &a);
  int all = 1;
  for (int i = 0; i < THREADS; i++) all &= call(t[i].tid, SYS_gettid, 0, 0, 0, 0, 0) == t[i].tid;
  tap(all, "gettid by every thread");
  for (int i = 0; i < 1000; i++) table[i] = (struct cr_call){.nr = SYS_getpid};
  struct cr_run r = {.tid = pid, .ncalls = 1000, .calls = (unsigned long)table};
  tap(!io(CR_IOC_RUN, &r) && r.done == 1000 && table[999].ret == pid, "a batch of 1000");
  table[0] = (struct cr_call){.nr = SYS_close, .flags = CR_CALL_STOP, .arg = {9999}};
  r = (struct cr_run){.tid = pid, .ncalls = 2, .calls = (unsigned long)table};
  tap(!io(CR_IOC_RUN, &r) && r.done == 1 && r.ret == -EBADF, "a failing call stops the batch");
  long at = call(pid, SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, (unsigned long)-1);
  tap(at > 0 && !call(pid, SYS_munmap, (unsigned long)at, PAGE, 0, 0, 0), "mmap and munmap");
  unsigned long flags = 0x10f00 | 0x40000;  // CLONE_VM|FS|FILES|SIGHAND|THREAD|SYSVSEM
  long tid = call(pid, SYS_clone, flags, (unsigned long)sh->heap + PAGE, 0, 0, 0);
  tap(tid > 0, "clone a thread");
  a.count = 64;
  int born = 0;
  for (int n = 0; n < 100 && !born; n++, usleep(10000)) {
    a.count = 64;
    io(CR_IOC_THREADS, &a);
    for (unsigned i = 0; i < a.count; i++) born |= t[i].tid == tid && t[i].flags & CR_THREAD_BORN;
  }
  tap(born && a.count == THREADS + 1, "it is parked from the beginning");
  tap(call((pid_t)tid, SYS_gettid, 0, 0, 0, 0, 0) == tid, "it makes calls");
  table[0] = (struct cr_call){.nr = SYS_poll, .arg = {0, 0, 100000}};
  r = (struct cr_run){.tid = (pid_t)tid, .ncalls = 1, .calls = (unsigned long)table, .flags = CR_RUN_BLOCK};
  tap(!io(CR_IOC_RUN, &r) && r.ret == -516, "parked inside a blocking call: -ERESTART_RESTARTBLOCK");
  tap(call((pid_t)tid, SYS_exit, 0, 0, 0, 0, 0) == -99999, "and leaves by exit");
  struct cr_put_file put = {.fd = 1};
  tap(!io(CR_IOC_PUT_FILE, &put) && !call(pid, SYS_close, (unsigned)put.target_fd, 0, 0, 0, 0), "put a descriptor in");
  put.fd = -1;
  tap(!io(CR_IOC_PUT_FILE, &put) && !call(pid, SYS_close, (unsigned)put.target_fd, 0, 0, 0, 0), "put a fresh /dev/cr in");
  put.fd = 99999;
  tap(io(CR_IOC_PUT_FILE, &put) < 0 && errno == EBADF, "no descriptor to put in: EBADF");
  put.fd = dev;
  tap(io(CR_IOC_PUT_FILE, &put) < 0 && errno == EINVAL, "the session into its own target: EINVAL");
  tap(map_arena(0), "move the arena");
  tap(call(pid, SYS_getpid, 0, 0, 0, 0, 0) == pid, "and use it there");
  struct cr_get_file get = {.kind = CR_FILE_FD, .which = 1};
  int got = !io(CR_IOC_GET_FILE, &get);
  tap(got && fcntl(get.fd, F_GETFD) == FD_CLOEXEC, "get a descriptor out");
  if (got) close(get.fd);
  get = (struct cr_get_file){.kind = CR_FILE_EXE};
  got = !io(CR_IOC_GET_FILE, &get);
  tap(got, "get the executable");
  struct cr_sharers sharers = {.fd = got ? get.fd : -1};
  tap(!io(CR_IOC_SHARERS, &sharers) && !sharers.mappings && !sharers.pid, "nobody shares the executable: what is private is not counted");
  if (got) close(get.fd);
  get = (struct cr_get_file){.kind = CR_FILE_VMA, .which = (unsigned long)sh};
  got = !io(CR_IOC_GET_FILE, &get);
  sharers = (struct cr_sharers){.fd = got ? get.fd : -1};
  tap(!io(CR_IOC_SHARERS, &sharers) && sharers.mappings && sharers.pid > 0 && sharers.pid != pid, "who shares its memory");
  sharers.flags = 1;
  tap(io(CR_IOC_SHARERS, &sharers) < 0 && errno == EINVAL, "unknown flags of it: EINVAL");
  if (got) close(get.fd);
  sharers = (struct cr_sharers){.fd = 99999};
  tap(io(CR_IOC_SHARERS, &sharers) < 0 && errno == EBADF, "no descriptor to ask about: EBADF");
  sharers.fd = dev;
  tap(io(CR_IOC_SHARERS, &sharers) < 0 && errno == EINVAL, "one of no regular file: EINVAL");
  struct cr_lineage lineage = {0};
  tap(io(CR_IOC_LINEAGE, &lineage) < 0 && errno == ENODATA, "no lineage was set: ENODATA");
  lineage = (struct cr_lineage){.id = "made from one", .flags = CR_LINEAGE_SET};
  tap(!io(CR_IOC_LINEAGE, &lineage), "set one");
  lineage = (struct cr_lineage){0};
  tap(!io(CR_IOC_LINEAGE, &lineage) && !strcmp((char *)lineage.id, "made from one"), "and get it");
  lineage.flags = 2;
  tap(io(CR_IOC_LINEAGE, &lineage) < 0 && errno == EINVAL, "unknown flags of it: EINVAL");
  tap(!thaw() && runs_on() && !sh->eintr, "thaw: the borrowed threads run on where they were");
}

static void test_pages(void) {
  struct cr_snapshot s = {.flags = CR_SNAP_PAGES | CR_SNAP_TRACK, .id = "one"};
  static struct cr_range ranges[65536];
  struct cr_dirty d = {.id = "one"};
  struct cr_restore rs = {.source_fd = -1, .flags = CR_RESTORE_TRACK, .id = "one", .scope = (unsigned long)scope};
  tap(freeze() == THREADS, "freeze");
  tap(!io(CR_IOC_SNAPSHOT, &s) && s.pages >= PAGES / 2, "snapshot");
  d.ranges = (struct cr_array){(unsigned long)ranges, 65536};
  int none = !io(CR_IOC_DIRTY, &d);
  for (unsigned i = 0; i < d.ranges.count; i++)  // even pages have content and are clean
    for (unsigned long p = 0; p < PAGES; p += 2) {
      unsigned long at = (unsigned long)sh->heap + p * PAGE;
      if (at >= ranges[i].addr && at < ranges[i].addr + ranges[i].len) none = 0;
    }
  tap(none, "nothing is dirty yet");
  thaw();
  tap(command(1), "the target writes");
  tap(!heap_right(), "its memory is spoilt");
  unsigned char page[PAGE];
  tap(pread(dev, page, PAGE, (off_t)(unsigned long)sh->heap) == (ssize_t)PAGE && page[5] == 1,
      "the snapshot reads as before");
  tap(pread(dev, page, PAGE, (off_t)((unsigned long)sh->heap + PAGE)) < 0 && errno == ENXIO, "a hole reads ENXIO");
  struct cr_array runs = {(unsigned long)ranges, 65536};
  tap(!io(CR_IOC_SNAP_RUNS, &runs) && runs.count > PAGES / 2, "its runs");
  for (int round = 1; round <= 4; round++) {
    if (round > 1) command(round);
    freeze();
    rs.nscope = get_scope();
    int ok = rs.nscope && !io(CR_IOC_RESTORE, &rs);
    char what[100];
    snprintf(what, sizeof what, "restore %d from the snapshot: %llu put, %llu dropped, %llu unchanged, %llu us", round,
             rs.restored, rs.dropped, rs.unchanged, rs.ns / 1000);
    tap(ok && heap_right(), what);
    // the rollback also restored the target's own progress, so it does not repeat the command
    thaw();
  }
  tap(runs_on(), "it runs on");

  /* the same from a file */
  FILE *f = tmpfile();
  static struct cr_page_run file_runs[65536];
  unsigned n = 0;
  off_t at = 0;
  static char buf[1 << 20];
  for (unsigned i = 0; i < runs.count; i++) {
    file_runs[n++] = (struct cr_page_run){ranges[i].addr, ranges[i].len, (unsigned long)at};
    for (unsigned long k = 0; k < ranges[i].len; k += PAGE) {
      if (pread(dev, buf, PAGE, (off_t)(ranges[i].addr + k)) != (ssize_t)PAGE ||
          pwrite(fileno(f), buf, PAGE, at) != (ssize_t)PAGE)
        return tap(0, "write the snapshot out");
      at += PAGE;
    }
  }
  tap(!io(CR_IOC_SNAP_DROP, NULL), "drop the snapshot");
  rs.source_fd = fileno(f);
  rs.runs = (unsigned long)file_runs;
  rs.nruns = n;
  for (int round = 5; round <= 8; round++) {
    command(round);
    freeze();
    rs.nscope = get_scope();
    rs.flags = CR_RESTORE_TRACK | (round < 7 ? CR_RESTORE_DIRTY : 0);
    int ok = !io(CR_IOC_RESTORE, &rs);
    char what[100];
    snprintf(what, sizeof what, "restore %d from a file%s: %llu put, %llu dropped, %llu unchanged, %llu us", round,
             rs.flags & CR_RESTORE_DIRTY ? ", dirty pages" : "", rs.restored, rs.dropped, rs.unchanged, rs.ns / 1000);
    tap(ok && heap_right(), what);
    thaw();
  }
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/clear_refs", pid);
  int refs = open(name, O_WRONLY);
  tap(write(refs, "4\n", 2) == 2, "somebody else clears the soft-dirty bits");
  close(refs);
  freeze();
  rs.flags = CR_RESTORE_DIRTY | CR_RESTORE_TRACK;
  tap(io(CR_IOC_RESTORE, &rs) < 0 && errno == ESTALE, "tracking is not believed any more: ESTALE");
  rs.flags = CR_RESTORE_TRACK;
  tap(!io(CR_IOC_RESTORE, &rs) && heap_right(), "restore everything");
  thaw();
  tap(runs_on(), "it runs on");
  fclose(f);
}

static void test_refusals(void) {
  struct cr_restore rs = {.source_fd = 1, .nruns = 1ull << 40};
  freeze();
  tap(io(CR_IOC_RESTORE, &rs) < 0 && errno == E2BIG, "too many runs: E2BIG");
  struct cr_page_run run = {.addr = 0xffffffff81000000, .len = PAGE};
  rs = (struct cr_restore){.source_fd = 1, .nruns = 1, .runs = (unsigned long)&run};
  tap(io(CR_IOC_RESTORE, &rs) < 0 && errno == EINVAL, "a kernel address: EINVAL");
  run.addr = (unsigned long)sh->heap;
  tap(io(CR_IOC_RESTORE, &rs) < 0 && errno == EINVAL, "a run outside the scope: EINVAL");
  struct cr_run r = {.tid = pid, .ncalls = 1u << 30, .calls = (unsigned long)table};
  r.ncalls = 1;
  tap(io(CR_IOC_RUN, &r) < 0 && errno == ENOTCONN, "a call without arena: ENOTCONN");
  map_arena(0);
  r.ncalls = 1u << 30;
  tap(io(CR_IOC_RUN, &r) < 0 && errno == EINVAL, "a batch that is too large: EINVAL");
  r = (struct cr_run){.tid = 1, .ncalls = 1, .calls = (unsigned long)table};
  tap(io(CR_IOC_RUN, &r) < 0 && errno == ESRCH && r.why.reason == CR_WHY_THREAD, "a thread of another process: ESRCH");
  thaw();
  int old = dev;
  tap(attach(getpid()) == -CR_WHY_SELF && errno == EDEADLK, "oneself: EDEADLK");
  close(dev);
  tap(attach(1) == -CR_WHY_INIT, "pid 1");
  close(dev);
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/environ", pid);
  int fd = open(name, O_RDONLY);
  dev = open(CR_DEVICE, O_RDWR | O_CLOEXEC);
  struct cr_attach a = {.mem_fd = fd};
  tap(io(CR_IOC_ATTACH, &a) < 0 && errno == EPERM, "another file of /proc: EPERM");
  a = (struct cr_attach){.mem_fd = dev};
  tap(io(CR_IOC_ATTACH, &a) < 0 && errno == EPERM, "no file of /proc at all: EPERM");
  close(fd);
  static const struct { int flags; const char *what; } halves[] = {{O_RDONLY, "its memory only to read: EPERM"},
                                                                   {O_WRONLY, "its memory only to write: EPERM"}};
  for (int i = 0; i < 2; i++) {
    snprintf(name, sizeof name, "/proc/%d/mem", pid);
    a = (struct cr_attach){.mem_fd = open(name, halves[i].flags)};
    tap(io(CR_IOC_ATTACH, &a) < 0 && errno == EPERM && a.why.reason == CR_WHY_NOT_MEM_FD, halves[i].what);
    close(a.mem_fd);
  }
  pid_t ended = fork();
  if (!ended) _exit(0);
  siginfo_t info;
  waitid(P_PID, (id_t)ended, &info, WEXITED | WNOWAIT);
  snprintf(name, sizeof name, "/proc/%d/mem", ended);
  a = (struct cr_attach){.mem_fd = open(name, O_RDWR)};
  int gone = a.mem_fd < 0 ? errno == ESRCH  // newer kernels fail at the open
                          : io(CR_IOC_ATTACH, &a) < 0 && errno == ESRCH && a.why.reason == CR_WHY_GONE;
  tap(gone, "a process that has ended: ESRCH");
  close(a.mem_fd);
  waitpid(ended, NULL, 0);
  close(dev);
  tap(attach(pid) == pid, "a second session");
  int second = dev;
  dev = old;
  freeze();
  dev = second;
  tap(freeze() == -(int)CR_WHY_BUSY - 1000 && errno == EBUSY, "cannot freeze what the first has frozen: EBUSY");
  close(second);
  dev = old;
  tap(frozen_still(), "and closing it changes nothing");
  close(dev);
  tap(runs_on(), "closing the first thaws");
  attach(pid);
  struct cr_freeze f = {.thaw_after_ms = 300};
  io(CR_IOC_FREEZE, &f);
  usleep(900000);
  tap(runs_on(), "a silent session's target thaws by itself");
  freeze();
  io(CR_IOC_COMMIT, NULL);
  close(dev);
  int status = 0;
  waitpid(pid, &status, 0);
  tap(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a session that leaves a half-restored target kills it");
}

/* ---- agents */

static struct agents {
  volatile unsigned phase, outcome;
  volatile int rounds, status, hold, linger, fails;
  volatile unsigned needed;
  char path[64], part[4];
  volatile long requester;
} *ag;

static void agent(void) {  // behaves to the module as a process that uses libcr
  int fd = open(CR_DEVICE, O_RDWR | O_CLOEXEC);
  for (;;) {
    struct cr_agent a = {0};
    if (ioctl(fd, CR_IOC_AGENT_WAIT, &a)) _exit(1);
    ag->phase = a.phase;
    while (ag->hold) usleep(1000);
    a = (struct cr_agent){.status = ag->status};
    if (ioctl(fd, CR_IOC_AGENT_READY, &a)) _exit(2);
    ag->outcome = a.phase;
    struct cr_origin origin = {.path = (uintptr_t)ag->path, .len = sizeof ag->path};
    if (ioctl(fd, CR_IOC_AGENT_ORIGIN, &origin) || origin.requester != a.requester) _exit(3);
    ag->needed = origin.len;
    origin.path = (uintptr_t)ag->part, origin.len = sizeof ag->part;
    if (ioctl(fd, CR_IOC_AGENT_ORIGIN, &origin)) _exit(4);
    ag->requester = a.requester;
    ag->rounds++;
    while (ag->linger) usleep(1000);
    a = (struct cr_agent){.flags = CR_AGENT_FAILED, .status = ag->fails};
    if (ag->fails && ioctl(fd, CR_IOC_AGENT_WAIT, &a)) _exit(5);
    while (ag->fails) usleep(1000);
  }
}

static int notify(unsigned timeout_ms) {
  struct cr_notify n = {.phase = CR_PHASE_CHECKPOINT, .timeout_ms = timeout_ms};
  return io(CR_IOC_NOTIFY, &n) ? -errno : n.status;
}
static int heard(int rounds, unsigned outcome) {
  for (int i = 0; i < 2000 && ag->rounds < rounds; i++) usleep(1000);
  return ag->rounds == rounds && ag->outcome == outcome;
}

static long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int until_done(unsigned timeout_ms) {
  struct cr_notify n = {.phase = CR_PHASE_DONE, .timeout_ms = timeout_ms};
  return io(CR_IOC_NOTIFY, &n) ? errno == ECANCELED ? n.status : -errno : 0;
}

/** The requester, the image, and the results of callbacks; attached, after seven requests. */
static void test_origin(void) {
  struct cr_origin origin = {.path = (uintptr_t)"/the/image", .len = 11, .requester = getppid()};
  struct cr_notify done = {.phase = CR_PHASE_CONTINUE}, ask = {.phase = CR_PHASE_NONE}, tell = {.phase = CR_PHASE_CHECKPOINT | CR_NOTIFY_TELL};
  tap(!io(CR_IOC_ORIGIN, &origin), "a session says who asks, and for which image");
  ag->hold = 1;
  tap(!io(CR_IOC_NOTIFY, &ask), "a session asks whether an agent could be told");
  tap(!io(CR_IOC_NOTIFY, &tell) && !io(CR_IOC_NOTIFY, &tell) && ag->rounds == 7, "an agent can be told and not be waited for");
  tap(io(CR_IOC_NOTIFY, &ask) < 0 && errno == EBUSY, "and then not once more: EBUSY");
  ag->hold = 0;
  ag->linger = 1;
  tap(!notify(5000) && !io(CR_IOC_OUTCOME, &done) && heard(8, CR_PHASE_CONTINUE), "and be waited for then");
  tap(ag->requester == getppid() && !strcmp((char *)ag->path, "/the/image") && ag->needed == 11, "it hears who asks for which image");
  tap(!strcmp((char *)ag->part, "/th") && ag->requester == getppid(), "and what fits of it");
  tap(until_done(200) == -ETIMEDOUT, "a session waits until its callbacks have returned");
  ag->linger = 0;
  tap(!until_done(5000) && !until_done(5000), "which they do");
  origin.len = 0, origin.requester = 0;
  ag->fails = EXDEV;
  tap(!io(CR_IOC_ORIGIN, &origin) && !notify(5000) && !io(CR_IOC_OUTCOME, &done) && heard(9, CR_PHASE_CONTINUE) &&
          until_done(5000) == EXDEV,
      "and hears that one failed");
  ag->fails = 0;
  tap(!*ag->path && ag->requester == getpid(), "there may be no image to name");
  origin.len = 4097;
  tap(io(CR_IOC_ORIGIN, &origin) < 0 && errno == EINVAL, "nor a name that is too long: EINVAL");
  origin.len = 4096, origin.path = 0x1000;
  tap(io(CR_IOC_ORIGIN, &origin) < 0 && errno == EFAULT, "nor one that is not there: EFAULT");
  origin.len = 0, origin.requester = -1;
  tap(io(CR_IOC_ORIGIN, &origin) < 0 && errno == EINVAL, "nor a process -1: EINVAL");
}

static void test_agent(void) {
  ag = mmap(NULL, sizeof *ag, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid = fork();
  if (!pid) agent();
  usleep(100000);
  tap(attach(pid) == pid, "attach to a process with an agent");
  struct cr_notify done = {.phase = CR_PHASE_CONTINUE};
  tap(!notify(5000) && !io(CR_IOC_OUTCOME, &done) && heard(1, CR_PHASE_CONTINUE), "it is told, is ready, hears the outcome");
  tap(ag->requester == getpid(), "and who asked");
  ag->status = EAGAIN;
  tap(notify(5000) == -ECANCELED && heard(2, CR_PHASE_ABORTED), "it refuses: ECANCELED, and it hears ABORTED");
  ag->status = 0, ag->hold = 1;
  tap(notify(200) == -ETIMEDOUT, "it is not ready in time: ETIMEDOUT");
  tap(notify(200) == -EBUSY, "nor is it told before its callbacks have run: EBUSY");
  ag->hold = 0;
  tap(heard(3, CR_PHASE_ABORTED), "then it hears ABORTED");
  tap(!notify(5000) && ag->rounds == 3, "it is told once more");
  int old = dev;
  long began = now_ms();
  tap(attach(pid) == pid && notify(5000) == -EBUSY && now_ms() - began < 2500, "but not by another session meanwhile: EBUSY at once");
  done.phase = CR_PHASE_CONTINUE;
  tap(io(CR_IOC_OUTCOME, &done) < 0 && errno == EBUSY, "which cannot set the outcome either: EBUSY");
  close(dev);
  tap(ag->rounds == 3, "nor end the request by going away");
  dev = old;
  close(dev);
  tap(heard(4, CR_PHASE_ABORTED), "a session that goes away without an outcome: ABORTED");
  pid_t other = fork();
  if (!other) {
    attach(pid);
    ag->hold = 1;
    notify(60000);
    _exit(0);
  }
  for (int i = 0; i < 2000 && ag->hold == 0; i++) usleep(1000);
  usleep(100000);
  kill(other, SIGKILL);
  waitpid(other, NULL, 0);
  ag->hold = 0;
  tap(heard(5, CR_PHASE_ABORTED), "a requester that is killed while it waits: ABORTED");
  attach(pid);
  done.phase = CR_PHASE_PAUSED;
  tap(!notify(5000) && !io(CR_IOC_OUTCOME, &done) && heard(6, CR_PHASE_PAUSED), "and the next request is heard");
  done.phase = CR_PHASE_ABORTED;
  tap(!notify(5000) && !io(CR_IOC_OUTCOME, &done) && heard(7, CR_PHASE_ABORTED), "and one that its session gives up");
  test_origin();
  ag->linger = 1;
  done.phase = CR_PHASE_CONTINUE;
  tap(!notify(5000) && !io(CR_IOC_OUTCOME, &done) && heard(10, CR_PHASE_CONTINUE), "it hears an outcome");
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  tap(notify(1000) == -ENOENT, "without an agent: ENOENT");
  tap(until_done(5000) == -ENOENT, "and ends before its callbacks have returned: ENOENT");
  close(dev);
}

int main(void) {
  sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid = fork();
  if (!pid) target();
  while (!sh->ready) usleep(1000);
  test_freeze();
  test_run();
  test_pages();
  test_refusals();
  test_agent();
  printf("1..%d\n", number);
  return !!failed;
}
