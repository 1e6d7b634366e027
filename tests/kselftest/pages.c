// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages, by the module's ioctls alone: the states a page can be in (merged, huge, moved, pinned, guard, droppable,
 * wiped on fork), limits of the target and of the session's user, and users of a snapshot that block.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_xdp.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <unistd.h>

#include "advice.h"
#include "cr.h"

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif
#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef SOL_XDP
#define SOL_XDP 283
#endif

enum { PAGE = 4096, HUGE = 2 << 20, RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS };

static int number, failed;
static void tap(bool ok, const char *what) {
  printf("%sok %d - %s", ok ? "" : "not ", ++number, what);
  if (!ok) printf(" # errno %d", errno);
  printf("\n");
  fflush(stdout);
  failed += !ok;
}
static void skip(const char *what, const char *why) {
  printf("ok %d - %s # SKIP %s\n", ++number, what, why);
  fflush(stdout);
}
static bool spew(const char *file, const char *text) {
  int fd = open(file, O_WRONLY);
  if (fd < 0) return false;
  bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  close(fd);
  return ok;
}
static long slurp(const char *file) {
  char text[64] = "";
  int fd = open(file, O_RDONLY);
  if (fd < 0) return -1;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  return n > 0 ? atol(text) : -1;
}

/* ---- the target runs functions of this program; variables of both are in shared memory */
static struct shared {
  _Atomic long asked, done;
  long (*job)(void);
  long result;
  char *at;  // the memory under test
  size_t size;
  int flags, advice, fd;
  unsigned char random[2][64];
  volatile int which;
  unsigned seed;
  unsigned long long sum;
  volatile bool stop;
} *sh;

static pid_t pid;
static int dev = -1, mem = -1;

