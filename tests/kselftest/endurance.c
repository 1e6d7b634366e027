// SPDX-License-Identifier: GPL-2.0-only
// Thousands of cycles of everything that the module does. Afterwards the numbers of slab
// objects, pages, files and uses of the module must be as before.
//   endurance [-n] [-v] [-c CYCLES]    -n: check only that leaks are detected
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counts.h"
#include "cr.h"
#include "harness.h"

enum { PAGE = 4096, PAGES = 64, THREADS = 3, MAX_VMAS = 1024 };

/* ---- the target writes to its pages and counts, forever */

static struct shared {
  volatile uint64_t turns[THREADS];
  char *volatile area;
} *shared;
static volatile uint64_t own;  // in private memory: rolled back with it

static void *writer(void *arg) {
  uint64_t me = (uint64_t)arg;
  for (;; shared->turns[me]++, own++) {
    ((volatile uint64_t *)shared->area)[(shared->turns[me] % PAGES) * 512 + me]++;
    sleep_ms(1);
  }
  return arg;
}
static void target(void) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  char *area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(area, PAGES * PAGE, MADV_NOHUGEPAGE);
  fill(area, PAGES * PAGE, 1);
  shared->area = area;
  for (uint64_t i = 1; i < THREADS; i++) {
    pthread_t t;
    pthread_create(&t, NULL, writer, (void *)i);
  }
  writer(NULL);
}

