// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/*
 * For programs that interfere with a busy session: a frozen target, and a call that
 * sleeps in it.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cases.h"

static struct session s;
static pid_t pid;

static inline void frozen(void (*body)(void), unsigned thaw_after_ms) {
  pid = target(body);
  int r = session_open(&s, pid);
  need(!r, "attach: %d", r);
  r = session_freeze(&s, 5000, thaw_after_ms);
  need(r > 0, "freeze: %d", r);
  r = session_arena(&s, 0);
  need(!r, "arena: %d", r);
}

enum { FOREVER_MS = -1 };
static struct cr_run run;
static volatile int run_result, run_over;

static inline void run_sleep(void *arg) {
  if (arg && session_share(&s)) _exit(1);
  struct timespec *hour = (struct timespec *)(void *)(s.data + 4096);
  *hour = (struct timespec){3600, 0};
  s.calls[0] = (struct cr_call){.nr = SYS_nanosleep, .arg = {s.arena.data_addr + 4096, 0}};
  sh->go = 1;
  run_result = session_run(&s, pid, 1, 0, (unsigned)FOREVER_MS, &run);
  run_over = 1;
}
static inline void *run_sleep_thread(void *arg) {
  run_sleep(arg);
  return NULL;
}
static inline bool run_ended(void *arg) {
  (void)arg;
  return run_over;
}
static inline bool in_run(void *arg) {  // the target sleeps in its call
  (void)arg;
  return sh->go && task_state(pid) == 'S';
}
static inline void wait_in_run(void) {
  need(soon(in_run, NULL, 10), "the call is not made");
  sleep_ms(100);
}

// In a thread, because close() may block.
static inline void *close_it(void *dev) {
  close((int)(intptr_t)dev);
  return NULL;
}
static inline void close_by_thread(void) {
  pthread_t t;
  need(!pthread_create(&t, NULL, close_it, (void *)(intptr_t)s.dev), "pthread_create");
  pthread_detach(t);
  s.dev = -1;
}

static inline int uffd_of_target(void) {
  int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  int fd = (int)syscall(SYS_pidfd_getfd, pidfd, (int)sh->value[0], 0);
  need(fd >= 0, "pidfd_getfd: errno %d", errno);
  close(pidfd);
  return fd;
}
