// SPDX-License-Identifier: GPL-2.0-only
// Interrupted, killed, overlapping and starved requests: the target is never left
// frozen or half restored, and no incomplete image gets the final name.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "registers.h"

/* ---- the target: 24 MB in one of two states, never between them */

enum { SIZE = 24 << 20, CREW = 4 };
static char *area;
static volatile uint64_t state = 1;
static struct registers regs;
static struct worker crew[CREW];

static void two_states_setup(void) {
  area = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(area, SIZE, MADV_NOHUGEPAGE);
  fill(area, SIZE, state);
  registers_start(&regs, true, 1);
  for (int i = 0; i < CREW; i++) worker_start(&crew[i]);
}
static const char *is_whole(void) {
  const char *why = filled(area, SIZE, state);
  if (!why) why = registers_check(&regs, state);
  for (int i = 0; i < CREW && !why; i++)
    if (!thread_exists(crew[i].tid)) why = no("thread %d does not exist", crew[i].tid);
  return why;
}
static const char *is_old(void) { return state == 1 ? is_whole() : no("state is %lu", state); }
static void to_next_state(void) {
  registers_next(&regs);
  state++;
  fill(area, SIZE, state);
}

static const struct scenario scenarios[] = {
    {.name = "whole", .flags = NO_PAUSE | NO_RESTART, .setup = two_states_setup, .check = is_whole,
     .mutate = to_next_state},
    {.name = "old", .flags = NO_PAUSE | NO_RESTART, .setup = two_states_setup, .check = is_old, .mutate = to_next_state},
    {},
};

static struct target t;
static struct run r;

static pid_t start(const char *const argv[]) {
  pid_t pid = fork();
  if (!pid) {
    int null = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++) dup2(null, i);
    execvp(argv[0], (char *const *)argv);
    _exit(127);
  }
  return pid;
}
static int end_of(pid_t pid) {
  int status;
  waitpid(pid, &status, 0);
  return status;
}
static void random_moment(double longest_s) {
  struct timespec wait = {0, (long)(longest_s * 1e9 * rand() / RAND_MAX)};
  wait.tv_sec = wait.tv_nsec / 1000000000, wait.tv_nsec %= 1000000000;
  nanosleep(&wait, NULL);
}
static const char *image_is_whole_or_absent(void) {
  if (access(t.image, F_OK)) return NULL;
  return runl(&r, "cr_info", t.image, NULL) ? why_not(&r) : NULL;
}
static double measured(int (*command)(struct target *, struct run *)) {
  double least = 100;
  for (int i = 0; i < 3; i++) {
    if (command(&t, &r)) return 0.3;
    if (r.seconds < least) least = r.seconds;
  }
  return least;
}

static void interrupted_checkpoints(void) {
  static const int signals[] = {SIGKILL, SIGTERM, SIGINT};
  if (!target_start(&t, &scenarios[0])) return;
  double whole = measured(target_checkpoint);
  for (size_t s = 0; s < ARRAY_SIZE(signals); s++) {
    const char *why = NULL;
    int interrupted = 0, round = 0;
    for (; round < (s ? 4 : 16) && !why; round++) {
      unlink(t.image);
      pid_t pid = start((const char *const[]){"cr_checkpoint", pid_text(t.pid), t.image, NULL});
      random_moment(whole * 1.1);
      kill(pid, signals[s]);
      int status = end_of(pid);
      interrupted += WIFSIGNALED(status) || WEXITSTATUS(status) != 0;
      why = target_op(&t, OP_CHECK);
      if (!why) why = image_is_whole_or_absent();
    }
    char what[96];
    snprintf(what, sizeof what, "cr_checkpoint ended by signal %d at random moments", signals[s]);
    note("%d of %d were interrupted", interrupted, round);
    tap(!why, what, "round %d: %s", round, why);
  }
  tap(target_checkpoint(&t, &r) == 0, "and then one goes well", "%s", why_not(&r));
  target_end(&t);
}

