// SPDX-License-Identifier: GPL-2.0-only
// Rollbacks to one snapshot, again and again: the module does not look at pages that it knows to be the snapshot's. Whatever
// changes a page between two rollbacks, the next one finds it.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "advice.h"
#include "snapshotted.h"

enum { SMALL = 1024, ALL = 2 * SMALL };  // pages; those from SMALL on are huge, if the kernel has huge pages
#define BYTES (ALL * PAGE)
#define HUGE (2UL << 20)

// ---------------------------------------------------------------- the target

static char *area;
static void (*job)(void);
static int idlers;  // threads that only sleep, and restore pages with the others
static volatile char noise;

static unsigned char byte_at(size_t i) { return (unsigned char)(i * 7 + i / PAGE * 13 + 1); }

#define MUST(call) (sh->wrong |= (long)(call) == -1)

static void write_some(void) {
  for (int i = 0; i < ALL; i += 7) area[i * PAGE + i * 13 % PAGE] ^= 0x55;
}
static void write_all(void) {
  for (int i = 0; i < ALL; i++) area[i * PAGE + 5] ^= 0x55;
}
static void write_one_byte(void) { area[300 * PAGE + 77] ^= 1; }
static void write_huge(void) { area[SMALL * PAGE + 77777] ^= 1; }
static void kernel_writes(void) {
  const int fd = open("/dev/urandom", O_RDONLY);
  for (int i = 0; i < ALL; i += 50) MUST(read(fd, area + i * PAGE, 100));
  close(fd);
}
static void device_writes(void) {  // to pinned pages
  int fd = open("/proc/self/exe", O_RDONLY | O_DIRECT);
  if (fd < 0) fd = open("/dev/zero", O_RDONLY);
  MUST(read(fd, area + 30 * PAGE, 4 * PAGE));
  close(fd);
}
static void debugger_writes(void) {
  const int fd = open("/proc/self/mem", O_RDWR);
  for (int i = 1; i < ALL; i += 50) MUST(pwrite(fd, "changed!", 8, (off_t)(area + i * PAGE)));
  close(fd);
}
static void another_process_writes(void) {
  const pid_t me = getpid(), other = fork();
  if (!other) {
    char text[] = "from outside";
    struct iovec here = {text, sizeof text}, there = {area + 20 * PAGE, sizeof text};
    _exit(process_vm_writev(me, &here, 1, &there, 1, 0) < 0);
  }
  int status = 1;
  waitpid(other, &status, 0);
  sh->wrong |= status != 0;
}
static void drop(void) { MUST(madvise(area + 100 * PAGE, 50 * PAGE, MADV_DONTNEED)); }
static void drop_and_read(void) {
  drop();
  for (int i = 100; i < 150; i++) noise += area[i * PAGE];
}
static void drop_and_write(void) {
  drop();
  memset(area + 110 * PAGE, 1, 10 * PAGE);
}
static void drop_piece_of_huge(void) { MUST(madvise(area + (SMALL + 100) * PAGE, 3 * PAGE, MADV_DONTNEED)); }
static void free_lazily(void) {
  MUST(madvise(area + 200 * PAGE, 50 * PAGE, MADV_FREE));
  area[201 * PAGE] = 1;
}
static void protect_and_back(void) {
  MUST(mprotect(area, SMALL * PAGE, PROT_READ));
  MUST(mprotect(area, SMALL * PAGE, PROT_READ | PROT_WRITE));
  write_some();
}
static void split_huge(void) {
  MUST(mprotect(area + (SMALL + 100) * PAGE, PAGE, PROT_READ));
  MUST(mprotect(area + (SMALL + 100) * PAGE, PAGE, PROT_READ | PROT_WRITE));
  area[(SMALL + 100) * PAGE] ^= 1;
}
static void exchange(void) {  // pages come to other addresses; nothing is written
  char *spare = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  MUST(mremap(area + 64 * PAGE, 64 * PAGE, 64 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, spare));
  MUST(mremap(area + 128 * PAGE, 64 * PAGE, 64 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, area + 64 * PAGE));
  MUST(mremap(spare, 64 * PAGE, 64 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, area + 128 * PAGE));
}
static void fork_and_write(void) {
  const pid_t other = fork();
  if (!other) {
    write_all();
    _exit(0);
  }
  waitpid(other, NULL, 0);
  write_one_byte();
}
static void fork_alone(void) {
  const pid_t other = fork();
  if (!other) {
    write_all();
    _exit(0);
  }
  waitpid(other, NULL, 0);
}
static void swap_out_and_write(void) {
  madvise(area, BYTES, MADV_PAGEOUT);
  write_some();
}
static void swap_out(void) { madvise(area, BYTES, MADV_PAGEOUT); }
static void swap_out_and_read(void) {
  madvise(area, BYTES, MADV_PAGEOUT);
  for (int i = 0; i < ALL; i++) noise += area[i * PAGE];
}
static void collapse(void) {
  madvise(area + SMALL * PAGE, HUGE, MADV_COLLAPSE);
  area[(SMALL + 3) * PAGE] ^= 1;
}
static void clear_soft_dirty(void) {
  const int fd = open("/proc/self/clear_refs", O_WRONLY);
  write_some();
  MUST(write(fd, "4", 1));
  close(fd);
}
static void idle(void) {}