static pid_t pid;
static void begin(void) {
  shared = MUST(mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (!(pid = MUST(fork()))) target();
  for (int i = 0; i < THREADS; i++)
    while (!shared->turns[i]) sleep_ms(1);
}
static const char *runs_on(void) {
  uint64_t before[THREADS];
  for (int i = 0; i < THREADS; i++) before[i] = shared->turns[i];
  int64_t start = now_ns();
  for (int i = 0; i < THREADS; i++)
    while (shared->turns[i] == before[i]) {
      if (now_ns() - start > 20000000000) return no("thread %d of the target stands still", i);
      sleep_ms(1);
    }
  return NULL;
}
static void end(void) {
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  munmap(shared, sizeof *shared);
}

/* ---- sessions */

static int dev = -1;
static const char *failed(const char *what) { return no("%s: errno %d", what, errno); }

static const char *attach(void) {
  char name[32];
  snprintf(name, sizeof name, "/proc/%d/mem", pid);
  int mem = open(name, O_RDWR | O_CLOEXEC);
  dev = open(CR_DEVICE, O_RDWR | O_CLOEXEC);
  struct cr_attach a = {.mem_fd = mem};
  int r = mem < 0 || dev < 0 ? -1 : ioctl(dev, CR_IOC_ATTACH, &a), code = errno;
  close(mem);
  errno = code;
  return r ? failed("attach") : NULL;
}
static const char *freeze(void) {
  struct cr_freeze f = {.timeout_ms = 20000};
  return ioctl(dev, CR_IOC_FREEZE, &f) ? no("freeze: errno %d, reason %u", errno, f.why.reason) : NULL;
}
static const char *thaw(void) {
  struct cr_thaw t = {0};
  return ioctl(dev, CR_IOC_THAW, &t) ? failed("thaw") : NULL;
}

static const char *freeze_and_thaw(void) {
  const char *why = freeze();
  return why ? why : thaw();
}
static const char *freeze_and_close(void) {  // closing a session thaws its target
  const char *why = attach();
  if (!why) why = freeze();
  close(dev);
  return why;
}

static struct cr_range scope[MAX_VMAS];
static const char *find_scope(struct cr_restore *rs) {
  static struct cr_vma v[MAX_VMAS];
  struct cr_array a = {.buf = (uint64_t)v, .count = MAX_VMAS};
  if (ioctl(dev, CR_IOC_VMAS, &a)) return failed("mappings");
  rs->scope = (uint64_t)scope;
  rs->nscope = 0;
  for (uint64_t i = 0; i < a.count; i++)
    if (v[i].flags & CR_VMA_PAGES) scope[rs->nscope++] = (struct cr_range){v[i].start, v[i].end - v[i].start};
  return NULL;
}
static const char *snapshot_and_restore(void) {
  static struct cr_range ranges[4096];
  struct cr_snapshot s = {.flags = CR_SNAP_PAGES | CR_SNAP_TRACK, .id = "endurance"};
  struct cr_dirty d = {.id = "endurance", .ranges = {(uint64_t)ranges, ARRAY_SIZE(ranges)}};
  struct cr_restore rs = {.source_fd = -1, .flags = CR_RESTORE_TRACK, .id = "endurance"};
  struct cr_array runs = {(uint64_t)ranges, ARRAY_SIZE(ranges)};
  char page[PAGE];
  const char *why = attach();
  if (!why) why = freeze();
  if (!why && ioctl(dev, CR_IOC_SNAPSHOT, &s)) why = failed("snapshot");
  if (!why) why = thaw();
  if (!why && pread(dev, page, PAGE, (off_t)shared->area) != PAGE) why = failed("read a page of the snapshot");
  if (!why && ioctl(dev, CR_IOC_SNAP_RUNS, &runs)) why = failed("runs of the snapshot");
  if (!why) sleep_ms(1);  // for the target to write to its pages
  if (!why) why = freeze();
  if (!why && ioctl(dev, CR_IOC_DIRTY, &d)) why = failed("what is dirty");
  if (!why) why = find_scope(&rs);
  if (!why && ioctl(dev, CR_IOC_RESTORE, &rs)) why = failed("restore");
  if (!why) why = thaw();
  if (!why && own % 2 && ioctl(dev, CR_IOC_SNAP_DROP, NULL)) why = failed("drop");
  close(dev);
  return why;
}

static const char *calls_and_files(void) {
  struct cr_arena at = {0};
  struct cr_thread t[16];
  struct cr_array threads = {(uint64_t)t, ARRAY_SIZE(t)};
  struct cr_get_file exe = {.kind = CR_FILE_EXE};
  struct cr_put_file put = {.fd = 2};
  struct user_regs_struct regs;
  const char *why = attach();
  if (!why) why = freeze();
  if (!why && ioctl(dev, CR_IOC_THREADS, &threads)) why = failed("threads");
  if (!why && ioctl(dev, CR_IOC_ARENA, &at)) why = failed("arena");
  struct cr_call calls[2];
  char *data = why ? NULL : mmap(NULL, at.data_size, PROT_READ | PROT_WRITE, MAP_SHARED, dev, 0);
  if (!why && data == MAP_FAILED) why = failed("map the arena"), data = NULL;
  if (!why) data[at.data_size - 1] = 1;
  for (uint64_t i = 0; !why && i < threads.count; i++) {
    struct cr_run r = {.tid = t[i].tid, .ncalls = 2, .calls = (uint64_t)calls};
    struct cr_regs g = {.tid = t[i].tid, .type = NT_PRSTATUS, .buf = (uint64_t)&regs, .len = sizeof regs};
    if (ioctl(dev, CR_IOC_GET_REGS, &g) || ioctl(dev, CR_IOC_SET_REGS, &g)) why = failed("registers");
    calls[0] = (struct cr_call){.nr = SYS_gettid};
    calls[1] = (struct cr_call){.nr = SYS_getpid};
    if (!why && ioctl(dev, CR_IOC_RUN, &r)) why = failed("run");
    if (!why && (calls[0].ret != t[i].tid || calls[1].ret != pid)) why = "a call has a wrong result";
  }
  if (!why && ioctl(dev, CR_IOC_GET_FILE, &exe)) why = failed("get a file");
  if (!why) close(exe.fd);
  if (!why && ioctl(dev, CR_IOC_PUT_FILE, &put)) why = failed("put a file");
  if (!why) {
    struct cr_run r = {.tid = pid, .ncalls = 1, .calls = (uint64_t)calls};
    calls[0] = (struct cr_call){.nr = SYS_close, .arg = {(uint64_t)put.target_fd}};
    if (ioctl(dev, CR_IOC_RUN, &r) || r.ret) why = failed("close it");
  }
  if (data) munmap(data, at.data_size);
  if (!why) why = thaw();
  close(dev);
  return why;
}

static const char *target_dies(void) {  // in every state
  static unsigned turn;
  struct cr_snapshot s = {.flags = CR_SNAP_PAGES | CR_SNAP_TRACK, .id = "endurance"};
  struct cr_arena at = {0};
  const char *why = NULL;
  struct shared *old = shared;
  pid_t old_pid = pid;
  begin();
  why = attach();
  if (!why && turn % 2) why = freeze();
  if (!why && turn % 4 == 3 && ioctl(dev, CR_IOC_SNAPSHOT, &s)) why = failed("snapshot");
  if (!why && turn % 8 == 7 && ioctl(dev, CR_IOC_ARENA, &at)) why = failed("arena");
  turn++;
  end();
  close(dev);
  shared = old;
  pid = old_pid;
  return why;
}

static const char *refused(void) {  // failing calls must not leak either
  struct cr_restore rs = {.source_fd = 1, .nruns = 1ull << 40};
  struct cr_run r = {.tid = 1, .ncalls = 1};
  struct cr_attach a = {.mem_fd = 2};
  struct cr_snapshot s = {.flags = 1u << 31};
  const char *why = attach();
  if (!why && (!ioctl(dev, CR_IOC_ATTACH, &a) || !ioctl(dev, CR_IOC_RESTORE, &rs))) why = "it was not refused";
  if (!why) why = freeze();
  if (!why && (!ioctl(dev, CR_IOC_RESTORE, &rs) || !ioctl(dev, CR_IOC_RUN, &r) || !ioctl(dev, CR_IOC_SNAPSHOT, &s)))
    why = "it was not refused";
  close(dev);
  return why;
}

static struct run r;
static char image[64];
static const char *by_commands(void) {
  if (runl(&r, "cr_checkpoint", "--no-sync", pid_text(pid), image, NULL)) return why_not(&r);
  // its counters are in memory that this process also maps
  return runl(&r, "cr_pause", "--shared-memory=keep", pid_text(pid), image, NULL) ? why_not(&r) : NULL;
}

static long total = 2000;
static const struct {
  const char *name;
  const char *(*once)(void);
  long share;  // one of this many cycles
  bool one_session;
} kinds[] = {
    {"freeze and thaw", freeze_and_thaw, 1, true},
    {"freeze and close", freeze_and_close, 4, false},
    {"snapshot, write, restore", snapshot_and_restore, 4, false},
    {"calls, registers and files", calls_and_files, 4, false},
    {"refused requests", refused, 4, false},
    {"targets that die", target_dies, 4, false},
    {"commands", by_commands, 64, false},
};

static const char *do_cycles(size_t kind, long cycles) {
  const char *why = kinds[kind].one_session ? attach() : NULL;
  for (long i = 0; i < cycles && !why; i++)
    if ((why = kinds[kind].once())) why = no("cycle %ld: %s", i, strdup(why));
  if (kinds[kind].one_session) close(dev);
  return why ? why : runs_on();
}

static struct counts before, after;

static void measure(size_t kind) {
  char what[96];
  long cycles = total / kinds[kind].share, warm = cycles / 8 + 2;
  if (cycles < 8) cycles = 8;
  const char *why = do_cycles(kind, warm);
  counts_take(&before);
  int64_t start = now_ns();
  if (!why) why = do_cycles(kind, cycles);
  note("%s: %ld cycles in %.1f s", kinds[kind].name, cycles, (now_ns() - start) / 1e9);
  snprintf(what, sizeof what, "%s: %ld cycles go well", kinds[kind].name, cycles);
  tap(!why, what, "%s", why);
  // With few cycles noise would count as a leak. The commands are slow and run few cycles, so only large leaks of theirs
  // are detected.
  why = counts_settle(&before, &after, cycles < 400 ? 400 : cycles);
  snprintf(what, sizeof what, "%s: nothing is left behind", kinds[kind].name);
  tap(!why, what, "%s", why);
}

/* ---- does it detect leaks? */

static void each_count_is_looked_at(void) {  // needs no rights and only /proc
  const char *blind = NULL, *noisy = NULL;
  counts_take(&before);
  tap(before.n > 10, "counts are read", "only %zu", before.n);
  for (size_t i = 0; i < before.n; i++) {
    const struct count *one = &before.all[i];
    long cycles = 100 + one->slack;
    after = before;
    after.all[i].value += one->unit * cycles;
    if (!blind && !counts_grown(&before, &after, cycles)) blind = one->name;
    after.all[i].value = one->value + one->slack;
    if (!noisy && counts_grown(&before, &after, 100)) noisy = one->name;
  }
  tap(!blind, "every count would tell of one object a cycle", "not %s", blind);
  tap(!noisy, "and none of slabs that processors allocate from", "%s", noisy);
  after = before;
  tap(!counts_grown(&before, &after, 100), "and of none when nothing has grown", "%s", counts_grown(&before, &after, 100));
}

static void real_leaks_are_noticed(void) {
  enum { LEAKED = 1000 };
  static int files[LEAKED];
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  counts_take(&before);
  for (int i = 0; i < LEAKED; i++) files[i] = MUST(open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  const char *why = counts_settle(&before, &after, LEAKED);
  tap(why, "a file a cycle is noticed", "%d files are open and nobody sees them", LEAKED);
  for (int i = 0; i < LEAKED; i++) close(files[i]);
  why = counts_settle(&before, &after, LEAKED);
  tap(!why, "and that it is closed", "%s", why);
  char *pages = MUST(mmap(NULL, LEAKED * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  madvise(pages, LEAKED * PAGE, MADV_NOHUGEPAGE);
  for (int i = 0; i < LEAKED; i++) pages[i * PAGE] = 1;
  why = counts_settle(&before, &after, LEAKED);
  tap(why, "a page a cycle is noticed", "%d pages are there and nobody sees them", LEAKED);
  munmap(pages, LEAKED * PAGE);
  why = counts_settle(&before, &after, LEAKED);
  tap(!why, "and that it is free again", "%s", why);
}

int main(int argc, char **argv) {
  bool self_check = false;
  int opt;
  while ((opt = getopt(argc, argv, "nvc:")) != -1) {
    if (opt == 'n') self_check = true;
    else if (opt == 'c') total = atol(optarg);
    else if (opt != 'v') {
      fprintf(stderr, "usage: %s [-n] [-v] [-c CYCLES]\n", argv[0]);
      return 2;
    }
  }
  if (getenv("LOAD_CYCLES")) total = atol(getenv("LOAD_CYCLES"));
  harness_prepare();
  printf("TAP version 13\n# %ld cycles\n", total);
  each_count_is_looked_at();
  if (self_check) return harness_end();
  real_leaks_are_noticed();
  begin();
  snprintf(image, sizeof image, "/tmp/endurance.%d", pid);
  for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) measure(i);
  unlink(image);
  end();
  return harness_end();
}
