// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls and ioctls in progress must end on kills, closes, and the time after which the
 * target thaws by itself.
 */
#include <elf.h>
#include <fcntl.h>
#include <linux/rseq.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "underway.h"

/* ---- a call that sleeps for an hour */

static void sleep_auto_thaw(void) {
  pthread_t t;
  frozen(ticking, 1000);
  need(!pthread_create(&t, NULL, run_sleep_thread, NULL), "pthread_create");
  wait_in_run();
  expect(runs_on(), "the target does not thaw by itself while a call sleeps");
  expect(soon(run_ended, NULL, 10), "CR_IOC_RUN does not return");
  expect(!run_over || run_result < 0, "CR_IOC_RUN returns %d after the thaw", run_result);
  expect(one_ticks(0), "the thread that made the call does not run on");
}

static void sleep_close_by_thread(void) {
  pthread_t t;
  frozen(ticking, 0);
  need(!pthread_create(&t, NULL, run_sleep_thread, NULL), "pthread_create");
  wait_in_run();
  close_by_thread();
  expect(runs_on(), "the owner's close does not thaw while a call sleeps");
  expect(soon(run_ended, NULL, 10), "CR_IOC_RUN does not return");
}

static void sleep_close_by_owner(void) {
  frozen(ticking, 0);
  pid_t requester = process(run_sleep, &s);
  wait_in_run();
  close_by_thread();
  expect(runs_on(), "the owner's close does not thaw while another process makes a call");
  kill(requester, SIGKILL);
  expect(ends(requester, 10, NULL), "the requester outlives SIGKILL");
}

static void own_and_run_sleep(void *arg) {
  (void)arg;
  if (session_open(&s, pid) || session_freeze(&s, 5000, 0) != THREADS || session_arena(&s, 0)) _exit(1);
  run_sleep(NULL);
}

static void sleep_kill_requester(void) {
  for (int i = 0; i < 5; i++) {
    sh->go = 0;
    pid = target(ticking);
    pid_t requester = process(own_and_run_sleep, NULL);
    wait_in_run();
    kill(requester, SIGKILL);
    expect(ends(requester, 10, NULL), "the requester outlives SIGKILL");
    expect(runs_on(), "the target does not run on after the death of its requester");
    kill(pid, SIGKILL);
    need(ends(pid, 10, NULL), "the target outlives SIGKILL");
  }
}

static void sleep_kill_target(void) {
  pthread_t t;
  frozen(ticking, 0);
  need(!pthread_create(&t, NULL, run_sleep_thread, NULL), "pthread_create");
  wait_in_run();
  kill(pid, SIGKILL);
  expect(ends(pid, 10, NULL), "the target outlives SIGKILL while it makes a call");
  expect(soon(run_ended, NULL, 10) && run_result < 0, "CR_IOC_RUN does not return an error but %d", run_result);
}

/* ---- ioctls whose memory blocks */

static struct pit pit;
static struct cr_snapshot snapshot;

struct blocked {
  const char *name;
  unsigned long request;
  union {
    struct cr_array array;
    struct cr_regs regs;
    struct cr_dirty dirty;
    struct cr_restore restore;
    struct cr_sigpending pending;
  } arg;
};

static struct blocked blocked_list[] = {
    {"THREADS", CR_IOC_THREADS, {.array = {0, 64}}},
    {"VMAS", CR_IOC_VMAS, {.array = {0, 4096}}},
    {"FDS", CR_IOC_FDS, {.array = {0, 4096}}},
    {"GET_REGS", CR_IOC_GET_REGS, {.regs = {.type = NT_PRSTATUS, .len = 512}}},
    {"SET_REGS", CR_IOC_SET_REGS, {.regs = {.type = NT_PRSTATUS, .len = sizeof(struct user_regs_struct)}}},
    {"SNAP_RUNS", CR_IOC_SNAP_RUNS, {.array = {0, 65536}}},
    {"DIRTY", CR_IOC_DIRTY, {.dirty = {.id = "one", .ranges = {0, 65536}}}},
    {"RESTORE", CR_IOC_RESTORE, {.restore = {.source_fd = -1, .nscope = 100}}},
    {"PROCESS", CR_IOC_PROCESS, {{0}}},
    {"FREEZE", CR_IOC_FREEZE, {{0}}},
};

