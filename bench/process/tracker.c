// SPDX-License-Identifier: GPL-2.0-only
// Compares two ways to find the pages that a process has changed. One is soft-dirty bits (as used by the module, and
// through /proc/PID/clear_refs). The other is userfaultfd's write protection without messages, scanned with PAGEMAP_SCAN.
// Both work on the program's own memory.
//   tracker [-r RUNS] [MB]
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cr.h"

enum { PAGE = 4096, MAX_RUNS_ = 64 };

// Missing in the headers of older kernels.
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif
#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#endif
struct scan_region {
  uint64_t start, end, categories;
};
struct scan_arg {
  uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
  uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN_IOCTL _IOWR('f', 16, struct scan_arg)
enum { SCAN_WP_MATCHING = 1, SCAN_CHECK_WPASYNC = 2, CAT_WRITTEN = 2, SOFT_DIRTY_BIT = 55 };

static int runs = 7, uffd = -1, pagemap, clear_refs;
static size_t bytes = 256UL << 20;
static char *area;

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
static int by_value(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}
static void show(const char *way, const char *what, uint64_t *ns, double per) {
  qsort(ns, (size_t)runs, sizeof *ns, by_value);
  printf("%s,\"%s\",%.3f,%.3f,%.3f\n", way, what, (double)ns[runs / 2] / per, (double)ns[0] / per,
         (double)ns[runs - 1] / per);
  fflush(stdout);
}
static void fact(const char *way, const char *what, const char *is) {
  printf("%s,\"%s\",%s\n", way, what, is);
  fflush(stdout);
}
_Noreturn static void fail(const char *what) {
  fprintf(stderr, "tracker: %s: %s\n", what, strerror(errno));
  exit(1);
}

static char *fresh(size_t size, bool huge) {
  char *raw = mmap(NULL, size + (2UL << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) fail("mmap");
  char *at = (char *)(((uintptr_t)raw + (2UL << 20) - 1) & ~((2UL << 20) - 1));
  madvise(at, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  for (size_t i = 0; i < size; i += PAGE) *(size_t *)(at + i) = i;
  return at;
}

/* ---- the two ways */

static bool uffd_open(void) {
  struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED};
  uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
  if (uffd < 0) return false;
  if (!ioctl(uffd, UFFDIO_API, &api)) return true;
  close(uffd);
  uffd = -1;
  return false;
}
static bool uffd_register(char *at, size_t size) {
  struct uffdio_register r = {.range = {(uintptr_t)at, size}, .mode = UFFDIO_REGISTER_MODE_WP};
  return !ioctl(uffd, UFFDIO_REGISTER, &r);
}
static bool uffd_protect(char *at, size_t size) {
  struct uffdio_writeprotect w = {.range = {(uintptr_t)at, size}, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
  return !ioctl(uffd, UFFDIO_WRITEPROTECT, &w);
}
static struct scan_region regions[1 << 17];
// @return pages written since the last scan; SCAN_WP_MATCHING protects them again
static long uffd_scan(char *at, size_t size, uint64_t flags) {
  struct scan_arg a = {.size = sizeof a, .flags = flags | SCAN_CHECK_WPASYNC, .start = (uintptr_t)at,
                       .end = (uintptr_t)at + size, .vec = (uintptr_t)regions,
                       .vec_len = sizeof regions / sizeof *regions, .category_mask = CAT_WRITTEN,
                       .return_mask = CAT_WRITTEN};
  long n = ioctl(pagemap, SCAN_IOCTL, &a), pages = 0;
  if (n < 0) return -errno;
  for (long i = 0; i < n; i++) pages += (long)((regions[i].end - regions[i].start) / PAGE);
  return pages;
}
static void soft_clear(void) {
  if (pwrite(clear_refs, "4\n", 2, 0) != 2) fail("clear_refs");
}
static long soft_scan(char *at, size_t size) {
  static uint64_t entries[4096];
  long dirty = 0;
  for (size_t done = 0; done < size; done += sizeof entries / 8 * PAGE) {
    size_t want = (size - done) / PAGE * 8;
    if (want > sizeof entries) want = sizeof entries;
    if (pread(pagemap, entries, want, (off_t)(((uintptr_t)at + done) / PAGE * 8)) != (ssize_t)want) fail("pagemap");
    for (size_t i = 0; i < want / 8; i++) dirty += entries[i] >> SOFT_DIRTY_BIT & 1;
  }
  return dirty;
}

/* ---- the module's way, with a child that holds the session: a process cannot freeze itself */

static struct cr_session_ {
  volatile int todo, done;
  volatile uint64_t arm_ns, scan_ns;
  volatile long dirty;
} *shared;
static pid_t child;

static void module_child(pid_t parent) {
  static struct cr_range found[1 << 18];
  char name[64];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  snprintf(name, sizeof name, "/proc/%d/mem", parent);
  int mem = open(name, O_RDWR), dev = open(CR_DEVICE, O_RDWR);
  struct cr_attach a = {.mem_fd = mem};
  shared->done = dev < 0 || ioctl(dev, CR_IOC_ATTACH, &a) ? -1 : 1;
  for (int next = 2;; next++) {
    while (shared->todo != next) usleep(200);
    struct cr_freeze f = {0};
    struct cr_thaw t = {0};
    struct cr_snapshot s = {.flags = CR_SNAP_TRACK, .id = "tracker"};
    struct cr_dirty d = {.id = "tracker", .ranges = {(uintptr_t)found, sizeof found / sizeof *found}};
    if (ioctl(dev, CR_IOC_FREEZE, &f)) fail("freeze");
    uint64_t begin = now();
    if (next % 2 == 0) {
      if (ioctl(dev, CR_IOC_SNAPSHOT, &s)) fail("snapshot");
      shared->arm_ns = now() - begin;
    } else {
      if (ioctl(dev, CR_IOC_DIRTY, &d)) fail("dirty");
      shared->scan_ns = now() - begin;
      shared->dirty = 0;
      for (uint64_t i = 0; i < d.ranges.count; i++) {
        uint64_t from = found[i].addr, to = from + found[i].len;
        uint64_t low = (uintptr_t)area, high = low + bytes;
        if (from < low) from = low;
        if (to > high) to = high;
        if (from < to) shared->dirty += (long)((to - from) / PAGE);
      }
    }
    if (ioctl(dev, CR_IOC_THAW, &t)) fail("thaw");
    shared->done = next;
  }
}
static bool module_start(void) {
  shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t me = getpid();
  if (!(child = fork())) module_child(me);
  while (!shared->done) usleep(1000);
  shared->todo = 1;
  return shared->done == 1;
}
static void module_do(void) {
  int next = shared->todo + 1;
  shared->todo = next;
  while (shared->done != next) usleep(200);
}

/* ---- what is timed */

// Every `every`th page is written to.
static uint64_t touch(size_t every) {
  uint64_t begin = now();
  for (size_t i = 0; i < bytes; i += every * PAGE) ++*(volatile size_t *)(area + i);
  return now() - begin;
}
static void expect(const char *way, long found, size_t every) {
  long want = (long)(bytes / PAGE / every);
  if (found < want || found > want * 2 + 1024) {
    fprintf(stderr, "tracker: %s found %ld pages, %ld were written\n", way, found, want);
    exit(1);
  }
}

static void timings(void) {
  static const size_t every[] = {100, 10, 1};
  uint64_t arm[3][MAX_RUNS_], first[3][MAX_RUNS_], scan[3][3][MAX_RUNS_], again[MAX_RUNS_], plain[MAX_RUNS_];
  double pages = (double)(bytes / PAGE);
  bool module = module_start(), uffd_there = uffd_open();
  for (int run = 0; run < runs; run++) {
    for (size_t e = 0; e < 3; e++) {
      touch(1);
      plain[run] = touch(1);  // no page is protected any more
      uint64_t begin = now();
      soft_clear();
      arm[0][run] = now() - begin;
      uint64_t written = touch(every[e]);
      if (every[e] == 1) first[0][run] = written;
      begin = now();
      long found = soft_scan(area, bytes);
      scan[0][e][run] = now() - begin;
      expect("soft-dirty", found, every[e]);
      if (!module) continue;
      module_do();
      arm[1][run] = shared->arm_ns;
      written = touch(every[e]);
      if (every[e] == 1) first[1][run] = written;
      module_do();
      scan[1][e][run] = shared->scan_ns;
      expect("the module", shared->dirty, every[e]);
    }
  }
  if (uffd_there) {
    if (!uffd_register(area, bytes)) fail("register");
    for (int run = 0; run < runs; run++) {
      for (size_t e = 0; e < 3; e++) {
        uint64_t begin = now();
        if (!uffd_protect(area, bytes)) fail("write protection");
        arm[2][run] = now() - begin;
        uint64_t written = touch(every[e]);
        if (every[e] == 1) first[2][run] = written;
        begin = now();
        long found = uffd_scan(area, bytes, 0);
        scan[2][e][run] = now() - begin;
        expect("PAGEMAP_SCAN", found, every[e]);
        if (every[e] != 10) continue;
        begin = now();  // scan and arm in one call
        uffd_scan(area, bytes, SCAN_WP_MATCHING);
        again[run] = now() - begin;
      }
    }
  }
  static const char *const ways[] = {"clear_refs and pagemap", "module", "userfaultfd and PAGEMAP_SCAN"};
  show("none", "write ns/page", plain, pages);
  for (int w = 0; w < 3; w++) {
    if ((w == 1 && !module) || (w == 2 && !uffd_there)) {
      fact(ways[w], "available", "no");
      continue;
    }
    show(ways[w], "arm us", arm[w], 1000);
    show(ways[w], "first write ns/page", first[w], pages);
    show(ways[w], "scan 1 % us", scan[w][0], 1000);
    show(ways[w], "scan 10 % us", scan[w][1], 1000);
    show(ways[w], "scan 100 % us", scan[w][2], 1000);
    if (w == 2) show(ways[w], "scan and arm again 10 % us", again, 1000);
  }
  if (child > 0) kill(child, SIGKILL), waitpid(child, NULL, 0);
}

/* ---- how they behave */

static char text[256];
static const char *pages_text(long n) {
  snprintf(text, sizeof text, n < 0 ? "errno %ld" : "%ld pages", n < 0 ? -n : n);
  return text;
}
static void both(const char *what, long soft, long scanned) {
  fact("clear_refs and pagemap", what, pages_text(soft));
  if (uffd >= 0) fact("userfaultfd and PAGEMAP_SCAN", what, pages_text(scanned));
}
enum { SOFT = 1, UFFD = 2 };
static int which = SOFT | UFFD;
static long arm_both(char *at, size_t size) {
  if (which & UFFD && uffd >= 0 && (!uffd_register(at, size) || !uffd_protect(at, size))) return -errno;
  if (which & SOFT) soft_clear();
  return 0;
}
static long scan_uffd(char *at, size_t size) { return uffd >= 0 ? uffd_scan(at, size, 0) : 0; }

static long field_kb(const char *file, uintptr_t at, const char *field) {
  char line[512];
  long kb = -1;
  bool in = false;
  FILE *f = fopen(file, "re");
  while (f && fgets(line, sizeof line, f)) {
    unsigned long start, end;
    if (sscanf(line, "%lx-%lx ", &start, &end) == 2 && strchr(line, '-') < strchr(line, ' '))
      in = at >= start && at < end;
    else if ((in || !at) && !strncmp(line, field, strlen(field)))
      kb = strtol(line + strlen(field), NULL, 10);
  }
  if (f) fclose(f);
  return kb;
}
// A page that is pinned for long; the kernel writes into it without looking at the page table.
static bool write_pinned(char *at, bool (*arm)(char *)) {
  struct io_uring_params p = {0};
  int ring = (int)syscall(SYS_io_uring_setup, 2, &p);
  if (ring < 0) return false;
  char *sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
  struct io_uring_sqe *sqe =
      mmap(NULL, p.sq_entries * sizeof *sqe, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
  struct { void *base; size_t len; } buffer = {at, PAGE};
  int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  bool done = sq != MAP_FAILED && sqe != MAP_FAILED && zero >= 0 &&
              !syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffer, 1);
  if (done) done = arm(at);
  if (done) {
    *sqe = (struct io_uring_sqe){.opcode = IORING_OP_READ_FIXED, .fd = zero, .addr = (uintptr_t)at, .len = PAGE};
    *(volatile unsigned *)(sq + p.sq_off.array) = 0;
    __atomic_store_n((unsigned *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
    done = syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1 && *(volatile size_t *)at == 0;
  }
  close(zero);
  close(ring);
  return done;
}
static bool arm_megabytes(char *at) { return !arm_both(at, 4 << 20); }

static void flags_of(char *at) {
  char line[512] = "";
  bool in = false;
  FILE *f = fopen("/proc/self/smaps", "re");
  while (f && fgets(line, sizeof line, f)) {
    unsigned long start, end;
    if (sscanf(line, "%lx-%lx ", &start, &end) == 2) in = (uintptr_t)at >= start && (uintptr_t)at < end;
    if (in && !strncmp(line, "VmFlags:", 8)) break;
  }
  if (f) fclose(f);
  fact("userfaultfd and PAGEMAP_SCAN", "a mapping shows in smaps that it is tracked (uw)",
       strstr(line, " uw") ? "yes" : "no");
}

static void behaviour(void) {
  enum { SIZE = 4 << 20 };
  if (uffd < 0) uffd_open();

  char *huge = fresh(SIZE, true);
  long before = field_kb("/proc/self/smaps", (uintptr_t)huge, "AnonHugePages:");
  long armed = arm_both(huge, SIZE);
  long kept = field_kb("/proc/self/smaps", (uintptr_t)huge, "AnonHugePages:");
  *(volatile char *)(huge + PAGE) = 1;
  long after = field_kb("/proc/self/smaps", (uintptr_t)huge, "AnonHugePages:");
  printf("# huge pages: %ld kB before, %ld kB armed (%ld), %ld kB after one write\n", before, kept, armed, after);
  both("one write to a huge page", soft_scan(huge, SIZE), scan_uffd(huge, SIZE));

  char *moved = fresh(SIZE, false);
  arm_both(moved, SIZE);
  *(volatile char *)(moved + PAGE) = 1;
  char *to = mremap(moved, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, fresh(SIZE, false));
  both("one write and then mremap", to == MAP_FAILED ? -errno : soft_scan(to, SIZE), scan_uffd(to, SIZE));

  char *gone = fresh(SIZE, false);
  arm_both(gone, SIZE);
  madvise(gone + PAGE, PAGE, MADV_DONTNEED);
  both("one page dropped by MADV_DONTNEED", soft_scan(gone, SIZE), scan_uffd(gone, SIZE));
  *(volatile char *)(gone + PAGE);
  both("and read again", soft_scan(gone, SIZE), scan_uffd(gone, SIZE));

  char *hole = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(hole, SIZE, MADV_NOHUGEPAGE);
  arm_both(hole, SIZE);
  *(volatile char *)(hole + PAGE) = 1;
  both("one write to a page that was not there", soft_scan(hole, SIZE), scan_uffd(hole, SIZE));

  char *swapped = fresh(SIZE, false);
  arm_both(swapped, SIZE);
  *(volatile char *)(swapped + PAGE) = 1;
  madvise(swapped, SIZE, MADV_PAGEOUT);
  printf("# swapped out: %ld kB\n", field_kb("/proc/self/smaps", (uintptr_t)swapped, "Swap:"));
  both("one write, all swapped out", soft_scan(swapped, SIZE), scan_uffd(swapped, SIZE));
  for (size_t i = 0; i < SIZE; i += PAGE) *(volatile char *)(swapped + i);
  both("and read in again", soft_scan(swapped, SIZE), scan_uffd(swapped, SIZE));

  char *same = fresh(SIZE, false);
  FILE *ksm = fopen("/sys/kernel/mm/ksm/run", "we");
  arm_both(same, SIZE);
  for (size_t i = 0; i < SIZE; i += PAGE) *(size_t *)(same + i) = 7;
  if (ksm && !madvise(same, SIZE, MADV_MERGEABLE)) {
    fputs("1", ksm);
    fclose(ksm);
    for (int i = 0; i < 300 && field_kb("/proc/self/smaps", (uintptr_t)same, "KSM:") < (SIZE - 64 * PAGE) / 1024; i++)
      usleep(100000);
    printf("# merged: %ld kB of %d\n", field_kb("/proc/self/smaps", (uintptr_t)same, "KSM:"), SIZE / 1024);
    both("all written, then merged by KSM (1024 is right)", soft_scan(same, SIZE), scan_uffd(same, SIZE));
    if ((ksm = fopen("/sys/kernel/mm/ksm/run", "we"))) fputs("2", ksm), fclose(ksm);
  }

  char *called = fresh(SIZE, false);
  int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  arm_both(called, SIZE);
  long got = read(zero, called + PAGE, PAGE);
  close(zero);
  if (got != PAGE) fact("userfaultfd and PAGEMAP_SCAN", "a system call that writes", "fails");
  both("one page written by a system call", soft_scan(called, SIZE), scan_uffd(called, SIZE));
  for (which = SOFT; which <= UFFD; which++) {  // separately: each sees the other's changes of the entry
    char *pinned = fresh(SIZE, false);
    if (!write_pinned(pinned, arm_megabytes)) continue;
    fact(which == SOFT ? "clear_refs and pagemap" : "userfaultfd and PAGEMAP_SCAN",
         "one pinned page written by the kernel (1 is right)",
         pages_text(which == SOFT ? soft_scan(pinned, SIZE) : scan_uffd(pinned, SIZE)));
  }
  which = SOFT | UFFD;

  char *forked = fresh(SIZE, false);
  arm_both(forked, SIZE);
  *(volatile char *)(forked + PAGE) = 1;
  pid_t pid = fork();
  if (!pid) {
    int mine = open("/proc/self/pagemap", O_RDONLY);
    pagemap = mine;
    *(volatile char *)(forked + 2 * PAGE) = 1;
    both("in a child: one write before the fork, one after", soft_scan(forked, SIZE), scan_uffd(forked, SIZE));
    _exit(0);
  }
  waitpid(pid, NULL, 0);
  both("in its parent", soft_scan(forked, SIZE), scan_uffd(forked, SIZE));

  flags_of(forked);
  if (uffd < 0) return;
  int first = uffd;
  if (uffd_open()) {  // a second userfaultfd on the same memory, as for a target that has one of its own
    fact("userfaultfd and PAGEMAP_SCAN", "a second userfaultfd on the same memory",
         uffd_register(forked, SIZE) ? "accepted" : strerror(errno));
    close(uffd);
  }
  uffd = first;
  FILE *file = tmpfile();
  if (file && !ftruncate(fileno(file), SIZE)) {
    char *mapped = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
    fact("userfaultfd and PAGEMAP_SCAN", "a private mapping of a file in tmpfs", uffd_register(mapped, SIZE) ? "accepted" : strerror(errno));
  }
  int exe = open("/proc/self/exe", O_RDONLY);
  char *mapped = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, exe, 0);
  fact("userfaultfd and PAGEMAP_SCAN", "a private mapping of a file on a disk (data of programs)",
       uffd_register(mapped, PAGE) ? "accepted" : strerror(errno));
  close(uffd);
  *(volatile char *)(forked + 9 * PAGE) = 1;
  fact("userfaultfd and PAGEMAP_SCAN", "after its descriptor was closed", pages_text(uffd_scan(forked, SIZE, 0)));
  setresuid(1000, 1000, 1000);
  int own = (int)syscall(SYS_userfaultfd, O_CLOEXEC), user = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
  fact("userfaultfd and PAGEMAP_SCAN", "a user without rights, faults of the kernel too", own < 0 ? "no" : "yes");
  fact("userfaultfd and PAGEMAP_SCAN", "a user without rights, UFFD_USER_MODE_ONLY", user < 0 ? "no" : "yes");
}

int main(int argc, char **argv) {
  int opt;
  while ((opt = getopt(argc, argv, "r:")) != -1) {
    if (opt == 'r' && atoi(optarg) > 0 && atoi(optarg) <= MAX_RUNS_) runs = atoi(optarg);
    else return fprintf(stderr, "usage: %s [-r RUNS] [MB]\n", argv[0]), 2;
  }
  if (optind < argc) bytes = strtoul(argv[optind], NULL, 0) << 20;
  pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  clear_refs = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (pagemap < 0 || clear_refs < 0) fail("/proc/self");
  puts("way,what,median,least,most");
  fflush(stdout);
  area = fresh(bytes, false);
  timings();
  behaviour();
  return 0;
}