static void start_as(uid_t uid) {
  sh->asked = sh->done = 0;
  sh->stop = false;
  fflush(stdout);
  pid = fork();
  if (pid) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (uid && (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))) _exit(1);
  prctl(PR_SET_DUMPABLE, 1);
  // The state of this loop is not in memory that a restore rewrites.
  for (;;) {
    if (sh->asked == sh->done) {
      poll(NULL, 0, 1);
      continue;
    }
    sh->result = sh->job();
    sh->done = sh->asked;
  }
}
static long in_target(long (*job)(void)) {
  sh->job = job;
  sh->asked = sh->asked + 1;
  for (int i = 0; i < 20000; i++) {
    if (sh->asked == sh->done) return sh->result;
    if (waitpid(pid, NULL, WNOHANG)) return -1000;
    poll(NULL, 0, 1);
  }
  return -2000;
}
static int io(unsigned long request, void *arg) { return ioctl(dev, request, arg); }
static bool attach(void) {
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/mem", pid);
  mem = open(name, O_RDWR | O_CLOEXEC);
  dev = open(CR_DEVICE, O_RDWR | O_CLOEXEC);
  struct cr_attach a = {.mem_fd = mem};
  return !io(CR_IOC_ATTACH, &a);
}
static bool freeze(void) {
  struct cr_freeze f = {.timeout_ms = 10000};
  return !io(CR_IOC_FREEZE, &f);
}
static bool thaw(void) {
  struct cr_thaw t = {0};
  return !io(CR_IOC_THAW, &t);
}
static void start(void) {
  start_as(0);
  if (!attach()) tap(false, "attach");
}
static void finish(void) {
  close(dev);
  close(mem);
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

/* ---- functions that the target runs */
static long t_map(void) {
  sh->at = mmap(NULL, sh->size, RW, (sh->flags ? sh->flags : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);
  if (sh->at == MAP_FAILED) return -errno;
  return madvise(sh->at, sh->size, MADV_NOHUGEPAGE) ? -errno : 0;
}
static long t_map_huge(void) {
  char *raw = mmap(NULL, sh->size + HUGE, RW, ANON, -1, 0);
  if (raw == MAP_FAILED) return -errno;
  sh->at = (char *)(((uintptr_t)raw + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
  return madvise(sh->at, sh->size, MADV_HUGEPAGE) ? -errno : 0;
}
static long t_fill(void) {  // each page with its own content
  for (size_t i = 0; i < sh->size; i += PAGE) *(long *)(sh->at + i) = (long)(i / PAGE) + 1;
  return 0;
}
static long t_spoil(void) {
  for (size_t i = 0; i < sh->size; i += PAGE) *(long *)(sh->at + i) = -1;
  return 0;
}
static long t_same(void) {  // all pages with the same content
  memset(sh->at, 0x5a, sh->size);
  return 0;
}
static long t_advise(void) { return madvise(sh->at, sh->size, sh->advice) ? -errno : 0; }
static long t_right(void) {  // 0 if the memory is as t_fill() left it, else the number of the first wrong page
  for (size_t i = 0; i < sh->size; i += PAGE)
    if (*(long *)(sh->at + i) != (long)(i / PAGE) + 1) return (long)(i / PAGE) + 1;
  return 0;
}
static long t_zero(void) {
  for (size_t i = 0; i < sh->size; i++)
    if (sh->at[i]) return 1;
  return 0;
}
static bool map(size_t size) {
  sh->size = size;
  sh->flags = 0;
  return !in_target(t_map);
}

/* ---- requests to the module */
static bool snapshot(unsigned flags, struct cr_why *why) {
  struct cr_snapshot s = {.flags = flags, .id = "pages"};
  int r = io(CR_IOC_SNAPSHOT, &s);
  if (why) *why = s.why;
  return !r;
}
static struct cr_range ranges[1 << 16];
/* Number of pages of the target's memory at sh->at in the first n ranges. */
static size_t covered(unsigned long long n) {
  size_t pages = 0;
  for (unsigned long long i = 0; i < n; i++) {
    uintptr_t from = ranges[i].addr, to = from + ranges[i].len, at = (uintptr_t)sh->at, end = at + sh->size;
    if (from < at) from = at;
    if (to > end) to = end;
    if (from < to) pages += (to - from) / PAGE;
  }
  return pages;
}
/* Number of pages at sh->at that may have changed; all of them if the tracking is invalid (ESTALE). -1: an error */
static long dirty(void) {
  struct cr_dirty d = {.id = "pages", .ranges = {(uintptr_t)ranges, 1 << 16}};
  if (!io(CR_IOC_DIRTY, &d)) return (long)covered(d.ranges.count);
  return errno == ESTALE ? (long)(sh->size / PAGE) : -1;
}
static struct cr_range scope[4096];
static unsigned long long get_scope(void) {
  static struct cr_vma v[4096];
  struct cr_array a = {.buf = (uintptr_t)v, .count = 4096};
  unsigned long long n = 0;
  if (io(CR_IOC_VMAS, &a)) return 0;
  for (unsigned long long i = 0; i < a.count; i++)
    if (v[i].flags & CR_VMA_PAGES) scope[n++] = (struct cr_range){v[i].start, v[i].end - v[i].start};
  return n;
}
static bool restore(unsigned flags) {
  struct cr_restore r = {.source_fd = -1, .flags = flags, .id = "pages", .scope = (uintptr_t)scope};
  r.nscope = get_scope();
  return r.nscope && !io(CR_IOC_RESTORE, &r);
}
static bool holds(const char *at) {  // does the snapshot have the page?
  static char page[PAGE];
  return pread(dev, page, PAGE, (off_t)(uintptr_t)at) == PAGE;
}

/* ---- pages that KSM has merged, and that it has split again */
static bool ksm_wait(bool merged) {
  for (int i = 0; i < 300; i++) {
    long n = slurp("/sys/kernel/mm/ksm/pages_sharing");
    if (merged ? n >= 32 : n == 0) return true;
    poll(NULL, 0, 100);
  }
  return false;
}
static void test_merged(void) {
  const char *what = "a page that was written and then merged by KSM is told as changed";
  if (slurp("/sys/kernel/mm/ksm/run") < 0) return skip(what, "no KSM");
  start();
  map(64 * PAGE);
  sh->advice = MADV_MERGEABLE;
  in_target(t_advise);
  in_target(t_fill);
  freeze();
  tap(snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL) && dirty() == 0, "mergeable memory that was not written is unchanged");
  thaw();
  in_target(t_same);
  spew("/sys/kernel/mm/ksm/sleep_millisecs", "10");
  spew("/sys/kernel/mm/ksm/pages_to_scan", "5000");
  spew("/sys/kernel/mm/ksm/run", "1");
  bool merged = ksm_wait(true);
  freeze();
  long n = dirty();
  if (!merged)
    skip(what, "KSM did not merge");
  else
    tap(n == 64, what);
  bool ok = restore(CR_RESTORE_TRACK);
  thaw();
  tap(ok && in_target(t_right) == 0, "and a restore puts it back");
  freeze();
  snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL);
  thaw();
  in_target(t_same);
  merged = ksm_wait(true);
  spew("/sys/kernel/mm/ksm/run", "2");  // unmerges all pages
  bool apart = ksm_wait(false);
  spew("/sys/kernel/mm/ksm/run", "0");
  freeze();
  n = dirty();
  thaw();
  if (!merged || !apart)
    skip("and so is one that was taken apart since", "KSM did not merge and unmerge");
  else
    tap(n == 64, "and so is one that was taken apart since");
  finish();
}

/* ---- rollbacks again and again: pages in random states, changed in random ways, to one snapshot */
enum { MIXED = 6 * HUGE, MIXED_STEPS = 60, MIXED_TURNS = 6 };

static unsigned draw(unsigned below) {
  static unsigned state;
  if (sh->seed) {
    state = sh->seed;
    sh->seed = 0;
  }
  state = state * 1103515245 + 12345;
  return (state >> 8) % below;
}
/* One random operation on a random range; odd ones are of few pages. */
static void mix(void) {
  size_t pages = sh->size / PAGE, from = draw((unsigned)pages), n = 1 + draw(draw(2) ? 600 : 4);
  char *at = sh->at + from * PAGE;
  if (n > pages - from) n = pages - from;
  pid_t child;
  switch (draw(9)) {
  case 0: madvise(at, n * PAGE, MADV_DONTNEED); break;
  case 1: madvise(at, n * PAGE, MADV_PAGEOUT); break;
  case 2: madvise((char *)((uintptr_t)at & ~(uintptr_t)(HUGE - 1)), HUGE, MADV_COLLAPSE); break;
  case 3: mprotect(at, n * PAGE, PROT_READ), mprotect(at, n * PAGE, RW); break;
  case 4:  // pages become shared with a child, and exclusive again when it has ended
    child = fork();
    if (!child) _exit(0);
    if (draw(2)) at[0]++;
    waitpid(child, NULL, 0);
    break;
  case 5:
    if (mmap(at, n * PAGE, RW, ANON | MAP_FIXED, -1, 0) == MAP_FAILED) return;
    break;
  case 6: sh->sum += (unsigned char)at[0]; break;  // reads: the page of zeros where there is none
  default:
    for (size_t i = 0; i < n; i++) *(unsigned *)(at + i * PAGE + 8 * draw(PAGE / 8)) = draw(1u << 20);
  }
}
static long t_mix(void) {
  for (int i = 0; i < MIXED_STEPS; i++) mix();
  return 0;
}
static char *kept;  // a copy of the memory, shared with the target
static long t_keep(void) {
  memcpy(kept, sh->at, sh->size);
  return 0;
}
static long t_as_kept(void) {  // 0 if the memory is as t_keep() found it, else the number of the first wrong page
  for (size_t i = 0; i < sh->size; i += PAGE)
    if (memcmp(sh->at + i, kept + i, PAGE)) return (long)(i / PAGE) + 1;
  return 0;
}
static long t_wrong(void) {  // number of pages that are not as they were
  long n = 0;
  for (size_t i = 0; i < sh->size; i += PAGE) n += memcmp(sh->at + i, kept + i, PAGE) != 0;
  return n;
}
static volatile bool compacting;
static pthread_t compactor;
static void *compact(void *arg) {
  while (compacting) spew("/proc/sys/vm/compact_memory", "1");
  return arg;
}
static void begin_compaction(void) {
  compacting = true;
  pthread_create(&compactor, NULL, compact, NULL);
}
static void end_compaction(void) {
  compacting = false;
  pthread_join(compactor, NULL);
}
static bool mixed(unsigned seed, bool huge) {
  if (!kept) kept = mmap(NULL, MIXED, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  start();
  sh->size = MIXED;
  sh->flags = 0;
  const char *what = in_target(huge ? t_map_huge : t_map) ? "mapping" : NULL;
  if (!what) in_target(t_fill);
  sh->seed = seed;
  in_target(t_mix);
  freeze();
  if (!what && !snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL)) what = "the snapshot";
  thaw();
  in_target(t_keep);
  int turn = 0;
  long page = 0, wrong = 0;
  while (!what && turn < MIXED_TURNS) {
    turn++;
    sh->seed = seed * 31 + (unsigned)turn;
    if (in_target(t_mix)) what = "the changes";
    if (!freeze() || !restore(CR_RESTORE_TRACK)) what = "the restore";
    if (!thaw()) what = "the thaw";
    page = what ? 0 : in_target(t_as_kept);
    if (page) wrong = in_target(t_wrong), what = page < 0 ? "the comparison" : "the content";
  }
  if (what)
    printf("# seed %u, %s pages, rollback %d: %s, errno %d; page %ld, %ld wrong\n", seed, huge ? "huge" : "small", turn,
           what, errno, page - 1, wrong);
  if (page > 0) {
    char path[64], byte[PAGE], was = kept[(page - 1) * PAGE];
    unsigned long long entry = 0;
    char *at = sh->at + (page - 1) * PAGE;
    snprintf(path, sizeof path, "/proc/%d/pagemap", pid);
    int fd = open(path, O_RDONLY);
    pread(fd, &entry, sizeof entry, (off_t)((uintptr_t)at / PAGE * sizeof entry));
    close(fd);
    if (pread(mem, byte, PAGE, (off_t)(uintptr_t)at) != PAGE) byte[0] = -1;
    char held[PAGE] = {0};
    ssize_t n = pread(dev, held, PAGE, (off_t)(uintptr_t)at);
    printf("# first bytes: was %x %x, is %x %x, the snapshot holds (%zd) %x %x; pagemap %llx; snapshot %s\n", was, kept[(page - 1) * PAGE + 1],
           byte[0], byte[1], n, held[0], held[1], entry, n == PAGE && !memcmp(held, kept + (page - 1) * PAGE, PAGE) ? "right" : "wrong");
  }
  finish();
  return !what;
}
static void test_mixed(void) {
  bool small = true, huge = true, moved = true;
  for (unsigned seed = 1; seed <= 4; seed++) {
    small = mixed(seed, false) && small;
    huge = mixed(seed, true) && huge;
  }
  tap(small, "rollbacks of small pages in random states give the snapshot's content");
  tap(huge, "rollbacks of huge pages in random states give the snapshot's content");
  begin_compaction();
  for (unsigned seed = 1; seed <= 4; seed++) moved = mixed(seed, seed % 2) && moved;
  end_compaction();
  tap(moved, "and while the kernel moves pages");
}

/* ---- huge pages: mapped by parts, split, moved by compaction while a snapshot is taken */
static long t_unmap_part(void) { return munmap(sh->at + HUGE / 2, HUGE / 4) ? -errno : 0; }
static long t_map_part(void) {
  return mmap(sh->at + HUGE / 2, HUGE / 4, RW, ANON | MAP_FIXED, -1, 0) == MAP_FAILED ? -errno : 0;
}
static long t_protect_part(void) {  // splits the mapping of the huge page
  return mprotect(sh->at + PAGE, PAGE, PROT_READ) || mprotect(sh->at + PAGE, PAGE, RW) ? -errno : 0;
}
static void test_huge(void) {
  start();
  sh->size = 2 * HUGE;
  if (in_target(t_map_huge)) {
    skip("huge pages", "no transparent huge pages");
    return finish();
  }
  in_target(t_fill);
  freeze();
  tap(snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL), "a snapshot of huge pages");
  thaw();
  in_target(t_unmap_part);
  in_target(t_map_part);
  in_target(t_protect_part);
  freeze();
  tap(restore(CR_RESTORE_TRACK), "restored into pages that are mapped by parts");
  thaw();
  tap(in_target(t_right) == 0, "with the right content");
  freeze();
  tap(snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL), "a snapshot of huge pages that are mapped by parts");
  thaw();
  in_target(t_spoil);
  sh->advice = MADV_COLLAPSE;
  in_target(t_advise);
  freeze();
  tap(dirty() == 2 * HUGE / PAGE && restore(CR_RESTORE_TRACK), "spoilt and collapsed: all is changed");
  thaw();
  tap(in_target(t_right) == 0, "and put back");
  finish();
}
static void test_moved(void) {
  start();
  sh->size = 16 * HUGE;
  bool huge = in_target(t_map_huge) == 0;
  if (!huge) map(sh->size);
  in_target(t_fill);
  begin_compaction();
  bool whole = true, right = true, told = true;
  for (int i = 0; i < 60 && whole && right; i++) {
    freeze();
    if (!snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL)) whole = false;
    thaw();
    for (size_t k = 0; k < sh->size; k += PAGE) whole &= holds(sh->at + k);
    in_target(t_spoil);
    freeze();
    if (dirty() != (long)(sh->size / PAGE)) told = false;
    if (!restore(CR_RESTORE_TRACK)) right = false;
    thaw();
    if (in_target(t_right)) right = false;
  }
  end_compaction();
  tap(whole, "snapshots while pages are moved hold every page");
  tap(told, "what was written is told, moved or not");
  tap(right, "restores while pages are moved put every page back");
  finish();
}

