// SPDX-License-Identifier: GPL-2.0-only
// Injects a failure into every stage of every request: at its beginning, for lack of memory, and at each of its
// requests to the module (CR_FAULT, see libcr/base/stage.h). Before the commit the failure must change nothing; after
// it the process must end with a message that names the stage. No image, process or use of the module may be left.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"

/* ---- the target has state for every stage to restore */

enum { PAGE = 4096, RW = PROT_READ | PROT_WRITE };
static char *heap, *gone, *shown;
static int filefd, pipes[2], event, set, memfd;
static struct worker worker, late;

static void everything_setup(void) {
  heap = mmap(NULL, MB, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  fill(heap, MB, 1);
  gone = mmap(NULL, 16 * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  fill(gone, 16 * PAGE, 2);
  filefd = MUST(open(path("file"), O_RDWR | O_CREAT, 0600));
  MUST(ftruncate(filefd, 2 * PAGE));
  shown = mmap(NULL, 2 * PAGE, RW, MAP_SHARED, filefd, 0);
  fill(shown, 2 * PAGE, 3);
  MUST(pipe(pipes));
  MUST(write(pipes[1], "in the pipe", 11));
  event = MUST(eventfd(7, EFD_NONBLOCK));
  set = MUST(epoll_create1(0));
  struct epoll_event one = {.events = EPOLLIN, .data.u64 = 42};
  MUST(epoll_ctl(set, EPOLL_CTL_ADD, event, &one));
  memfd = MUST((int)syscall(SYS_memfd_create, "memfd", 0));
  MUST(write(memfd, "in the memfd", 12));
  worker_start(&worker);
  umask(022);
}

static mode_t mask(void) {
  mode_t now = umask(0);
  umask(now);
  return now;
}
// Peeks: the contents stay in the pipe.
static const char *pipe_has(const char *wanted) {
  char text[16] = "";
  ssize_t n = read(pipes[0], text, sizeof text - 1);
  if (n > 0) MUST(write(pipes[1], text, (size_t)n));
  return strcmp(text, wanted) ? no("\"%s\"", text) : NULL;
}
static const char *event_has(uint64_t wanted) {
  uint64_t value = 0;
  if (read(event, &value, 8) == 8) MUST(write(event, &value, 8));
  return value == wanted ? NULL : no("%lu", value);
}
static const char *memfd_has(const char *wanted) {
  char text[16] = "";
  ssize_t n = pread(memfd, text, sizeof text - 1, 0);
  return n < 0 || strcmp(text, wanted) ? no("\"%s\"", text) : NULL;
}
static const char *set_has_event(void) {
  struct epoll_event found;
  return epoll_wait(set, &found, 1, 0) == 1 && found.data.u64 == 42 ? NULL : no("no event, errno %d", errno);
}

static const char *everything_ok(void) {
  part("memory", filled(heap, MB, 1));
  part("a mapping", page_state(gone) ? filled(gone, 16 * PAGE, 2) : no("does not exist"));
  part("shared memory", filled(shown, 2 * PAGE, 3));
  part("the umask", mask() == 022 ? NULL : no("%o", mask()));
  part("a thread", thread_exists(worker.tid) ? NULL : no("has ended"));
  part("the memfd", memfd_has("in the memfd"));
  part("an eventfd", event_has(7));
  part("an epoll set", set_has_event());
  part("a pipe", pipe_has("in the pipe"));
  return parts();
}

static void everything_change(void) {
  uint64_t value;
  char text[16];
  fill(heap, MB, 9);
  MUST(munmap(gone, 16 * PAGE));
  fill(shown, 2 * PAGE, 9);
  umask(077);
  worker_end(&worker);
  worker_start(&late);
  MUST(pwrite(memfd, "other things", 12, 0));
  MUST(read(event, &value, 8));
  MUST(read(pipes[0], text, sizeof text));
  MUST(write(pipes[1], "wrong bytes", 11));
  MUST(dup2(pipes[0], set));
}
static const char *everything_changed(void) {
  part("memory", filled(heap, MB, 9));
  part("shared memory", filled(shown, 2 * PAGE, 9));
  part("the umask", mask() == 077 ? NULL : no("%o", mask()));
  part("a thread", thread_exists(late.tid) && !thread_exists(worker.tid) ? NULL : no("has ended or come back"));
  part("the memfd", memfd_has("other things"));
  part("an eventfd", event_has(0));
  part("an epoll set", set_has_event() ? NULL : no("has come back"));
  part("a pipe", pipe_has("wrong bytes"));
  return parts();
}

static const struct scenario scenarios[] = {
    {"everything", NO_PAUSE | NO_RESTART, everything_setup, everything_ok, everything_change, everything_changed},
    {},
};

/* ---- the walk */

static struct target t;
static struct run r;

static bool has_faults(void) {
  runl(&r, "env", "CR_FAULT=open", "cr_restart", "--json", "/nonexistent", NULL);
  return strstr(r.out, "on purpose") != NULL;
}

static bool module_idle(void *unused) {
  char text[16] = "";
  (void)unused;
  slurp("/sys/module/cr/refcnt", text, sizeof text);
  return atoi(text) == 0;
}

// Checks that the module is not in use, and that there are no new files in the target's folder.
static const char *left_behind(bool image) {
  if (!soon(module_idle, NULL, 5000)) return no("the module is still in use");
  if (!image && !access(t.image, F_OK)) return no("an image");
  char command[200], text[256];
  snprintf(command, sizeof command, "cd %s && ls -A | grep -vx -e ctl -e file -e image", t.dir);
  FILE *f = popen(command, "r");
  bool any = f && fgets(text, sizeof text, f);
  pclose(f);
  return any ? no("a file %s", text) : NULL;
}

// Does the command's JSON name this stage?
static bool names(const char *stage) {
  char text[64];
  snprintf(text, sizeof text, "\"stage\":\"%s\"", stage);
  return strstr(r.out, text);
}

struct way {
  const char *name;
  const char *const *stages;
  const char *argv[5];
  // Checks after a failure, and after the success that ends the walk. They return NULL or an error text.
  const char *(*failed)(const char *stage);
  const char *(*made)(void);
};

// @return number of injected failures; -1: a wrong result was reported
static int walk_stage(const struct way *way, const char *stage) {
  char fault[64], what[96];
  const char *argv[10] = {"env", fault};
  int failures = 0;
  for (int i = 0; way->argv[i]; i++) argv[2 + i] = way->argv[i];
  // Tries each of the first six requests, then fewer: further ones repeat for other descriptors and threads.
  for (int n = -1;; n += n < 6 ? 1 : 1 + n / 2) {
    if (n > 0)
      snprintf(fault, sizeof fault, "CR_FAULT=%s:%d", stage, n);
    else
      snprintf(fault, sizeof fault, "CR_FAULT=%s%s", stage, n ? ":memory" : "");
    snprintf(what, sizeof what, "%s: %s", way->name, fault);
    run(&r, argv);
    const char *why = NULL;
    if (r.code == 0) {
      if (n <= 0) why = no("the stage never began");
      else why = way->made();
      if (why) tap(false, what, "%s", why);
      return why ? -1 : failures;
    }
    failures++;
    if (r.code < 3) why = no("exit %d: %.600s%.600s", r.code, r.out, r.err);
    else if (!names(stage)) why = no("does not name the stage: %.900s", r.out);
    else why = way->failed(stage);
    if (why) {
      tap(false, what, "%s; it said %.600s", why, r.out);
      return -1;
    }
  }
}

static void walk(const struct way *way) {
  char what[96];
  for (int i = 0; way->stages[i]; i++) {
    int failures = walk_stage(way, way->stages[i]);
    snprintf(what, sizeof what, "%s fails well in stage %s", way->name, way->stages[i]);
    if (failures < 0) return;
    tap(true, what, " ");
    note("%d failures", failures);
  }
}

/* ---- checkpoint */

static const char *checkpoint_failed(const char *stage) {
  (void)stage;
  const char *why = left_behind(false);
  if (!why) why = target_alive(&t) ? target_op(&t, OP_CHECK) : no("the target has ended");
  return why;
}
static const char *checkpoint_made(void) {
  const char *why = target_op(&t, OP_CHECK);
  if (!why && unlink(t.image)) why = no("there is no image");
  return why;
}

/* ---- pause */

static bool before_commit(const char *stage) {
  static const char *const stages[] = {"open", "callbacks", "freeze", "compare", "verify", "birth", "commit"};
  for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
    if (!strcmp(stages[i], stage)) return true;
  return false;
}
static bool target_gone(void *unused) {
  (void)unused;
  return !target_alive(&t);
}
static const char *again(void) {  // restarts the ended target
  if (target_restart(&t, &r)) return no("it cannot be restarted: %s", why_not(&r));
  const char *why = target_op(&t, OP_CHECK);
  return why ? why : target_op(&t, OP_MUTATE);
}
static const char *pause_failed(const char *stage) {
  const char *why = left_behind(true);
  if (why) return why;
  if (before_commit(stage)) {
    if (!target_alive(&t)) return no("the target has ended");
    return target_op(&t, OP_CHECK_CHANGED);
  }
  char text[64];
  snprintf(text, sizeof text, "has been killed in stage %s", stage);
  if (r.code != 5 || !strstr(r.out, text)) return no("exit %d, without \"%s\"", r.code, text);
  if (!soon(target_gone, NULL, 5000)) return no("the target still lives");
  return again();
}
static const char *pause_made(void) {
  const char *why = target_op(&t, OP_CHECK);
  return why ? why : target_op(&t, OP_MUTATE);
}

/* ---- restart */

static const char *restart_failed(const char *stage) {
  const char *why = left_behind(true);
  if (why) return why;
  if (!kill(t.pid, 0)) return no("a process is left behind");
  return before_commit(stage) || !strcmp(stage, "child") || !strcmp(stage, "hold") || r.code == 5 ? NULL
                                                                                               : no("exit %d", r.code);
}
static const char *restart_made(void) {
  target_adopt(&t);
  const char *why = target_op(&t, OP_CHECK);
  target_kill(&t);
  return why;
}

static void stages(void) {
  static const char *const of_checkpoint[] = {"open", "callbacks", "freeze", "collect", "snapshot", "outcome",
                                              "thaw", "write",     NULL};
  static const char *const of_pause[] = {"open",  "callbacks", "freeze",      "compare", "verify",  "birth",   "commit",  "surplus",
                                         "mappings", "pages",  "descriptors", "shared",  "process", "threads", "outcome", "thaw", NULL};
  static const char *const of_restart[] = {"open",     "child", "freeze", "compare",     "verify", "birth",   "commit",  "surplus",
                                           "mappings", "pages", "hold",   "descriptors", "shared", "process", "threads", "outcome", "thaw", NULL};
  if (!has_faults()) {
    tap_skip("failures in every stage", "the commands were built without CR_FAULT (-DREPRISE_FAULTS=ON)");
    return;
  }
  if (!target_start(&t, scenarios)) return;
  char pid[16];
  snprintf(pid, sizeof pid, "%d", t.pid);
  const struct way checkpoint = {"cr_checkpoint", of_checkpoint, {"cr_checkpoint", "--json", pid, t.image}, checkpoint_failed, checkpoint_made};
  const struct way pause = {"cr_pause", of_pause, {"cr_pause", "--json", pid, t.image}, pause_failed, pause_made};
  const struct way restart = {"cr_restart", of_restart, {"cr_restart", "--json", "--detach", t.image}, restart_failed, restart_made};
  walk(&checkpoint);
  const char *why = target_checkpoint(&t, &r) ? why_not(&r) : target_op(&t, OP_MUTATE);
  tap(!why, "an image is taken", "%s", why);
  if (!why) {
    walk(&pause);
    target_kill(&t);
    walk(&restart);
  }
  target_end(&t);
}

static const struct test tests[] = {{"stages", stages}, {}};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
