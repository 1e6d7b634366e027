// SPDX-License-Identifier: GPL-2.0-only
// The test program's side: TAP, commands, targets, and the steps of a scenario.
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "target.h"

struct target *current;
bool dry;
uid_t run_uid;
unsigned run_limit_s = 60;  // times REPRISE_SLOW
static bool verbose;
static int made, failed;

/* ---- TAP */

void note(const char *format, ...) {
  char text[4096];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) printf("# %s\n", line);
  fflush(stdout);
}

void tap(bool ok, const char *what, const char *why, ...) {
  printf("%s %d - %s\n", ok ? "ok" : "not ok", ++made, what);
  fflush(stdout);
  if (ok) return;
  failed++;
  char text[4096];
  va_list args;
  va_start(args, why);
  vsnprintf(text, sizeof text, why, args);
  va_end(args);
  note("%s", text);
}

void tap_why(const char *what, const char *why) { tap(!why, what, "%s", why ? why : ""); }
void tap_skip(const char *what, const char *why) {
  printf("ok %d - %s # SKIP %s\n", ++made, what, why);
  fflush(stdout);
}

/* ---- commands */

static void read_back(int fd, char *buf, size_t size) {
  ssize_t n = pread(fd, buf, size - 1, 0);
  buf[n > 0 ? n : 0] = 0;
  close(fd);
}

static int scratch_file(void) {
  char name[] = "/tmp/kselftest-out.XXXXXX";
  int fd = mkostemp(name, O_CLOEXEC);
  if (fd < 0) die("cannot make %s: errno %d", name, errno);
  unlink(name);
  return fd;
}

void become(uid_t uid) {
  if (!uid) return;
  gid_t gid = uid;
  if (setgroups(1, &gid) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid)) _exit(126);
}

int run(struct run *r, const char *const argv[]) {
  int out = scratch_file(), err = scratch_file();
  int64_t start = now_ns();
  memset(r, 0, sizeof *r);
  pid_t pid = fork();
  if (pid < 0) die("fork: errno %d", errno);
  if (!pid) {
    int null = open("/dev/null", O_RDONLY);
    dup2(null, 0);
    dup2(out, 1);
    dup2(err, 2);
    if (null > 2) close(null);
    become(run_uid);
    execvp(argv[0], (char *const *)argv);
    dprintf(2, "cannot run %s: errno %d\n", argv[0], errno);
    _exit(127);
  }
  int status = 0;
  for (;;) {
    pid_t got = waitpid(pid, &status, WNOHANG);
    if (got == pid) break;
    if (now_ns() - start > run_limit_s * 1000000000LL) {
      r->timed_out = true;
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      break;
    }
    sleep_ms(1);
  }
  r->seconds = (now_ns() - start) / 1e9;
  r->code = WIFEXITED(status) && !r->timed_out ? WEXITSTATUS(status) : -1;
  read_back(out, r->out, sizeof r->out);
  read_back(err, r->err, sizeof r->err);
  if (verbose) {
    char line[512] = "";
    for (int i = 0; argv[i]; i++) {
      strncat(line, argv[i], sizeof line - strlen(line) - 1);
      strncat(line, " ", sizeof line - strlen(line) - 1);
    }
    note("%.3f s, %s-> %d %s%s", r->seconds, line, r->code, r->out, r->err);
  }
  return r->code;
}

int runl(struct run *r, ...) {
  const char *argv[32];
  int n = 0;
  va_list args;
  va_start(args, r);
  while (n < 31 && (argv[n] = va_arg(args, const char *))) n++;
  va_end(args);
  argv[n] = NULL;
  return run(r, argv);
}

const char *why_not(const struct run *r) {
  static char text[2048];
  if (r->timed_out) return "did not end in time";
  snprintf(text, sizeof text, "exit %d: %.1500s", r->code, r->err[0] ? r->err : r->out);
  for (char *c = text; *c; c++)
    if (*c == '\n') *c = c[1] ? '|' : 0;
  return text;
}

/* ---- targets */

static int remove_one(const char *name, const struct stat *st, int type, struct FTW *ftw) {
  (void)st, (void)type, (void)ftw;
  return remove(name), 0;
}

