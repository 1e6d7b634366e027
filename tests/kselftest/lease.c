// SPDX-License-Identifier: GPL-2.0-only
/*
 * Leases: the descendants of a process are parked when it does not renew its lease, for
 * whatever reason, and continue when it is back; or are killed with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cases.h"

/* ---- the holder: the process of the case, or a child of it */

static int device = -1;

static uint64_t boot_ns(void) {
  struct timespec ts;
  clock_gettime(CLOCK_BOOTTIME, &ts);
  return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static int lease_ioctl(int fd, uint64_t until_ns, uint32_t flags) {
  struct cr_lease l = {.until_ns = until_ns, .flags = flags};
  return ioctl(fd, CR_IOC_LEASE, &l) ? -errno : (int)l.expired;
}
// Returns 0; 1 if the lease had expired; -errno.
static int lease_for(int64_t ms, uint32_t flags) { return lease_ioctl(device, boot_ns() + (uint64_t)(ms * 1000000), flags); }
static int lease_end(void) { return lease_ioctl(device, 0, 0); }

static void device_open(void) {
  device = open(CR_DEVICE, O_RDWR | O_CLOEXEC);
  need(device >= 0, "%s: errno %d", CR_DEVICE, errno);
}

/* ---- the tree: each process counts, and tells its pid */

enum { CELLS = 64 };
struct cells {
  volatile long ticks[CELLS];
  volatile pid_t pid[CELLS];
  volatile long eintr, forks;
};
static struct cells *cells;

static void tree_begin(void) { cells = shared_memory(sizeof *cells); }

_Noreturn static void count(int i) {
  cells->pid[i] = getpid();
  for (;;) {
    cells->ticks[i]++;
    usleep(500);
  }
}
static void *count_thread(void *arg) {
  for (;;) {
    cells->ticks[(intptr_t)arg]++;
    usleep(500);
  }
  return NULL;
}
static void count_in_thread(int i) {
  pthread_t t;
  if (pthread_create(&t, NULL, count_thread, (void *)(intptr_t)i)) abort();
}

struct want {
  int from, to;
  bool run;
  long before[CELLS];
};
static bool all_counted(void *arg) {
  struct want *w = arg;
  for (int i = w->from; i < w->to; i++)
    if (cells->ticks[i] == w->before[i]) return false;
  return true;
}
static void look_at(struct want *w, int from, int to) {
  *w = (struct want){.from = from, .to = to};
  for (int i = from; i < to; i++) w->before[i] = cells->ticks[i];
}
static bool counts(int from, int to) {
  struct want w;
  look_at(&w, from, to);
  return soon(all_counted, &w, 10);
}
static bool quiet(void *arg) {
  const struct want *range = arg;
  struct want w;
  look_at(&w, range->from, range->to);
  sleep_ms(60);
  for (int i = w.from; i < w.to; i++)
    if (cells->ticks[i] != w.before[i]) return false;
  return true;
}
static void parks(int from, int to, const char *when) {
  struct want range = {.from = from, .to = to};
  need(soon(quiet, &range, 10), "cells %d to %d do not stand still %s", from, to - 1, when);
  sleep_ms(300);
  need(quiet(&range), "cells %d to %d run again %s", from, to - 1, when);
}
static void goes_on(int from, int to, const char *when) { need(counts(from, to), "cells %d to %d do not run %s", from, to - 1, when); }

static pid_t counter(int i) {
  pid_t pid = fork();
  if (!pid) count(i);
  return pid;
}

// Cells 0 to 6: a child, a thread of it, its child, one in a session of its own, one that was forked twice and so has
// the holder as its reaper, the child of a thread, and a process that shares its parent's parent.
enum { TREE = 7 };
static void *forking_thread(void *arg) {
  counter(5);
  return arg;
}
static void tree(void) {
  tree_begin();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (!fork()) {
    count_in_thread(1);
    counter(2);
    if (!fork()) {
      setsid();
      count(3);
    }
    if (!fork()) {
      counter(4);
      _exit(0);
    }
    pthread_t t;
    if (pthread_create(&t, NULL, forking_thread, NULL)) abort();
    if (!syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, 0UL)) count(6);
    count(0);
  }
  goes_on(0, TREE, "at the beginning");
}

