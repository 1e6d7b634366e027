/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The state of the transport, time, and messages for the user. */
#include "base/crtcp.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "opal/util/output.h"

struct crtcp crtcp = {
    .lock = {.mutex = PTHREAD_MUTEX_INITIALIZER},
    .epoll = -1,
    .guard_epoll = -1,
    .listener4 = -1,
    .listener6 = -1,
};

const char *crtcp_outside_of_mpi(void)
{
  const int32_t *state = dlsym(RTLD_DEFAULT, "ompi_mpi_state");
  enum { INIT_COMPLETED = 2 };

  if (state && *state < INIT_COMPLETED) return "within MPI_Init";
  if (!crtcp.open || (state && *state > INIT_COMPLETED)) return "within MPI_Finalize, or after it";
  return NULL;
}

uint64_t crtcp_now(void)
{
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t) t.tv_sec * 1000000000u + t.tv_nsec;
}

void crtcp_say(const char *format, ...)
{
  char text[512];
  va_list args;

  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  opal_output(0, "crtcp, rank %u: %s", (unsigned) OPAL_PROC_MY_NAME.vpid, text);
}

void crtcp_debug(const char *format, ...)
{
  char text[512];
  va_list args;

  if (!opal_output_check_verbosity(10, opal_btl_base_framework.framework_output)) return;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  opal_output(opal_btl_base_framework.framework_output, "crtcp, rank %u: %s", (unsigned) OPAL_PROC_MY_NAME.vpid, text);
}

bool crtcp_more_descriptors(int error)
{
  struct rlimit limit;

  /* Programs that use select() rely on the soft limit, so it is raised only when it is reached. */
  if (error != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_cur < limit.rlim_max / 2 ? 2 * limit.rlim_cur : limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}