static void (*const ways[])(void) = {
    write_some, write_all, write_one_byte, write_huge, kernel_writes, device_writes, debugger_writes, another_process_writes, drop,
    drop_and_read, drop_and_write, drop_piece_of_huge, free_lazily, protect_and_back, split_huge, exchange, fork_and_write,
    swap_out_and_write, swap_out, swap_out_and_read, collapse, clear_soft_dirty, fork_alone, idle,
};
static void several(void) {
  for (int i = 0; i < 3; i++) ways[below(ARRAY_SIZE(ways))]();
}

static void *idler(void *unused) {
  sh->value[4]++;
  for (;;) pause();
  return unused;
}

static void working(void) {
  pthread_t thread;
  char *at = mmap(NULL, BYTES + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) _exit(1);
  area = (char *)(((uintptr_t)at + HUGE - 1) & ~(HUGE - 1));
  madvise(area, SMALL * PAGE, MADV_NOHUGEPAGE);
  madvise(area + SMALL * PAGE, SMALL * PAGE, MADV_HUGEPAGE);
  for (size_t i = 0; i < BYTES; i++) area[i] = (char)byte_at(i);
  sh->at[0] = area;
  for (int i = 0; i < idlers; i++) MUST(-pthread_create(&thread, NULL, idler, NULL));
  while (sh->value[4] < idlers) usleep(500);
  obey(job);
}

// ---------------------------------------------------------------- in the case

static char now[BYTES];

/* @return the first byte that is not as it was when the snapshot was taken; BYTES: all are */
static size_t difference(void) {
  const ssize_t got = pread(s.mem, now, BYTES, (off_t)(uintptr_t)sh->at[0]);
  need(got == (ssize_t)BYTES, "the target's memory cannot be read: %zd, errno %d", got, errno);
  for (size_t i = 0; i < BYTES; i++)
    if ((unsigned char)now[i] != byte_at(i)) return i;
  return BYTES;
}

static void is_as_it_was(const char *when) {
  const size_t i = difference();
  expect(i == BYTES, "%s: byte %zu of page %zu is %u", when, i % PAGE, i / PAGE, (unsigned char)now[i % BYTES]);
}

static void take(void (*what)(void)) {
  job = what;
  take_of(working, 1 + idlers, BYTES);
}

