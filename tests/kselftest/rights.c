// SPDX-License-Identifier: GPL-2.0-only
// A restarted program must not get the rights of the command; and the command carries out what an image names with the
// rights of the restored process.
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"

static char *area;
static void plain_setup(void) {
  area = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  fill(area, MB, 1);
}
static struct worker worker;
static void threads_setup(void) {
  plain_setup();
  worker_start(&worker);
}
static const char *plain_ok(void) { return filled(area, MB, 1); }
static void plain_change(void) { fill(area, MB, 2); }

// In a sandbox that its ids do not show: Landlock allows it one folder.
static int there = -1;
static void sandbox_setup(void) {
  plain_setup();
  mkdir("allowed", 0755);
  there = MUST(open("allowed/file", O_RDWR | O_CREAT, 0644));
  struct landlock_ruleset_attr all = {.handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE};
  int rules = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0);
  if (rules < 0) return;  // a kernel without it
  struct landlock_path_beneath_attr one = {.allowed_access = all.handled_access_fs,
                                           .parent_fd = MUST(open("allowed", O_PATH | O_DIRECTORY))};
  MUST((int)syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &one, 0));
  MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  MUST((int)syscall(SYS_landlock_restrict_self, rules, 0));
  close(one.parent_fd);
  close(rules);
}
static void sandbox_close(void) {
  plain_change();
  close(there);
}
static const char *sandbox_ok(void) {
  if (write(there, "x", 1) != 1) return no("its file: %s", strerror(errno));
  return plain_ok();
}

static void chroot_setup(void) {
  plain_setup();
  mkdir("jail", 0755);
  MUST(chroot("jail"));
  MUST(chdir("/"));
  there = MUST(open("/file", O_RDWR | O_CREAT, 0644));
}

static const struct scenario scenarios[] = {
    {"in a sandbox", NO_PAUSE | NO_RESTART | AS_USER, sandbox_setup, sandbox_ok, sandbox_close},
    {"in a chroot", NO_PAUSE | NO_RESTART, chroot_setup, sandbox_ok, sandbox_close},
    {"of root", NO_PAUSE | NO_RESTART, plain_setup, plain_ok, plain_change},
    {"of a user", NO_PAUSE | NO_RESTART | AS_USER, threads_setup, plain_ok, plain_change},
    {},
};

/* ---- tests of their own */

enum { REFUSED = 3 };
static struct target t;
static struct run r;
static char forged[160];

// Writes a modified copy of the image, as its owner can. The changes end with NULL.
static bool forge(const char *const changes[]) {
  const char *argv[12] = {"/usr/libexec/reprise/tests/forge", t.image, forged};
  for (int i = 0; changes[i]; i++) argv[3 + i] = changes[i];
  snprintf(forged, sizeof forged, "%s/forged", t.dir);
  if (run(&r, argv) == 0) return true;
  tap(false, "an image is forged", "%s", why_not(&r));
  return false;
}

static bool taken(const char *name) {
  if (!target_start(&t, scenario_named(scenarios, name))) return false;
  if (!target_checkpoint(&t, &r)) return true;
  tap(false, "checkpoint", "%s", why_not(&r));
  target_end(&t);
  return false;
}

// A line of /proc/PID/status of the live target.
static const char *status_of(const char *key) {
  static char text[8192], name[64];
  snprintf(name, sizeof name, "/proc/%d/status", t.pid);
  slurp(name, text, sizeof text);
  char *at = strstr(text, key);
  if (!at) return "";
  at += strlen(key) + 2;
  at[strcspn(at, "\n")] = 0;
  return at;
}

static void refused(const char *what, const char *word) {
  char text[128];
  bool right = r.code == REFUSED && strcasestr(r.err, word);
  snprintf(text, sizeof text, "%s is refused", what);
  tap(right, text, "%s", why_not(&r));
  if (r.code == 0) {
    target_adopt(&t);
    note("its capabilities: %s", status_of("CapPrm"));
    target_kill(&t);
  }
}

