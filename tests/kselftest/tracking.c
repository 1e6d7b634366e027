// SPDX-License-Identifier: GPL-2.0-only
// Tracking must detect every change of memory between checkpoint and pause.
// Each scenario is one way to change memory; all share setup and check.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "advice.h"
#include "harness.h"

enum { PAGE = 4096, PAGES = 1024, HOLE = 256 };  // pages 512 … 767 are never touched
static char *area, *huge;
static const size_t huge_size = 4 * MB;
static pid_t child;
static long noise;

static void setup(void) {
  area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(area, PAGES * PAGE, MADV_NOHUGEPAGE);
  fill(area, 512 * PAGE, 1);
  fill(area + 768 * PAGE, HOLE * PAGE, 2);
  char *raw = mmap(NULL, huge_size + 2 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  huge = (char *)(((uintptr_t)raw + 2 * MB - 1) & ~(2 * MB - 1));
  madvise(huge, huge_size, MADV_HUGEPAGE);
  fill(huge, 2 * MB, 3);
  for (size_t i = 2 * MB; i < huge_size; i += 8 * PAGE) fill(huge + i, PAGE, 4);
  maps_note();
}
static const char *all_zero(const char *at, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 8)
    if (*(const uint64_t *)(at + i)) return no("%p is not 0", (void *)(at + i));
  return NULL;
}
static const char *check(void) {
  const char *why = maps_same();
  if (!why) why = filled(area, 512 * PAGE, 1);
  if (!why) why = all_zero(area + 512 * PAGE, HOLE * PAGE);
  if (!why) why = filled(area + 768 * PAGE, HOLE * PAGE, 2);
  if (!why) why = filled(huge, 2 * MB, 3);
  for (size_t i = 2 * MB; i < huge_size && !why; i += 8 * PAGE)
    if (!(why = filled(huge + i, PAGE, 4)) && i + PAGE < huge_size) why = all_zero(huge + i + PAGE, PAGE);
  return why;
}

/* ---- ways to change memory */

