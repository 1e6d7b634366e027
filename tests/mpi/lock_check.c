/* SPDX-License-Identifier: GPL-2.0-only */
/* crtcp's lock: one thread at a time, whoever takes it in whatever way. Usage: lock_check PART */
#include "base/lock.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OTHERS = 3, OTHER_TURNS = 50000 };

static struct crtcp_lock lock = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static atomic_bool ended;
static atomic_int running;

/* Protected by the lock. Plain variables: two threads at once would lose counts, or be seen by `busy`. */
static volatile long busy, turns;

static void fail(const char *what)
{
  fprintf(stderr, "not as expected: %s\n", what);
  exit(1);
}

static void expect(bool good, const char *what)
{
  if (!good) fail(what);
}

static void turn(void)
{
  expect(busy++ == 0, "no other thread has the lock");
  turns++;
  expect(--busy == 0, "no other thread has the lock");
}

static void *other(void *number)
{
  long done = 0;

  while (done < OTHER_TURNS) {
    if (number && done % 2) {
      if (!crtcp_trylock(&lock)) continue;
    } else {
      crtcp_lock(&lock);
    }
    turn();
    crtcp_unlock(&lock);
    if (++done % 64 == 0) usleep(1);
  }
  atomic_fetch_sub(&running, 1);
  return NULL;
}

/* A thread that calls MPI, but does not own the bias. */
static void *stranger(void *unused)
{
  (void) unused;
  for (int i = 0; i < OTHER_TURNS; i++) {
    crtcp_lock(&lock);
    expect(!crtcp_lock_is_inside(&lock), "a stranger has no bias");
    crtcp_lock_by_stranger(&lock);
    turn();
    crtcp_unlock(&lock);
  }
  atomic_fetch_sub(&running, 1);
  return NULL;
}

static void *try(void *unused)
{
  (void) unused;
  expect(!crtcp_trylock(&lock), "trylock fails while the owner has the lock");
  return NULL;
}

static void *wait_for_it(void *unused)
{
  (void) unused;
  crtcp_lock(&lock);
  expect(turns == 1, "the other thread has the lock after the owner");
  atomic_store(&ended, true);
  crtcp_unlock(&lock);
  return NULL;
}

static pthread_t start(void *(*what)(void *), void *argument)
{
  pthread_t thread;

  expect(!pthread_create(&thread, NULL, what, argument), "a thread starts");
  return thread;
}

/* The calling thread takes the lock all the time, and others now and then. */
static void together(void *(*what)(void *))
{
  pthread_t threads[OTHERS];
  long own = 0;

  turns = 0;
  atomic_store(&running, OTHERS);
  for (long i = 0; i < OTHERS; i++) threads[i] = start(what, (void *) i);
  for (; atomic_load_explicit(&running, memory_order_relaxed); own++) {
    crtcp_lock(&lock);
    turn();
    crtcp_unlock(&lock);
  }
  for (int i = 0; i < OTHERS; i++) pthread_join(threads[i], NULL);
  expect(turns == own + (long) OTHERS * OTHER_TURNS, "no turn is lost");
}

static void in_order(void)
{
  pthread_t waiter;

  crtcp_lock(&lock);
  expect(crtcp_lock_is_inside(&lock), "the owner has the lock by its bias");
  pthread_join(start(try, NULL), NULL);
  waiter = start(wait_for_it, NULL);
  usleep(200000);
  expect(!atomic_load(&ended), "another thread waits for the owner");
  turns = 1;
  crtcp_unlock(&lock);
  pthread_join(waiter, NULL);
  crtcp_lock(&lock);
  expect(crtcp_lock_is_inside(&lock), "the owner has its bias again");
  crtcp_unlock(&lock);
}

static void bias_ends(void)
{
  together(stranger);
  crtcp_lock(&lock);
  expect(!crtcp_lock_is_inside(&lock), "the bias has ended");
  crtcp_unlock(&lock);
  together(other);
}

/* The program forbids itself membarrier(2) after it has begun, as programs that confine themselves do. */
static void forbid_membarrier(void)
{
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};

  expect(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program),
         "this kernel filters system calls");
}

int main(int count, char **parts)
{
  const char *part = count == 2 ? parts[1] : "";

  if (strcmp(part, "plain")) {
    crtcp_lock_bias(&lock);
    expect(crtcp_lock_is_biased(&lock), "this kernel has membarrier(2)");
  }
  if (!strcmp(part, "plain") || !strcmp(part, "biased"))
    together(other);
  else if (!strcmp(part, "order"))
    in_order();
  else if (!strcmp(part, "strangers"))
    bias_ends();
  else if (!strcmp(part, "forbidden")) {
    forbid_membarrier();
    together(other);
  } else
    fail("a part: plain, biased, order, strangers or forbidden");
  return 0;
}
