// SPDX-License-Identifier: GPL-2.0-only
// Threads of the target that run jobs.
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

pid_t gettid_(void) { return (pid_t)syscall(SYS_gettid); }

bool thread_exists(pid_t tid) { return syscall(SYS_tgkill, getpid(), tid, 0) == 0; }

bool soon(bool (*is)(void *), void *arg, int ms) {
  // Counts the steps: a rollback during the wait would make a stored deadline pass at once.
  for (; !is(arg); ms--) {
    if (ms <= 0) return false;
    sleep_ms(1);
  }
  return true;
}

static void *work(void *arg) {
  struct worker *w = arg;
  pthread_mutex_lock(&w->lock);
  w->tid = gettid_();
  w->ready = true;
  pthread_cond_broadcast(&w->changed);
  while (!w->quit) {
    if (w->job) {
      w->result = w->job(w->arg);
      w->job = NULL;
      pthread_cond_broadcast(&w->changed);
    }
    pthread_cond_wait(&w->changed, &w->lock);
  }
  pthread_mutex_unlock(&w->lock);
  return w;
}

void worker_start(struct worker *w) {
  *w = (struct worker){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  if ((errno = pthread_create(&w->thread, NULL, work, w))) die("pthread_create: errno %d", errno);
  pthread_mutex_lock(&w->lock);
  while (!w->ready) pthread_cond_wait(&w->changed, &w->lock);
  pthread_mutex_unlock(&w->lock);
}

const char *worker_do(struct worker *w, const char *(*job)(void *), void *arg) {
  struct timespec until;
  const char *result;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 10;
  if (pthread_mutex_timedlock(&w->lock, &until)) return no("thread %d holds its lock", w->tid);
  w->arg = arg;
  w->job = job;
  pthread_cond_broadcast(&w->changed);
  while (w->job)
    if (pthread_cond_timedwait(&w->changed, &w->lock, &until)) {
      pthread_mutex_unlock(&w->lock);
      return no("thread %d does not finish its job", w->tid);
    }
  result = w->result;
  pthread_mutex_unlock(&w->lock);
  return result;
}

void worker_end(struct worker *w) {
  void *result;
  pthread_mutex_lock(&w->lock);
  w->quit = true;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
  if (pthread_join(w->thread, &result) || result != w) die("thread %d cannot be joined", w->tid);
}