static void interrupted_pauses(void) {
  int ended = 0, interrupted = 0, round;
  const char *why = NULL;
  if (!target_start(&t, &scenarios[0])) return;
  if (target_checkpoint(&t, &r)) why = why_not(&r);
  target_op(&t, OP_MUTATE);
  double whole = measured(target_pause);
  for (round = 0; round < 16 && !why; round++) {
    if (target_op(&t, OP_MUTATE)) why = "the target does not change its state";
    pid_t pid = start((const char *const[]){"cr_pause", pid_text(t.pid), t.image, NULL});
    random_moment(whole * 1.1);
    kill(pid, SIGKILL);
    interrupted += WIFSIGNALED(end_of(pid));
    for (int i = 0; i < 20 && target_alive(&t); i++) sleep_ms(5);
    if (target_alive(&t)) {
      why = target_op(&t, OP_CHECK);
      if (why && !target_alive(&t)) why = NULL;  // ended meanwhile, which is correct after the point of no return
    }
    if (!target_alive(&t) && !why) {  // must have ended by SIGKILL, and the image must still be usable for a restart
      ended++;
      if (!t.ended || !WIFSIGNALED(t.status) || WTERMSIG(t.status) != SIGKILL) why = "it was not ended by SIGKILL";
      if (!why && target_restart(&t, &r)) why = why_not(&r);
      if (!why) why = target_op(&t, OP_CHECK);
    }
  }
  note("%d of %d were interrupted, %d past the point of no return", interrupted, round, ended);
  tap(!why, "cr_pause killed at random moments", "round %d: %s", round, why);
  target_end(&t);
}

static void interrupted_restarts(void) {
  const char *why = NULL;
  int round = 0, interrupted = 0;
  if (!target_start(&t, &scenarios[0])) return;
  if (target_checkpoint(&t, &r)) why = why_not(&r);
  target_kill(&t);
  double whole = measured(target_restart);
  target_kill(&t);
  for (; round < 8 && !why; round++) {
    pid_t pid = start((const char *const[]){"cr_restart", "--detach", t.image, NULL});
    random_moment(whole * 0.9);
    kill(pid, SIGKILL);
    int status = end_of(pid);
    interrupted += WIFSIGNALED(status);
    if (WIFSIGNALED(status)) {
      for (int i = 0; i < 200 && kill(t.pid, 0) == 0; i++) {  // either a complete process is left, or none
        waitpid(t.pid, NULL, WNOHANG);
        sleep_ms(5);
      }
    }
    if (kill(t.pid, 0) == 0) {
      target_adopt(&t);
      why = target_op(&t, OP_CHECK);
    }
    t.ended = false;
    target_kill(&t);
  }
  note("%d of %d were interrupted", interrupted, round);
  tap(!why, "cr_restart killed at random moments", "round %d: %s", round, why);
  if (target_restart(&t, &r)) why = why_not(&r);
  if (!why) why = target_op(&t, OP_CHECK);
  tap(!why, "and then one goes well, too", "%s", why);
  target_end(&t);
}

static void killed_targets(void) {
  const char *why = NULL;
  int round = 0;
  double whole = 0.2;
  for (; round < 12 && !why; round++) {
    bool pauses = round & 1;
    if (!target_start(&t, &scenarios[1])) return;
    if (pauses && target_checkpoint(&t, &r)) why = why_not(&r);
    if (round == 0) whole = measured(target_checkpoint);
    pid_t pid = start(pauses ? (const char *const[]){"cr_pause", pid_text(t.pid), t.image, NULL}
                             : (const char *const[]){"cr_checkpoint", pid_text(t.pid), t.image, NULL});
    random_moment(whole);
    kill(t.pid, SIGKILL);
    int64_t begin = now_ns();
    for (; !t.ended && now_ns() - begin < 10000000000; sleep_ms(2)) target_alive(&t);
    if (!t.ended) why = "the target does not die";
    int status = 0;
    pid_t got;
    while ((got = waitpid(pid, &status, WNOHANG)) == 0 && now_ns() - begin < 20000000000) sleep_ms(2);
    if (!got) why = "the command does not end", kill(pid, SIGKILL), end_of(pid);
    else if (!WIFEXITED(status)) why = "the command was ended by a signal";
    if (!why) why = image_is_whole_or_absent();
    target_end(&t);
  }
  tap(!why, "targets killed at random moments", "round %d: %s", round, why);
}