/* Pages that the kernel is moving while they are marked: a fork takes the right to write away again. */
static long t_fork(void) {
  pid_t child = fork();
  if (!child) _exit(0);
  return waitpid(child, NULL, 0) == child ? 0 : -errno;
}
static void test_marked(void) {
  start();
  map(24 << 20);
  in_target(t_fill);
  begin_compaction();
  long least = (long)(sh->size / PAGE);
  for (int i = 0; i < 60; i++) {
    freeze();
    snapshot(CR_SNAP_TRACK, NULL);
    thaw();
    in_target(t_fill);
    in_target(t_fork);
    freeze();
    long told = dirty();
    if (told < least) least = told;
    thaw();
  }
  end_compaction();
  if (least != (long)(sh->size / PAGE)) printf("# %ld of %zu pages\n", least, sh->size / PAGE);
  tap(least == (long)(sh->size / PAGE), "what was written is told, though it was marked while it was moved, and forked");
  finish();
}

/* ---- pages pinned by a device */
static long t_pin(void) {
  sh->fd = socket(AF_XDP, SOCK_RAW, 0);
  if (sh->fd < 0) return -errno;
  struct { uint64_t addr, len; uint32_t chunk, headroom; } umem = {(uintptr_t)sh->at, sh->size, PAGE, 0};
  return setsockopt(sh->fd, SOL_XDP, XDP_UMEM_REG, &umem, sizeof umem) ? -errno : 0;
}
static long t_unpin(void) { return close(sh->fd); }
static void test_pinned(void) {
  const char *what = "a page that was pinned when tracking began is told as changed";
  start();
  map(16 * PAGE);
  in_target(t_fill);
  if (in_target(t_pin)) {
    skip(what, "no AF_XDP to pin it");
    return finish();
  }
  freeze();
  struct cr_snapshot s = {.flags = CR_SNAP_PAGES | CR_SNAP_TRACK, .id = "pages"};
  tap(!io(CR_IOC_SNAPSHOT, &s) && s.copied == 16, "pinned pages are copied at once");
  tap(dirty() == 16, "pinned pages are never told as unchanged");
  thaw();
  in_target(t_unpin);
  usleep(300000);  // a work item unpins the pages
  freeze();
  tap(dirty() == 16, what);
  tap(restore(CR_RESTORE_TRACK) && dirty() == 0, "and is tracked once it was put back");
  thaw();
  tap(in_target(t_right) == 0, "with the right content");
  finish();
}
/* A device has 16 pages of one of two huge pages: the kernel shares or copies a huge page as a whole. */
static void test_pinned_huge(void) {
  const char *what = "of two huge pages, the one that is pinned is copied at once";
  start();
  sh->size = 2 * HUGE;
  bool huge = !in_target(t_map_huge) && !in_target(t_fill);
  sh->size = 16 * PAGE;
  if (!huge || in_target(t_pin)) {
    skip(what, "no transparent huge pages, or no AF_XDP to pin one");
    return finish();
  }
  sh->size = 2 * HUGE;
  freeze();
  struct cr_snapshot s = {.flags = CR_SNAP_PAGES | CR_SNAP_TRACK, .id = "pages"};
  tap(!io(CR_IOC_SNAPSHOT, &s) && s.copied == HUGE / PAGE, what);
  thaw();
  in_target(t_spoil);
  freeze();
  tap(restore(CR_RESTORE_TRACK), "both are put back");
  thaw();
  tap(in_target(t_right) == 0, "with the right content");
  finish();
}