/* Twice: the first rollback notes the pages, the second one relies on it. */
static void settle(void) {
  for (int i = 0; i < 2; i++) is_done("nothing has changed");
  expect(!request.pages.restored && !request.pages.dropped && request.pages.unchanged == ALL, "%lu restored, %lu dropped, %lu unchanged",
         (unsigned long)request.pages.restored, (unsigned long)request.pages.dropped, (unsigned long)request.pages.unchanged);
}

static void rounds(void (*what)(void), int count, bool changes) {
  take(what);
  settle();
  for (int i = 0; i < count; i++) {
    works();
    if (changes) expect(difference() < BYTES, "the target has not changed its memory");
    const int r = roll_back();
    if (!r && request.result == CR_ROLLBACK_DIFFERS) {
      // fork and others change more than pages, for a moment or for good: restore them by the other call
      struct cr_restore restore = request.pages;
      note_areas();
      need(!session_ioctl(&s, CR_IOC_RESTORE, &restore), "restore: errno %d", errno);
      need(!session_thaw(&s, 0), "thaw");
    } else {
      need(!r && request.result == CR_ROLLBACK_DONE, "%d, result %u", r, request.result);
    }
    is_as_it_was("after the rollback");
  }
}

#define CHANGES(name) \
  static void case_##name(void) { rounds(name, 4, true); }
#define LEAVES(name) \
  static void case_##name(void) { rounds(name, 4, false); }
CHANGES(write_some)
CHANGES(write_all)
CHANGES(write_one_byte)
CHANGES(write_huge)
CHANGES(kernel_writes)
CHANGES(device_writes)
CHANGES(debugger_writes)
CHANGES(another_process_writes)
CHANGES(drop)
CHANGES(drop_and_read)
CHANGES(drop_and_write)
CHANGES(drop_piece_of_huge)
CHANGES(free_lazily)
CHANGES(protect_and_back)
CHANGES(split_huge)
CHANGES(exchange)
CHANGES(fork_and_write)
CHANGES(swap_out_and_write)
CHANGES(collapse)
CHANGES(clear_soft_dirty)
LEAVES(swap_out)
LEAVES(swap_out_and_read)
LEAVES(fork_alone)

static void case_anything(void) { rounds(several, 40, false); }

/* Something else of the same target's: page by page and by another process, while it runs. */
static void case_from_outside(void) {
  take(idle);
  settle();
  for (int i = 0; i < 30; i++) {
    const off_t at = (off_t)(uintptr_t)sh->at[0] + (off_t)(below(ALL) * PAGE + below(PAGE - 8));
    need(pwrite(s.mem, "outside!", 8, at) == 8, "write: errno %d", errno);
    need(difference() < BYTES, "nothing has changed");
    is_done("written from outside");
    is_as_it_was("after the rollback");
  }
}

/* Reclaim works on the target's pages while it is rolled back. */
static void reclaim(void *unused) {
  const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  struct iovec all = {sh->at[0], BYTES};
  (void)unused;
  for (;;) syscall(SYS_process_madvise, fd, &all, 1, MADV_PAGEOUT, 0);
}
static void case_reclaimed_meanwhile(void) {
  take(write_some);
  settle();
  const pid_t other = process(reclaim, NULL);
  for (int i = 0; i < 30; i++) {
    works();
    is_done("while pages are reclaimed");
    is_as_it_was("while pages are reclaimed");
  }
  kill(other, SIGKILL);
  ends(other, 10, NULL);
}

static void back(struct session *to, const char *id) {
  struct cr_restore restore = request.pages;
  strcpy((char *)restore.id, id);
  need(session_freeze(to, 5000, 0) == 1, "freeze");
  need(!session_ioctl(to, CR_IOC_RESTORE, &restore), "restore: errno %d", errno);
  need(!session_thaw(to, 0), "thaw");
}