static void block(struct blocked *b) {
  uintptr_t at = (uintptr_t)pit.at;
  switch (b->request) {
    case CR_IOC_GET_REGS:
    case CR_IOC_SET_REGS:
      b->arg.regs.tid = pid;
      b->arg.regs.buf = at;
      break;
    case CR_IOC_DIRTY:
      b->arg.dirty.ranges.buf = at;
      break;
    case CR_IOC_RESTORE:
      b->arg.restore.scope = at;
      break;
    case CR_IOC_PROCESS:
    case CR_IOC_FREEZE:  // the argument itself
      session_ioctl(&s, b->request, pit.at);
      return;
    default:
      b->arg.array.buf = at;
  }
  int r = session_ioctl(&s, b->request, &b->arg);
  note("%s: %d", b->name, r);
}
static void *block_thread(void *arg) {
  block(arg);
  run_over = 1;
  return NULL;
}
static bool somebody_waits(void *arg) {
  struct pollfd p = {pit.uffd, POLLIN, 0};
  (void)arg;
  return poll(&p, 1, 0) == 1;
}

static void prepare_blocked(struct blocked *b, unsigned thaw_after_ms, pthread_t *t) {
  run_over = 0;
  pid = target(ticking);
  if (!pit_open(&pit, 64 * PAGE)) skip("no userfaultfd");
  need(!session_open(&s, pid) && session_freeze(&s, 5000, thaw_after_ms) == THREADS, "session for %s", b->name);
  snapshot = (struct cr_snapshot){.flags = CR_SNAP_PAGES | CR_SNAP_TRACK, .id = "one"};
  int r = session_ioctl(&s, CR_IOC_SNAPSHOT, &snapshot);
  need(!r, "snapshot: %d", r);
  need(!pthread_create(t, NULL, block_thread, b), "pthread_create");
  need(soon(somebody_waits, NULL, 10), "%s does not touch its memory", b->name);
  sleep_ms(20);
}

static void finish_blocked(pthread_t t, const char *name) {
  pit_fill(&pit);
  expect(soon(run_ended, NULL, 10), "%s does not end when its memory is filled", name);
  pthread_join(t, NULL);
  session_close(&s);
  kill(pid, SIGKILL);
  expect(ends(pid, 10, NULL), "%s: the target outlives SIGKILL and the session", name);
  pit_close(&pit);
}

static void copy_kill_target(void) {
  for (size_t i = 0; i < ARRAY_SIZE(blocked_list); i++) {
    struct blocked *b = &blocked_list[i];
    pthread_t t;
    prepare_blocked(b, 0, &t);
    kill(pid, SIGKILL);
    expect(ends(pid, 5, NULL), "%s: the target outlives SIGKILL while its requester's memory blocks", b->name);
    finish_blocked(t, b->name);
  }
}

static void copy_auto_thaw(void) {
  int bad = 0;
  for (size_t i = 0; i < ARRAY_SIZE(blocked_list) && bad < 3; i++) {
    struct blocked *b = &blocked_list[i];
    pthread_t t;
    prepare_blocked(b, 500, &t);
    bad += !expect(runs_on(), "%s: the target does not thaw by itself while its requester's memory blocks", b->name);
    finish_blocked(t, b->name);
  }
}

static void copy_close(void) {
  int bad = 0;
  for (size_t i = 0; i < ARRAY_SIZE(blocked_list) && bad < 3; i++) {
    struct blocked *b = &blocked_list[i];
    pthread_t t;
    prepare_blocked(b, 0, &t);
    close_by_thread();
    bad += !expect(runs_on(), "%s: the owner's close does not thaw while its memory blocks", b->name);
    finish_blocked(t, b->name);
  }
}

// Many such sessions at once must not prevent other sessions from thawing by themselves.
enum { CROWD = 300 };
static void crowd_member(void *arg) {
  struct cr_thread *at = arg;
  struct cr_array a = {.buf = (uintptr_t)at, .count = 64};
  struct session mine;
  pid_t victim = fork();
  if (!victim) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  struct pit own;
  if (!pit_open(&own, PAGE)) _exit(2);
  a.buf = (uintptr_t)own.at;
  if (session_open(&mine, victim) || session_freeze(&mine, 20000, 200) < 1) _exit(1);
  __atomic_fetch_add(&sh->value[0], 1, __ATOMIC_SEQ_CST);
  session_ioctl(&mine, CR_IOC_THREADS, &a);
  for (;;) pause();
}
static bool crowd_is_there(void *arg) {
  (void)arg;
  return sh->value[0] >= CROWD;
}
static void copy_crowd(void) {
  for (int i = 0; i < CROWD; i++) need(process(crowd_member, NULL) > 0, "fork: errno %d", errno);
  need(soon(crowd_is_there, NULL, 40), "only %ld of %d sessions", sh->value[0], CROWD);
  sleep_ms(2000);
  frozen(ticking, 500);
  expect(runs_on(), "one session's target does not thaw by itself while %d others wait for memory", CROWD);
}