/* ---- snapshots of what has changed */
static long t_change(void) {  // pages 3, 10, 11, 12; page 20 is dropped
  const int written[] = {3, 10, 11, 12};
  for (int i = 0; i < 4; i++) *(long *)(sh->at + written[i] * PAGE) = -1;
  return madvise(sh->at + 20 * PAGE, PAGE, MADV_DONTNEED) ? -errno : 0;
}
static long t_change_last(void) {
  sh->at[sh->size - 1] = 1;
  return 0;
}
static long held(void) {  // pages at sh->at in the snapshot
  struct cr_array a = {(uintptr_t)ranges, 1 << 16};
  return io(CR_IOC_SNAP_RUNS, &a) ? -1 : (long)covered(a.count);
}
static long clean(void) {  // pages at sh->at that it does not hold because they are unchanged
  struct cr_array a = {(uintptr_t)ranges, 1 << 16};
  return io(CR_IOC_SNAP_CLEAN, &a) ? -1 : (long)covered(a.count);
}
/* Tracking goes on in the walk that takes the snapshot. */
static void test_changed_next(void) {
  const unsigned both = CR_SNAP_PAGES | CR_SNAP_CHANGED | CR_SNAP_TRACK;
  start();
  map(64 * PAGE);
  in_target(t_fill);
  freeze();
  struct cr_snapshot first = {.flags = CR_SNAP_PAGES | CR_SNAP_TRACK, .id = "first"};
  struct cr_snapshot second = {.flags = both, .id = "first", .next = "second"}, third = {.flags = both, .id = "second", .next = "third"};
  struct cr_snapshot bad = {.flags = CR_SNAP_PAGES, .id = "first", .next = "second"}, old = second;
  tap(io(CR_IOC_SNAPSHOT, &second) && errno == ESTALE, "not before tracking");
  tap(clean() == -1 && errno == ENXIO, "without a snapshot: ENXIO");
  tap(!io(CR_IOC_SNAPSHOT, &first) && clean() == 0, "of a whole snapshot no page is left out");
  tap(io(CR_IOC_SNAPSHOT, &bad) && errno == EINVAL, "another id only goes on from changes");
  thaw();
  in_target(t_change);
  freeze();
  tap(!io(CR_IOC_SNAPSHOT, &second) && held() == 4 && second.pages >= 4, "what was written is held");
  tap(clean() == 64 - 5, "and what is unchanged is reported, without the page that was dropped");
  tap(io(CR_IOC_SNAPSHOT, &old) && errno == ESTALE, "the period before has ended");
  struct cr_dirty now = {.id = "second", .ranges = {(uintptr_t)ranges, 1 << 16}};
  tap(!io(CR_IOC_DIRTY, &now) && covered(now.ranges.count) == 1, "under the next id nothing but the hole may change");
  thaw();
  in_target(t_change);
  freeze();
  tap(!io(CR_IOC_SNAPSHOT, &third) && held() == 4 && clean() == 64 - 5, "the same changes are seen in the next period");
  thaw();
  sh->size = 2 * HUGE;
  if (in_target(t_map_huge)) {
    skip("changes of huge pages", "no transparent huge pages");
    return finish();
  }
  in_target(t_fill);
  freeze();
  struct cr_snapshot fourth = {.flags = both, .id = "third", .next = "fourth"}, fifth = {.flags = both, .id = "fourth", .next = "fifth"};
  tap(!io(CR_IOC_SNAPSHOT, &fourth) && held() == 2 * HUGE / PAGE && clean() == 0, "a mapping that has been made since is held");
  io(CR_IOC_SNAP_DROP, NULL);
  thaw();
  in_target(t_change_last);
  freeze();
  tap(!io(CR_IOC_SNAPSHOT, &fifth) && held() == HUGE / PAGE && clean() == HUGE / PAGE, "of two huge pages one is held, the other one unchanged");
  struct cr_snapshot sixth = {.flags = both, .id = "fifth", .next = "sixth"}, same = sixth;
  char refs[64];
  snprintf(refs, sizeof refs, "/proc/%d/clear_refs", pid);
  tap(spew(refs, "4") && io(CR_IOC_SNAPSHOT, &sixth) && errno == ESTALE, "once somebody else has cleared the bits: ESTALE");
  memcpy(same.id, "sixth", 6);
  tap(io(CR_IOC_SNAPSHOT, &same) && errno == ESTALE, "and the next period has not begun");
  finish();
}
static void test_changed(void) {
  struct cr_snapshot other = {.flags = CR_SNAP_PAGES | CR_SNAP_CHANGED, .id = "other"};
  long value = 0;
  start();
  map(64 * PAGE);
  in_target(t_fill);
  freeze();
  tap(!snapshot(CR_SNAP_PAGES | CR_SNAP_CHANGED, NULL) && errno == ESTALE, "no changes are known before tracking");
  snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL);
  tap(!snapshot(CR_SNAP_CHANGED, NULL) && errno == EINVAL, "changes without pages are no snapshot");
  tap(snapshot(CR_SNAP_PAGES | CR_SNAP_CHANGED, NULL) && held() == 0, "nothing has changed: nothing is held");
  thaw();
  in_target(t_change);
  freeze();
  tap(io(CR_IOC_SNAPSHOT, &other) && errno == ESTALE, "under another id nothing is known");
  tap(dirty() == 5 && snapshot(CR_SNAP_PAGES | CR_SNAP_CHANGED, NULL) && held() == 4, "what was written is held");
  tap(snapshot(CR_SNAP_TRACK, NULL) && held() == 4 && dirty() == 1, "and tracked anew; where no page is, one may come");
  thaw();
  in_target(t_spoil);
  tap(pread(dev, (char[PAGE]){0}, PAGE, (off_t)(uintptr_t)sh->at) < 0, "an unchanged page is not held");
  static char page[PAGE];
  if (pread(dev, page, PAGE, (off_t)(uintptr_t)(sh->at + 10 * PAGE)) == PAGE) value = *(long *)page;
  in_target(t_fill);
  tap(value == -1 && pread(dev, page, PAGE, (off_t)(uintptr_t)(sh->at + 10 * PAGE)) == PAGE && *(long *)page == -1,
      "a changed one is, whatever the program writes later");
  sh->size = 2 * HUGE;
  if (in_target(t_map_huge)) {
    skip("changes of huge pages", "no transparent huge pages");
    return finish();
  }
  in_target(t_fill);
  freeze();
  tap(snapshot(CR_SNAP_PAGES | CR_SNAP_CHANGED, NULL) && held() == 2 * HUGE / PAGE, "a new mapping is held");
  snapshot(CR_SNAP_TRACK, NULL);
  io(CR_IOC_SNAP_DROP, NULL);
  thaw();
  in_target(t_change_last);
  freeze();
  tap(snapshot(CR_SNAP_PAGES | CR_SNAP_CHANGED, NULL) && held() == dirty() && held() == HUGE / PAGE,
      "of two huge pages the changed one");
  char refs[64];
  snprintf(refs, sizeof refs, "/proc/%d/clear_refs", pid);
  tap(spew(refs, "4") && !snapshot(CR_SNAP_PAGES | CR_SNAP_CHANGED, NULL) && errno == ESTALE,
      "nothing is known once somebody else has cleared the bits");
  finish();
}

