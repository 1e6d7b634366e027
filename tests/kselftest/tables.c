// SPDX-License-Identifier: GPL-2.0-only
// Snapshots of one process share the tables of what has not changed between them: what each costs, and that each keeps
// its own content, whichever of them is dropped first.
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cases.h"

enum { CHUNK = 2 << 20, CHUNKS = 8, SIZE = CHUNKS * CHUNK, PAGES = SIZE / 4096 };

// ---------------------------------------------------------------- the target

static char *area;  // SIZE bytes, aligned to CHUNK; the same address in the target

static long content(int state, int page) { return 1000L * state + page; }

static void write_pages(int state, int from, int step) {
  for (int page = from; page < PAGES; page += step) *(volatile long *)(area + page * PAGE) = content(state, page);
}

/* What the target has been asked to write: sh->value[0] the state, [1] the first page, [2] the step. */
static void writing(void) {
  write_pages(0, 0, 1);
  sh->ready = 1;
  for (;;) {
    if (sh->go) {
      write_pages((int)sh->value[0], (int)sh->value[1], (int)sh->value[2]);
      sh->go = 0;
    }
    usleep(1000);
  }
}

static bool written(void *unused) {
  (void)unused;
  return !sh->go;
}

static void change(int state, int from, int step) {
  sh->value[0] = state, sh->value[1] = from, sh->value[2] = step;
  sh->go = 1;
  need(soon(written, NULL, 10), "the target does not write");
}

// ---------------------------------------------------------------- its snapshots

static pid_t pid;

