/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file
 * @brief crtcp.lock: a mutex that costs the thread that calls MPI no locked instruction.
 *
 * Three locks and unlocks of a mutex take a tenth of the time of a short message within a node, and nearly always the same
 * thread takes it. So the lock is biased to that thread, its owner. The owner says that it is inside, and then looks
 * whether another thread wants the lock. Another thread takes the mutex and says that it wants the lock. Then it has all
 * processors that run threads of this process execute a memory barrier by membarrier(2), and waits until the owner is not
 * inside. So at least one of the two sees the other. An owner that sees another thread waits for the mutex.
 *
 *     owner                                   another thread
 *     inside = 1                              mutex locked
 *     wanted == 0: has the lock               wanted = 1, membarrier()
 *     otherwise: inside = 0, mutex            inside == 0: has the lock
 *
 * The lock has no bias in programs that use MPI from several threads at once, or where there is no membarrier(2). The bias
 * ends when threads that call MPI often are not its owner (MPI_THREAD_SERIALIZED), and when membarrier(2) is refused.
 */
#ifndef CRTCP_LOCK_H
#define CRTCP_LOCK_H 1

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct crtcp_lock {
  pthread_mutex_t mutex;
  const void *owner; /**< a crtcp_thread(); NULL: there never was a bias */
  atomic_bool bias; /**< read by the owner without the lock; changed by the holder of the mutex */
  atomic_uint inside; /**< 1: the owner has the lock by its bias; written by the owner only */
  atomic_uint wanted; /**< 1: another thread has the lock, or waits for the owner to leave it; stays when the bias ends */
  unsigned strangers; /**< threads that call MPI and are not the owner: how often one had the lock; protected by it */
};

/** The calling thread, without the call that pthread_self() is. */
static inline const void *crtcp_thread(void)
{
#if defined(__has_builtin)
#if __has_builtin(__builtin_thread_pointer)
  return __builtin_thread_pointer();
#endif
#endif
  return (const void *) pthread_self();
}

/** Bias the lock to the calling thread, which calls MPI. There is no other thread yet, or the call is not the first one,
 * and does nothing. */
void crtcp_lock_bias(struct crtcp_lock *lock);
/** A thread that calls MPI has the lock, but not by the bias: end the bias if that happens often. */
void crtcp_lock_by_stranger(struct crtcp_lock *lock);
/** Take the mutex, and wait until the owner of the bias does not have the lock. */
void crtcp_lock_slowly(struct crtcp_lock *lock);
bool crtcp_trylock_slowly(struct crtcp_lock *lock);
void crtcp_unlock_slowly(struct crtcp_lock *lock);

static inline bool crtcp_lock_is_biased(const struct crtcp_lock *lock)
{
  return atomic_load_explicit(&lock->bias, memory_order_relaxed) && lock->owner == crtcp_thread();
}

/** Does the calling thread, which has the lock, have it by its bias? */
static inline bool crtcp_lock_is_inside(const struct crtcp_lock *lock)
{
  /* If it is another thread, the owner is perhaps about to see that it cannot have the lock. */
  return atomic_load_explicit(&lock->inside, memory_order_relaxed) && lock->owner == crtcp_thread();
}

/** Take the lock by the bias. @return false: the calling thread does not own it, or another thread wants the lock */
static inline bool crtcp_enter(struct crtcp_lock *lock)
{
  if (!crtcp_lock_is_biased(lock)) return false;
  atomic_store_explicit(&lock->inside, 1, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst); /* the other half is membarrier(2) */
  if (!atomic_load_explicit(&lock->wanted, memory_order_acquire)) return true;
  atomic_store_explicit(&lock->inside, 0, memory_order_release);
  return false;
}

static inline void crtcp_lock(struct crtcp_lock *lock)
{
  if (!crtcp_enter(lock)) crtcp_lock_slowly(lock);
}

/** @return false: another thread has the lock */
static inline bool crtcp_trylock(struct crtcp_lock *lock)
{
  return crtcp_enter(lock) || crtcp_trylock_slowly(lock);
}

static inline void crtcp_unlock(struct crtcp_lock *lock)
{
  if (crtcp_lock_is_inside(lock))
    atomic_store_explicit(&lock->inside, 0, memory_order_release);
  else
    crtcp_unlock_slowly(lock);
}

#endif
