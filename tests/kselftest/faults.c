// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes every allocation, copy and page fault of every ioctl fail once, in the
 * calling thread and in the threads of the target. Each time the call must return a
 * clean error (or succeed) and succeed when it is repeated, the target must be intact,
 * and no descriptor may be left open. tests/kselftest/leaks checks for leaked memory.
 *   faults [-v] [CASE]     cases with CASE in their name
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
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
#include "inject.h"

enum { PAGE = 4096, PAGES = 40, THREADS = 3, MOST = 4000 };

static int number, failed, verbose;
static void tap(int ok, const char *what, const char *why) {
  printf("%sok %d - %s\n", ok ? "" : "not ", ++number, what);
  if (!ok) printf("# %s\n", why);
  fflush(stdout);
  failed += !ok;
}

/* ---- the target */
struct shared {
  volatile int ready, arm;  // the agent's next WAIT (1) or READY (2) meets fault number `nth`
  volatile unsigned nth;
  volatile int hit, agent_errno, rounds, outcome;
  volatile long ticks[THREADS], eintr;
  unsigned char *heap;
};
static struct shared *sh;

static unsigned char expected(int page) { return page % 2 ? 0 : (unsigned char)(page + 1); }

static void *ticker(void *arg) {
  long i = (long)arg;
  int pipes[2];
  if (pipe(pipes)) abort();
  struct pollfd p = {pipes[0], POLLIN, 0};
  for (;; sh->ticks[i]++)
    if (poll(&p, 1, 15) < 0) sh->eintr++;
  return NULL;
}

static bool no_signal;  // the next target has no pending signal, so that its state can be compared

static void spawn_target(void) {
  unsigned char *heap = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(heap, PAGES * PAGE, MADV_NOHUGEPAGE);
  for (int i = 0; i < PAGES; i += 2) memset(heap + i * PAGE, expected(i), PAGE);
  sh->heap = heap;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, NULL);
  if (!no_signal) sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 7});
  for (long i = 1; i < THREADS; i++) {
    pthread_t t;
    pthread_create(&t, NULL, ticker, (void *)i);
  }
  sh->ready = 1;
  for (;; sh->ticks[0]++) usleep(1000);
}

static void agent(void) {
  int fd = open(CR_DEVICE, O_RDWR | O_CLOEXEC);
  for (;; sh->rounds++) {
    for (int step = 1; step <= 2; step++) {
      struct cr_agent a = {0};
      sh->ready = 1;
      unsigned long request = step == 1 ? CR_IOC_AGENT_WAIT : CR_IOC_AGENT_READY;
      int with = sh->arm == step;
      if (with) inject_arm(0, sh->nth);
      int r = ioctl(fd, request, &a), error = errno;
      bool hit = with && inject_disarm();
      if (with) sh->hit = hit;
      if (r) {
        sh->agent_errno = error;
        if (!hit || ioctl(fd, request, &a)) _exit(step);
      }
      if (step == 2) sh->outcome = (int)a.phase;
    }
  }
}

static pid_t pid;
static void start(void (*what)(void)) {
  memset(sh, 0, sizeof *sh);
  pid = fork();
  if (!pid) what();
  while (!sh->ready) usleep(1000);
}

static void end(void) {
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  pid = 0;
}

static int runs_on(void) {
  long before[THREADS];
  int moved = 0;
  for (int i = 0; i < THREADS; i++) before[i] = sh->ticks[i];
  for (int n = 0; n < 1500 && moved < THREADS; n++) {
    usleep(10000);
    moved = 0;
    for (int i = 0; i < THREADS; i++) moved += sh->ticks[i] != before[i];
  }
  return moved == THREADS;
}

/* ---- the session */
static int dev = -1, mem = -1;
static int ask(unsigned long request, void *arg) { return ioctl(dev, request, arg) ? -errno : 0; }

