// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sessions, threads, processes and descriptors that end while in use: every pair of
 * such events at once, at random moments. In any order, no thread may stay parked
 * and the kernel must not be harmed.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
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

#include "cases.h"

enum { CLONE_THREAD_FLAGS = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM };

/* ---- pairs of events */

enum event { THAW, THAW_KILL, KILL_TARGET, EXIT_THREAD, EXEC, CLOSE_OWNER, CLOSE_PASSED, KILL_OWNER, EVENTS };
static const char *const event_names[EVENTS] = {"thaw",        "thaw-kill",   "kill-target",  "exit-thread",
                                                "exec",        "close-owner", "close-passed", "kill-owner"};

// Flags shared by the processes of a race, outside of the target's private memory.
struct race {
  volatile int exit_thread, exec, close_owner, close_passed, thaw, thaw_kill, started, own_closed;
  volatile long executed;
};
static struct race *race;

static void *mortal(void *arg) {
  intptr_t i = (intptr_t)arg;
  for (;;) {
    sh->ticks[i]++;
    if (i == 2 && race->exit_thread) return NULL;
    if (i == 3 && race->exec) {
      char *argv[] = {(char *)(uintptr_t) "race", (char *)(uintptr_t) "--pause", NULL};
      execv("/proc/self/exe", argv);
    }
    if (i & 1) usleep(200);
  }
}
static void mortal_target(void) {
  pthread_t t;
  for (intptr_t i = 1; i < THREADS; i++) pthread_create(&t, NULL, mortal, (void *)i);
  sh->ready = 1;
  mortal((void *)0);
}

static pid_t victim;
static void *closer(void *arg) {
  struct session *s = arg;
  while (!race->close_owner) sched_yield();
  close(s->dev);
  race->own_closed = 1;
  return NULL;
}

// Holds a duplicate of the session's descriptor without being its owner.
static void holder(void *arg) {
  int dev = *(int *)arg;
  while (!race->close_passed) {
    struct cr_thaw t = {.flags = race->thaw_kill ? CR_THAW_KILL : 0};
    if (!race->thaw && !race->thaw_kill) {
      usleep(50);
      continue;
    }
    race->thaw = race->thaw_kill = 0;
    ioctl(dev, CR_IOC_THAW, &t);
  }
  close(dev);
  for (;;) pause();
}

// Runs all requests of a session, repeatedly.
static void owner(void *arg) {
  struct session s;
  struct cr_thread list[64];
  pthread_t t;
  (void)arg;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (session_open(&s, victim)) _exit(1);
  if (process(holder, &s.dev) < 0 || pthread_create(&t, NULL, closer, &s)) _exit(1);
  race->started = 1;
  for (unsigned round = 0;; round++) {
    if (session_freeze(&s, 1000, 0) < 0) {
      if (race->own_closed) pause();
      sched_yield();
      continue;
    }
    if (!session_arena(&s, 0) && s.calls) {
      struct cr_snapshot snap = {.flags = CR_SNAP_PAGES};
      session_call(&s, victim, SYS_getpid, 0);
      session_ioctl(&s, CR_IOC_SNAPSHOT, &snap);
      long born = 0;
      if (round % 3 == 1)
        born = session_call(&s, victim, SYS_clone, CLONE_THREAD_FLAGS, s.arena.data_addr + s.arena.data_size, 0, 0, 0, 0);
      int n = session_threads(&s, list, 64);
      for (int i = 0; i < n && i < 64; i++) session_call(&s, list[i].tid, SYS_sched_yield, 0);
      if (born > 0) session_call(&s, (pid_t)born, SYS_exit, 0);
      struct timespec *ts = (struct timespec *)(void *)(s.data + 4096);
      *ts = (struct timespec){0, 2000000};
      if (round % 2) session_call(&s, victim, SYS_nanosleep, s.arena.data_addr + 4096, 0);
    }
    if (round % 4) session_thaw(&s, 0);
  }
}

static void cause(enum event e, pid_t own) {
  switch (e) {
    case THAW:
      race->thaw = 1;
      break;
    case THAW_KILL:
      race->thaw_kill = 1;
      break;
    case KILL_TARGET:
      kill(victim, SIGKILL);
      break;
    case EXIT_THREAD:
      race->exit_thread = 1;
      break;
    case EXEC:
      race->exec = 1;
      break;
    case CLOSE_OWNER:
      race->close_owner = 1;
      break;
    case CLOSE_PASSED:
      race->close_passed = 1;
      break;
    default:
      kill(own, SIGKILL);
  }
}

static bool race_started(void *arg) {
  (void)arg;
  return race->started;
}
static bool race_target_lives(void) {
  // after the exec the process only sleeps, so check only that it is not stuck in the kernel
  if (!race->exec) return one_ticks(0) && one_ticks(1);
  for (int i = 0; i < 500; i++, sleep_ms(10)) {
    char state = task_state(victim);
    if (state == 'S' || state == 'R' || state == 'Z' || !state) return true;
  }
  return false;
}

static void run_race(enum event a, enum event b) {
  memset((void *)race, 0, sizeof *race);
  victim = target(mortal_target);
  pid_t own = process(owner, NULL);
  need(soon(race_started, NULL, 10), "%s, %s: the owner does not start", event_names[a], event_names[b]);
  random_us(6000);
  cause(a, own);
  random_us(below(2) ? 300 : 3000);
  cause(b, own);
  random_us(3000);
  kill(own, SIGKILL);
  need(ends(own, 10, NULL), "%s, %s: the owner outlives SIGKILL: %s", event_names[a], event_names[b], threads_of(own));
  race->close_passed = 1;
  bool killed = a == KILL_TARGET || b == KILL_TARGET || a == THAW_KILL || b == THAW_KILL;
  if (!killed)
    need(race_target_lives(), "%s, %s: the target does not run on: %s", event_names[a], event_names[b],
         threads_of(victim));
  kill(victim, SIGKILL);
  need(ends(victim, 10, NULL), "%s, %s: the target outlives SIGKILL: %s", event_names[a], event_names[b],
       threads_of(victim));
}

static void pairs_of(enum event first) {
  race = shared_memory(sizeof *race);
  for (int64_t end = now_ms() + 3000; now_ms() < end;)
    for (enum event b = 0; b < EVENTS; b++) run_race(first, b);
}
#define PAIRS(name, event) \
  static void name(void) { pairs_of(event); }
PAIRS(pairs_thaw, THAW)
PAIRS(pairs_thaw_kill, THAW_KILL)
PAIRS(pairs_kill_target, KILL_TARGET)
PAIRS(pairs_exit_thread, EXIT_THREAD)
PAIRS(pairs_exec, EXEC)
PAIRS(pairs_close_owner, CLOSE_OWNER)
PAIRS(pairs_close_passed, CLOSE_PASSED)
PAIRS(pairs_kill_owner, KILL_OWNER)

int main(int argc, char **argv) {
  static const struct tcase cases[] = {
      {"thaw", pairs_thaw},
      {"thaw_kill", pairs_thaw_kill},
      {"kill_target", pairs_kill_target},
      {"exit_thread", pairs_exit_thread},
      {"exec", pairs_exec},
      {"close_owner", pairs_close_owner},
      {"close_passed", pairs_close_passed},
      {"kill_owner", pairs_kill_owner},
  };
  if (argc == 2 && !strcmp(argv[1], "--pause"))
    for (;;) pause();
  return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