// The setcap recipes of job-admin.md and cr_restart(1).
static void recipe(const char *capabilities) {
  char what[160], command[256];
  static const char *const sets[] = {"CapPrm:", "CapEff:", "CapInh:", "CapAmb:"};
  snprintf(command, sizeof command, "setcap %s+ep $(command -v cr_restart)", capabilities);
  if (runl(&r, "sh", "-c", command, NULL)) {
    snprintf(what, sizeof what, "setcap %s", capabilities);
    tap_skip(what, why_not(&r));
    return;
  }
  if (taken("of a user")) {
    target_kill(&t);
    pid_t pid = t.pid;
    bool made = !target_restart(&t, &r);
    const char *why = made ? target_op(&t, OP_CHECK) : why_not(&r);
    snprintf(what, sizeof what, "setcap %s: a user restarts with the old ids", capabilities);
    tap(!why, what, "%s", why);
    if (made) {
      for (size_t i = 0; i < ARRAY_SIZE(sets) && !why; i++)
        if (strtoull(status_of(sets[i]) - 1, NULL, 16)) why = no("%s %s", sets[i], status_of(sets[i]) - 1);
      if (!why && atoi(status_of("Uid")) != 1000) why = no("user %s", status_of("Uid"));
      snprintf(what, sizeof what, "setcap %s: and the program has none of them", capabilities);
      tap(!why && t.pid == pid, what, "%s", why);
    }
    target_kill(&t);
    if (forge((const char *const[]){"env.cap_permitted=1099511627776", "env.cap_effective=1099511627776", NULL})) {
      runl(&r, "cr_restart", "--detach", forged, NULL);
      snprintf(what, sizeof what, "setcap %s: an image that wants one of them", capabilities);
      refused(what, "capabilities");
    }
    if (forge((const char *const[]){"env.uids!", "env.gids!", NULL})) {
      runl(&r, "cr_restart", "--detach", forged, NULL);
      snprintf(what, sizeof what, "setcap %s: an image that says nothing of users", capabilities);
      refused(what, "user");
    }
    target_end(&t);
  }
  runl(&r, "sh", "-c", "setcap -r $(command -v cr_restart)", NULL);
}

/* ---- images that name files which their process may not open */

// A change that adds descriptor 50, open for writing, of a file that only root may open.
static const char *opens_secret(const char *path) {
  static char text[700];
  struct stat st;
  MUST(stat(path, &st));
  snprintf(text, sizeof text,
           "+descriptions { kind: REGULAR flags: 2 file { path: \"%s\" dev: %lu ino: %lu size: %lu mode: %u } serial: 1 } "
           "descriptors { fd: 50 description: @descriptions }",
           path, st.st_dev, st.st_ino, st.st_size, st.st_mode);
  return text;
}

static const char *slurp_of(const char *name) {
  static char text[64];
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", t.pid, name);
  memset(text, 0, sizeof text);
  slurp(path, text, sizeof text - 1);
  return text;
}

static bool has_descriptor(int fd) {
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/fd/%d", t.pid, fd);
  return !access(name, F_OK);
}

static char secret[160];
static void make_secret(void) {
  snprintf(secret, sizeof secret, "/root/secret.%d", getpid());
  int fd = MUST(open(secret, O_WRONLY | O_CREAT | O_TRUNC, 0600));
  MUST(write(fd, "for root alone", 14));
  close(fd);
}

// Root rolls a user's process back to an image that the user has changed.
static void root_pauses(void) {
  make_secret();
  if (!taken("of a user")) return;
  const char *descriptor = opens_secret(secret);
  if (forge((const char *const[]){descriptor, NULL})) {
    run_uid = 0;
    runl(&r, "cr_pause", pid_text(t.pid), forged, NULL);
    tap(r.code == REFUSED && strcasestr(r.err, "permission"), "a pause by root opens no file that the process may not", "%s",
        why_not(&r));
    tap(!has_descriptor(50), "and the process does not have it", " ");
    const char *why = target_alive(&t) ? target_op(&t, OP_CHECK) : "it has ended";
    tap(!why, "and is unharmed", "%s", why);
  }
  unlink(secret);
  target_end(&t);
}