static void prepare(void) {
  char *raw = mmap(NULL, SIZE + CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(raw != MAP_FAILED, "mmap");
  area = (char *)(((uintptr_t)raw + CHUNK - 1) & ~(uintptr_t)(CHUNK - 1));
  need(!madvise(raw, SIZE + CHUNK, MADV_NOHUGEPAGE), "madvise");
  pid = target(writing);
}

/* A session with a snapshot. Returns the bytes of kernel memory that it costs. */
static long take(struct session *s, unsigned flags) {
  struct cr_snapshot snapshot = {.flags = CR_SNAP_PAGES | flags, .id = "tables"};
  need(!session_open(s, pid), "attach");
  need(session_freeze(s, 5000, 0) > 0, "freeze");
  int r = session_ioctl(s, CR_IOC_SNAPSHOT, &snapshot);
  need(!r, "snapshot: %d", r);
  need(!session_thaw(s, 0), "thaw");
  return (long)snapshot.overhead;
}

static long page_of(struct session *s, int page) {
  static long buffer[4096 / sizeof(long)];
  ssize_t got = pread(s->dev, buffer, 4096, (off_t)(uintptr_t)(area + page * PAGE));
  return got == 4096 ? buffer[0] : -errno;
}

/* Does the snapshot hold the pages of @state from @from in steps, and else those of @before? */
static void holds(struct session *s, const char *who, int state, int from, int step, int before) {
  for (int page = 0; page < PAGES; page++) {
    bool its = page >= from && (page - from) % step == 0;
    if (!expect(page_of(s, page) == content(its ? state : before, page), "%s: page %d is %ld", who, page, page_of(s, page))) return;
  }
}

static void roll_back(struct session *s) {
  struct cr_range scope = {(uintptr_t)area, SIZE};
  struct cr_restore restore = {.source_fd = -1, .flags = CR_RESTORE_TRACK, .id = "tables", .scope = (uintptr_t)&scope, .nscope = 1};
  need(session_freeze(s, 5000, 0) > 0, "freeze");
  int r = session_ioctl(s, CR_IOC_RESTORE, &restore);
  need(!r, "restore: %d", r);
  need(!session_thaw(s, 0), "thaw");
}

static void one_changed_chunk(unsigned flags) {
  struct session first, second, third;
  prepare();
  const long whole = take(&first, flags);
  change(1, 3, PAGES);  // one page
  const long part = take(&second, flags);
  expect(whole >= CHUNKS * 4096, "the first snapshot costs only %ld bytes", whole);
  expect(part <= whole - (CHUNKS - 1) * 4096, "the second costs %ld bytes, the first %ld", part, whole);
  holds(&first, "the first", 0, 0, 1, 0);
  holds(&second, "the second", 1, 3, PAGES, 0);

  session_close(&first);
  holds(&second, "the second, without the first", 1, 3, PAGES, 0);
  change(2, 0, 1);
  roll_back(&second);
  const long same = take(&third, flags);
  expect(same > part, "all pages were written, and the third costs only %ld bytes", same);
  holds(&third, "the third", 1, 3, PAGES, 0);
  session_close(&second);
  change(4, 1, 7);
  roll_back(&third);
  session_close(&third);
  need(!session_open(&first, pid), "attach");
  take(&second, flags);
  holds(&second, "the process in the end", 1, 3, PAGES, 0);
}
static void tracked(void) { one_changed_chunk(CR_SNAP_TRACK); }
static void not_tracked(void) { one_changed_chunk(0); }

/* Pages that were not tracked when their table was made must count as unchanged afterwards. */
static void tracked_later(void) {
  struct session first, second;
  static struct cr_range ranges[4096];
  struct cr_dirty dirty = {.id = "tables", .ranges = {(uintptr_t)ranges, 4096}};
  prepare();
  take(&first, 0);
  take(&second, CR_SNAP_TRACK);
  change(1, 5, PAGES);
  need(session_freeze(&second, 5000, 0) > 0, "freeze");
  int r = session_ioctl(&second, CR_IOC_DIRTY, &dirty);
  need(!r, "dirty: %d", r);
  long pages = 0;
  for (unsigned i = 0; i < dirty.ranges.count; i++)
    if (ranges[i].addr >= (uintptr_t)area && ranges[i].addr < (uintptr_t)area + SIZE) pages += (long)(ranges[i].len / PAGE);
  expect(pages == 1, "%ld pages count as changed", pages);
  need(!session_thaw(&second, 0), "thaw");
}

/* Two mappings in one chunk: the table has the pages of both. */
static void two_mappings(void) {
  struct session first, second;
  prepare();
  kill(pid, SIGKILL);
  need(ends(pid, 10, NULL), "the target does not end");
  need(!mprotect(area + CHUNK, 7 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC), "mprotect");  // another mapping
  sh->ready = 0;
  pid = target(writing);
  take(&first, CR_SNAP_TRACK);
  change(1, CHUNK / 4096 + 3, PAGES);
  take(&second, CR_SNAP_TRACK);
  holds(&first, "the first", 0, 0, 1, 0);
  holds(&second, "the second", 1, CHUNK / 4096 + 3, PAGES, 0);
  session_close(&first);
  change(2, 0, 1);
  roll_back(&second);
  take(&first, CR_SNAP_TRACK);
  holds(&first, "after the rollback", 1, CHUNK / 4096 + 3, PAGES, 0);
}

/* The snapshots of a process that has ended share tables, too, and go in any order. */
static void of_a_dead_process(void) {
  struct session s[4];
  prepare();
  for (int i = 0; i < 4; i++) {
    take(&s[i], CR_SNAP_TRACK);
    change(i + 1, i, PAGES);
  }
  kill(pid, SIGKILL);
  need(ends(pid, 10, NULL), "the target does not end");
  session_close(&s[2]);
  session_close(&s[0]);
  expect(page_of(&s[1], 0) == content(1, 0) && page_of(&s[1], 1) == content(0, 1), "the second");
  expect(page_of(&s[3], 2) == content(3, 2) && page_of(&s[3], 3) == content(0, 3), "the fourth");
  session_close(&s[1]);
  expect(page_of(&s[3], PAGES - 1) == content(0, PAGES - 1), "the fourth alone");
  session_close(&s[3]);
}

int main(int argc, char **argv) {
  static const struct tcase cases[] = {
      {"tracked", tracked, 60},           {"not-tracked", not_tracked, 60}, {"tracked-later", tracked_later, 60},
      {"two-mappings", two_mappings, 60}, {"dead", of_a_dead_process, 60},
  };
  return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