static void kill_tree(int from, int to) {
  for (int i = from; i < to; i++)
    if (cells->pid[i] > 0) kill(cells->pid[i], SIGKILL);
}

static bool all_dead(void *arg) {
  const struct want *w = arg;
  for (int i = w->from; i < w->to; i++)
    if (cells->pid[i] > 0 && alive(cells->pid[i])) return false;
  return true;
}
static void are_dead(int from, int to, const char *by) {
  struct want w = {.from = from, .to = to};
  need(soon(all_dead, &w, 10), "not all of cells %d to %d are killed by %s", from, to - 1, by);
}

/* ---- the lease itself */

static void runs_out(void) {
  device_open();
  tree();
  for (int i = 0; i < 5; i++) {
    int r = lease_for(100, 0);
    need(!r, "a lease: %d", r);
    parks(0, TREE, "after the lease has run out");
    need(lease_for(60000, 0) == 1, "renewal");
    goes_on(0, TREE, "when the lease is renewed");
  }
  need(lease_for(1, 0) == 0, "a short renewal");
  parks(0, TREE, "after the last renewal");
  int r = lease_end();
  need(r == 1, "the end of the lease: %d", r);
  goes_on(0, TREE, "after the lease is ended");
  sleep_ms(300);
  goes_on(0, TREE, "without a lease");
}

static void renewed(void) {
  device_open();
  tree();
  for (int i = 0; i < 40; i++) {
    int r = lease_for(5000, CR_LEASE_KILL);
    need(!r, "renewal %d: %d", i, r);
    sleep_ms(50);
  }
  goes_on(0, TREE, "under a lease");
  need(!lease_end(), "the end of the lease");
  goes_on(0, TREE, "after a lease that was ended");
  close(device);
  goes_on(0, TREE, "after the close of a lease that was ended");
}

static void refused(void) {
  device_open();
  expect(lease_for(25LL * 3600 * 1000, 0) == -EINVAL, "a lease of 25 hours");
  expect(lease_ioctl(device, UINT64_MAX, 0) == -EINVAL, "a lease for ever");
  expect(lease_for(100, 2) == -EINVAL, "unknown flags");
  expect(lease_end() == 0, "the end of no lease");
  expect(ioctl(device, CR_IOC_LEASE, (void *)8) == -1 && errno == EFAULT, "a bad address");
  struct session s;
  pid_t pid = target(ticking);
  need(!session_open(&s, pid), "attach");
  expect(lease_ioctl(s.dev, boot_ns() + 1000000000, 0) == -EISCONN, "a lease beside a target");
  session_close(&s);
  need(!lease_for(60000, 0), "a lease");
  struct session both = {.dev = device, .mem = -1};
  expect(session_attach(&both, pid) == -EISCONN, "a target beside a lease");
  if (!fork()) {
    _exit(lease_for(60000, 0) == -EPERM && lease_end() == -EPERM ? 0 : 1);
  }
  int status = 0;
  expect(wait(&status) > 0 && !status, "a child may not renew or end the lease: wait status %#x", status);
  // a time that has passed is a lease that has run out
  tree();
  need(lease_ioctl(device, 1, 0) == 0, "a time that has passed");
  parks(0, TREE, "after a time that has passed");
  need(lease_end() == 1, "the end of the lease");
}

// A child that copies of the descriptor belong to ends, or executes a program: nothing happens.
static void inherited(void) {
  device_open();
  tree();
  need(!lease_for(60000, CR_LEASE_KILL), "a lease");
  for (int i = 0; i < 20; i++) {
    pid_t pid = fork();
    if (!pid && i % 2) execl("/bin/true", "true", NULL);
    if (!pid) _exit(0);
    ends(pid, 10, NULL);
  }
  goes_on(0, TREE, "after children with the descriptor have ended");
  // a copy that outlives the holder's does not keep the lease
  int copy = fcntl(device, F_DUPFD, 50);
  pid_t keeper = fork();
  if (!keeper) {
    setsid();
    count(TREE);
  }
  goes_on(TREE, TREE + 1, "as keeper");
  close(copy);
  are_dead(0, TREE + 1, "the close");
}