static int open_dev(void) {
  dev = open(CR_DEVICE, O_RDWR | O_CLOEXEC);
  return dev < 0 ? -errno : 0;
}
static int close_dev(void) {
  if (dev >= 0) close(dev);
  dev = -1;
  return 0;
}
static int attach(void) {
  struct cr_attach a = {.mem_fd = mem};
  int r = ask(CR_IOC_ATTACH, &a);
  return r ? r : a.pid == pid ? 0 : -EPROTO;
}
static int freeze(void) {
  struct cr_freeze f = {.timeout_ms = 30000, .thaw_after_ms = 300000};
  int r = ask(CR_IOC_FREEZE, &f);
  return r ? r : f.nthreads == THREADS ? 0 : -EPROTO;
}
static int thaw(void) {
  struct cr_thaw t = {0};
  return ask(CR_IOC_THAW, &t);
}

static const char *heap_wrong(void) {
  static char why[100];
  unsigned char page[PAGE];
  for (int i = 0; i < PAGES; i++) {
    if (pread(mem, page, PAGE, (off_t)(unsigned long)(sh->heap + i * PAGE)) != PAGE) return "its memory cannot be read";
    for (int k = 0; k < PAGE; k += 61)
      if (page[k] != expected(i)) {
        snprintf(why, sizeof why, "page %d has %#x at %d", i, page[k], k);
        return why;
      }
  }
  return NULL;
}