/* ---- a restore in parts, as from an image with pages in several files */
static long t_map_alone(void) {  // nothing is mapped behind it
  sh->at = mmap(NULL, 2 * sh->size, RW, ANON, -1, 0);
  return sh->at == MAP_FAILED || munmap(sh->at + sh->size, sh->size) ? -errno : 0;
}
static long t_rejuvenate(void) {  // what is mapped behind it becomes a part of the mapping, which is new then
  const void *at = mmap(sh->at + sh->size, sh->size, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
  return at == MAP_FAILED || munmap(sh->at + sh->size, sh->size) ? -errno : 0;
}
/* Restore pages [from, upto), the content of which is at its place in the file. */
static bool restore_part(int file, unsigned long from, unsigned long upto, unsigned flags) {
  struct cr_range scope = {(uintptr_t)sh->at + from * PAGE, (upto - from) * PAGE};
  struct cr_page_run run = {scope.addr, scope.len, from * PAGE};
  struct cr_restore r = {.source_fd = file, .flags = flags | CR_RESTORE_DIRTY | CR_RESTORE_TRACK, .id = "pages", .runs = (uintptr_t)&run,
                         .nruns = 1, .scope = (uintptr_t)&scope, .nscope = 1};
  return !io(CR_IOC_RESTORE, &r) && r.restored == upto - from;
}
static void test_parts(void) {
  start();
  sh->size = 16 * PAGE;
  if (in_target(t_map_alone)) return tap(false, "a mapping");
  in_target(t_fill);
  freeze();
  snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL);
  FILE *file = tmpfile();
  static char page[PAGE];
  bool ok = file;
  for (unsigned long i = 0; i < 16 && ok; i++)
    ok = pread(dev, page, PAGE, (off_t)(uintptr_t)(sh->at + i * PAGE)) == PAGE && pwrite(fileno(file), page, PAGE, (off_t)(i * PAGE)) == PAGE;
  ok = ok && !io(CR_IOC_SNAP_DROP, NULL);
  thaw();
  tap(ok && in_target(t_rejuvenate) == 0, "a mapping grows after tracking has begun");
  in_target(t_spoil);
  freeze();
  ok = restore_part(fileno(file), 0, 8, CR_RESTORE_PART) && restore_part(fileno(file), 8, 16, 0);
  tap(ok && dirty() == 0, "it is restored in two parts, and tracked anew");
  thaw();
  tap(in_target(t_right) == 0, "and is as it was");
  in_target(t_spoil);
  freeze();
  tap(dirty() == 16 && restore_part(fileno(file), 8, 16, CR_RESTORE_PART) && dirty() == 8 && restore_part(fileno(file), 0, 8, 0) &&
          dirty() == 0,
      "what is in no part yet stays changed");
  struct cr_restore wrong = {.source_fd = -1, .flags = CR_RESTORE_PART, .id = "pages"};
  tap(io(CR_IOC_RESTORE, &wrong) && errno == EINVAL, "a part without changes that are known makes no sense");
  thaw();
  tap(in_target(t_right) == 0, "and is restored by the last");
  fclose(file);
  finish();
}

/* ---- guard regions */
static long t_guard(void) { return madvise(sh->at + 4 * PAGE, 4 * PAGE, MADV_GUARD_INSTALL) ? -errno : 0; }
static long t_unguard(void) { return madvise(sh->at + 4 * PAGE, 4 * PAGE, MADV_GUARD_REMOVE) ? -errno : 0; }
static bool is_guard(const char *at) {
  char byte;
  return pread(mem, &byte, 1, (off_t)(uintptr_t)at) != 1;
}
static long guards(void) {
  struct cr_array a = {(uintptr_t)ranges, 1 << 16};
  return io(CR_IOC_GUARDS, &a) ? -1 : (long)covered(a.count);
}
static void test_guards(void) {
  start();
  map(16 * PAGE);
  if (in_target(t_guard)) {
    skip("guard regions", "the kernel has none");
    return finish();
  }
  in_target(t_unguard);
  in_target(t_fill);
  in_target(t_guard);
  freeze();
  tap(snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL), "a snapshot of memory with guard pages");
  tap(!holds(sh->at + 4 * PAGE) && holds(sh->at + 8 * PAGE), "holds the pages beside them");
  tap(guards() == 4, "guard pages are listed");
  tap(dirty() == 4, "and never told as unchanged");
  tap(restore(CR_RESTORE_TRACK) && is_guard(sh->at + 5 * PAGE), "a restore leaves them where the snapshot has no page");
  thaw();
  in_target(t_unguard);
  in_target(t_fill);
  freeze();
  snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL);
  tap(guards() == 0, "none is left after they were removed");
  thaw();
  in_target(t_guard);
  freeze();
  tap(dirty() == 4, "a page that became a guard is told as changed");
  tap(restore(CR_RESTORE_TRACK | CR_RESTORE_DIRTY) && !is_guard(sh->at + 5 * PAGE), "a restore removes a guard where the snapshot has a page");
  thaw();
  tap(!is_guard(sh->at + 5 * PAGE) && in_target(t_right) == 0, "and its content is there");
  finish();
}

