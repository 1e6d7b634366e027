// SPDX-License-Identifier: GPL-2.0-only
// cr_generation(): the number must increase whenever a program gets an earlier state or a copy of its memory, so that
// it does not use random numbers twice.
#include <errno.h>
#include <fcntl.h>
#include <libcr.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

// ---------------------------------------------------------------- the target, without cr_init()

static const volatile uint64_t *generation;
static uint64_t cached;
static char memory[MB];
static char *keyed;  // further MADV_WIPEONFORK memory, as other libraries use it
static int log_fd;
static cr_snapshot_t snapshot;

// The values that the target reads. They are in a file, so that a rollback does not restore them.
struct seen {
  uint64_t now, cached, keyed, child, raw_child, raw_child_asked, rounds[4];
  uint32_t count;
  unsigned char random[64];
};
static void put(const void *value, size_t size, size_t at) {
  if (pwrite(log_fd, value, size, (off_t)at) != (ssize_t)size) die("cannot write what was seen: errno %d", errno);
}
#define SAY(member, value) \
  ({                       \
    __typeof__(((struct seen *)0)->member) value_ = (value); \
    put(&value_, sizeof value_, offsetof(struct seen, member)); \
  })

static void plain(void) {
  log_fd = MUST(open(path("seen"), O_RDWR | O_CREAT, 0600));
  fill(memory, sizeof memory, 1);
}
static void watching(void) {
  plain();
  keyed = (char *)MUST(mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) + 4096;
  MUST(mmap(keyed, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
  MUST(madvise(keyed, 4096, MADV_WIPEONFORK));
  strcpy(keyed, "a key");
  SAY(keyed, (uintptr_t)keyed);
  generation = cr_generation();
  if (!generation) die("cr_generation: errno %d", errno);
  if (cr_generation() != generation) die("cr_generation gives two places");
  cached = *generation;
}
static const char *tell(void) {
  SAY(now, *generation);
  SAY(cached, cached);
  unsigned char bytes[64];
  if (getrandom(bytes, sizeof bytes, 0) == sizeof bytes) put(bytes, sizeof bytes, offsetof(struct seen, random));
  return filled(memory, sizeof memory, 1);
}
static void spoil(void) {
  fill(memory, sizeof memory, 2);
  cached = *generation;
}

static pid_t plain_clone(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL); }

static const char *fork_children(void) {
  pid_t pid = MUST(fork());
  if (!pid) {
    SAY(child, *generation);
    if (cr_generation() != generation) _exit(1);
    pid_t grandchild = fork();
    if (!grandchild) {
      SAY(rounds[0], *generation);
      _exit(0);
    }
    waitpid(grandchild, NULL, 0);
    _exit(0);
  }
  int status;
  waitpid(pid, &status, 0);
  if (status) return no("the child ended with %x", status);
  pid = MUST(plain_clone());
  if (!pid) {
    SAY(raw_child, *generation);
    cr_generation();
    SAY(raw_child_asked, *generation);
    _exit(0);
  }
  waitpid(pid, &status, 0);
  return tell();
}

// After a rollback of the target by itself, cr_snapshot_take() returns again.
static const char *roll_itself_back(void) {
  int round = cr_snapshot_take(0, 0, &snapshot);
  if (round < 0) return no("cr_snapshot_take: %s, %s", cr_strerror(errno), cr_last_error());
  put(&(uint64_t){*generation}, 8, offsetof(struct seen, rounds) + 8 * (size_t)round);
  if (round < 3) {
    cr_snapshot_rollback(snapshot);
    return no("cr_snapshot_rollback: %s, %s", cr_strerror(errno), cr_last_error());
  }
  cr_snapshot_drop(snapshot);
  return filled(memory, sizeof memory, 1);
}

static const struct scenario scenarios[] = {
  {"watching", .flags = NO_PAUSE | NO_RESTART, .setup = watching, .check = tell, .mutate = spoil, .finish = fork_children},
  {"by itself", .flags = NO_PAUSE | NO_RESTART, .setup = watching, .check = tell, .finish = roll_itself_back},
  {"not watching", .flags = NO_PAUSE | NO_RESTART, .setup = plain},
  {},
};

// ---------------------------------------------------------------- the tests

static struct target t;
static struct run r;

static struct seen seen(void) {
  struct seen s = {0};
  int fd = open(path("seen"), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || pread(fd, &s, sizeof s, 0) < 16) note("nothing was seen");
  if (fd >= 0) close(fd);
  return s;
}

static bool begin(const char *name) { return target_start(&t, scenario_named(scenarios, name)); }

// After a rollback: the memory is old, and the number is higher than both its last value and the cached one.
static const char *risen(uint64_t *last) {
  const char *why = target_op(&t, OP_CHECK);
  if (why) return why;
  struct seen s = seen();
  uint64_t before = *last;
  *last = s.now;
  if (s.now <= before) return no("%lu after %lu", s.now, before);
  return s.now <= s.cached ? no("%lu, and %lu is kept in memory", s.now, s.cached) : NULL;
}

static void pauses_and_restarts(void) {
  if (!begin("watching")) return;
  const char *why = target_op(&t, OP_CHECK);
  uint64_t last = seen().now;
  if (!why && target_checkpoint(&t, &r)) why = why_not(&r);
  if (!why) why = target_op(&t, OP_CHECK);
  if (!why && seen().now != last) why = no("%lu after %lu", seen().now, last);
  tap_why("a checkpoint leaves it as it is", why);
  for (int i = 0; !why && i < 2; i++) {
    unsigned char random[64];
    if (!(why = target_op(&t, OP_CHECK))) memcpy(random, seen().random, sizeof random);
    if (!why) why = target_op(&t, OP_MUTATE);
    if (!why && target_pause(&t, &r)) why = why_not(&r);
    if (!why) why = risen(&last);
    if (!why && !memcmp(random, seen().random, sizeof random)) why = "the same random numbers come again";
    tap_why(i ? "it goes up by a second pause" : "it goes up by a pause", why);
  }
  unsigned char random[2][64];
  for (int i = 0; !why && i < 2; i++) {
    target_kill(&t);
    uint64_t at_checkpoint = 1;  // a restart does not have later values
    if (target_restart(&t, &r)) why = why_not(&r);
    if (!why) why = risen(&at_checkpoint);
    last = at_checkpoint;
    if (!why) memcpy(random[i], seen().random, 64);
    tap_why(i ? "it goes up by a second restart" : "it goes up by a restart", why);
  }
  tap(why || memcmp(random[0], random[1], 64), "two restarts get different random numbers", "they are the same");
  if (!why && target_pause(&t, &r)) why = why_not(&r);
  if (!why) why = risen(&last);
  tap_why("it goes up by a pause after the restart", why);
  target_end(&t);
}

static void children(void) {
  if (!begin("watching")) return;
  const char *why = target_op(&t, OP_FINISH);
  struct seen s = seen();
  if (!why && s.child <= s.now) why = no("%lu in the child, %lu in its parent", s.child, s.now);
  if (!why && s.rounds[0] <= s.child) why = no("%lu in the grandchild, %lu in its parent", s.rounds[0], s.child);
  tap_why("it is higher in a child, and in a child's child", why);
  if (!why && s.now != s.cached) why = no("the parent had %lu, and now %lu", s.cached, s.now);
  tap_why("fork leaves the parent's as it is", why);
  if (!why && s.raw_child) why = no("%lu in a child by clone()", s.raw_child);
  if (!why && s.raw_child_asked <= s.now) why = no("%lu when a child by clone() has asked", s.raw_child_asked);
  tap_why("a child by clone() has none until it asks", why);
  target_end(&t);
}

static void of_itself(void) {
  if (!begin("by itself")) return;
  const char *why = target_op(&t, OP_FINISH);
  struct seen s = seen();
  for (int i = 1; !why && i < 4; i++)
    if (s.rounds[i] <= s.rounds[i - 1]) why = no("%lu after %lu", s.rounds[i], s.rounds[i - 1]);
  tap_why("it goes up by each rollback of oneself to a snapshot", why);
  target_end(&t);
}

static void of_another(void) {
  if (!begin("watching")) return;
  const char *why = target_op(&t, OP_CHECK);
  uint64_t last = seen().now;
  cr_snapshot_t other = 0;
  if (!why && cr_snapshot_take(t.pid, 0, &other)) why = cr_last_error();
  for (int i = 0; !why && i < 3; i++) {
    why = target_op(&t, OP_MUTATE);
    if (!why && cr_snapshot_rollback(other)) why = cr_last_error();
    if (!why) why = risen(&last);
  }
  tap_why("it goes up by each rollback of another process to a snapshot", why);
  if (other) cr_snapshot_drop(other);
  target_end(&t);
}

// The image has the address of the number: a forged address must be refused, so that nothing else is overwritten.
static const char *refuses(const char *change) {
  char forged[160];
  snprintf(forged, sizeof forged, "%s/forged", t.dir);
  // forge fails for changes that ImageWriter already refuses.
  if (!runl(&r, "/usr/libexec/reprise/tests/forge", t.image, forged, change, NULL) &&
      runl(&r, "cr_pause", pid_text(t.pid), forged, NULL) != 3)
    return no("%s is not refused: %s", change, why_not(&r));
  return strstr(r.err, "generation") ? target_op(&t, OP_CHECK) : no("not by name: %s", why_not(&r));
}
static void forged_images(void) {
  if (!begin("watching")) return;
  const char *why = target_checkpoint(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
  uint64_t before = seen().now;
  static char maps[65536];
  char change[64];
  unsigned long other_page = seen().keyed;
  snprintf(maps, sizeof maps, "/proc/%d/maps", t.pid);
  slurp(maps, maps, sizeof maps);
  // The program's text and data, its stack, and an address inside of a page.
  static const char *const kinds[] = {" r-xp ", " rw-p ", "[stack]"};
  for (size_t i = 0; !why && i < ARRAY_SIZE(kinds); i++) {
    char *at = strstr(maps, kinds[i]);
    while (at && at > maps && at[-1] != '\n') at--;
    if (!at) continue;
    snprintf(change, sizeof change, "generation_address=%lu", strtoul(at, NULL, 16));
    why = refuses(change);
  }
  if (!why) why = refuses("generation_address=4097");
  // A suitable page with other content.
  snprintf(change, sizeof change, "generation_address=%lu", other_page);
  if (!why) why = refuses(change);
  if (!why) why = refuses("generation=18446744073709551615");
  if (!why && seen().now != before) why = no("the number has changed from %lu to %lu", before, seen().now);
  tap_why("an image that names another place is refused", why);
  target_end(&t);
}

static void none(void) {
  if (!begin("not watching")) return;
  const char *why = target_checkpoint(&t, &r) || target_pause(&t, &r) ? why_not(&r) : NULL;
  tap_why("a program without it goes back as before", why);
  target_end(&t);
}

static const struct test tests[] = {
  {"pauses and restarts", pauses_and_restarts}, {"children", children}, {"of itself", of_itself},
  {"of another", of_another}, {"forged", forged_images}, {"none", none},
  {},
};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
