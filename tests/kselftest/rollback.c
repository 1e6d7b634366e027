// SPDX-License-Identifier: GPL-2.0-only
// CR_IOC_ROLLBACK: a rollback in one call restores pages, registers and restart blocks, and takes away what the process has
// more than before. When anything else differs, or it is refused, nothing has changed.
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "snapshotted.h"

enum { PAGES = 600, NONE = 100 };  // the target's pages; from NONE on they are not present when the snapshot is taken
static const unsigned char tag[24] = "a counter of this test";

// ---------------------------------------------------------------- the target

static char *mapped;               // a private mapping of a file, of which one page was written
static volatile uint64_t *words;   // one page after the other; private, so that a rollback restores it
static struct { uint64_t value; unsigned char tag[24]; } *counter;
static int pipe_ends[2], file = -1, read_only = -1;
static void (*job)(void);          // what the target does when told so
static bool reads;                 // its other thread reads from a pipe

static volatile uint64_t *word(int page) { return words + page * PAGE / sizeof *words; }

static void write_all(void) {
  for (int i = 0; i < PAGES; i++) *word(i) += 1000;
}
static void write_some(void) {
  for (int i = 0; i < PAGES; i += 37) *word(i) += 1;
}
static void map_more(void) { mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static void open_more(void) { sh->wrong |= open("/dev/null", O_RDONLY) < 0; }
static void fill_pipe(void) { sh->wrong |= write(pipe_ends[1], "some", 4) != 4; }
static void go_elsewhere(void) { sh->wrong |= chdir("/usr") != 0; }
static void name_thread(void) { pthread_setname_np(pthread_self(), "another"); }
/* What programs do in the meantime: a larger heap, more and merged mappings, a deeper stack, more files, read further. */
static void grow(void) {
  volatile char deep[300000];
  char byte;
  for (unsigned i = 0; i < sizeof deep; i += PAGE) deep[i] = 1;
  volatile char *more = sbrk(500000);
  more[499999] = 1;
  more = mmap((void *)word(PAGES), 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (more == MAP_FAILED) more = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  more[0] = 1;
  for (int i = 0; i < 10; i++) {
    mmap(NULL, 3 * PAGE, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, i % 3 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sh->wrong |= open("/etc/passwd", O_RDONLY) < 0;
  }
  sh->wrong |= mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, read_only, 0) == MAP_FAILED;
  sh->wrong |= read(read_only, &byte, 1) != 1 || dup(read_only) < 0;
  write_some();
}
static void grow_too_much(void) {
  for (int i = 0; i < 70; i++) sh->wrong |= open("/dev/null", O_RDONLY) < 0;
}
static void map_in_pieces(void) {
  char *all = mmap(NULL, 200 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 1; i < 200; i += 2) munmap(all + i * PAGE, PAGE);
}
static void lock_more(void) {
  const int more = open("/tmp", O_TMPFILE | O_RDWR, 0600);
  sh->wrong |= more < 0 || fcntl(more, F_SETLK, &(struct flock){.l_type = F_WRLCK}) != 0;
}
static void open_session(void) { sh->wrong |= open("/dev/cr", O_RDWR) < 0; }
static void close_one(void) { sh->wrong |= close(pipe_ends[0]) != 0; }
static void unmap_one(void) { sh->wrong |= munmap((void *)word(PAGES - 1), PAGE) != 0; }
static void protect_one(void) { sh->wrong |= mprotect((void *)word(PAGES - 1), PAGE, PROT_READ) != 0; }
static void write_file(void) { sh->wrong |= pwrite(file, "more", 4, 8000) != 4; }
static void map_again(void) {
  sh->wrong |= mmap(mapped, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, read_only, 0) != mapped || *mapped == 0x55;
}
static void replace_fd(void) { sh->wrong |= dup2(pipe_ends[0], read_only) < 0; }
static void lose_tag(void) { counter->tag[3] ^= 1; }
static void guard(void) {
  if (madvise((void *)word(500), PAGE, 102 /* MADV_GUARD_INSTALL */)) sh->value[9] = errno;
}

static void *sleeping(void *unused) {
  char byte;
  (void)unused;
  sh->value[3] = 1;
  if (reads) sh->wrong |= read(pipe_ends[0], &byte, 1) != 1;
  for (;;) {
    const struct timespec second = {1, 0};
    nanosleep(&second, NULL);
    sh->value[1]++;
  }
  return NULL;
}

/* Counts the orders it has carried out in memory of its own, and tells. */
static void working(void) {
  pthread_t thread;
  counter = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  words = mmap(NULL, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (words == MAP_FAILED || counter == MAP_FAILED || pipe(pipe_ends)) _exit(1);
  munmap((void *)word(PAGES), PAGE);  // a hole behind them
  file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
  read_only = open("/etc/passwd", O_RDONLY);
  mapped = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, read_only, 0);
  if (mapped == MAP_FAILED) _exit(1);
  *mapped = 0x55;
  if (file < 0 || read_only < 0 || sbrk(PAGE) == (void *)-1) _exit(1);
  for (int i = 0; i < NONE; i++) *word(i) = (uint64_t)i;
  memcpy(counter->tag, tag, sizeof tag);
  counter->value = 5;
  if (pthread_create(&thread, NULL, sleeping, NULL)) _exit(1);
  while (!sh->value[3]) usleep(500);  // a thread that is being made differs from what it is later
  sh->at[0] = (void *)words;
  sh->at[1] = counter;
  sh->at[2] = mapped;
  obey(job);
}

/* Start a target that does @what when told, and take a snapshot of it. */
static void take(void (*what)(void)) {
  job = what;
  take_of(working, 2, PAGES * PAGE);
}

static volatile uint64_t *there(int page) { return (volatile uint64_t *)sh->at[0] + page * PAGE / sizeof(uint64_t); }

static void pages_are_back(const char *when) {
  for (int i = 0; i < PAGES; i++) {
    const uint64_t value = peek(there(i));
    if (!expect(value == (i < NONE ? (uint64_t)i : 0), "%s: page %d is %lu", when, i, (unsigned long)value)) return;
  }
}

// ---------------------------------------------------------------- the cases

static void nothing(void) {
  take(write_all);
  for (int i = 0; i < 20; i++) {
    is_done("nothing has changed");
    expect(!request.pages.restored && !request.pages.dropped, "%lu pages restored, %lu dropped", (unsigned long)request.pages.restored,
           (unsigned long)request.pages.dropped);
    expect(goes_on(), "it does not go on");
  }
}

static void changed(void (*what)(void), int rounds) {
  take(what);
  for (int i = 0; i < rounds; i++) {
    works();
    expect(peek(there(0)) != 0, "the target has not written");
    is_done("pages have changed");
    pages_are_back("after the rollback");
  }
  expect(goes_on(), "it does not go on");
}
static void all_pages(void) { changed(write_all, 5); }
static void some_pages(void) { changed(write_some, 50); }

static void tracked_again(void) {
  take(write_some);
  works();
  is_done("some pages");
  const unsigned long first = request.pages.restored;
  is_done("no page");
  expect(!request.pages.restored && !request.pages.dropped, "%lu pages again", (unsigned long)request.pages.restored);
  works();
  is_done("the same pages");
  expect(request.pages.restored == first, "%lu pages, before %lu", (unsigned long)request.pages.restored, first);
  pages_are_back("after both");
}

/* The mapping has no pages of its own any more, the snapshot has one. */
static void remapped(void) {
  take(map_again);
  struct cr_range both[2] = {scope, {(uintptr_t)sh->at[2], PAGE}};
  if (both[1].addr < both[0].addr) both[0] = both[1], both[1] = scope;
  request.pages.scope = (uintptr_t)both;
  request.pages.nscope = 2;
  for (int i = 0; i < 3; i++) {
    works();
    is_done("a file that was mapped anew");
    expect((peek(sh->at[2]) & 0xff) == 0x55, "its page is not as it was");
  }
}

/* A thread in nanosleep(1 s) sleeps on for what it had left, however often it is rolled back. */
static void sleeper(void) {
  take(write_some);
  const int64_t end = now_ms() + 3000;
  const long before = sh->value[1];
  int rounds = 0;
  while (now_ms() < end) {
    is_done("a sleeping thread");
    rounds++;
    sleep_ms(20);
  }
  expect(rounds >= 10, "only %d rounds", rounds);
  expect(sh->value[1] == before, "it has woken %ld times", sh->value[1] - before);
  sleep_ms(2500);
  expect(sh->value[1] > before, "it does not wake");
}

static void counts_up(void) {
  take(write_some);
  request.counter = (struct cr_counter){.addr = (uintptr_t)sh->at[1], .value = 100};
  memcpy(request.counter.tag, tag, sizeof tag);
  is_done("with a counter");
  expect(peek(sh->at[1]) == 101, "the counter is %lu", (unsigned long)peek(sh->at[1]));
  request.counter.value = 3;
  is_done("again");
  expect(peek(sh->at[1]) == 102, "the counter is %lu", (unsigned long)peek(sh->at[1]));
  request.counter.value = ~0ULL;
  int r = roll_back();
  expect(!r && request.result == CR_ROLLBACK_DIFFERS, "a counter that cannot go up: %d, result %u", r, request.result);
  need(!session_thaw(&s, 0), "thaw");
  request.counter.value = 3;
  // in the scope, its page is rolled back before it is counted
  struct cr_range both[2] = {scope, {(uintptr_t)sh->at[1], PAGE}};
  if (both[1].addr < both[0].addr) both[0] = both[1], both[1] = scope;
  request.pages.scope = (uintptr_t)both;
  request.pages.nscope = 2;
  is_done("in the scope");
  expect(peek(sh->at[1]) == 103, "the counter is %lu", (unsigned long)peek(sh->at[1]));
}

static void grown(void) {
  static struct cr_vma vmas_before[256];
  static struct cr_fd fds_before[64];
  take(grow);
  told();
  const unsigned nvmas_before = nvmas, nfds_before = nfds;
  const uint64_t brk_before = data.brk;
  memcpy(vmas_before, vmas, sizeof vmas);
  memcpy(fds_before, fds, sizeof fds);
  for (int i = 0; i < 20; i++) {
    works();
    is_done("it has grown");
    pages_are_back("after the rollback");
    need(session_freeze(&s, 5000, 0) == 2, "freeze");
    look();
    // what the thaw has left to the thread itself, such as the end of closed files, may be under way
    expect(nvmas == nvmas_before && nfds == nfds_before, "%u mappings, %u descriptors; before %u, %u", nvmas, nfds, nvmas_before, nfds_before);
    expect(!memcmp(vmas, vmas_before, nvmas * sizeof *vmas), "other mappings");
    for (unsigned k = 0; k < nfds; k++)
      expect(fds[k].fd == fds_before[k].fd && fds[k].serial == fds_before[k].serial && fds[k].pos == fds_before[k].pos,
             "descriptor %d instead of %d, position %lu", fds[k].fd, fds_before[k].fd, (unsigned long)fds[k].pos);
    expect(data.brk == brk_before, "the heap ends at %lx", (unsigned long)data.brk);
    need(!session_thaw(&s, 0), "thaw");
    expect(goes_on(), "it does not go on");
  }
}

static bool differs_now(void (*what)(void), const char *name) {
  sh->go = order = 0;
  sh->value[0] = sh->value[3] = 0;
  take(what);
  told();
  works();
  const int r = roll_back();
  need(!r, "%s: %d", name, r);
  if (request.result != CR_ROLLBACK_DIFFERS) return false;
  need(!session_thaw(&s, 0), "thaw");
  expect(goes_on(), "it does not go on");
  session_close(&s);
  kill(pid, SIGKILL);
  return true;
}

/* What cannot be taken away, and what is less or other than before, is left to the caller. */
static void not_more(void) {
  expect(differs_now(grow_too_much, "70 descriptors"), "70 descriptors");
  expect(differs_now(map_in_pieces, "100 mappings"), "100 mappings");
  expect(differs_now(lock_more, "a file with a lock"), "a file with a lock");
  expect(differs_now(open_session, "a session"), "a session");
  expect(differs_now(close_one, "a closed descriptor"), "a closed descriptor");
  expect(differs_now(unmap_one, "an unmapped page"), "an unmapped page");
  expect(differs_now(protect_one, "a protected page"), "a protected page");
  expect(differs_now(write_file, "a file written to"), "a file written to");
  expect(differs_now(replace_fd, "another file"), "another file");
  expect(differs_now(fill_pipe, "a filled pipe"), "a filled pipe");
}

/* After @what the call must leave everything as it is, and the target frozen. */
static void differs(void (*what)(void)) {
  take(what);
  request.counter = (struct cr_counter){.addr = (uintptr_t)sh->at[1], .value = 1};
  memcpy(request.counter.tag, tag, sizeof tag);
  works();
  if (sh->value[9]) skip("this kernel has no guard pages");
  const uint64_t mark = 4711;
  need(pwrite(s.mem, &mark, sizeof mark, (off_t)(uintptr_t)there(3)) == sizeof mark, "write");
  const int r = roll_back();
  need(!r && request.result == CR_ROLLBACK_DIFFERS, "%d, result %u", r, request.result);
  expect(peek(there(3)) == mark && peek(sh->at[1]) == 5, "it has changed something");
  struct cr_thread list[8];
  expect(session_threads(&s, list, 8) == 2, "the target is not frozen");
  expect(roll_back() == -EINVAL && request.result == CR_ROLLBACK_NONE, "a frozen target is rolled back");
  expect(session_threads(&s, list, 8) == 2, "the refusal has thawed the target");
  need(!session_thaw(&s, 0), "thaw");
  expect(goes_on(), "it does not go on");
}
static void mapping(void) { differs(map_more); }
static void descriptor(void) { differs(open_more); }
static void full_pipe(void) { differs(fill_pipe); }
static void directory(void) { differs(go_elsewhere); }
static void thread_name(void) { differs(name_thread); }
static void wrong_tag(void) { differs(lose_tag); }
static void guard_page(void) { differs(guard); }

static void no_digest(void) {
  take(write_some);
  for (int i = 0; i < CR_AREAS; i++) {
    const uint64_t saved = request.area[i];
    request.area[i] = 0;
    int r = roll_back();
    expect(!r && request.result == CR_ROLLBACK_DIFFERS, "area %d is 0: %d, result %u", i, r, request.result);
    session_thaw(&s, 0);
    request.area[i] = saved ^ 1;
    r = roll_back();
    expect(!r && request.result == CR_ROLLBACK_DIFFERS, "area %d differs: %d, result %u", i, r, request.result);
    session_thaw(&s, 0);
    request.area[i] = saved;
  }
  is_done("with all digests");
}

/* The call fails with @error, and the target runs on as it was. */
static void refused(const struct cr_rollback *good, int error, const char *what) {
  const int r = roll_back();
  if (!r && request.result == CR_ROLLBACK_DIFFERS) note_areas();
  expect(r == error && request.result == CR_ROLLBACK_NONE, "%s: %d instead of %d, result %u", what, r, error, request.result);
  struct cr_thread list[8];
  expect(session_threads(&s, list, 8) == -ENOTCONN, "%s: the target is frozen", what);
  expect(goes_on(), "%s: it does not go on", what);
  request = *good;
}

static void refusals(void) {
  struct session other;
  take(write_some);
  works();
  const uint64_t value = peek(there(37));
  const struct cr_rollback good = request;
  request.reserved = 1;
  refused(&good, -EINVAL, "a reserved member");
  request.pages.source_fd = 0;
  refused(&good, -EINVAL, "a file");
  request.pages.flags |= CR_RESTORE_DIRTY;
  refused(&good, -EINVAL, "a flag of images");
  request.pages.flags |= 1U << 31;
  refused(&good, -EINVAL, "an unknown flag");
  request.pages.nruns = 1;
  refused(&good, -EINVAL, "runs of a file");
  request.pages.scope = 8;
  refused(&good, -EFAULT, "a scope that cannot be read");
  request.pages.nscope = 1ULL << 40;
  refused(&good, -E2BIG, "too many ranges");
  scope.len++;
  refused(&good, -EINVAL, "a scope that is not aligned");
  scope.len--;
  request.threads.count = CR_MAX_THREADS + 1;
  refused(&good, -EINVAL, "too many threads");
  request.threads.room = CR_MAX_REGSET + 1;
  refused(&good, -EINVAL, "too large registers");
  request.threads.reserved = 1;
  refused(&good, -EINVAL, "a reserved member of the threads");
  request.threads.threads = 8;
  refused(&good, -EFAULT, "threads that cannot be read");
  const struct cr_thread_regs second = threads[1];
  threads[1].general = 8;
  refused(&good, -EFAULT, "registers that cannot be read");
  threads[1] = second;
  threads[1].extended = 8;
  refused(&good, -EFAULT, "extended registers that cannot be read");
  threads[1] = second;
  threads[1].flags |= 1U << 31;
  refused(&good, -EINVAL, "an unknown flag of a thread");
  threads[1] = second;
  threads[1].extended_len = request.threads.room + 1;
  refused(&good, -EINVAL, "larger registers than announced");
  threads[1] = second;
  request.freeze.reserved = 1;
  refused(&good, -EINVAL, "a reserved member of the freeze");
  told();
  struct cr_rollback known = request;
  mappings[1].len++;
  refused(&known, -EINVAL, "a mapping of part of a page");
  mappings[1] = mappings[0];
  refused(&known, -EINVAL, "a mapping twice");
  mappings[1] = (struct cr_range){.addr = mappings[0].addr + mappings[0].len, .len = -PAGE};
  refused(&known, -EINVAL, "a mapping beyond all addresses");
  told();
  positions[1].fd = positions[0].fd;
  refused(&known, -EINVAL, "a descriptor twice");
  positions[1] = (struct cr_fd_pos){.fd = -1};
  refused(&known, -EINVAL, "a descriptor below 0");
  told();
  positions[0].reserved = 1;
  refused(&known, -EINVAL, "a reserved member of a descriptor");
  told();
  request.fds = 8;
  refused(&known, -EFAULT, "descriptors that cannot be read");
  request.nmappings = 1ULL << 40;
  refused(&known, -E2BIG, "too many mappings");
  // a heap that would end before it begins
  request.brk = data.start_brk - PAGE;
  is_done("a heap that has not changed");
  need(session_freeze(&s, 5000, 0) == 2, "freeze");
  const uint64_t brk = data.brk;
  look();
  expect(data.brk == brk, "the heap ends at %lx", (unsigned long)data.brk);
  need(!session_thaw(&s, 0), "thaw");
  works();
  request = good;
  need(!session_open(&other, pid), "attach");
  need(session_freeze(&other, 5000, 0) == 2, "freeze by another session");
  request.freeze.timeout_ms = 100;
  const int r = roll_back();
  expect(r == -EBUSY && request.result == CR_ROLLBACK_NONE && request.freeze.why.reason == CR_WHY_BUSY, "frozen by another: %d", r);
  session_close(&other);
  request = good;
  expect(peek(there(37)) == value, "a refusal has changed the memory");
  need(!session_ioctl(&s, CR_IOC_SNAP_DROP, NULL), "drop");
  refused(&good, -ENXIO, "no snapshot");
  expect(peek(there(37)) == value, "a refusal has changed the memory");
  session_close(&s);
}

/* A call that the kernel makes again by itself has no restart block. */
static void no_restart_block(void) {
  reads = true;
  take(write_some);
  const struct cr_rollback good = request;
  need(!threads[1].flags, "a restart block of a thread that reads");
  threads[1].flags = CR_REGS_RESTART;
  refused(&good, -ENOENT, "a restart block that there is not");
  threads[1].flags = 0;
  is_done("without it");
}

/* Registers that the processor does not take are found out after the commit: the target stays frozen, to be killed. */
static void broken(void) {
  int status;
  take(write_some);
  need(threads[1].extended_len > 576, "%lu bytes of extended registers", (unsigned long)threads[1].extended_len);
  memset((char *)(uintptr_t)threads[1].extended + 512 + 16, 0xff, 48);  // reserved in the header of XSAVE
  int r = roll_back();
  need(r == -EINVAL && request.result == CR_ROLLBACK_BROKEN, "%d, result %u", r, request.result);
  expect(request.threads.done == 1, "%u threads are done", request.threads.done);
  struct cr_thread list[8];
  expect(session_threads(&s, list, 8) == 2, "the target is not frozen");
  need(!session_thaw(&s, CR_THAW_KILL), "kill");
  expect(ends(pid, 10, &status) && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "it has not been killed");
  r = roll_back();
  expect(r == -ESRCH && request.result == CR_ROLLBACK_NONE, "an ended process: %d, result %u", r, request.result);
}

/* A restore that fails after some pages has left their marks half done: nothing is known of what changes from then on. */
static void failed_halfway(void) {
  take(write_some);
  works();
  scope.len += PAGE;  // the hole
  struct cr_restore restore = request.pages;
  need(session_freeze(&s, 5000, 0) == 2, "freeze");
  int r = session_ioctl(&s, CR_IOC_RESTORE, &restore);
  need(r == -EFAULT && restore.restored, "%d, %lu pages restored", r, (unsigned long)restore.restored);
  static struct cr_range changed[4096];
  struct cr_dirty dirty = {.id = "rollback", .ranges = {(uintptr_t)changed, ARRAY_SIZE(changed)}};
  r = session_ioctl(&s, CR_IOC_DIRTY, &dirty);
  expect(r == -ESTALE, "tracking goes on: %d", r);
  need(!session_thaw(&s, 0), "thaw");
  works();
  scope.len -= PAGE;
  is_done("without tracking");
  pages_are_back("after the failure");
}

/* Rolled back and killed at the same time. */
static void killed(void) {
  take(write_all);
  pid_t killer = fork();
  if (killer == 0) {
    sleep_ms(below(300));
    kill(pid, SIGKILL);
    _exit(0);
  }
  int r = 0, rounds = 0;
  for (; !r && rounds < 100000; rounds++) {
    r = roll_back();
    if (!r && request.result == CR_ROLLBACK_DIFFERS) {  // a thread was killed between the freeze and the digests
      session_thaw(&s, 0);
      r = roll_back();
      need(r, "it lives, and result %u", request.result);
    }
    if (!r) need(request.result == CR_ROLLBACK_DONE, "result %u", request.result);
  }
  note("killed in round %d: %d, result %u", rounds, r, request.result);
  // or its first thread has ended before the other
  const bool half_gone = r == -EOPNOTSUPP && request.freeze.why.reason == CR_WHY_LEADER_DEAD;
  expect(r == -ESRCH || r == -EINTR || half_gone, "errno %d, reason %u", -r, request.freeze.why.reason);
  session_thaw(&s, CR_THAW_KILL);
  expect(ends(pid, 10, NULL), "it does not end");
}

static struct tcase cases[] = {
    {"nothing", nothing, 0},     {"all_pages", all_pages, 0},     {"some_pages", some_pages, 60}, {"tracked_again", tracked_again, 0},
    {"remapped", remapped, 0},
    {"sleeper", sleeper, 60},    {"counter", counts_up, 0},       {"mapping", mapping, 0},        {"descriptor", descriptor, 0},
    {"pipe", full_pipe, 0},      {"directory", directory, 0},     {"thread_name", thread_name, 0}, {"tag", wrong_tag, 0},
    {"guard_page", guard_page, 0}, {"no_digest", no_digest, 0},   {"refusals", refusals, 0},      {"broken", broken, 0},         {"no_restart_block", no_restart_block, 0},
    {"failed_halfway", failed_halfway, 0}, {"killed", killed, 0},
    {"grown", grown, 60},        {"not_more", not_more, 60},
};

int main(int argc, char **argv) { return cases_main(argc, argv, cases, ARRAY_SIZE(cases)); }