/* ---- memory that may be dropped or wiped, and random numbers */
static void test_volatile(const char *name, int flags, int advice) {
  char what[120];
  start();
  sh->size = 8 * PAGE;
  sh->flags = flags;
  sh->advice = advice;
  if (in_target(t_map) || (advice && in_target(t_advise))) {
    skip(name, "the kernel has none");
    return finish();
  }
  in_target(t_fill);
  freeze();
  bool ok = snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL);
  snprintf(what, sizeof what, "%s memory is in no snapshot", name);
  tap(ok && !holds(sh->at), what);
  thaw();
  snprintf(what, sizeof what, "and the program keeps it (%s)", name);
  tap(in_target(t_right) == 0, what);
  freeze();
  ok = restore(CR_RESTORE_TRACK);
  thaw();
  snprintf(what, sizeof what, "but has lost it after a restore (%s)", name);
  tap(ok && in_target(t_zero) == 0, what);
  in_target(t_fill);
  freeze();
  struct cr_restore r = {.source_fd = -1, .flags = CR_RESTORE_TRACK | CR_RESTORE_DIRTY, .id = "pages"};
  ok = !io(CR_IOC_RESTORE, &r);  // with an empty scope
  thaw();
  snprintf(what, sizeof what, "whatever the scope of the restore is (%s)", name);
  tap(ok && in_target(t_zero) == 0, what);
  finish();
}
static long t_random(void) { return getrandom(sh->random[sh->which], sizeof sh->random[0], 0); }
static void test_random(void) {
  start();
  sh->size = PAGE;
  bool repeats = false;
  for (int i = 0; i < 8; i++) {  // repeated, because the kernel may reseed between the two
    sh->which = 0;
    in_target(t_random);
    freeze();
    snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL);
    thaw();
    in_target(t_random);
    freeze();
    restore(CR_RESTORE_TRACK);
    thaw();
    sh->which = 1;
    in_target(t_random);
    if (!memcmp(sh->random[0], sh->random[1], sizeof sh->random[0])) repeats = true;
  }
  tap(!repeats, "getrandom() gives other bytes after a restore than after the snapshot");
  finish();
}

/* ---- readers of a snapshot that block */
static struct { char *to; ssize_t got; _Atomic int state; } reading;
static void *reader(void *arg) {
  (void)arg;
  reading.state = 1;
  reading.got = pread(dev, reading.to, PAGE, (off_t)(uintptr_t)sh->at);
  reading.state = 2;
  return NULL;
}
static void *dropper(void *arg) {
  *(int *)arg = io(CR_IOC_SNAP_DROP, NULL) ? -1 : 1;
  return NULL;
}
static void test_blocked(void) {
  const char *what = "SNAP_DROP does not wait for a reader that is stuck on its own memory";
  start();
  map(16 * PAGE);
  in_target(t_fill);
  freeze();
  snapshot(CR_SNAP_PAGES, NULL);
  thaw();
  int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
  struct uffdio_api api = {.api = UFFD_API};
  reading.to = mmap(NULL, PAGE, RW, ANON, -1, 0);
  struct uffdio_register reg = {.range = {(uintptr_t)reading.to, PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
  if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &reg)) {
    skip(what, "no userfaultfd");
    return finish();
  }
  pthread_t first, second;
  reading.state = 0;
  pthread_create(&first, NULL, reader, NULL);
  struct pollfd p = {uffd, POLLIN, 0};
  bool stuck = poll(&p, 1, 10000) == 1;
  static volatile int dropped;
  dropped = 0;
  pthread_create(&second, NULL, dropper, (void *)&dropped);
  for (int i = 0; i < 500 && !dropped; i++) poll(NULL, 0, 10);
  tap(stuck && dropped == 1 && reading.state == 1, what);
  struct cr_array a = {.buf = (uintptr_t)ranges, .count = 1 << 16};
  if (dropped) tap(io(CR_IOC_SNAP_RUNS, &a) && errno == ENXIO, "and there is none any more");
  struct uffdio_zeropage zero = {.range = {(uintptr_t)reading.to, PAGE}};
  ioctl(uffd, UFFDIO_ZEROPAGE, &zero);
  pthread_join(first, NULL);
  pthread_join(second, NULL);
  tap(reading.got == PAGE && *(long *)reading.to == 1, "the reader still gets the page that it had found");
  close(uffd);
  finish();
}

/* ---- sources that are not regular files */
static void test_sources(void) {
  start();
  map(16 * PAGE);
  in_target(t_fill);
  int pipes[2];
  if (pipe(pipes)) return;
  struct { const char *name; int fd; } source[] = {
      {"a pipe", pipes[0]},
      {"/dev/zero", open("/dev/zero", O_RDONLY)},
      {"a directory", open("/tmp", O_RDONLY | O_DIRECTORY)},
      {"a session", dev},
      {"a socket", socket(AF_UNIX, SOCK_STREAM, 0)},
      {"a file of /proc", open("/proc/self/maps", O_RDONLY)},
  };
  freeze();
  unsigned long long n = get_scope();
  for (size_t i = 0; i < sizeof source / sizeof *source; i++) {
    struct cr_restore r = {.source_fd = source[i].fd, .id = "pages", .scope = (uintptr_t)scope, .nscope = n};
    char what[100];
    snprintf(what, sizeof what, "%s as the source of a restore: EINVAL", source[i].name);
    errno = 0;
    int got = io(CR_IOC_RESTORE, &r);
    tap(got < 0 && errno == EINVAL, what);
    if (source[i].fd != dev) close(source[i].fd);
  }
  close(pipes[1]);
  int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
  struct cr_page_run run = {(uintptr_t)sh->at, PAGE, 0};
  struct cr_restore r = {.source_fd = file, .id = "pages", .scope = (uintptr_t)scope, .nscope = n, .runs = (uintptr_t)&run, .nruns = 1};
  tap(io(CR_IOC_RESTORE, &r) < 0 && errno == ENODATA, "a file that is too short: ENODATA");
  close(file);
  thaw();
  finish();
}

/* ---- targets that have reached a limit */
static long t_limit_space(void) {
  FILE *f = fopen("/proc/self/statm", "r");
  unsigned long pages = 0;
  if (!f || fscanf(f, "%lu", &pages) != 1) return -1;
  fclose(f);
  struct rlimit limit = {pages * PAGE, pages * PAGE};
  return setrlimit(RLIMIT_AS, &limit);
}
static long t_lock_all(void) {
  struct rlimit limit = {64 * PAGE, 64 * PAGE};
  if (setrlimit(RLIMIT_MEMLOCK, &limit)) return -1;
  if (mlock(sh->at, 32 * PAGE)) return -2;
  return mlockall(MCL_FUTURE) ? -errno : 0;
}
static long count_maps(void) {
  char name[64];
  long lines = 0;
  snprintf(name, sizeof name, "/proc/%d/maps", pid);
  FILE *f = fopen(name, "r");
  for (int c; f && (c = fgetc(f)) != EOF;) lines += c == '\n';
  if (f) fclose(f);
  return lines;
}
static void test_limits(void) {
  start();
  map(64 * PAGE);
  in_target(t_fill);
  in_target(t_limit_space);
  freeze();
  tap(snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL) && restore(CR_RESTORE_TRACK), "a target that may map no more (RLIMIT_AS)");
  thaw();
  finish();
  start_as(1000);
  attach();
  map(64 * PAGE);
  in_target(t_fill);
  tap(in_target(t_lock_all) == 0, "a target locks its memory");
  freeze();
  tap(snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL) && restore(CR_RESTORE_TRACK), "a target that may lock no more (mlockall, RLIMIT_MEMLOCK)");
  thaw();
  finish();
  start();
  map(64 * PAGE);
  in_target(t_fill);
  freeze();
  char most[32], before[32];
  snprintf(before, sizeof before, "%ld", slurp("/proc/sys/vm/max_map_count"));
  snprintf(most, sizeof most, "%ld", count_maps() - 2);
  spew("/proc/sys/vm/max_map_count", most);
  bool ok = snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL) && restore(CR_RESTORE_TRACK);
  int code = errno;
  spew("/proc/sys/vm/max_map_count", before);
  errno = code;
  tap(ok, "a target that may have no more mappings");
  thaw();
  finish();
}