static void disk_full(void) {
  if (!target_start(&t, &scenarios[0])) return;
  char folder[160], image[192];
  snprintf(folder, sizeof folder, "%s/small", t.dir);
  snprintf(image, sizeof image, "%s/image", folder);
  mkdir(folder, 0700);
  if (mount("none", folder, "tmpfs", 0, "size=8m")) {
    tap_skip("disk full", "cannot mount a small tmpfs");
  } else {
    struct stat st;
    runl(&r, "cr_checkpoint", pid_text(t.pid), image, NULL);
    tap(r.code == 4, "disk full: a temporary failure", "%s", why_not(&r));
    tap(stat(image, &st) != 0, "disk full: no half image", "%ld bytes", (long)st.st_size);
    const char *why = target_op(&t, OP_CHECK);
    tap(!why, "disk full: the target runs", "%s", why);
    bool clean = runl(&r, "sh", "-c", "exec test -z \"$(ls -A \"$0\")\"", folder, NULL) == 0;
    tap(clean, "disk full: nothing else is left either", " ");
    umount2(folder, MNT_DETACH);
  }
  // An older image must survive a failed checkpoint.
  mkdir(folder, 0700);
  if (!mount("none", folder, "tmpfs", 0, "size=40m")) {
    struct stat before, after;
    int first = runl(&r, "cr_checkpoint", pid_text(t.pid), image, NULL);
    stat(image, &before);
    runl(&r, "cr_checkpoint", "--clobber", pid_text(t.pid), image, NULL);
    bool failed = r.code != 0;
    int info = runl(&r, "cr_info", image, NULL);
    stat(image, &after);
    tap(first == 0 && failed && info == 0 && before.st_ino == after.st_ino && before.st_size == after.st_size,
        "disk full: the older image stays", "first %d, cr_info %d: %s", first, info, why_not(&r));
    umount2(folder, MNT_DETACH);
  }
  runl(&r, "cr_checkpoint", pid_text(t.pid), "/no/such/folder/image", NULL);
  tap(r.code >= 2 && r.code <= 5 && strstr(r.err, "/no/such/folder"), "a folder that does not exist", "%s", why_not(&r));
  target_end(&t);
}