static int entries(const char *format, pid_t of) {
  char path[64];
  snprintf(path, sizeof path, format, of);
  int n = 0;
  DIR *d = opendir(path);
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

/* ---- the attempts: each makes one system call and returns 0, -errno, or -EPROTO for a wrong result */
static pid_t tids[THREADS];
static int got_fd = -1;
static struct cr_call *arena;
static struct cr_arena where;
static struct cr_range ranges[4096];
static int source = -1;

static int info(void) {
  struct cr_info a = {0};
  int r = ask(CR_IOC_INFO, &a);
  return r ? r : a.api_version == CR_API_VERSION ? 0 : -EPROTO;
}
static int commit(void) { return ask(CR_IOC_COMMIT, NULL); }
static int threads(void) {
  struct cr_thread t[16];
  struct cr_array a = {.buf = (unsigned long)t, .count = 16};
  int r = ask(CR_IOC_THREADS, &a);
  if (r) return r;
  for (int i = 0; i < THREADS; i++) tids[i] = t[i].tid;
  return a.count == THREADS ? 0 : -EPROTO;
}
static unsigned regset_type;
static unsigned char regset[CR_MAX_REGSET];
static unsigned long regset_len;
static int get_regs(void) {
  struct cr_regs a = {.tid = tids[1], .type = regset_type, .buf = (unsigned long)regset, .len = sizeof regset};
  int r = ask(CR_IOC_GET_REGS, &a);
  regset_len = a.len;
  return r;
}
static int set_regs(void) {
  struct cr_regs a = {.tid = tids[1], .type = regset_type, .buf = (unsigned long)regset, .len = regset_len};
  return ask(CR_IOC_SET_REGS, &a);
}
static int set_sigmask(void) {
  struct cr_sigmask a = {.tid = tids[1], .mask = 1ull << (SIGUSR1 - 1)};
  return ask(CR_IOC_SET_SIGMASK, &a);
}
static int set_restart(void) {
  struct cr_restart a = {.tid = tids[1]};
  int r = ask(CR_IOC_SET_RESTART, &a);
  return r == -ENOENT || r == -EINVAL ? 0 : r;  // the thread is not parked in such a call at the moment
}
static int process(void) {
  static struct cr_process a;
  int r = ask(CR_IOC_PROCESS, &a);
  return r ? r : a.auxv_words && a.brk ? 0 : -EPROTO;
}
static unsigned long nranges;
static int vmas(void) {
  static struct cr_vma v[1024];
  struct cr_array a = {.buf = (unsigned long)v, .count = 1024};
  int r = ask(CR_IOC_VMAS, &a);
  if (r) return r;
  nranges = 0;
  for (unsigned long i = 0; i < a.count; i++)
    if (v[i].flags & CR_VMA_PAGES) ranges[nranges++] = (struct cr_range){v[i].start, v[i].end - v[i].start};
  return nranges ? 0 : -EPROTO;
}
static int fds(void) {
  static struct cr_fd f[256];
  struct cr_array a = {.buf = (unsigned long)f, .count = 256};
  int r = ask(CR_IOC_FDS, &a);
  return r ? r : a.count >= 3 ? 0 : -EPROTO;
}
static int pending(void) {
  char infos[16][128];
  struct cr_sigpending a = {.infos = {(unsigned long)infos, 16}};
  int r = ask(CR_IOC_SIGPENDING, &a);
  return r ? r : a.infos.count == 1 ? 0 : -EPROTO;
}
static int sharers(void) {
  struct cr_sharers a = {.fd = source};
  int r = ask(CR_IOC_SHARERS, &a);
  return r ? r : a.mappings ? -EPROTO : 0;
}
static int lineage(void) {
  struct cr_lineage a = {.flags = CR_LINEAGE_SET, .id = "faults"}, got = {0};
  int r = ask(CR_IOC_LINEAGE, &a);
  return r ? r : ask(CR_IOC_LINEAGE, &got) ?: strcmp((char *)got.id, "faults") ? -EPROTO : 0;
}
static int digest(void) {
  struct cr_digest a;
  return ask(CR_IOC_DIGEST, &a);
}
static int set_threads(void) {
  struct user_regs_struct general;
  static char extended[CR_MAX_REGSET];
  struct cr_regs a = {.tid = pid, .type = NT_PRSTATUS, .buf = (unsigned long)&general, .len = sizeof general};
  int r = ask(CR_IOC_GET_REGS, &a);
  if (r) return r;
  a = (struct cr_regs){.tid = pid, .type = NT_X86_XSTATE, .buf = (unsigned long)extended, .len = sizeof extended};
  r = ask(CR_IOC_GET_REGS, &a);
  if (r) return r;
  static struct cr_thread threads[64];
  struct cr_array list = {.buf = (unsigned long)threads, .count = 64};
  r = ask(CR_IOC_THREADS, &list);
  if (r) return r;
  struct cr_thread_regs one = {.tid = pid, .sigmask = threads[0].sigmask, .general = (unsigned long)&general,
                               .extended = (unsigned long)extended, .extended_len = a.len};
  struct cr_set_threads all = {.threads = (unsigned long)&one, .count = 1, .room = (unsigned)a.len};
  return ask(CR_IOC_SET_THREADS, &all);
}
static struct cr_get_file wanted;
static int get_file(void) {
  struct cr_get_file a = wanted;
  int r = ask(CR_IOC_GET_FILE, &a);
  if (!r) got_fd = a.fd;
  return r;
}
static int put_back(void) {
  if (got_fd >= 0) close(got_fd);
  got_fd = -1;
  return 0;
}
static int calls(unsigned n, struct cr_run *r) {
  *r = (struct cr_run){.tid = pid, .ncalls = n, .calls = (unsigned long)arena, .timeout_ms = 60000};
  return ask(CR_IOC_RUN, r);
}
static int put_fd, given = -1;
static int put_file(void) {
  struct cr_put_file a = {.fd = put_fd};
  int r = ask(CR_IOC_PUT_FILE, &a);
  if (!r) given = a.target_fd;
  return r;
}
static int take_back(void) {
  struct cr_run r;
  if (given < 0) return 0;
  arena[0] = (struct cr_call){.nr = SYS_close, .arg = {(unsigned)given}};
  given = -1;
  return calls(1, &r) ?: (int)r.ret;
}
static int map_arena(void) {
  where = (struct cr_arena){0};
  return ask(CR_IOC_ARENA, &where);
}
static int map_data(void) {
  arena = mmap(NULL, where.data_size, PROT_READ | PROT_WRITE, MAP_SHARED, dev, 0);
  if (arena == MAP_FAILED) return arena = NULL, -errno;
  // Populated by a call, which returns an error where an access would raise SIGBUS.
  if (!madvise(arena, where.data_size, MADV_POPULATE_WRITE)) return 0;
  int error = errno;
  munmap(arena, where.data_size);
  return arena = NULL, -error;
}
static int unmap_data(void) {
  if (arena) munmap(arena, where.data_size);
  arena = NULL;
  return 0;
}
static int run_calls(void) {
  struct cr_run r;
  for (int i = 0; i < 80; i++) arena[i] = (struct cr_call){.nr = SYS_getpid};
  return calls(80, &r) ?: r.done == 80 && arena[79].ret == pid ? 0 : -EPROTO;
}
static long born;
static int run_clone(void) {
  struct cr_run r;
  arena[0] = (struct cr_call){.nr = SYS_clone, .arg = {0x50f00, (unsigned long)sh->heap + 2 * PAGE}};
  int e = calls(1, &r);
  if (!e && r.ret > 0) born = r.ret;
  return e ? e : r.ret > 0 ? 0 : r.ret == -ENOMEM || r.ret == -EAGAIN ? (int)r.ret : -EPROTO;
}
// Finds threads created by a call whose result was not returned, by their flag, and ends them.
static int end_born(void) {
  for (int i = 0; i < 100; i++) {
    struct cr_thread t[16];
    struct cr_array a = {.buf = (unsigned long)t, .count = 16};
    if (ask(CR_IOC_THREADS, &a)) return -EPROTO;
    if (a.count == THREADS) return 0;
    for (unsigned k = 0; k < a.count; k++) {
      if (!(t[k].flags & CR_THREAD_BORN)) continue;
      struct cr_run r = {.tid = t[k].tid, .ncalls = 1, .calls = (unsigned long)arena, .timeout_ms = 60000};
      arena[0] = (struct cr_call){.nr = SYS_exit};
      ask(CR_IOC_RUN, &r);
    }
    usleep(20000);
  }
  return -EPROTO;
}
static unsigned snap_flags;
static int snapshot(void) {
  struct cr_snapshot a = {.flags = snap_flags, .id = "faults"};
  int r = ask(CR_IOC_SNAPSHOT, &a);
  return r ? r : a.pages >= PAGES / 2 ? 0 : -EPROTO;
}
static int snapshot_changed(void) {
  struct cr_snapshot a = {.flags = CR_SNAP_PAGES | CR_SNAP_CHANGED, .id = "faults"};
  return ask(CR_IOC_SNAPSHOT, &a);
}
/* With a call that begins to track: a failure of the second one ends tracking. */
static int snapshot_changed_next(void) {
  struct cr_snapshot first = {.flags = CR_SNAP_TRACK, .id = "faults"};
  struct cr_snapshot a = {.flags = CR_SNAP_PAGES | CR_SNAP_CHANGED | CR_SNAP_TRACK, .id = "faults", .next = "next"};
  int r = ask(CR_IOC_SNAPSHOT, &first);
  return r ? r : ask(CR_IOC_SNAPSHOT, &a);
}
static int snap_clean(void) {
  static struct cr_range r[4096];
  struct cr_array a = {(unsigned long)r, 4096};
  return ask(CR_IOC_SNAP_CLEAN, &a);
}
static int snap_drop(void) { return ask(CR_IOC_SNAP_DROP, NULL); }
static int snap_runs(void) {
  static struct cr_range r[4096];
  struct cr_array a = {(unsigned long)r, 4096};
  int e = ask(CR_IOC_SNAP_RUNS, &a);
  return e ? e : a.count ? 0 : -EPROTO;
}
static int snap_read(void) {
  unsigned char page[2 * PAGE];
  errno = 0;
  ssize_t n = pread(dev, page, PAGE, (off_t)(unsigned long)sh->heap);
  return n == PAGE ? page[5] == expected(0) ? 0 : -EPROTO : -errno;
}
static int dirty(void) {
  static struct cr_range r[4096];
  struct cr_dirty a = {.id = "faults", .ranges = {(unsigned long)r, 4096}};
  return ask(CR_IOC_DIRTY, &a);
}
static unsigned restore_flags;
static int from_file;
static int restore(void) {
  struct cr_page_run run[PAGES];
  struct cr_range one = {(unsigned long)sh->heap, PAGES * PAGE};
  struct cr_restore a = {.source_fd = -1, .flags = restore_flags, .id = "faults", .scope = (unsigned long)ranges,
                         .nscope = nranges, .max_workers = 1};
  if (from_file) {
    for (int i = 0; i < PAGES; i += 2)
      run[i / 2] = (struct cr_page_run){one.addr + (unsigned long)i * PAGE, PAGE, (unsigned long)i * PAGE};
    a.source_fd = source, a.runs = (unsigned long)run, a.nruns = PAGES / 2, a.scope = (unsigned long)&one, a.nscope = 1;
  }
  return ask(CR_IOC_RESTORE, &a);
}
// Changes memory for the restore to repair, by calls that the session has the target make.
static int spoil(void) {
  struct cr_run r;
  arena[0] = (struct cr_call){.nr = SYS_getcwd, .arg = {(unsigned long)sh->heap + PAGE + 100, 200}};
  arena[1] = (struct cr_call){.nr = SYS_getcwd, .arg = {(unsigned long)sh->heap + 4 * PAGE, 200}};
  return calls(2, &r) ?: heap_wrong() ? 0 : -EPROTO;
}
static int outcome(void) {
  struct cr_notify n = {.phase = CR_PHASE_CONTINUE};
  return ask(CR_IOC_OUTCOME, &n);
}
static int notify(void) {
  struct cr_notify n = {.phase = CR_PHASE_CHECKPOINT, .timeout_ms = 20000};
  return ask(CR_IOC_NOTIFY, &n);
}

/* ---- the cases */
enum level { NOTHING, OPENED, ATTACHED, FROZEN, CALLS, SNAPPED };
struct fault_case {
  const char *name;
  enum level level;      // what has been done before
  int (*attempt)(void);
  int (*undo)(void);     // after it was done, or NULL
  int (*before)(void);   // each time, or NULL
  int done_already;      // result of a call repeated after it succeeded but could not return that
  unsigned type;         // of the registers; flags of the snapshot and the restore
  struct cr_get_file get;
};

static int refreeze(void) { return thaw() ?: freeze(); }
static int reattach(void) { return close_dev() ?: open_dev(); }
static int none(void) { return 0; }

#define REGS(name, note)                                                       \
  {"GET_REGS " name, FROZEN, get_regs, .type = note}, {"SET_REGS " name, FROZEN, set_regs, .before = get_regs, .type = note}

static const struct fault_case cases[] = {
    {"open", NOTHING, open_dev, close_dev},
    {"INFO", OPENED, info},
    {"ATTACH", OPENED, attach, reattach, .done_already = EISCONN},
    {"FREEZE", ATTACHED, freeze, thaw},
    {"THAW", FROZEN, thaw, freeze, .done_already = ENOTCONN},
    {"THAW with arena", CALLS, thaw, freeze, .before = map_arena, .done_already = ENOTCONN},
    {"COMMIT", FROZEN, commit, refreeze},
    {"THREADS", FROZEN, threads},
    REGS("NT_PRSTATUS", NT_PRSTATUS),
    REGS("NT_PRFPREG", NT_PRFPREG),
    REGS("NT_X86_XSTATE", NT_X86_XSTATE),
    {"SET_SIGMASK", FROZEN, set_sigmask},
    {"SET_RESTART", SNAPPED, set_restart, .type = CR_SNAP_PAGES},
    {"PROCESS", FROZEN, process},
    {"VMAS", FROZEN, vmas},
    {"FDS", FROZEN, fds},
    {"SIGPENDING", FROZEN, pending},
    {"GET_FILE descriptor", FROZEN, get_file, put_back, .get = {.kind = CR_FILE_FD, .which = 1}},
    {"GET_FILE executable", FROZEN, get_file, put_back, .get = {.kind = CR_FILE_EXE}},
    {"SHARERS", FROZEN, sharers},
    {"LINEAGE", FROZEN, lineage},
    {"DIGEST", FROZEN, digest},
    {"SET_THREADS", FROZEN, set_threads},
    {"PUT_FILE", CALLS, put_file, take_back, .type = 1},
    {"PUT_FILE of the device", CALLS, put_file, take_back, .type = ~0U},
    {"ARENA", FROZEN, map_arena, refreeze},
    {"ARENA again", CALLS, map_arena},
    {"mmap of the data", CALLS, map_data, .before = unmap_data},
    {"RUN", CALLS, run_calls},
    {"RUN of clone", CALLS, run_clone, end_born},
    {"SNAPSHOT of pages", FROZEN, snapshot, snap_drop, .type = CR_SNAP_PAGES},
    {"SNAPSHOT with tracking", FROZEN, snapshot, snap_drop, .type = CR_SNAP_PAGES | CR_SNAP_TRACK},
    {"SNAPSHOT, a second one", SNAPPED, snapshot, .type = CR_SNAP_PAGES | CR_SNAP_TRACK},
    {"SNAPSHOT, tracking only", FROZEN, snapshot, .type = CR_SNAP_TRACK | CR_SNAP_SPLIT},
    {"SNAPSHOT of what has changed", SNAPPED, snapshot_changed, .type = CR_SNAP_TRACK},
    {"SNAPSHOT of what has changed, tracking", SNAPPED, snapshot_changed_next, .type = CR_SNAP_TRACK},
    {"SNAP_CLEAN", SNAPPED, snap_clean, .type = CR_SNAP_PAGES},
    {"SNAP_RUNS", SNAPPED, snap_runs, .type = CR_SNAP_PAGES},
    {"SNAP_DROP", SNAPPED, snap_drop, snapshot, .type = CR_SNAP_PAGES},
    {"read of the snapshot", SNAPPED, snap_read, .type = CR_SNAP_PAGES},
    {"DIRTY", SNAPPED, dirty, .type = CR_SNAP_TRACK},
    {"RESTORE from the snapshot", SNAPPED, restore, .before = spoil, .type = CR_SNAP_PAGES},
    {"RESTORE from the snapshot, tracking", SNAPPED, restore, .before = spoil, .type = CR_SNAP_PAGES | CR_SNAP_TRACK},
    {"RESTORE from a file", SNAPPED, restore, .before = spoil, .type = CR_SNAP_TRACK, .get = {.which = 1}},
    {"close of a frozen target", CALLS, close_dev, none},
};

static int reach(const struct fault_case *c) {
  regset_type = c->type;
  snap_flags = c->type;
  restore_flags = c->type & CR_SNAP_TRACK ? CR_RESTORE_TRACK : 0;
  put_fd = (int)c->type;
  wanted = c->get;
  from_file = (int)c->get.which;
  int r = 0;
  if (c->level >= OPENED) r = open_dev();
  if (!r && c->level >= ATTACHED) r = attach();
  if (!r && c->level >= FROZEN) r = freeze() ?: threads() ?: vmas();
  if (!r && c->level >= CALLS) r = map_arena() ?: map_data();
  if (!r && c->level >= SNAPPED) r = snapshot();
  return r;
}

static int clean(int r) { return r == -ENOMEM || r == -EFAULT || r == -EAGAIN; }

/*
 * One case with the faults of one side: n = 1, 2, … until the call does not reach fault
 * number n. Returns NULL or an error text.
 */
static const char *each_fault(const struct fault_case *c, bool of_target, int *met, int *errors) {
  static char why[300];
#define WRONG(...) return snprintf(why, sizeof why, __VA_ARGS__), why
  *met = *errors = 0;
  int r = reach(c), own = entries("/proc/%d/fd", getpid()), its = entries("/proc/%d/fd", pid);
  if (r) WRONG("cannot be tried: errno %d", -r);
  for (unsigned n = 1; n < MOST; n++) {
    if (c->before && (r = c->before())) WRONG("before fault %u: errno %d", n, -r);
    inject_arm(of_target ? pid : 0, n);
    r = c->attempt();
    if (of_target && c->attempt == thaw && !r && !runs_on()) WRONG("fault %u: the target does not run on", n);
    bool hit = inject_disarm();
    if (verbose && hit) printf("# %s: fault %u: %s\n", c->name, n, r ? strerror(-r) : "done nevertheless");
    if (!hit && r) WRONG("without fault %u: errno %d", n, -r);
    if (hit && r) {
      if (!clean(r)) WRONG("fault %u: errno %d instead of ENOMEM, EFAULT or EAGAIN", n, -r);
      int again = c->attempt();
      if (again && !(c->done_already && again == -c->done_already)) WRONG("after fault %u (errno %d) the same call fails: errno %d", n, -r, -again);
      ++*errors;
    }
    *met += hit;
    if (c->undo && (r = c->undo())) WRONG("undone after fault %u: errno %d", n, -r);
    if (kill(pid, 0) || waitpid(pid, NULL, WNOHANG)) WRONG("fault %u: the target has died", n);
    const char *wrong = heap_wrong();
    if (wrong) WRONG("after fault %u %s", n, wrong);
    int now = entries("/proc/%d/fd", getpid()), its_now = entries("/proc/%d/fd", pid);
    if (now != own && c->attempt != close_dev) WRONG("after fault %u the caller has %d descriptors instead of %d", n, now, own);
    if (its_now != its) WRONG("after fault %u the target has %d descriptors instead of %d", n, its_now, its);
    if (!hit) return NULL;
    if (c->attempt == close_dev && (unmap_data(), r = reach(c))) WRONG("after fault %u: errno %d", n, -r);
  }
  WRONG("no end of faults");
#undef WRONG
}

static void leave(void) {
  put_back();
  unmap_data();
  close_dev();
}

static void fresh(void) {
  leave();
  if (pid) end();
  start(spawn_target);
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/mem", pid);
  if (mem >= 0) close(mem);
  mem = open(name, O_RDWR | O_CLOEXEC);
}

static void try_case(const struct fault_case *c) {
  for (int side = 0; side < 2; side++) {
    int met = 0, errors = 0;
    char what[200];
    long eintr = sh->eintr;
    const char *why = each_fault(c, side, &met, &errors);
    leave();
    if (!why && !runs_on()) why = "the target does not run on";
    if (!why && sh->eintr != eintr) why = "a call of the target was interrupted";
    snprintf(what, sizeof what, "%s, faults of %s: %d, of these errors %d", c->name, side ? "the target" : "the caller", met, errors);
    tap(!why, what, why);
    if (why) fresh();
  }
}

/* ---- after the point of no return an error must not leave a half-restored process */
static void test_committed(void) {
  const struct fault_case *c = cases;
  while (strcmp(c->name, "RESTORE from the snapshot")) c++;
  int met = 0;
  const char *why = NULL;
  for (unsigned n = 1; n < MOST && !why; n *= 2) {
    fresh();
    if (reach(c) || spoil() || commit()) {
      why = "cannot be tried";
      break;
    }
    inject_arm(pid, n);
    int r = restore();
    bool hit = inject_disarm();
    unmap_data();
    if (!hit) break;
    met++;
    if (!r) continue;
    close_dev();
    int status = 0;
    for (int i = 0; i < 3000 && waitpid(pid, &status, WNOHANG) == 0; i++) usleep(10000);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) why = "a half-restored process lives";
    else pid = 0;
  }
  tap(!why && met, "RESTORE fails after COMMIT, and the session is closed: the target is killed", why ? why : "no fault was met");
  fresh();
}