/* ---- tracking does not disturb itself: no mapping of the module may merge with one of the target */
static long t_map_noreserve(void) {
  sh->at = mmap(NULL, sh->size, RW, ANON | MAP_NORESERVE, -1, 0);
  if (sh->at == MAP_FAILED) return -errno;
  t_fill();
  return 0;
}
static void test_undisturbed(void) {
  start();
  sh->size = 64 * PAGE;
  in_target(t_map_noreserve);  // the lowest mapping: the kernel may merge the next one with it
  freeze();
  tap(snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL) && dirty() == 0, "memory without reservation is tracked");
  thaw();
  finish();
}

/* ---- every CPU must see the write protection at once, whatever its TLB flush ceiling */
static volatile long *counters[2];
static void *count(void *arg) {
  volatile long *counter = counters[(long)arg];
  for (;;) (*counter)++;
  return NULL;
}
static long t_count(void) {
  t_fill();
  for (long i = 0; i < 2; i++) {
    pthread_t thread;
    counters[i] = (volatile long *)(sh->at + i * PAGE);
    if (pthread_create(&thread, NULL, count, (void *)i)) return -1;
  }
  return 0;
}
static void test_flush(const char *what) {
  start();
  map(2 * PAGE);
  in_target(t_count);
  bool same = true, told = true;
  for (int i = 0; i < 50; i++) {
    static char pages[2][2 * PAGE];
    freeze();
    if (!snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL)) same = false;
    thaw();
    for (int k = 0; k < 2; k++) {
      if (pread(dev, pages[k], 2 * PAGE, (off_t)(uintptr_t)sh->at) != 2 * PAGE) same = false;
      usleep(2000);
    }
    if (memcmp(pages[0], pages[1], 2 * PAGE)) same = false;
    long before[2] = {*(long *)pages[1], *(long *)(pages[1] + PAGE)}, now[2];
    freeze();
    for (int k = 0; k < 2; k++) (void)!pread(mem, &now[k], sizeof now[k], (off_t)(uintptr_t)(sh->at + k * PAGE));
    long want = (now[0] != before[0]) + (now[1] != before[1]), n = dirty();
    if (n < want) told = false;  // a page that has faulted but is not written yet is also reported
    thaw();
  }
  tap(same, what);
  tap(told, "and what they have written is told");
  finish();
}
static void test_flushes(void) {
  static const char ceiling[] = "/sys/kernel/debug/x86/tlb_single_page_flush_ceiling";
  test_flush("a snapshot does not change while threads write");
  (void)!system("mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug");
  char before[32];
  snprintf(before, sizeof before, "%ld", slurp(ceiling));
  if (!spew(ceiling, "100000")) return skip("nor where single pages are flushed without limit", "no debugfs");
  test_flush("nor where single pages are flushed without limit");
  spew(ceiling, before);
}

/* ---- arrays: allocated for existing objects, not for the room that the caller gives */
static long t_every_second(void) {
  for (size_t i = 0; i < sh->size; i += 2 * PAGE) sh->at[i] = 1;
  return 0;
}
static void test_counts(void) {
  start();
  map(8192 * PAGE);
  in_target(t_every_second);
  freeze();
  snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, NULL);
  struct cr_array a = {(uintptr_t)ranges, 10};
  tap(io(CR_IOC_SNAP_RUNS, &a) && errno == ENOBUFS && a.count >= 4096, "too little room for the runs: ENOBUFS and how many there are");
  unsigned long long n = a.count;
  a = (struct cr_array){(uintptr_t)ranges, n};
  bool ok = !io(CR_IOC_SNAP_RUNS, &a) && a.count == n && covered(n) == 4096;
  for (unsigned long long i = 1; i < n; i++) ok &= ranges[i].addr > ranges[i - 1].addr + ranges[i - 1].len - 1;
  tap(ok, "4096 runs of one page, by address");
  a = (struct cr_array){(uintptr_t)ranges, 1ull << 60};
  tap(!io(CR_IOC_SNAP_RUNS, &a) && a.count == n, "room for more than can be costs nothing (runs)");
  struct cr_dirty d = {.id = "pages", .ranges = {0, 0}};
  tap(io(CR_IOC_DIRTY, &d) && errno == ENOBUFS && d.ranges.count >= 4096, "too little room for what is dirty: ENOBUFS and how much it is");
  d.ranges.buf = (uintptr_t)ranges;
  unsigned long long told = d.ranges.count;
  ok = !io(CR_IOC_DIRTY, &d) && d.ranges.count == told && covered(told) == 4096;
  for (unsigned long long i = 1; i < told; i++) ok &= ranges[i].addr > ranges[i - 1].addr + ranges[i - 1].len - 1;
  tap(ok, "4096 holes between clean pages, by address");
  d.ranges = (struct cr_array){(uintptr_t)ranges, 1ull << 60};
  tap(!io(CR_IOC_DIRTY, &d) && d.ranges.count == told, "room for more than can be costs nothing (dirty)");
  static struct cr_vma v[4096];
  a = (struct cr_array){(uintptr_t)v, 0};
  tap(io(CR_IOC_VMAS, &a) && errno == ENOBUFS && a.count > 5, "too little room for mappings: ENOBUFS and how many there are");
  n = a.count;
  a = (struct cr_array){(uintptr_t)v, 1ull << 60};
  ok = !io(CR_IOC_VMAS, &a) && a.count == n;
  for (unsigned long long i = 1; i < n; i++) ok &= v[i].start >= v[i - 1].end;
  tap(ok, "mappings, by address");
  a = (struct cr_array){1, 1 << 16};
  tap(io(CR_IOC_SNAP_RUNS, &a) && errno == EFAULT, "a bad buffer: EFAULT");
  thaw();
  finish();
}

