/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The CPU time that waiting takes: what is left of a rank's CPU time is its own work. */
#include "base/counters.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "base/channel.h"

/* CPU time from one look to the next that counts as waiting, at most: a thread that takes longer does something else in
 * between, as a program that computes and calls MPI_Test now and then. To sleep and to be woken up takes longer, the more so
 * on an emulated node. Only what exceeds the limit is work: a guest takes the time in which the machine below gives its
 * processor to others for CPU time of the thread, so some looks are long on a busy machine. */
enum { LOOK_NS = 50000, NAP_NS = 1000000 };

struct cr_rank_counters crtcp_counters = {.magic = CR_RANK_COUNTERS_MAGIC};

void crtcp_waits(unsigned looks, bool sleeps)
{
  static pthread_t thread; /* of the previous call */
  static unsigned before;
  static uint64_t before_ns;
  struct timespec t;
  uint64_t now, most;

  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  now = (uint64_t) t.tv_sec * 1000000000u + t.tv_nsec;
  most = (uint64_t) (looks - before) * (sleeps ? NAP_NS : LOOK_NS);
  /* After a restart the clock begins anew. */
  if (before && looks > before && now >= before_ns && pthread_equal(thread, pthread_self()))
    crtcp_counters.waited_ns += now - before_ns < most ? now - before_ns : most;
  thread = pthread_self();
  before = looks;
  before_ns = now;
}

void crtcp_tell_counters(void)
{
  struct cr_rank_counters_at at = {.pid = getpid(), .address = (uintptr_t) &crtcp_counters};

  crtcp_channel_send(CR_RANK_COUNTERS, &at, sizeof at, NULL, 0);
}
