// SPDX-License-Identifier: GPL-2.0-only
/* Preloaded into crrun: its host's disk is slow. Every fsync takes SLOW_FSYNC seconds. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int fsync(int fd)
{
  sleep(atoi(getenv("SLOW_FSYNC")));
  return (int) syscall(SYS_fsync, fd);
}