/* ---- a thread of the target that waits for memory when the session needs it */

static void *without_rseq(void *arg) {
  (void)arg;
  tick(1);
}

static void rseq_target(void) {
  pthread_t t;
  struct pit own;
  extern const ptrdiff_t __rseq_offset;
  extern const unsigned __rseq_size;
  if (!pit_open(&own, PAGE) || !__rseq_size) _exit(1);
  sh->at[0] = own.at;
  sh->value[0] = own.uffd;
  pthread_create(&t, NULL, without_rseq, NULL);
  void *old = (char *)__builtin_thread_pointer() + __rseq_offset;
  // The length of the area that glibc has registered depends on the kernel.
  unsigned length = 32;
  while (length <= PAGE && syscall(SYS_rseq, old, length, RSEQ_FLAG_UNREGISTER, 0x53053053)) length++;
  if (length > PAGE) _exit(2);
  pit_fill(&own);
  if (syscall(SYS_rseq, own.at, length, 0, 0x53053053)) _exit(3);
  sh->ready = 1;
  tick(0);
}

static void run_getpid(void *arg) {
  (void)arg;
  if (session_share(&s)) _exit(1);
  s.calls[0] = (struct cr_call){.nr = SYS_getpid};
  sh->go = 1;
  run_result = session_run(&s, pid, 1, 0, (unsigned)FOREVER_MS, &run);
  _exit(0);
}

static void rseq_waits(void) {
  frozen(rseq_target, 0);
  struct cr_thread list[8];
  int uffd = uffd_of_target();
  need(session_threads(&s, list, 8) == 2, "two threads");
  long r = session_call(&s, list[1].tid, SYS_madvise, (uintptr_t)sh->at[0], PAGE, MADV_DONTNEED, 0, 0, 0);
  need(!r, "madvise: %ld", r);
  pid_t requester = process(run_getpid, NULL);
  sleep_ms(500);
  need(sh->go, "the requester does not start");
  kill(requester, SIGKILL);
  expect(ends(requester, 10, NULL), "the requester outlives SIGKILL while a thread of the target waits for memory");
  struct uffdio_zeropage zero = {.range = {(uintptr_t)sh->at[0], PAGE}};
  ioctl(uffd, UFFDIO_ZEROPAGE, &zero);
  ends(requester, 5, NULL);
  close(uffd);
  r = session_thaw(&s, 0);
  expect(!r && one_ticks(1), "the other thread does not run on (%ld)", r);
}

static void rseq_kill_target(void) {
  frozen(rseq_target, 0);
  struct cr_thread list[8];
  need(session_threads(&s, list, 8) == 2, "two threads");
  long r = session_call(&s, list[1].tid, SYS_madvise, (uintptr_t)sh->at[0], PAGE, MADV_DONTNEED, 0, 0, 0);
  need(!r, "madvise: %ld", r);
  pid_t requester = process(run_getpid, NULL);
  sleep_ms(500);
  kill(pid, SIGKILL);
  expect(ends(pid, 10, NULL), "the target outlives SIGKILL while one of its threads waits for memory");
  expect(ends(requester, 10, NULL), "the requester's ioctl does not return");
}

int main(int argc, char **argv) {
  static const struct tcase cases[] = {
      {"sleep_auto_thaw", sleep_auto_thaw},
      {"sleep_close_by_thread", sleep_close_by_thread},
      {"sleep_close_by_owner", sleep_close_by_owner},
      {"sleep_kill_requester", sleep_kill_requester},
      {"sleep_kill_target", sleep_kill_target},
      {"copy_kill_target", copy_kill_target, 60},
      {"copy_auto_thaw", copy_auto_thaw, 60},
      {"copy_close", copy_close, 60},
      {"copy_crowd", copy_crowd, 60},
      {"rseq_waits", rseq_waits},
      {"rseq_kill_target", rseq_kill_target},
  };
  return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
