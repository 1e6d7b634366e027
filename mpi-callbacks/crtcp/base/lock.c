/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The slow half of the lock: the mutex, and threads other than the owner of the bias. */
#include "base/lock.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { YIELDS = 64, NAP_US = 20, DRAIN_US = 10000, STRANGERS = 1000 };

static int membarrier(int command)
{
  return syscall(SYS_membarrier, command, 0, 0);
}

void crtcp_lock_bias(struct crtcp_lock *lock)
{
  if (lock->owner || membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)) return;
  lock->owner = crtcp_thread();
  atomic_store(&lock->bias, true);
}

/* The registration is lost in a process that was restarted without it. A program may also have forbidden itself the call: then
 * a nap takes its place once, which is far longer than a processor keeps a store to itself, and the bias ends. */
static void barrier_on_all_processors(struct crtcp_lock *lock)
{
  if (!membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  if (!membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  usleep(DRAIN_US);
  atomic_store(&lock->bias, false);
}

/* Does this thread have to look after the owner? The caller has the mutex, under which the bias ends. */
static bool against_owner(const struct crtcp_lock *lock)
{
  return atomic_load_explicit(&lock->bias, memory_order_relaxed) && lock->owner != crtcp_thread();
}

static bool owner_is_inside(const struct crtcp_lock *lock)
{
  return atomic_load_explicit(&lock->inside, memory_order_acquire);
}

static void want(struct crtcp_lock *lock)
{
  atomic_store_explicit(&lock->wanted, 1, memory_order_relaxed);
  barrier_on_all_processors(lock);
}

void crtcp_lock_slowly(struct crtcp_lock *lock)
{
  pthread_mutex_lock(&lock->mutex);
  if (!against_owner(lock)) return;
  want(lock);
  /* The owner may have left its processor, but it does not block while it has the lock. */
  for (unsigned i = 0; owner_is_inside(lock); i++) {
    if (i < YIELDS)
      sched_yield();
    else
      usleep(NAP_US);
  }
}

bool crtcp_trylock_slowly(struct crtcp_lock *lock)
{
  if (pthread_mutex_trylock(&lock->mutex)) return false;
  if (!against_owner(lock)) return true;
  want(lock);
  if (!owner_is_inside(lock)) return true;
  crtcp_unlock_slowly(lock);
  return false;
}

void crtcp_unlock_slowly(struct crtcp_lock *lock)
{
  if (against_owner(lock)) atomic_store_explicit(&lock->wanted, 0, memory_order_release);
  pthread_mutex_unlock(&lock->mutex);
}

void crtcp_lock_by_stranger(struct crtcp_lock *lock)
{
  /* `wanted` stays 1: an owner that has just seen its bias then sees this. */
  if (against_owner(lock) && ++lock->strangers == STRANGERS) atomic_store(&lock->bias, false);
}
