/* SPDX-License-Identifier: GPL-2.0-only */
/* What crtcp counts as waiting: CPU time between two looks, up to a limit for each. Usage: waits_check PART */
#include "base/counters.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/channel.h"

enum { MS = 1000000 };

/* Stands in for the rank's channel to crd, which nobody reads here. */
bool crtcp_channel_send(uint32_t type, void *message, size_t bytes, const void *more, size_t more_bytes)
{
  (void) type, (void) message, (void) bytes, (void) more, (void) more_bytes;
  return true;
}

static uint64_t used_ns(void)
{
  struct timespec t;

  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t) t.tv_sec * 1000 * MS + t.tv_nsec;
}

static void burn(uint64_t ns)
{
  const uint64_t end = used_ns() + ns;

  while (used_ns() < end)
    ;
}

/* @return CPU time that counted as waiting, of so many ns between looks */
static uint64_t waited(unsigned from, unsigned to, bool sleeps, uint64_t ns)
{
  uint64_t before;

  crtcp_waits(from, sleeps);
  before = crtcp_counters.waited_ns;
  burn(ns);
  crtcp_waits(to, sleeps);
  return crtcp_counters.waited_ns - before;
}

static int expect(bool good, const char *what, uint64_t ns)
{
  if (good) return 0;
  fprintf(stderr, "not as expected: %s (%llu ns)\n", what, (unsigned long long) ns);
  return 1;
}

int main(int argc, char **argv)
{
  const char *part = argc == 2 ? argv[1] : "";
  uint64_t ns;

  if (strcmp(part, "short") == 0) { /* all of it */
    ns = waited(16, 32, true, 4 * MS);
    return expect(ns >= 4 * MS, "naps of 0.25 ms are waiting", ns);
  }
  if (strcmp(part, "busy-machine") == 0) { /* it takes turns with others, and that counts as CPU time in a guest */
    ns = waited(16, 32, true, 40 * MS);
    return expect(ns >= 16 * MS, "naps that take longer are still waiting for the most part", ns);
  }
  if (strcmp(part, "own-work") == 0) { /* MPI_Test now and then */
    ns = waited(1024, 2048, false, 200 * MS);
    return expect(ns > 0 && ns <= 52 * MS, "a program that computes between two looks waits for 50 us of it", ns);
  }
  fprintf(stderr, "usage: waits_check short|busy-machine|own-work\n");
  return 2;
}