static void start_process(struct target *t) {
  pid_t pid = fork();
  if (pid < 0) die("fork: errno %d", errno);
  if (!pid) {
    setsid();
    if (t->scenario->flags & AS_USER) become(1000);
    execl("/proc/self/exe", program_invocation_short_name, "--target", t->scenario->name, t->dir, NULL);
    _exit(127);
  }
  t->pid = pid;
  t->ended = false;
}

bool target_alive(struct target *t) {
  if (!t->ended && waitpid(t->pid, &t->status, WNOHANG) == t->pid) t->ended = true;
  return !t->ended && kill(t->pid, 0) == 0;
}

static const char *how_ended(struct target *t) {
  static char text[128];
  if (!t->ended) return "the target is gone";
  if (WIFSIGNALED(t->status))
    snprintf(text, sizeof text, "the target was ended by signal %d", WTERMSIG(t->status));
  else
    snprintf(text, sizeof text, "the target has exited with %d", WEXITSTATUS(t->status));
  return text;
}

static struct control c;  // as of the last request

static const char *op_text(void) { return c.text; }

const char *target_op(struct target *t, enum op op) {
  current = t;
  if (pread(t->ctl, &c, sizeof c, 0) != sizeof c) return "the control file cannot be read";
  c.op = op;
  c.failed = 0;
  c.text[0] = 0;
  if (pwrite(t->ctl, &c, sizeof c, 0) != sizeof c) return "the control file cannot be written";
  uint32_t state = CTL_REQUEST;
  pwrite(t->ctl, &state, sizeof state, offsetof(struct control, state));
  for (int64_t start = now_ns();;) {
    if (pread(t->ctl, &state, sizeof state, offsetof(struct control, state)) == sizeof state && state == CTL_DONE) break;
    if (!target_alive(t)) return how_ended(t);
    if (now_ns() - start > 40 * 1000000000LL) return "the target does not answer";
    sleep_ms(1);
  }
  if (pread(t->ctl, &c, sizeof c, 0) != sizeof c) return "the control file cannot be read";
  return c.failed ? c.text : NULL;
}