// What the ids of a process allow, its sandbox or root directory may not.
static void confined_pauses(const char *name, const char *word) {
  char what[96];
  char other[200];
  if (!taken(name)) return;
  snprintf(other, sizeof other, "%s/outside", t.dir);
  int fd = MUST(open(other, O_RDWR | O_CREAT, 0666));
  MUST(fchmod(fd, 0666));
  close(fd);
  const char *descriptor = opens_secret(other);
  run_uid = 0;
  if (forge((const char *const[]){descriptor, NULL})) {
    runl(&r, "cr_pause", pid_text(t.pid), forged, NULL);
    snprintf(what, sizeof what, "%s: a file outside is not opened", name);
    tap(r.code == REFUSED && strcasestr(r.err, word) && !has_descriptor(50), what, "%s", why_not(&r));
  }
  const char *why = target_op(&t, OP_MUTATE);
  if (!why) why = target_pause(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
  snprintf(what, sizeof what, "%s: its own file is opened again", name);
  tap(!why, what, "%s", why);
  target_end(&t);
}

// Limits, priority and OOM score that the process could not give itself: root's pause gives them only where nobody
// but root could have written the image.
static void raised_by_pauses(void) {
  if (!taken("of a user")) return;
  static const struct rlimit few = {64, 64};
  struct rlimit now = {0};
  MUST(prlimit(t.pid, RLIMIT_NOFILE, &few, NULL));
  if (forge((const char *const[]){"env.limits[7].hard=4096", "env.oom_score_adj=-500", "threads[0].nice=-10", NULL})) {
    run_uid = 0;
    runl(&r, "cr_pause", pid_text(t.pid), forged, NULL);
    const char *why = r.code ? why_not(&r) : target_op(&t, OP_CHECK);
    if (!why && !prlimit(t.pid, RLIMIT_NOFILE, NULL, &now) && now.rlim_max != few.rlim_max)
      why = no("its limit of open files is %lu", (unsigned long)now.rlim_max);
    if (!why && getpriority(PRIO_PROCESS, (id_t)t.pid) < 0) why = no("it has a higher priority");
    if (!why && atoi(slurp_of("oom_score_adj")) < 0) why = no("its OOM score is lower");
    tap(!why, "a user's image raises nothing that the user could not", "%s", why);
    tap(r.code == 0 && strstr(r.err, "NOFILE") && strstr(r.err, "OOM") && strstr(r.err, "scheduling"), "and each is named",
        "%s", why_not(&r));
    if (!chown(forged, 0, 0)) runl(&r, "cr_pause", pid_text(t.pid), forged, NULL);
    why = r.code ? why_not(&r) : target_op(&t, OP_CHECK);
    if (!why && !prlimit(t.pid, RLIMIT_NOFILE, NULL, &now) && now.rlim_max != 4096)
      why = no("its limit of open files is %lu", (unsigned long)now.rlim_max);
    if (!why && getpriority(PRIO_PROCESS, (id_t)t.pid) != -10) why = no("its priority was not restored");
    if (!why && atoi(slurp_of("oom_score_adj")) != -500) why = no("its OOM score is %s", slurp_of("oom_score_adj"));
    tap(!why, "an image of root's restores them", "%s", why);
  }
  target_end(&t);
}

static void confined(void) {
  if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) >= 1)
    confined_pauses("in a sandbox", "permission");
  else
    tap_skip("in a sandbox", "this kernel has no Landlock");
  confined_pauses("in a chroot", "root directory");
}

// Root restarts another user's image only with --trust, and then with all rights; an image of its own with the rights
// of the program's user.
static void root_restarts(void) {
  make_secret();
  if (!taken("of a user")) return;
  target_kill(&t);
  run_uid = 0;
  runl(&r, "cr_restart", "--detach", t.image, NULL);
  refused("a user's image that root restarts", "--trust");
  runl(&r, "cr_restart", "--detach", "--trust", t.image, NULL);
  if (r.code == 0) target_adopt(&t);
  const char *why = r.code ? why_not(&r) : target_op(&t, OP_CHECK);
  if (!why && atoi(status_of("Uid")) != 1000) why = no("user %s", status_of("Uid"));
  tap(!why, "root restarts a user's image with --trust", "%s", why);
  target_kill(&t);
  if (!chown(t.image, 0, 0)) {
    runl(&r, "cr_restart", "--detach", t.image, NULL);
    if (r.code == 0) target_adopt(&t);
    why = r.code ? why_not(&r) : target_op(&t, OP_CHECK);
    tap(!why, "and one of its own", "%s", why);
    target_kill(&t);
  }
  const char *descriptor = opens_secret(secret);
  if (forge((const char *const[]){descriptor, NULL})) {  // root owns the copy
    runl(&r, "cr_restart", "--detach", forged, NULL);
    refused("a file of root's in root's image of a user's process", "permission");
    runl(&r, "cr_restart", "--detach", "--trust", forged, NULL);
    if (r.code == 0) target_adopt(&t);
    tap(r.code == 0 && has_descriptor(50), "with --trust it is opened", "%s", why_not(&r));
    target_kill(&t);
  }
  unlink(secret);
  target_end(&t);
}

static void recipes(void) {
  recipe("cap_checkpoint_restore");
  recipe("cap_checkpoint_restore,cap_sys_admin,cap_sys_time");
}

static const struct test tests[] = {{"setcap", recipes},
                                    {"root pauses", root_pauses},
                                    {"confined", confined},
                                    {"raised", raised_by_pauses},
                                    {"root restarts", root_restarts},
                                    {}};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