/*
 * A rollback in one call: with an error before its commit nothing has changed, and the same call succeeds; with one
 * after it, the session's close kills the target.
 */
static const char *rollback_with_fault(unsigned n, bool of_target, bool *hit, bool *failed) {
  static char why[200];
  const struct fault_case taken = {.level = SNAPPED, .type = CR_SNAP_PAGES | CR_SNAP_TRACK};
  struct cr_range heap = {(unsigned long)sh->heap, PAGES * PAGE};
  struct cr_rollback a = {.pages = {.source_fd = -1, .flags = CR_RESTORE_TRACK, .id = "faults", .scope = (unsigned long)&heap, .nscope = 1}};
  struct cr_digest now;
  if (reach(&taken) || ask(CR_IOC_DIGEST, &now) || spoil() || thaw()) return "cannot be tried";
  memcpy(a.area, now.area, sizeof now.area);
  struct cr_rollback again = a;
  inject_arm(of_target ? pid : 0, n);
  int r = ask(CR_IOC_ROLLBACK, &a);
  *hit = inject_disarm();
  *failed = r;
  if (a.result == CR_ROLLBACK_BROKEN) {
    int status = 0;
    if (!r || !*hit || !clean(r)) return snprintf(why, sizeof why, "fault %u: half restored, errno %d", n, -r), why;
    close_dev();
    for (int i = 0; i < 3000 && waitpid(pid, &status, WNOHANG) == 0; i++) usleep(10000);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) return "a half-restored process lives";
    pid = 0;
    return NULL;
  }
  if (r && (!*hit || !clean(r) || a.result != CR_ROLLBACK_NONE)) return snprintf(why, sizeof why, "fault %u: errno %d, result %u", n, -r, a.result), why;
  // EFAULT: it is done, but could not be reported
  if (r && r != -EFAULT && !heap_wrong()) return "a rollback that failed has changed memory";
  if (r) r = ask(CR_IOC_ROLLBACK, &again);
  else again = a;
  if (r || again.result != CR_ROLLBACK_DONE) return snprintf(why, sizeof why, "after fault %u: errno %d, result %u", n, -r, again.result), why;
  return heap_wrong() ?: runs_on() ? NULL : "the target does not run on";
}