bool target_start(struct target *t, const struct scenario *s) {
  memset(t, 0, sizeof *t);
  t->scenario = s;
  current = t;
  strcpy(t->dir, "/tmp/kselftest.XXXXXX");
  if (!mkdtemp(t->dir)) die("cannot make a folder in /tmp: errno %d", errno);
  snprintf(t->image, sizeof t->image, "%s/image", t->dir);
  memset(&c, 0, sizeof c);
  c.state = CTL_DONE;
  t->ctl = open(path("ctl"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (t->ctl < 0 || pwrite(t->ctl, &c, sizeof c, 0) != sizeof c) die("cannot write %s", path("ctl"));
  if (s->flags & AS_USER && (chown(t->dir, 1000, 1000) || fchown(t->ctl, 1000, 1000)))
    die("cannot give %s to the user: errno %d", t->dir, errno);
  run_uid = s->flags & AS_USER ? 1000 : 0;
  start_process(t);
  const char *why = target_op(t, OP_SETUP);
  if (!why) return true;
  tap(false, s->name, "the target's own set-up failed: %s", why);
  target_end(t);
  return false;
}

void target_kill(struct target *t) {
  if (t->ended || t->pid <= 0) return;
  kill(t->pid, SIGKILL);
  if (waitpid(t->pid, &t->status, 0) != t->pid)  // not a child of this process: wait until its pid is free
    for (int i = 0; i < 2000 && kill(t->pid, 0) == 0; i++) sleep_ms(1);
  t->ended = true;
}

void target_adopt(struct target *t) { t->ended = false; }

void target_end(struct target *t) {
  target_kill(t);
  if (t->ctl > 0) close(t->ctl);
  if (t->dir[0]) nftw(t->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  run_uid = 0;
  current = NULL;
}

static void put_time(struct target *t, size_t at, int64_t ns) {
  pwrite(t->ctl, &ns, sizeof ns, offsetof(struct control, times) + at);
}

static int command(struct target *t, struct run *r, const char *tool, const char *const *more, const char *a,
                   const char *b, const char *c) {
  const char *argv[16];
  int n = 0;
  (void)t;
  argv[n++] = tool;
  for (int i = 0; more && more[i] && n < 12; i++) argv[n++] = more[i];
  if (a) argv[n++] = a;
  if (b) argv[n++] = b;
  if (c) argv[n++] = c;
  argv[n] = NULL;
  return run(r, argv);
}

const char *pid_text(pid_t pid) {
  static char text[4][16];
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(text[turn], sizeof text[turn], "%d", pid);
  return text[turn];
}

const struct scenario *scenario_named(const struct scenario *all, const char *name) {
  while (strcmp(all->name, name)) all++;
  return all;
}

int target_checkpoint(struct target *t, struct run *r) {
  put_time(t, offsetof(struct times, checkpoint_start), now_ns());
  int code = command(t, r, "cr_checkpoint", NULL, "--clobber", pid_text(t->pid), t->image);
  put_time(t, offsetof(struct times, checkpoint_end), now_ns());
  return code;
}

static void back(struct target *t, int64_t start, int restarted) {
  put_time(t, offsetof(struct times, back_start), start);
  put_time(t, offsetof(struct times, back_end), now_ns());
  pwrite(t->ctl, &restarted, sizeof restarted, offsetof(struct control, times.restarted));
}

const char *target_saved(struct target *t, struct run *r, const struct scenario *s) {
  if (!target_start(t, s)) return "it could not be set up";
  return target_checkpoint(t, r) ? why_not(r) : NULL;
}
int target_pause(struct target *t, struct run *r) {
  int64_t start = now_ns();
  int code = command(t, r, "cr_pause", t->scenario->pause_args, pid_text(t->pid), t->image, NULL);
  back(t, start, 0);
  return code;
}

int target_restart(struct target *t, struct run *r) {
  int64_t start = now_ns();
  int code = command(t, r, "cr_restart", t->scenario->restart_args, "--detach", t->image, NULL);
  if (code == 0) target_adopt(t);
  back(t, start, 1);
  return code;
}

/* ---- the steps of a scenario */

static struct target T;

static bool stage_ok(const char *stage, const char *why) {
  char what[128];
  snprintf(what, sizeof what, "%s: %s", T.scenario->name, stage);
  tap(!why, what, "%s", why ? why : "");
  return !why;
}

static const char *check_and_finish(bool last) {
  static char text[2048];
  const char *why = T.scenario->check ? target_op(&T, OP_CHECK) : NULL;
  if (!why && T.scenario->finish && (last || !(T.scenario->flags & FINISH_LAST))) why = target_op(&T, OP_FINISH);
  if (!why) return NULL;
  snprintf(text, sizeof text, "%s", why);
  return text;
}

static const char *spoil(void) {
  static char text[2048];
  const char *why;
  if (T.scenario->mutate && (why = target_op(&T, OP_MUTATE))) {
    snprintf(text, sizeof text, "cannot change the state: %s", why);
    return text;
  }
  if (dry && !T.scenario->mutate && (why = target_op(&T, OP_FINISH))) {
    snprintf(text, sizeof text, "finish: %s", why);
    return text;
  }
  if (T.scenario->flags & NO_SELF_CHECK || !T.scenario->check) return NULL;
  why = target_op(&T, OP_CHECK_SPOILED);
  if (!why) {
    snprintf(text, sizeof text, "the test is blind: its check passes on changed state (%s)", op_text());
    return text;
  }
  if (verbose) note("spoiled, as it should be: %s", why);
  if (T.ended) return how_ended(&T);
  return NULL;
}

static const char *go_back(int (*way)(struct target *, struct run *), unsigned may_refuse, bool last, bool *refused) {
  static struct run r;
  unsigned flags = T.scenario->flags;
  int code = way(&T, &r);
  *refused = code == 3 && flags & may_refuse;
  if (*refused) {
    note("refused, which is allowed: %s", why_not(&r));
    return way == target_pause && !target_alive(&T) ? "the refused target has ended" : NULL;
  }
  if (code != 0) return why_not(&r);
  return check_and_finish(last);
}

static void course(void) {
  static struct run r;
  unsigned flags = T.scenario->flags;
  bool refused = false;
  const char *why = T.scenario->check ? target_op(&T, OP_CHECK) : NULL;
  if (why) {
    stage_ok("checks before the checkpoint", why);
    return;
  }
  if (dry) {
    stage_ok("notices changed state", spoil());
    if (!T.scenario->finish || !T.scenario->mutate) return;
    const struct scenario *s = T.scenario;
    target_end(&T);
    if (target_start(&T, s)) stage_ok("ends right without a rollback", check_and_finish(true));
    return;
  }
  for (int i = 0; i < (flags & MANY_FREEZES ? 5 : 1); i++) {
    int code = target_checkpoint(&T, &r);
    if (code == 3 && flags & CHECKPOINT_MAY_REFUSE) {
      note("refused, which is allowed: %s", why_not(&r));
      stage_ok("unharmed by the refused checkpoint", check_and_finish(true));
      return;
    }
    if (code) {
      stage_ok("checkpoint", why_not(&r));
      return;
    }
  }
  bool pauses = !(flags & NO_PAUSE), restarts = !(flags & NO_RESTART);
  if (!stage_ok("unchanged by a checkpoint", check_and_finish(!pauses))) return;
  for (int i = 0; pauses && i < 2 && !refused; i++) {
    if (!(why = spoil())) why = go_back(target_pause, PAUSE_MAY_REFUSE, i == 1, &refused);
    if (!stage_ok(i ? "pause again" : "pause", why)) break;
  }
  if (!restarts) return;
  target_kill(&T);
  if (T.scenario->before_restart) T.scenario->before_restart();
  if (!stage_ok("restart", go_back(target_restart, RESTART_MAY_REFUSE, true, &refused)) || refused || !pauses) return;
  if (flags & FINISH_LAST) return;
  if (!(why = spoil())) why = go_back(target_pause, PAUSE_MAY_REFUSE, true, &refused);
  stage_ok("pause after the restart", why);
}

static bool wanted(const char *name, int argc, char **argv) {
  for (int i = 0; i < argc; i++)
    if (strstr(name, argv[i])) return true;
  return argc == 0;
}

void harness_prepare(void) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // restarted targets become children of this process
  signal(SIGPIPE, SIG_IGN);
  const char *slow = getenv("REPRISE_SLOW");
  if (slow && atoi(slow) > 1) run_limit_s *= (unsigned)atoi(slow);
}

int harness_end(void) {
  printf("1..%d\n# %d passed, %d failed\n", made, made - failed, failed);
  return failed ? 1 : 0;
}

int harness_main(int argc, char **argv, const struct scenario *scenarios, const struct test *tests) {
  if (argc == 4 && !strcmp(argv[1], "--target")) target_main(argv[2], argv[3], scenarios);
  int opt;
  while ((opt = getopt(argc, argv, "nvl")) != -1) {
    if (opt == 'n') dry = true;
    else if (opt == 'v') verbose = true;
    else if (opt == 'l') {
      for (const struct scenario *s = scenarios; s && s->name; s++) puts(s->name);
      for (const struct test *t = tests; t && t->name; t++) puts(t->name);
      return 0;
    } else {
      fprintf(stderr, "usage: %s [-n] [-v] [-l] [NAME…]\n  -n  only the tests' self-checks, no checkpoints\n", argv[0]);
      return 2;
    }
  }
  argc -= optind, argv += optind;
  harness_prepare();
  printf("TAP version 13\n");
  for (const struct scenario *s = scenarios; s && s->name; s++) {
    if (!wanted(s->name, argc, argv)) continue;
    const char *why = s->skip ? s->skip() : NULL;
    if (why) {
      tap_skip(s->name, why);
      continue;
    }
    if (s->flags & NO_PAUSE && s->flags & NO_RESTART && !(s->flags & MANY_FREEZES)) continue;  // used by tests[] only
    if (target_start(&T, s)) {
      course();
      target_end(&T);
    }
  }
  for (const struct test *t = tests; !dry && t && t->name; t++)
    if (wanted(t->name, argc, argv)) t->run();
  return harness_end();
}
