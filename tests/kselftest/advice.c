// SPDX-License-Identifier: GPL-2.0-only
// Attributes of mappings other than their content: advice, NUMA policies; and the process's membarrier registrations.
#include <errno.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "area.h"
#include "harness.h"

/* ---- NUMA policies */

enum { BIND = 2, OF_ADDRESS = 2 };
static const char *no_numa(void) {
  int mode;
  return syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) ? "this kernel has no NUMA policies" : NULL;
}
static void numa_setup(void) {
  plain();
  unsigned long nodes = 1;
  MUST(syscall(SYS_mbind, area, MB / 2, BIND, &nodes, 64, 0));
}
static int policy_of(const char *at) {
  int mode = -1;
  MUST(syscall(SYS_get_mempolicy, &mode, NULL, 0, at, OF_ADDRESS));
  return mode;
}
static const char *numa_ok(void) {
  part("memory", plain_ok());
  part("policy", policy_of(area) == BIND && policy_of(area + MB / 2) == 0 ? NULL : no("%d and %d", policy_of(area), policy_of(area + MB / 2)));
  return parts();
}
static void numa_change(void) {
  plain_change();
  MUST(syscall(SYS_mbind, area, MB / 2, 0, NULL, 0, 0));
  unsigned long nodes = 1;
  MUST(syscall(SYS_mbind, area + MB / 2, MB / 2, BIND, &nodes, 64, 0));
}

static int barrier(int command) { return (int)syscall(SYS_membarrier, command, 0, 0); }
static void barrier_setup(void) {
  plain();
  MUST(barrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED));
  MUST(barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE));
}
static const char *barrier_ok(void) {
  part("memory", plain_ok());
  return parts();
}
static const char *barrier_works(void) {
  if (barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE)) return no("SYNC_CORE: errno %d", errno);
  return barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ? NULL : no("a barrier that was never registered is there");
}

enum { ADVICES = 8 };
static const struct {
  int advice;
  const char *flag;
} advices[ADVICES] = {{MADV_SEQUENTIAL, "sr"}, {MADV_RANDOM, "rr"}, {MADV_DONTFORK, "dc"}, {MADV_DONTDUMP, "dd"},
                      {MADV_WIPEONFORK, "wf"}, {MADV_MERGEABLE, "mg"}, {MADV_HUGEPAGE, "hg"}, {MADV_NOHUGEPAGE, "nh"}};
static char *advised[ADVICES];
static void advice_setup(void) {
  plain();
  for (int i = 0; i < ADVICES; i++) {
    map(PAGE);  // a gap, so that the kernel does not merge the mappings
    advised[i] = map(4 * MB);
    MUST(madvise(advised[i], 4 * MB, advices[i].advice));
  }
}
static const char *advice_ok(void) {
  part("memory", plain_ok());
  for (int i = 0; i < ADVICES; i++) part(advices[i].flag, vm_flag(advised[i], advices[i].flag) ? NULL : no("not set"));
  return parts();
}
static void advice_change(void) {
  plain_change();
  for (int i = 0; i < ADVICES; i++) {
    munmap(advised[i], 4 * MB);
    mmap(advised[i], 4 * MB, RW, ANON | MAP_FIXED, -1, 0);
  }
}

static const struct scenario scenarios[] = {
  {"NUMA policy", .setup = numa_setup, .check = numa_ok, .mutate = numa_change, .skip = no_numa},
  {"barriers", .setup = barrier_setup, .check = barrier_ok, .mutate = plain_change, .finish = barrier_works},
  {"advice", .setup = advice_setup, .check = advice_ok, .mutate = advice_change},
  {},
};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, NULL); }