static void test_rollback(void) {
  no_signal = true;
  for (int side = 0; side < 2; side++) {
    int met = 0, errors = 0;
    const char *why = NULL;
    bool hit = true;
    for (unsigned n = 1; n < MOST && hit && !why; n += 1 + n / 16) {
      bool failed = false;
      fresh();
      runs_on();  // a thread that is being made differs from what it is later
      why = rollback_with_fault(n, side, &hit, &failed);
      unmap_data();
      met += hit;
      errors += failed;
    }
    char what[200];
    snprintf(what, sizeof what, "ROLLBACK, faults of %s: %d, of these errors %d", side ? "the target" : "the caller", met, errors);
    tap(!why && met, what, why ? why : "no fault was met");
  }
  no_signal = false;
  fresh();
}

/* ---- agents */
static const char *agent_round(int arm, unsigned n, bool of_caller, bool *hit) {
  static char why[100];
  int rounds = sh->rounds;
  sh->hit = 0, sh->agent_errno = 0, sh->nth = n, sh->arm = arm;
  if (arm == 1) {  // it already waits in an unarmed WAIT: run one round
    if (notify() || outcome()) return "an unarmed round fails";
    for (int i = 0; i < 3000 && sh->rounds == rounds; i++) usleep(10000);
    rounds = sh->rounds;
    usleep(50000);
  }
  if (of_caller) inject_arm(0, n);
  int r = notify();
  *hit = of_caller ? inject_disarm() : false;
  if (r && *hit && clean(r)) r = notify();
  if (!r) {
    if (of_caller && !*hit) inject_arm(0, n);
    r = outcome();
    if (of_caller && !*hit) {
      *hit = inject_disarm();
      if (r && *hit && clean(r)) r = outcome();
    }
  }
  if (r) return snprintf(why, sizeof why, "fault %u: errno %d", n, -r), why;
  for (int i = 0; i < 3000 && sh->rounds <= rounds; i++) usleep(10000);
  sh->arm = 0;
  if (!of_caller) *hit = sh->hit;
  if (sh->rounds <= rounds || sh->outcome != CR_PHASE_CONTINUE)
    return snprintf(why, sizeof why, "fault %u: the agent gets no outcome (errno %d)", n, sh->agent_errno), why;
  return NULL;
}

