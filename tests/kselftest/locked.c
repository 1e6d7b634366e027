// SPDX-License-Identifier: GPL-2.0-only
// Locked memory, and attributes of future mappings.
#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "area.h"
#include "harness.h"

#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#define PR_GET_MEMORY_MERGE 68
#endif

/* ---- mlockall(MCL_FUTURE) */

// Future mappings are 0: not locked, 1: locked, 2: locked as they are touched
static int later_locks(void) {
  char *at = map(PAGE);
  // Linux 6.1 does not show MLOCK_ONFAULT in smaps; a page that is locked at once is present at once.
  int how = !vm_flag(at, "lo") ? 0 : page_state(at) == 1 ? 1 : 2;
  munmap(at, PAGE);
  return how;
}
static const char *later_are(int want) {
  int have = later_locks();
  return have == want ? NULL : no("later mappings are locked in way %d rather than %d", have, want);
}
static void future_setup(void) {
  plain();
  MUST(mlockall(MCL_FUTURE));
}
static const char *future_ok(void) {
  part("memory", plain_ok());
  part("later mappings", later_are(1));
  part("this mapping is not locked", vm_flag(area, "lo") ? no("it is") : NULL);
  return parts();
}
static void future_change(void) {
  MUST(munlockall());
  MUST(mlock(area, MB));
  plain_change();
  map(64 * PAGE);
}
static void onfault_setup(void) {
  plain();
  MUST(mlock(area, 16 * PAGE));
  MUST(mlockall(MCL_FUTURE | MCL_ONFAULT));
}
static const char *onfault_ok(void) {
  part("memory", plain_ok());
  part("later mappings", later_are(2));
  part("what is locked", vm_flag(area, "lo") && !vm_flag(area + 32 * PAGE, "lo") ? NULL : no("something else"));
  return parts();
}
static void onfault_change(void) {
  MUST(mlockall(MCL_CURRENT | MCL_FUTURE));
  plain_change();
}
static void no_future_setup(void) {
  plain();
  MUST(mlock(area, 16 * PAGE));
}
static const char *no_future_ok(void) {
  part("memory", plain_ok());
  part("later mappings", later_are(0));
  part("what is locked", vm_flag(area, "lo") && !vm_flag(area + 32 * PAGE, "lo") ? NULL : no("something else"));
  return parts();
}
static void no_future_change(void) {
  MUST(mlockall(MCL_CURRENT | MCL_FUTURE));
  plain_change();
  munmap(area + 512 * 1024, 64 * PAGE);
}

/* ---- merging of equal pages */

static const char *no_merging(void) { return prctl(PR_GET_MEMORY_MERGE, 0, 0, 0, 0) < 0 ? "this kernel has no PR_SET_MEMORY_MERGE" : NULL; }
static void merge_setup(void) {
  plain();
  MUST(prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0));
}
static const char *merge_ok(void) {
  part("memory", plain_ok());
  part("merging", prctl(PR_GET_MEMORY_MERGE, 0, 0, 0, 0) == 1 ? NULL : no("it is off"));
  return parts();
}
static void merge_change(void) {
  MUST(prctl(PR_SET_MEMORY_MERGE, 0, 0, 0, 0));
  plain_change();
}

static const struct scenario scenarios[] = {
  {"mlockall", .setup = future_setup, .check = future_ok, .mutate = future_change},
  {"mlockall on fault", .setup = onfault_setup, .check = onfault_ok, .mutate = onfault_change},
  {"mlockall since", .setup = no_future_setup, .check = no_future_ok, .mutate = no_future_change},
  {"locked memory unmapped", .setup = locked_setup, .check = locked_ok, .mutate = locked_change},
  {"memory merging", .setup = merge_setup, .check = merge_ok, .mutate = merge_change, .skip = no_merging},
  {},
};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, NULL); }