static void at_once(void) {
  const char *why = NULL;
  int ok = 0, busy = 0;
  if (!target_start(&t, &scenarios[0])) return;
  if (target_checkpoint(&t, &r)) why = why_not(&r);
  for (int round = 0; round < 4 && !why; round++) {
    pid_t pid[4];
    char image[4][192];
    for (int i = 0; i < 4; i++) {
      snprintf(image[i], sizeof image[i], "%s/image.%d", t.dir, i);
      unlink(image[i]);
      bool pauses = i == 3 && round & 1;
      pid[i] = start(pauses ? (const char *const[]){"cr_pause", pid_text(t.pid), t.image, NULL}
                            : (const char *const[]){"cr_checkpoint", pid_text(t.pid), image[i], NULL});
    }
    for (int i = 0; i < 4; i++) {
      int status = end_of(pid[i]);
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        ok++;
      else if (WIFEXITED(status) && WEXITSTATUS(status) == 4)
        busy++;
      else
        why = "a command ended neither well nor with 4";
      if (!access(image[i], F_OK) && runl(&r, "cr_info", image[i], NULL)) why = why_not(&r);
    }
    if (!why) why = target_op(&t, OP_CHECK);
  }
  note("%d went well, %d found it busy", ok, busy);
  tap(!why && ok >= 4, "several requests at once", "%d went well, %d found it busy: %s", ok, busy, why);
  const char *after = target_pause(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
  tap(!after, "and one alone afterwards", "%s", after);
  target_end(&t);
}

static char state_of(pid_t pid) {
  char name[64], text[512];
  snprintf(name, sizeof name, "/proc/%d/stat", pid);
  slurp(name, text, sizeof text);
  char *at = strrchr(text, ')');
  return at ? at[2] : 0;
}

static void then_signals(void) {
  if (!target_start(&t, &scenarios[1])) return;
  int code = runl(&r, "cr_checkpoint", "--clobber", "--stop", pid_text(t.pid), t.image, NULL);
  sleep_ms(50);
  tap(code == 0 && state_of(t.pid) == 'T', "--stop stops the target", "state %c, %s", state_of(t.pid), why_not(&r));
  kill(t.pid, SIGCONT);
  const char *why = target_op(&t, OP_CHECK);
  tap(!why, "--stop: it goes on", "%s", why);
  code = runl(&r, "cr_checkpoint", "--clobber", "--kill", pid_text(t.pid), t.image, NULL);
  for (int i = 0; i < 1000 && target_alive(&t); i++) sleep_ms(1);
  tap(code == 0 && t.ended && WIFSIGNALED(t.status) && WTERMSIG(t.status) == SIGKILL, "--kill kills the target", "%s",
      why_not(&r));
  target_kill(&t);
  why = target_restart(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
  tap(!why, "--kill: the image restarts", "%s", why);
  code = runl(&r, "cr_checkpoint", "--clobber", "--term", pid_text(t.pid), t.image, NULL);
  for (int i = 0; i < 1000 && target_alive(&t); i++) sleep_ms(1);
  tap(code == 0 && t.ended && WIFSIGNALED(t.status) && WTERMSIG(t.status) == SIGTERM, "--term ends the target", "%s",
      why_not(&r));
  target_kill(&t);
  why = target_restart(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
  tap(!why, "--term: the image restarts", "%s", why);
  target_end(&t);
}

// A vfork() child that has not called execve() keeps its parent in an uninterruptible wait.
static void does_not_stop(void) {
  pid_t pid = fork();
  if (!pid) {
    if (vfork() == 0) {
      execlp("sleep", "sleep", "0.01", NULL);
      _exit(1);
    }
    int fd[2];
    if (pipe(fd)) _exit(1);
    if (vfork() == 0) {  // blocks in read() without touching the shared memory
      char byte;
      read(fd[0], &byte, 1);
      _exit(0);
    }
    _exit(0);
  }
  sleep_ms(200);
  t.pid = pid;
  int64_t begin = now_ns();
  runl(&r, "cr_checkpoint", "--timeout", "1", pid_text(t.pid), "/tmp/image.vfork", NULL);
  tap((r.code == 3 || r.code == 4) && now_ns() - begin < 15000000000, "a thread that does not stop", "%s", why_not(&r));
  tap(access("/tmp/image.vfork", F_OK) != 0 && kill(pid, 0) == 0, "leaves no image, and lives on", " ");
  runl(&r, "pkill", "-KILL", "-P", pid_text(t.pid), NULL);
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

static void unloading(void) {
  if (!target_start(&t, &scenarios[1])) return;
  tap(target_checkpoint(&t, &r) == 0, "checkpoint before unloading", "%s", why_not(&r));
  target_op(&t, OP_MUTATE);
  int busy = open("/dev/cr", O_RDWR | O_CLOEXEC);
  tap(busy >= 0 && runl(&r, "rmmod", "cr", NULL) != 0, "the module stays while /dev/cr is open", "%s", why_not(&r));
  close(busy);
  int code = runl(&r, "rmmod", "cr", NULL);
  tap(code == 0, "it is unloaded when idle", "%s", why_not(&r));
  if (code == 0) runl(&r, "modprobe", "cr", NULL);
  tap(access("/dev/cr", F_OK) == 0, "and loaded again", "%s", why_not(&r));
  const char *why = target_pause(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
  tap(!why, "an image from before can still be rolled back to", "%s", why);
  target_end(&t);
}

static const struct test tests[] = {{"interrupted checkpoints", interrupted_checkpoints},
                                    {"interrupted pauses", interrupted_pauses},
                                    {"interrupted restarts", interrupted_restarts},
                                    {"killed targets", killed_targets},
                                    {"disk full", disk_full},
                                    {"several at once", at_once},
                                    {"signals afterwards", then_signals},
                                    {"does not stop", does_not_stop},
                                    {"unloading", unloading},
                                    {}};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