static void by_write(void) {
  for (int i = 0; i < 512; i += 7) area[i * PAGE + (i * 13) % PAGE] ^= 0x55;
}
static void by_one_byte(void) { area[300 * PAGE + 77] ^= 1; }
static void populated(void) { memset(area + 512 * PAGE, 1, HOLE * PAGE); }
static void by_system_call(void) {  // the kernel writes
  int fd = MUST(open("/dev/urandom", O_RDONLY));
  for (int i = 0; i < 512; i += 50) MUST(read(fd, area + i * PAGE, 100));
  MUST(read(fd, area + 600 * PAGE, 100));
  close(fd);
}
static void by_proc_mem(void) {  // as a debugger does
  int fd = MUST(open("/proc/self/mem", O_RDWR));
  for (int i = 1; i < 512; i += 50) MUST(pwrite(fd, "changed!", 8, (off_t)(area + i * PAGE)));
  close(fd);
  MUST(mprotect(area, PAGE, PROT_READ));
  fd = MUST(open("/proc/self/mem", O_RDWR));
  // Writes to a read-only mapping; newer kernels allow that only to debuggers.
  if (pwrite(fd, "changed!", 8, (off_t)area) < 0 && errno != EIO) die("/proc/self/mem: errno %d", errno);
  close(fd);
  MUST(mprotect(area, PAGE, PROT_READ | PROT_WRITE));
}
static void by_another_process(void) {
  pid_t me = getpid(), other = MUST(fork());
  if (!other) {
    char text[] = "from outside";
    struct iovec here = {text, sizeof text}, there = {area + 20 * PAGE, sizeof text};
    _exit(process_vm_writev(me, &here, 1, &there, 1, 0) < 0);
  }
  int status;
  waitpid(other, &status, 0);
  if (status) die("process_vm_writev failed");
}
static void by_direct_io(void) {  // the device writes, if the file system supports O_DIRECT
  int fd = open(path("direct"), O_RDWR | O_CREAT | O_DIRECT, 0600);
  if (fd < 0) fd = open("/proc/self/exe", O_RDONLY | O_DIRECT);
  if (fd < 0) fd = MUST(open("/dev/zero", O_RDONLY));
  if (ftruncate(fd, 8 * PAGE)) errno = 0;  // succeeds only for the new file
  MUST(pread(fd, area + 30 * PAGE, 4 * PAGE, 0));
  close(fd);
}
static void by_mprotect(void) {
  MUST(mprotect(area + 10 * PAGE, 20 * PAGE, PROT_READ));
  MUST(mprotect(area + 40 * PAGE, 20 * PAGE, PROT_NONE));
  area[5 * PAGE] ^= 1;
}
static void protected_and_back(void) {
  MUST(mprotect(area, 512 * PAGE, PROT_READ));
  MUST(mprotect(area, 512 * PAGE, PROT_READ | PROT_WRITE));
  by_write();
}
static void moved_away_and_back(void) {
  char *spare = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  MUST(mremap(area + 64 * PAGE, 64 * PAGE, 64 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, spare));
  spare[9 * PAGE] ^= 1;
  MUST(mremap(spare, 64 * PAGE, 64 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, area + 64 * PAGE));
}
static void exchanged(void) {  // moves pages to other addresses without writing to them
  char *spare = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  MUST(mremap(area + 64 * PAGE, 64 * PAGE, 64 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, spare));
  MUST(mremap(area + 128 * PAGE, 64 * PAGE, 64 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, area + 64 * PAGE));
  MUST(mremap(spare, 64 * PAGE, 64 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, area + 128 * PAGE));
}
static void dropped(void) { MUST(madvise(area + 100 * PAGE, 50 * PAGE, MADV_DONTNEED)); }
static void dropped_and_read(void) {
  dropped();
  for (int i = 100; i < 150; i++) noise += area[i * PAGE];  // reads map the zero page
}
static void dropped_and_written(void) {
  dropped();
  memset(area + 110 * PAGE, 0, 10 * PAGE);
}
static void freed(void) {
  MUST(madvise(area + 200 * PAGE, 50 * PAGE, MADV_FREE));
  area[201 * PAGE] = 1;
}
static void mapped_anew(void) {
  MUST(mmap(area + 256 * PAGE, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
  madvise(area + 256 * PAGE, 64 * PAGE, MADV_NOHUGEPAGE);
  fill(area + 256 * PAGE, 10 * PAGE, 9);
}
static void unmapped(void) { MUST(munmap(area + 256 * PAGE, 512 * PAGE)); }
static void fork_in_between(void) {
  by_write();
  pid_t other = MUST(fork());
  if (!other) {
    by_one_byte();
    populated();
    _exit(0);
  }
  waitpid(other, NULL, 0);
  area[3 * PAGE] ^= 1;
}
static void fork_that_lives(void) {
  child = MUST(fork());
  if (!child) {  // its memory must not change, whatever happens to the parent's
    for (int i = 0; i < 100; i++) {
      if (filled(area + 8 * PAGE, 500 * PAGE, 1)) _exit(1);
      sleep_ms(20);
    }
    _exit(0);
  }
  int fd = open(path("child"), O_RDWR | O_CREAT | O_TRUNC, 0600);
  dprintf(fd, "%d\n", child);
  close(fd);
  fill(area, 300 * PAGE, 8);
}
static void clear_refs(const char *what) {
  int fd = MUST(open("/proc/self/clear_refs", O_WRONLY));
  MUST(write(fd, what, strlen(what)));
  close(fd);
}
static void cleared_after(void) {
  by_write();
  populated();
  dropped();
  clear_refs("4");  // as another user of soft-dirty bits: clears all of them
}
static void cleared_before(void) {
  clear_refs("4");
  by_one_byte();
}
static void cleared_between(void) {
  by_write();
  clear_refs("4");
  area[511 * PAGE] ^= 1;
}
static void referenced_cleared(void) {
  by_write();
  clear_refs("1");
}
static void collapsed(void) {
  by_one_byte();
  madvise(huge + 2 * MB, 2 * MB, MADV_COLLAPSE);
  huge[2 * MB + 3 * PAGE] = 1;
}
static void huge_written(void) { huge[77777] ^= 1; }
static void huge_split(void) {
  MUST(mprotect(huge + 100 * PAGE, PAGE, PROT_READ));
  huge[0] ^= 1;
}
static void huge_piece_dropped(void) { MUST(madvise(huge + 100 * PAGE, 3 * PAGE, MADV_DONTNEED)); }
static void swapped_out(void) {
  by_write();
  madvise(area, 512 * PAGE, MADV_PAGEOUT);
}
static void anything(void) {
  static void (*const ways[])(void) = {by_write,    by_one_byte, populated,       by_system_call,      by_proc_mem,
                                       exchanged,   freed,       dropped,         dropped_and_written, protected_and_back,
                                       huge_split,  mapped_anew, huge_written,    fork_in_between,     moved_away_and_back,
                                       swapped_out, collapsed,   cleared_between, by_direct_io,        huge_piece_dropped};
  unsigned x = (unsigned)(now_ns() / 1000);
  by_one_byte();
  for (int i = 0; i < 4; i++) {
    x = x * 1103515245 + 12345;
    unsigned which = x / 65536 % ARRAY_SIZE(ways);
    // `ways` has none that unmaps parts, because later ones would fault
    ways[which]();
  }
  area[300 * PAGE + 78] ^= 1;
}

// One step between any two pauses: mprotect makes clean pages writable in a mapping that is new in part.
static void step_by_step(void) {
  int fd = MUST(open(path("step"), O_RDWR | O_CREAT | O_APPEND, 0600));  // not rolled back
  off_t step = lseek(fd, 0, SEEK_END);
  MUST(write(fd, "x", 1));
  close(fd);
  if (step == 0) {
    for (int i = 0; i < 512; i++) area[i * PAGE] ^= 1;
  } else if (step == 1) {
    MUST(mmap(area + 256 * PAGE, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    madvise(area + 256 * PAGE, 64 * PAGE, MADV_NOHUGEPAGE);
    memset(area + 256 * PAGE, 1, 10 * PAGE);
    protected_and_back();
  } else {
    area[PAGE] ^= 1;
  }
}

#define WAY(text, function) {.name = text, .flags = NO_RESTART, .setup = setup, .check = check, .mutate = function}
static const struct scenario scenarios[] = {
    {.name = "write", .setup = setup, .check = check, .mutate = by_write},
    WAY("one byte", by_one_byte),
    WAY("populated", populated),
    WAY("system call", by_system_call),
    WAY("/proc/self/mem", by_proc_mem),
    WAY("process_vm_writev", by_another_process),
    WAY("direct I/O", by_direct_io),
    WAY("mprotect", by_mprotect),
    WAY("mprotect and back", protected_and_back),
    WAY("mremap away and back", moved_away_and_back),
    WAY("pages exchanged by mremap", exchanged),
    WAY("MADV_DONTNEED", dropped),
    WAY("MADV_DONTNEED, then read", dropped_and_read),
    WAY("MADV_DONTNEED, then written", dropped_and_written),
    WAY("MADV_FREE", freed),
    WAY("mapped anew", mapped_anew),
    WAY("unmapped", unmapped),
    WAY("fork in between", fork_in_between),
    WAY("soft-dirty cleared after", cleared_after),
    WAY("soft-dirty cleared before", cleared_before),
    WAY("soft-dirty cleared between", cleared_between),
    WAY("referenced cleared", referenced_cleared),
    WAY("huge page made of holes", collapsed),
    WAY("huge page written", huge_written),
    WAY("huge page split", huge_split),
    WAY("piece of a huge page dropped", huge_piece_dropped),
    WAY("swapped out", swapped_out),
    {.name = "a child that lives", .flags = NO_PAUSE | NO_RESTART, .setup = setup, .check = check,
     .mutate = fork_that_lives},
    {.name = "step by step", .flags = NO_PAUSE | NO_RESTART, .setup = setup, .check = check, .mutate = step_by_step},
    {.name = "anything", .flags = NO_PAUSE | NO_RESTART, .setup = setup, .check = check, .mutate = anything},
    {},
};

static struct target t;
static struct run r;

static const struct scenario *find(const char *name) {
  return scenario_named(scenarios, name);
}

// Changes memory before each pause except every idle-th (0: before all).
static void change_and_pause(const char *scenario, int rounds, int idle, const char *what) {
  if (!target_start(&t, find(scenario))) return;
  const char *why = target_checkpoint(&t, &r) ? why_not(&r) : NULL;
  int round = 0;
  for (; !why && round < rounds; round++) {
    if (!idle || round % idle != idle - 1) why = target_op(&t, OP_MUTATE);
    if (!why && target_pause(&t, &r)) why = why_not(&r);
    if (!why) why = target_op(&t, OP_CHECK);
  }
  tap(!why, what, "round %d: %s", round, why);
  target_end(&t);
}
static void repeatedly(void) { change_and_pause("anything", 25, 5, "25 pauses, anything between them"); }
static void clean_but_writable(void) {
  change_and_pause("step by step", 4, 0, "clean pages that have become writable");
}

// Disable khugepaged: it merges split huge pages again, and their changes are then correctly reported per 2 MB.
static const char khugepaged[] = "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs";
static void let_khugepaged_sleep(const char *ms) {
  int fd = open(khugepaged, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, ms, strlen(ms)) < 0) note("khugepaged cannot be disabled");
  close(fd);
}

// A write of one byte to a split huge page must not restore all 2 MB.
static void by_the_page(void) {
  char pid[16], before[32] = "";
  slurp(khugepaged, before, sizeof before);
  let_khugepaged_sleep("3600000");
  if (!target_start(&t, find("huge page written"))) return let_khugepaged_sleep(before);
  snprintf(pid, sizeof pid, "%d", t.pid);
  const char *why = runl(&r, "cr_checkpoint", "--split-huge", pid, t.image, NULL) ? why_not(&r) : NULL;
  long restored = -1;
  for (int i = 0; i < 3 && !why; i++) {
    why = target_op(&t, OP_MUTATE);
    if (!why && runl(&r, "cr_pause", "--json", pid, t.image, NULL)) why = why_not(&r);
    const char *at = why ? NULL : strstr(r.out, "\"pages_restored\":");
    if (at) restored = atol(at + strlen("\"pages_restored\":"));
    if (!why && (restored < 1 || restored > 128)) why = no("%ld pages were put back", restored);
    if (!why) why = target_op(&t, OP_CHECK);
  }
  tap(!why, "--split-huge: changes are known by the page", "%s", why);
  target_end(&t);
  let_khugepaged_sleep(before);
}

// The child of a fork shares pages with its parent: neither a rollback nor
// writes of the parent may change the child's memory.
static void child_lives(void) {
  if (!target_start(&t, find("a child that lives"))) return;
  const char *why = target_checkpoint(&t, &r) ? why_not(&r) : target_op(&t, OP_MUTATE);
  if (!why && target_pause(&t, &r)) why = why_not(&r);
  if (!why) why = target_op(&t, OP_CHECK);
  tap(!why, "a child that shares pages: the parent is rolled back", "%s", why);
  char text[16];
  slurp(path("child"), text, sizeof text);
  pid_t pid = atoi(text);
  siginfo_t info = {0};
  target_kill(&t);  // the child is reparented to this process
  for (int i = 0; pid > 0 && i < 100 && waitid(P_PID, pid, &info, WEXITED | WNOHANG) == 0 && !info.si_pid; i++)
    sleep_ms(100);
  tap(pid > 0 && info.si_pid == pid && info.si_code == CLD_EXITED && info.si_status == 0,
      "a child that shares pages keeps its own", "pid %d, code %d, status %d", info.si_pid, info.si_code, info.si_status);
  target_end(&t);
}

// Two images of one process: tracking since the second must not be used for the first.
static void two_images(void) {
  char other[160];
  if (!target_start(&t, find("write"))) return;
  snprintf(other, sizeof other, "%s/other", t.dir);
  char pid[16];
  snprintf(pid, sizeof pid, "%d", t.pid);
  const char *why = target_checkpoint(&t, &r) ? why_not(&r) : target_op(&t, OP_MUTATE);
  if (!why && runl(&r, "cr_checkpoint", pid, other, NULL)) why = why_not(&r);
  for (int i = 0; i < 3 && !why; i++) {
    if (!why && target_pause(&t, &r)) why = why_not(&r);
    if (!why && (why = target_op(&t, OP_CHECK))) break;
    if (runl(&r, "cr_pause", pid, other, NULL)) why = why_not(&r);
    if (!why && !target_op(&t, OP_CHECK)) why = "the second image brings the first one's state";
  }
  tap(!why, "to and fro between two images", "%s", why);
  target_end(&t);
}

// Another process clears soft-dirty bits between any two steps.
static void cleared_from_outside(void) {
  if (!target_start(&t, find("write"))) return;
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/clear_refs", t.pid);
  const char *why = target_checkpoint(&t, &r) ? why_not(&r) : NULL;
  for (int i = 0; i < 8 && !why; i++) {
    for (int step = 0; step < 3 && !why; step++) {
      if (i >> step & 1) {
        int fd = open(name, O_WRONLY);
        if (fd < 0 || write(fd, "4", 1) != 1) why = "cannot clear the bits";
        close(fd);
      }
      if (step < 2 && !why) why = target_op(&t, OP_MUTATE);
    }
    if (!why && target_pause(&t, &r)) why = why_not(&r);
    if (!why) why = target_op(&t, OP_CHECK);
    if (why) note("round %d", i);
  }
  tap(!why, "soft-dirty bits cleared from outside", "%s", why);
  target_end(&t);
}

static const struct test tests[] = {{"repeatedly", repeatedly},
                                    {"clean but writable", clean_but_writable},
                                    {"by the page", by_the_page},
                                    {"a child lives", child_lives},
                                    {"two images", two_images},
                                    {"cleared from outside", cleared_from_outside},
                                    {}};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