/* ---- the holder stops or ends */

// Holds a lease over a tree and renews it.
static unsigned holder_flags;
static int linger_ms;  // how long a parent between exists beside its child
static void holds(void *arg) {
  device_open();
  for (int i = 0; i < (int)(intptr_t)arg; i++) {
    pthread_t t;
    if (pthread_create(&t, NULL, (void *(*)(void *))(uintptr_t)pause, NULL)) abort();
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (!fork()) {
    counter(1);
    if (!fork()) {
      counter(2);
      sleep_ms(linger_ms);
      _exit(0);
    }
    count(0);
  }
  for (;;) {
    lease_for(400, holder_flags);
    sh->ready = 2;
    sleep_ms(20);
  }
}
static bool held(void *arg) {
  (void)arg;
  return sh->ready == 2;
}
static pid_t holder(unsigned flags, int threads) {
  tree_begin();
  sh->ready = 0;
  holder_flags = flags;
  pid_t pid = process(holds, (void *)(intptr_t)threads);
  need(soon(held, NULL, 10), "the holder does not get its lease");
  goes_on(0, 3, "under a lease");
  return pid;
}

static void holder_stops(void) {
  pid_t pid = holder(CR_LEASE_KILL, 3);
  kill(pid, SIGSTOP);
  parks(0, 3, "while the holder is stopped");
  kill(pid, SIGCONT);
  goes_on(0, 3, "when the holder is back");
  kill(pid, SIGKILL);
  are_dead(0, 3, "the holder's death");
}

static void holder_killed(void) {
  // with threads: the one that has forked may end long before the one that closes the descriptor
  for (int i = 0; i < 30; i++) {
    linger_ms = i < 10 ? 0 : 2 * (i - 10);  // it may end while the others are being found
    pid_t pid = holder(CR_LEASE_KILL, i % 3 * 4);
    kill(pid, SIGKILL);
    are_dead(0, 3, "the holder's death");
    ends(pid, 10, NULL);
  }
  linger_ms = 0;
  pid_t pid = holder(0, 4);
  kill(pid, SIGKILL);
  ends(pid, 10, NULL);
  sleep_ms(600);
  goes_on(0, 3, "after the death of a holder that does not kill");
  kill_tree(0, 3);
}

static void stopped_and_killed(void) {
  pid_t pid = holder(CR_LEASE_KILL, 0);
  kill(pid, SIGSTOP);
  parks(0, 3, "while the holder is stopped");
  kill(pid, SIGKILL);
  are_dead(0, 3, "the death of a holder whose lease has run out");
  pid = holder(0, 0);
  kill(pid, SIGSTOP);
  parks(0, 3, "while the holder is stopped");
  kill(pid, SIGKILL);
  goes_on(0, 3, "after the death of a holder whose lease has run out");
  kill_tree(0, 3);
}

static void closed(void) {
  device_open();
  tree();
  need(!lease_for(1, 0), "a lease");
  parks(0, TREE, "after the lease has run out");
  close(device);
  goes_on(0, TREE, "after the close");
  device_open();
  need(!lease_for(60000, CR_LEASE_KILL), "a second lease");
  goes_on(0, TREE, "under the second lease");
  close(device);
  are_dead(0, TREE, "the close");
}

/* ---- hostile and odd members */

// Forks again and again: each child has a child that outlives it, for a while.
_Noreturn static void fork_loop(void) {
  for (;;) {
    if (!fork()) {
      if (!fork()) {
        cells->pid[0] = getpid();
        for (int i = 0; i < 5; i++, usleep(below(2000))) cells->ticks[0]++;
      }
      _exit(0);
    }
    cells->forks++;
    usleep(below(300));
  }
}
static bool forks_stop(void *arg) {
  (void)arg;
  long before = cells->forks;
  sleep_ms(100);
  return cells->forks == before;
}
static void forking(void) {
  device_open();
  tree_begin();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  signal(SIGCHLD, SIG_IGN);
  if (!fork()) fork_loop();
  for (int i = 0; i < 5; i++) {
    int r = lease_for(50, CR_LEASE_KILL);
    need(!r, "a lease: %d", r);
    need(soon(forks_stop, NULL, 10), "a fork loop does not stand still");
    sleep_ms(200);
    need(forks_stop(NULL), "a fork loop runs on");
    need(lease_for(60000, CR_LEASE_KILL) == 1, "renewal");
    goes_on(0, 1, "when the lease is renewed");
  }
  close(device);
  need(soon(forks_stop, NULL, 10), "a fork loop lives on after the close");
  sleep_ms(300);
  need(forks_stop(NULL), "a fork loop lives on");
}

// A chain of processes, each the child of the one before; and many threads.
static void deep(void) {
  device_open();
  tree_begin();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (!fork()) {
    for (int i = 0; i < 300; i++)
      if (fork()) {
        pause();
        _exit(0);
      }
    for (int i = 1; i < CELLS; i++) count_in_thread(i);
    count(0);
  }
  goes_on(0, CELLS, "at the end of the chain");
  need(!lease_for(50, CR_LEASE_KILL), "a lease");
  parks(0, CELLS, "at the end of the chain");
  need(lease_for(60000, CR_LEASE_KILL) == 1, "renewal");
  goes_on(0, CELLS, "after a renewal");
  close(device);
  are_dead(0, 1, "the close");
}

static void execs(void) {
  device_open();
  tree_begin();
  int ends_of[2];
  char byte;
  need(!pipe(ends_of), "pipe");
  need(!lease_for(500, 0), "a lease");
  pid_t pid = fork();
  if (!pid) {
    dup2(ends_of[1], 1);
    execl("/bin/sh", "sh", "-c", "while :; do echo; sleep 0.01; done", NULL);
    _exit(1);
  }
  fcntl(ends_of[0], F_SETFL, O_NONBLOCK);
  sleep_ms(1500);
  while (read(ends_of[0], &byte, 1) > 0) {
  }
  sleep_ms(500);
  expect(read(ends_of[0], &byte, 1) < 0 && errno == EAGAIN, "a program that was executed under a lease runs on");
  need(lease_end() == 1, "the end of the lease");
  fcntl(ends_of[0], F_SETFL, 0);
  expect(read(ends_of[0], &byte, 1) == 1, "the program does not run on afterwards");
}

// The holder waits in vfork() for a child while the lease runs out: the child must come to its exec.
static void in_vfork(void) {
  device_open();
  tree();
  need(!lease_for(100, 0), "a lease");
  parks(0, TREE, "after the lease has run out");
  for (int i = 0; i < 3; i++) {
    pid_t pid = vfork();
    if (!pid) {
      usleep(300000);
      execl("/bin/sleep", "sleep", "1", NULL);
      _exit(1);
    }
    expect(!ends(pid, 1, NULL), "a program that was executed after the lease had run out runs");
  }
  need(lease_end() == 1, "the end of the lease");
}

_Noreturn static void sleeps(int which) {
  struct epoll_event e;
  int ep = epoll_create1(0), ends_of[2];
  char byte;
  if (pipe(ends_of)) abort();
  cells->pid[which] = getpid();
  for (;;) {
    struct timespec t = {0, 150000000};
    long r = which == 0 ? epoll_wait(ep, &e, 1, 150) : which == 1 ? nanosleep(&t, NULL) : read(ends_of[0], &byte, 1);
    if (r < 0 && errno == EINTR) cells->eintr++;
    cells->ticks[which]++;
  }
}
static void sleeping(void) {
  device_open();
  tree_begin();
  for (int i = 0; i < 3; i++)
    if (!fork()) sleeps(i);
  goes_on(0, 2, "at the beginning");
  for (int i = 0; i < 40; i++) {
    need(lease_for(1, 0) >= 0, "a lease");
    random_us(30000);
    need(lease_for(60000, 0) >= 0, "renewal");
    random_us(30000);
  }
  goes_on(0, 2, "afterwards");
  expect(!cells->eintr, "%ld system calls ended with EINTR", cells->eintr);
  need(lease_end() == 0, "the end of the lease");
}

static void stopped(void) {
  device_open();
  tree();
  kill(cells->pid[0], SIGSTOP);
  parks(0, 2, "when it is stopped");
  need(!lease_for(50, 0), "a lease");
  parks(0, TREE, "after the lease has run out");
  kill(cells->pid[0], SIGCONT);
  parks(0, TREE, "when it is continued, after the lease has run out");
  kill(cells->pid[2], SIGSTOP);
  need(lease_for(60000, 0) == 1, "renewal");
  goes_on(0, 2, "when the lease is renewed");
  goes_on(3, TREE, "when the lease is renewed");
  parks(2, 3, "when it is stopped");
  kill(cells->pid[2], SIGCONT);
  goes_on(2, 3, "when it is continued");
  need(lease_end() == 0, "the end of the lease");
}

// The holder has no right to signal a process that has changed all of its ids.
static void other_users(void *arg) {
  (void)arg;
  if (getuid()) skip("needs root");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (!fork()) count(0);
  goes_on(0, 1, "as root");
  if (syscall(SYS_setresuid, 1000, 1000, 1000)) _exit(1);
  if (!fork()) count(1);
  goes_on(1, 2, "as the user");
  need(!lease_for(50, holder_flags), "a lease");
  parks(1, 2, "after the lease has run out");
  goes_on(0, 1, "although another user's lease has run out");
  _exit(0);
}
static void others(void) {
  tree_begin();
  for (int i = 0; i < 2; i++) {
    device_open();
    holder_flags = i ? CR_LEASE_KILL : 0;
    pid_t pid = process(other_users, NULL);
    close(device);
    int status = 0;
    bool ended = ends(pid, 60, &status);
    need(ended && !status, "wait status %#x", status);
    goes_on(0, 1, "after the end of another user's lease");
    if (i) are_dead(1, 2, "the end of the lease");
    kill_tree(0, 2);
  }
}

// A second lease of a descendant: a process runs only while both do.
static void holds_again(void *arg) {
  (void)arg;
  device_open();
  if (!fork()) count(0);
  lease_for(60000, 0);
  for (;;) {
    if (sh->go == 1) lease_for(1, 0);
    if (sh->go == 2) lease_for(60000, 0);
    sh->go = 0;
    cells->ticks[1]++;
    usleep(1000);
  }
}
static void nested(void) {
  device_open();
  tree_begin();
  process(holds_again, NULL);
  goes_on(0, 2, "at the beginning");
  need(!lease_for(60000, 0), "a lease");
  sh->go = 1;
  parks(0, 1, "after the inner lease has run out");
  goes_on(1, 2, "as holder");
  need(!lease_for(1, 0), "a short lease");
  parks(0, 2, "after both have run out");
  need(lease_for(60000, 0) == 1, "renewal");
  goes_on(1, 2, "as holder, after the renewal");
  parks(0, 1, "after the outer lease was renewed");
  sh->go = 2;
  goes_on(0, 2, "after both were renewed");
  need(!lease_end(), "the end of the lease");
}

/* ---- sessions beside it; the target is a child of the holder */

static bool still(void *arg) {
  (void)arg;
  return stands_still();
}

static void beside_sessions(void) {
  struct session s;
  device_open();
  pid_t pid = target(ticking);
  need(!session_open(&s, pid), "attach");
  // parked by the lease: no session gets it
  need(!lease_for(1, 0), "a lease");
  need(soon(still, NULL, 10), "the target runs after the lease has run out");
  sleep_ms(200);
  int r = session_freeze(&s, 1000, 0);
  expect(r == -EBUSY && s.why.reason == CR_WHY_LEASE, "freeze: %d, reason %u", r, s.why.reason);
  need(lease_for(60000, 0) == 1, "renewal");
  need(runs_on(), "the target does not run on after a refused freeze");
  // frozen by the session when the lease runs out: it stays a session, and the lease has it afterwards
  need(session_freeze(&s, 5000, 0) == THREADS, "freeze");
  need(!lease_for(1, 0), "a short lease");
  sleep_ms(200);
  struct cr_thread t[8];
  r = session_threads(&s, t, 8);
  expect(r == THREADS, "threads: %d", r);
  need(!session_thaw(&s, 0), "thaw");
  sleep_ms(200);
  need(stands_still(), "the target runs on after the thaw, although the lease has run out");
  r = session_freeze(&s, 1000, 0);
  expect(r == -EBUSY && s.why.reason == CR_WHY_LEASE, "freeze: %d, reason %u", r, s.why.reason);
  need(lease_for(60000, 0) == 1, "renewal");
  need(runs_on(), "the target does not run on");
  need(session_freeze(&s, 5000, 0) == THREADS && !session_thaw(&s, 0), "freeze afterwards");
  // stopped by a signal, and roused by the session
  kill(pid, SIGSTOP);
  need(soon(still, NULL, 10), "the target is not stopped");
  need(session_freeze(&s, 5000, 0) == THREADS, "freeze of a stopped target");
  need(!lease_for(1, 0), "a short lease");
  sleep_ms(200);
  need(!session_thaw(&s, 0) && lease_for(60000, 0) == 1, "thaw and renewal");
  need(stands_still(), "a stopped target runs on");
  kill(pid, SIGCONT);
  need(runs_on(), "the target does not run on after SIGCONT");
  need(!lease_end(), "the end of the lease");
  session_close(&s);
}

// The lease expires and is renewed while a session makes calls.
static void races(void) {
  struct session s;
  device_open();
  pid_t pid = target(ticking);
  need(!session_open(&s, pid), "attach");
  for (int i = 0; i < 60; i++) {
    int r = lease_for(below(6), 0);
    need(r >= 0, "a lease: %d", r);
    for (int k = 0; k < 4; k++) {
      r = session_freeze(&s, 20, 0);
      need(r == THREADS || r == -EBUSY || r == -ETIMEDOUT || r == -ENOTCONN, "freeze: %d", r);
      if (r == THREADS && !s.calls) session_arena(&s, 0);
      if (r == THREADS && s.calls) session_call(&s, pid, SYS_getppid);
      if (below(2)) lease_for(below(6), 0);
      r = session_thaw(&s, 0);
      need(!r || r == -ENOTCONN, "thaw: %d", r);
    }
  }
  need(lease_end() >= 0, "the end of the lease");
  session_thaw(&s, 0);
  need(runs_on(), "the target does not run on after all");
  session_close(&s);
}

// Leases of one user are limited.
static void ceiling(void *arg) {
  (void)arg;
  if (syscall(SYS_setresuid, 1000, 1000, 1000)) _exit(1);
  int got = 0, r = 0;
  for (; got < 100; got++) {
    int fd = open(CR_DEVICE, O_RDWR | O_CLOEXEC);
    if (fd < 0) _exit(2);
    // the leases of a process that has just ended may still be killing
    for (int i = 0; i < 5000 && (r = lease_ioctl(fd, boot_ns() + 600000000000, CR_LEASE_KILL)) == -EDQUOT && got < 64; i++) sleep_ms(10);
    if (r) break;
  }
  sh->value[0] = got;
  sh->value[1] = r;
  _exit(0);
}
static void limited(void) {
  if (chmod(CR_DEVICE, 0666)) skip("needs root");
  for (int i = 0; i < 3; i++) {
    int status = 0;
    pid_t pid = process(ceiling, NULL);
    bool ended = ends(pid, 60, &status);
    need(ended && !status, "wait status %#x", status);
    need(sh->value[0] == 64 && sh->value[1] == -EDQUOT, "%ld leases, then %ld", sh->value[0], sh->value[1]);
  }
}

int main(int argc, char **argv) {
  static const struct tcase cases[] = {
      {"runs_out", runs_out, 60},
      {"renewed", renewed, 0},
      {"refused", refused, 0},
      {"inherited", inherited, 0},
      {"holder_stops", holder_stops, 0},
      {"holder_killed", holder_killed, 90},
      {"stopped_and_killed", stopped_and_killed, 0},
      {"closed", closed, 0},
      {"forking", forking, 60},
      {"deep", deep, 0},
      {"execs", execs, 0},
      {"in_vfork", in_vfork, 0},
      {"sleeping", sleeping, 0},
      {"stopped", stopped, 0},
      {"others", others, 60},
      {"nested", nested, 0},
      {"beside_sessions", beside_sessions, 0},
      {"races", races, 90},
      {"limited", limited, 200},
  };
  return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