/* Two snapshots of one process: what is known of one says nothing of the other. */
static void case_two_snapshots(void) {
  struct session second;
  struct cr_snapshot snapshot = {.flags = CR_SNAP_PAGES | CR_SNAP_TRACK, .id = "second"};
  static char later[BYTES];
  take(write_some);
  settle();
  works();
  need(!session_open(&second, pid), "attach");
  need(session_freeze(&second, 5000, 0) == 1, "freeze");
  need(!session_ioctl(&second, CR_IOC_SNAPSHOT, &snapshot), "snapshot");
  need(pread(s.mem, later, BYTES, (off_t)(uintptr_t)sh->at[0]) == (ssize_t)BYTES, "read");
  need(!session_thaw(&second, 0), "thaw");
  for (int i = 0; i < 12; i++) {
    if (i % 3) works();
    i % 2 ? back(&second, "second") : back(&s, "rollback");
    const size_t at = difference();
    if (i % 2)
      expect(!memcmp(now, later, BYTES), "round %d: not the second one", i);
    else
      expect(at == BYTES, "round %d: not the first one: page %zu", i, at / PAGE);
    if (i % 4 == 3) back(&second, "second");  // twice in a row
  }
}

/* Ranges that share 2 MB are restored by several threads at the same time, which note pages in the same place. */
static void case_many_ranges(void) {
  static struct cr_range ranges[ALL / 4];
  idlers = 3;
  for (int i = 0; i < 8; i++) {
    if (i) {
      kill(pid, SIGKILL);
      ends(pid, 10, NULL);
      session_close(&s);
      sh->go = sh->ready = order = 0;
      sh->value[0] = sh->value[4] = 0;
    }
    take(write_all);
    for (size_t k = 0; k < ARRAY_SIZE(ranges); k++)
      ranges[k] = (struct cr_range){(uintptr_t)sh->at[0] + k * 4 * PAGE, 4 * PAGE};
    request.pages.scope = (uintptr_t)ranges;
    request.pages.nscope = ARRAY_SIZE(ranges);
    for (int k = 0; k < 3; k++) {
      works();
      is_done("many ranges");
      is_as_it_was("many ranges");
    }
  }
}

/* The snapshot is dropped and another taken: its number is another. */
static void case_taken_again(void) {
  struct cr_snapshot snapshot = {.flags = CR_SNAP_PAGES | CR_SNAP_TRACK, .id = "rollback"};
  static char later[BYTES];
  take(write_some);
  for (int i = 0; i < 5; i++) {
    works();
    need(session_freeze(&s, 5000, 0) == 1, "freeze");
    need(!session_ioctl(&s, CR_IOC_SNAPSHOT, &snapshot), "snapshot");
    need(pread(s.mem, later, BYTES, (off_t)(uintptr_t)sh->at[0]) == (ssize_t)BYTES, "read");
    need(!session_thaw(&s, 0), "thaw");
    for (int k = 0; k < 3; k++) {
      if (k) works();
      back(&s, "rollback");
      difference();
      expect(!memcmp(now, later, BYTES), "snapshot %d, rollback %d", i, k);
    }
  }
}

#define CASE(name) {#name, case_##name, 60}
static struct tcase cases[] = {
    CASE(write_some), CASE(write_all), CASE(write_one_byte), CASE(write_huge), CASE(kernel_writes), CASE(device_writes),
    CASE(debugger_writes), CASE(another_process_writes), CASE(drop), CASE(drop_and_read), CASE(drop_and_write),
    CASE(drop_piece_of_huge), CASE(free_lazily), CASE(protect_and_back), CASE(split_huge), CASE(exchange), CASE(fork_and_write),
    CASE(swap_out_and_write), CASE(collapse), CASE(clear_soft_dirty), CASE(swap_out), CASE(swap_out_and_read), CASE(fork_alone),
    {"anything", case_anything, 120}, CASE(from_outside), {"reclaimed_meanwhile", case_reclaimed_meanwhile, 120},
    CASE(two_snapshots), CASE(many_ranges), CASE(taken_again),
};

int main(int argc, char **argv) { return cases_main(argc, argv, cases, ARRAY_SIZE(cases)); }
