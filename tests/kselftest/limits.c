// SPDX-License-Identifier: GPL-2.0-only
// Memory limits that are lower than an image needs.
#include <fcntl.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "area.h"
#include "harness.h"

/* ---- limits lowered since the checkpoint */

// Lowers the soft limit to kb kB, the present use.
static void narrow(int resource, long kb) {
  struct rlimit now;
  MUST(getrlimit(resource, &now));
  now.rlim_cur = (rlim_t)kb << 10;
  MUST(setrlimit(resource, &now));
}
static struct rlimit as_limit, data_limit, lock_limit;
static void limits_setup(void) {
  locked_setup();
  MUST(getrlimit(RLIMIT_AS, &as_limit));
  MUST(getrlimit(RLIMIT_DATA, &data_limit));
  MUST(getrlimit(RLIMIT_MEMLOCK, &lock_limit));
}
static const char *limit_is(int resource, const struct rlimit *want) {
  struct rlimit now;
  getrlimit(resource, &now);
  return now.rlim_cur == want->rlim_cur && now.rlim_max == want->rlim_max ? NULL : no("%lu", (unsigned long)now.rlim_cur);
}
static const char *limits_ok(void) {
  part("memory", locked_ok());
  part("RLIMIT_AS", limit_is(RLIMIT_AS, &as_limit));
  part("RLIMIT_DATA", limit_is(RLIMIT_DATA, &data_limit));
  part("RLIMIT_MEMLOCK", limit_is(RLIMIT_MEMLOCK, &lock_limit));
  return parts();
}
static void limits_change(void) {
  locked_change();
  long size = status_kb("VmSize"), data = status_kb("VmData");
  narrow(RLIMIT_AS, size);
  narrow(RLIMIT_DATA, data);
  narrow(RLIMIT_MEMLOCK, 0);
}
// Lowers the hard limit, which a user cannot raise again.
static void forever_change(void) {
  plain_change();
  munmap(area + 512 * 1024, 64 * PAGE);
  struct rlimit low = {MB, MB};
  MUST(setrlimit(RLIMIT_AS, &low));
}
static const char *forever_changed(void) {
  struct rlimit now;
  getrlimit(RLIMIT_AS, &now);
  return now.rlim_max == MB && msync(area + 512 * 1024, PAGE, MS_ASYNC) ? filled(area, 512 * 1024, 2) : no("it is not as it was left");
}

static void many_setup(void) {
  char *many = map(5000 * PAGE);
  for (int i = 0; i < 5000; i += 2) MUST(mprotect(many + i * PAGE, PAGE, PROT_READ));
}

static const struct scenario scenarios[] = {
  {"narrow limits", .setup = limits_setup, .check = limits_ok, .mutate = limits_change},
  {"limits for good", .flags = NO_PAUSE | NO_RESTART | AS_USER, .setup = plain, .check = plain_ok, .mutate = forever_change,
   .changed = forever_changed},
  {"many mappings", .flags = NO_PAUSE | NO_RESTART, .setup = many_setup},
  {},
};

// ---------------------------------------------------------------- tests of their own

static struct target t;
static struct run r;

static void limits_for_good(void) {
  const char *why = target_saved(&t, &r, scenario_named(scenarios, "limits for good"));
  if (!why) why = target_op(&t, OP_MUTATE);
  if (!why && target_pause(&t, &r) != 3) why = no("not refused: %s", why_not(&r));
  if (!why && !strstr(r.err, "address space")) why = no("not by name: %s", why_not(&r));
  if (!why) why = target_op(&t, OP_CHECK_CHANGED);
  tap_why("a limit that cannot be raised again is refused before anything has changed", why);
  target_end(&t);
}

static void write_text(const char *file, const char *text) {
  int fd = MUST(open(file, O_WRONLY | O_CLOEXEC));
  if (write(fd, text, strlen(text)) < 0) note("cannot write %s: errno %d", file, errno);
  close(fd);
}

static void few_mappings(void) {
  char before[32] = "";
  const char *why = target_saved(&t, &r, scenario_named(scenarios, "many mappings"));
  target_kill(&t);
  slurp("/proc/sys/vm/max_map_count", before, sizeof before);
  write_text("/proc/sys/vm/max_map_count", "2000");
  if (!why && runl(&r, "cr_restart", "--detach", t.image, NULL) != 3) why = no("not refused: %s", why_not(&r));
  write_text("/proc/sys/vm/max_map_count", before);
  if (!why && !strstr(r.err, "max_map_count")) why = no("not by name: %s", why_not(&r));
  tap_why("more mappings than may be are refused", why);
  target_end(&t);
}

static const struct test tests[] = {
  {"limits for good", limits_for_good}, {"few mappings", few_mappings},
  {},
};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