/* ---- the limit of a user's snapshots */
static const char ceiling[] = "/sys/module/cr/parameters/snapshot_limit";
static void limited_user(void) {  // in a process of its own
  if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000)) _exit(100);
  start_as(0);
  usleep(100000);
  if (!attach()) _exit(101);
  map(1024 * PAGE);
  in_target(t_fill);
  freeze();
  struct cr_why why = {0};
  bool refused = !snapshot(CR_SNAP_PAGES | CR_SNAP_TRACK, &why) && errno == EDQUOT;
  refused &= why.reason == CR_WHY_SNAPSHOT_LIMIT && why.arg == 512 * PAGE;
  bool none = !holds(sh->at), tracks = snapshot(CR_SNAP_TRACK, NULL);
  thaw();
  finish();
  _exit(!refused ? 1 : !none ? 2 : !tracks ? 3 : 0);
}
static void repeating_user(void) {
  if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000)) _exit(100);
  start_as(0);
  usleep(100000);
  if (!attach()) _exit(101);
  map(256 * PAGE);
  in_target(t_fill);
  for (int i = 0; i < 50; i++) {
    freeze();
    if (!snapshot(CR_SNAP_PAGES, NULL)) _exit(1);
    thaw();
    if (i & 1 && io(CR_IOC_SNAP_DROP, NULL)) _exit(2);
  }
  finish();
  _exit(0);
}
static int as_child(void (*what)(void)) {
  fflush(stdout);
  pid_t child = fork();
  if (!child) what();
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}
static void test_ceiling(void) {
  char before[32], text[32];
  snprintf(before, sizeof before, "%ld", slurp(ceiling));
  snprintf(text, sizeof text, "%d", 512 * PAGE);
  if (!spew(ceiling, text)) return tap(false, "the module has a ceiling for snapshots");
  tap(true, "the module has a ceiling for snapshots");
  int got = as_child(limited_user);
  errno = got;
  tap(!got, "a user's snapshot over the ceiling: EDQUOT, and tracking without one goes on");
  snprintf(text, sizeof text, "%d", 1024 * PAGE);
  spew(ceiling, text);
  got = as_child(repeating_user);
  errno = got;
  tap(!got, "what is dropped is given back to the user");
  start();
  map(2048 * PAGE);
  in_target(t_fill);
  freeze();
  tap(snapshot(CR_SNAP_PAGES, NULL), "who has CAP_IPC_LOCK is not limited");
  thaw();
  finish();
  spew(ceiling, before);
}

/* ---- the OOM killer must not kill a process for memory that only a snapshot keeps */
// Stores the name of the swap device, if there is one, and disables it.
static void swap_away(char *device, size_t size) {
  char line[256];
  FILE *f = fopen("/proc/swaps", "re");
  *device = 0;
  if (f && fgets(line, sizeof line, f) && fgets(line, sizeof line, f)) {
    snprintf(device, size, "%.*s", (int)strcspn(line, " \t"), line);
    if (swapoff(device)) *device = 0;
  }
  if (f) fclose(f);
}

// Has a process use all free memory and @more pages. Returns true if it was not killed.
static bool hog_lives(size_t more) {
  spew("/proc/sys/vm/overcommit_memory", "1");
  fflush(stdout);
  pid_t hog = fork();
  if (!hog) {
    spew("/proc/self/oom_score_adj", "1000");
    size_t size = ((size_t)sysconf(_SC_AVPHYS_PAGES) + more) * PAGE;
    char *at = mmap(NULL, size, RW, ANON | MAP_NORESERVE, -1, 0);
    for (size_t i = 0; i < size; i += PAGE) at[i] = 1;
    _exit(0);
  }
  int status = 0;
  waitpid(hog, &status, 0);
  spew("/proc/sys/vm/overcommit_memory", "0");
  return WIFEXITED(status);
}

// A snapshot of a live process, which has written to all pages and so has copies of its own.
static void pressure_alive(size_t total) {
  start();
  map(total / 4 * PAGE);
  in_target(t_fill);
  freeze();
  if (!snapshot(CR_SNAP_PAGES, NULL)) tap(false, "a snapshot of a quarter of memory");
  thaw();
  in_target(t_fill);
  tap(hog_lives(total / 8) && !holds(sh->at), "a snapshot of a live process, too");
  freeze();
  tap(io(CR_IOC_COMMIT, NULL) && errno == ENXIO, "without it there is nothing to go back to: ENXIO from the commit");
  thaw();
  tap(in_target(t_right) == 0, "and the process goes on");
  freeze();
  tap(!io(CR_IOC_SNAP_DROP, NULL) && !io(CR_IOC_COMMIT, NULL), "who gives it up can commit");
  thaw();
  finish();
}

static void test_pressure(void) {
  const char *what = "a snapshot of a dead process is dropped before a process is killed";
  long total = sysconf(_SC_PHYS_PAGES);
  char swap[128];
  if (total > (4L << 30) / PAGE) return skip(what, "too much memory to fill");
  swap_away(swap, sizeof swap);  // when swap is full, the kernel keeps swap cache pages in memory
  start();
  map((size_t)total / 3 * PAGE);
  in_target(t_fill);
  freeze();
  if (!snapshot(CR_SNAP_PAGES, NULL)) tap(false, "a snapshot of a third of memory");
  thaw();
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  tap(holds(sh->at), "a snapshot outlives its process");
  tap(hog_lives((size_t)total / 6), what);
  static char page[PAGE];
  tap(pread(dev, page, PAGE, (off_t)(uintptr_t)sh->at) < 0 && errno == ENXIO, "and reads ENXIO from then on");
  close(dev);
  close(mem);
  pressure_alive((size_t)total);
  if (*swap) swapon(swap, 0);
}

static const struct { const char *name; void (*run)(void); } tests[] = {
    {"merged", test_merged},     {"huge", test_huge},           {"moved", test_moved}, {"pinned", test_pinned},
    {"marked", test_marked},
    {"pinned-huge", test_pinned_huge}, {"changed", test_changed}, {"changed-next", test_changed_next}, {"parts", test_parts},
    {"guards", test_guards},     {"random", test_random},       {"blocked", test_blocked}, {"sources", test_sources},
    {"limits", test_limits},     {"undisturbed", test_undisturbed}, {"flush", test_flushes},   {"counts", test_counts},
    {"ceiling", test_ceiling},   {"pressure", test_pressure},   {"mixed", test_mixed},
};

int main(int argc, char **argv) {
  const char *part = "";
  for (int i = 1; i < argc; i++)
    if (argv[i][0] != '-') part = argv[i];
  sh = mmap(NULL, sizeof *sh, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  signal(SIGPIPE, SIG_IGN);
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
    if (strstr(tests[i].name, part)) tests[i].run();
  if (strstr("volatile", part)) {
    test_volatile("droppable", MAP_DROPPABLE, 0);
    test_volatile("wiped on fork", 0, MADV_WIPEONFORK);
  }
  printf("1..%d\n", number);
  return failed != 0;
}