static void test_agent(void) {
  static const char *const names[] = {"NOTIFY and OUTCOME, faults of the caller", "AGENT_WAIT, faults of the agent",
                                      "AGENT_READY, faults of the agent"};
  for (int arm = 0; arm < 3; arm++) {
    leave();
    end();
    start(agent);
    usleep(100000);
    char name[64], what[200];
    snprintf(name, sizeof name, "/proc/%d/mem", pid);
    close(mem);
    mem = open(name, O_RDWR | O_CLOEXEC);
    const char *why = open_dev() || attach() ? "cannot be tried" : NULL;
    int met = 0;
    bool hit = true;
    for (unsigned n = 1; !why && hit && n < MOST; n++) {
      why = agent_round(arm, n, arm == 0, &hit);
      met += hit;
    }
    snprintf(what, sizeof what, "%s: %d", names[arm], met);
    tap(!why, what, why);
  }
  fresh();
}

int main(int argc, char **argv) {
  const char *only = NULL;
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "-v")) verbose = 1;
    else only = argv[i];
  const char *cannot = inject_prepare();
  if (cannot) {
    printf("ok 1 - faults # SKIP %s\n1..1\n", cannot);
    return 0;
  }
  sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  source = memfd_create("source", MFD_CLOEXEC);
  for (int i = 0; i < PAGES; i++) {
    unsigned char page[PAGE];
    memset(page, expected(i), PAGE);
    if (pwrite(source, page, PAGE, i * (off_t)PAGE) != PAGE) abort();
  }
  fresh();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (!only || strstr(cases[i].name, only)) try_case(&cases[i]);
  if (!only || strstr("COMMIT", only)) test_committed();
  if (!only || strstr("ROLLBACK", only)) test_rollback();
  if (!only || strstr("AGENT NOTIFY OUTCOME", only)) test_agent();
  leave();
  end();
  printf("1..%d\n", number);
  return !!failed;
}
