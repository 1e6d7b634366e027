/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stop libpmix's thread by an event on its event base whose handler blocks. PMIx requests of the program queue up behind
 * the event. */
#include "src/include/pmix_config.h"

#include "src/include/pmix_globals.h"

#include "wave/pmix_thread.h"

#include <pthread.h>
#include <time.h>

/* In an image the thread is stopped; the rollback thread resumes it. */
static struct {
  pthread_mutex_t lock; /* protects the other fields */
  pthread_cond_t changed;
  pmix_event_t event;
  bool wanted, posted, stands;
} hold = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void stand(int fd, short events, void *unused)
{
  (void) fd;
  (void) events;
  (void) unused;
  pthread_mutex_lock(&hold.lock);
  hold.stands = true;
  pthread_cond_broadcast(&hold.changed);
  while (hold.wanted) pthread_cond_wait(&hold.changed, &hold.lock);
  hold.posted = hold.stands = false;
  pthread_mutex_unlock(&hold.lock);
}

bool crtcp_pmix_hold(unsigned timeout_ms)
{
  struct timespec end;
  bool stands;

  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += timeout_ms / 1000;
  end.tv_nsec += timeout_ms % 1000 * 1000000l;
  if (end.tv_nsec >= 1000000000l) {
    end.tv_sec++;
    end.tv_nsec -= 1000000000l;
  }
  pthread_mutex_lock(&hold.lock);
  hold.wanted = true;
  /* An event of an earlier wave that timed out may still be queued: use it for this one. */
  if (!hold.posted) {
    hold.posted = true;
    pmix_event_assign(&hold.event, pmix_globals.evbase, -1, EV_WRITE, stand, NULL);
    pmix_event_active(&hold.event, EV_WRITE, 1);
  }
  while (!hold.stands && pthread_cond_timedwait(&hold.changed, &hold.lock, &end) == 0) {}
  stands = hold.stands;
  if (!stands) hold.wanted = false;
  pthread_mutex_unlock(&hold.lock);
  return stands;
}

void crtcp_pmix_release(void)
{
  pthread_mutex_lock(&hold.lock);
  hold.wanted = false;
  pthread_cond_broadcast(&hold.changed);
  pthread_mutex_unlock(&hold.lock);
}
