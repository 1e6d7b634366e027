// SPDX-License-Identifier: GPL-2.0-only
// --hold: the command prepares everything, and changes nothing before a line arrives on standard input.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

// ---------------------------------------------------------------- the target

static char memory[8 * MB];
static int file;

static void setup(void) {
  fill(memory, sizeof memory, 1);
  file = MUST(open(path("file"), O_RDWR | O_CREAT, 0600));
  MUST(write(file, "0123456789", 10));
}

static void setup_child(void) {
  setup();
  MUST(prctl(PR_SET_PDEATHSIG, SIGKILL));
}

static const char *check(void) {
  const char *why = filled(memory, sizeof memory, 1);
  if (why) return why;
  off_t at = lseek(file, 0, SEEK_CUR);
  return at == 10 ? NULL : no("position %lld in its file rather than 10", (long long)at);
}

static void mutate(void) {
  fill(memory, sizeof memory, 2);
  MUST(lseek(file, 3, SEEK_SET));
}

static const struct scenario scenarios[] = {
  {"state", .flags = NO_PAUSE | NO_RESTART, .setup = setup, .check = check, .mutate = mutate},
  {"state of a child", .flags = NO_PAUSE | NO_RESTART, .setup = setup_child, .check = check, .mutate = mutate},
  {},
};

// ---------------------------------------------------------------- commands that wait because of --hold

static struct target t;
static struct run r;

struct held {
  pid_t pid;
  int in, out;  // pipes to its standard input and from its output
  char said[4096];
};

static struct held begin(const char *const argv[]) {
  struct held h = {};
  int in[2], out[2];
  MUST(pipe2(in, O_CLOEXEC));
  MUST(pipe2(out, O_CLOEXEC));
  h.pid = MUST(fork());
  if (!h.pid) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    dup2(out[1], 2);
    execvp(argv[0], (char *const *)argv);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  h.in = in[1];
  h.out = out[0];
  return h;
}

static const char *become_ready(struct held *h, const char *word) {
  size_t have = 0;
  while (!strstr(h->said, word)) {
    struct pollfd p = {h->out, POLLIN, 0};
    if (poll(&p, 1, 30000) <= 0) return no("it prints only \"%s\"", h->said);
    ssize_t got = read(h->out, h->said + have, sizeof h->said - 1 - have);
    if (got <= 0) return no("it ends, having printed \"%s\"", h->said);
    have += (size_t)got;
  }
  return NULL;
}

static int end(struct held *h) {
  int status = -1;
  if (h->in >= 0) close(h->in);
  waitpid(h->pid, &status, 0);
  close(h->out);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int go(struct held *h) {
  MUST(write(h->in, "\n", 1));
  return end(h);
}

// The command must end although its standard input stays open.
static int given_up(struct held *h) {
  int in = h->in;
  h->in = -1;
  int code = end(h);
  close(in);
  return code;
}

static void damage(void) {
  int image = MUST(open(t.image, O_RDWR));
  off_t middle = lseek(image, 0, SEEK_END) / 2;
  char byte;
  MUST(pread(image, &byte, 1, middle));
  byte ^= 1;
  MUST(pwrite(image, &byte, 1, middle));
  close(image);
}

static bool saved(void) {
  if (!target_start(&t, &scenarios[0])) return false;
  if (target_checkpoint(&t, &r) == 0) return true;
  tap(false, "checkpoint", "%s", why_not(&r));
  target_end(&t);
  return false;
}

// Has the process ended? Reaps it if it is a child of this process.
static bool gone(void *pid) {
  waitpid(*(pid_t *)pid, NULL, WNOHANG);
  return kill(*(pid_t *)pid, 0) != 0;
}

static int descriptors(pid_t pid) {
  char name[32];
  int n = 0;
  snprintf(name, sizeof name, "/proc/%d/fd", pid);
  DIR *dir = opendir(name);
  for (struct dirent *e; dir && (e = readdir(dir));) n += e->d_name[0] != '.';
  if (dir) closedir(dir);
  return n;
}

// ---------------------------------------------------------------- tests

static void held_pause(void) {
  if (!saved()) return;
  struct held h = begin((const char *const[]){"cr_pause", "--hold", pid_text(t.pid), t.image, NULL});
  const char *why = become_ready(&h, "ready");
  if (!why) why = target_op(&t, OP_MUTATE);
  if (!why && !target_op(&t, OP_CHECK)) why = "what the program does is undone already";
  tap(!why, "cr_pause --hold: the program goes on meanwhile", "%s", why);
  int code = go(&h);
  why = target_op(&t, OP_CHECK);
  tap(code == 0 && !why, "cr_pause --hold: a line rolls it back", "exit %d, %s", code, why ? why : "it is back");

  target_op(&t, OP_MUTATE);
  h = begin((const char *const[]){"cr_pause", "--hold", "--json", pid_text(t.pid), t.image, NULL});
  why = become_ready(&h, "\"held\":true}\n");
  code = end(&h);
  if (!why && (code != 3 || !target_op(&t, OP_CHECK))) why = no("exit %d, or the program was rolled back", code);
  tap(!why, "cr_pause --hold: end of input gives up", "%s", why);

  // A waiting command must not block another request.
  h = begin((const char *const[]){"cr_pause", "--hold", pid_text(t.pid), t.image, NULL});
  why = become_ready(&h, "ready");
  if (!why && target_pause(&t, &r)) why = why_not(&r);
  if (!why) why = target_op(&t, OP_CHECK);
  tap(!why, "cr_pause --hold: others may use the process", "%s", why);
  target_kill(&t);
  code = go(&h);
  tap(code == 5, "cr_pause --hold: the process has ended meanwhile", "exit %d", code);
  target_end(&t);

  if (!saved()) return;
  damage();
  h = begin((const char *const[]){"cr_pause", "--hold", pid_text(t.pid), t.image, NULL});
  why = become_ready(&h, "is damaged");
  code = given_up(&h);
  if (!why && target_op(&t, OP_CHECK)) why = "the program was changed";
  tap(!why && code == 5, "cr_pause --hold: a damaged image is noticed while it waits", "exit %d, %s", code, why);
  target_end(&t);
}


static void held_restart(void) {
  if (!saved()) return;
  target_kill(&t);
  struct held h = begin((const char *const[]){"cr_restart", "--hold", "--detach", t.image, NULL});
  const char *why = become_ready(&h, "ready");
  if (!why && kill(t.pid, 0)) why = "there is no process of that id";
  if (!why && descriptors(t.pid) > 3) why = no("it has %d descriptors already", descriptors(t.pid));
  tap(!why, "cr_restart --hold: the process is there, without its files", "%s", why);
  int code = go(&h);
  target_adopt(&t);
  why = code ? NULL : target_op(&t, OP_CHECK);
  tap(code == 0 && !why, "cr_restart --hold: a line lets it go on", "exit %d, %s", code, why);
  target_kill(&t);

  h = begin((const char *const[]){"cr_restart", "--hold", "--json", t.image, NULL});
  why = become_ready(&h, "\"held\":true}\n");
  code = end(&h);
  if (!why && (code != 3 || !soon(gone, &t.pid, 5000))) why = no("exit %d, or the process is still there", code);
  tap(!why, "cr_restart --hold: end of input gives up", "%s", why);

  static const int signals[] = {SIGTERM, SIGINT, SIGKILL};
  for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
    char what[64];
    snprintf(what, sizeof what, "cr_restart --hold: signal %d ends both", signals[i]);
    h = begin((const char *const[]){"cr_restart", "--hold", t.image, NULL});
    why = become_ready(&h, "ready");
    kill(h.pid, signals[i]);
    code = given_up(&h);
    if (!why && (code != -signals[i] || !soon(gone, &t.pid, 5000))) why = no("status %d, or the process is still there", code);
    tap(!why, what, "%s", why);
  }

  // A damaged image is reported before the line arrives.
  damage();
  h = begin((const char *const[]){"cr_restart", "--hold", t.image, NULL});
  why = become_ready(&h, "is damaged");
  code = given_up(&h);
  tap(!why && code == 5, "cr_restart --hold: a damaged image is noticed at once", "exit %d, %s", code, why);
  target_end(&t);
}

// The image has another clock offset: a thread of cr_restart in a time namespace stays the parent of the process.
static void other_clock(void) {
  if (!target_start(&t, &scenarios[1])) return;
  const char *why = target_checkpoint(&t, &r) ? why_not(&r) : NULL;
  target_kill(&t);
  struct held h = begin((const char *const[]){"unshare", "--time", "--fork", "--monotonic", "100000", "cr_restart", "--hold", t.image, NULL});
  if (!why) why = become_ready(&h, "ready");
  MUST(write(h.in, "\n", 1));
  target_adopt(&t);
  if (!why) why = target_op(&t, OP_CHECK);
  tap(!why, "cr_restart --hold under another clock", "%s", why);
  kill(t.pid, SIGKILL);
  bool ended = soon(gone, &h.pid, 10000);
  tap(ended, "cr_restart --hold under another clock: ends as the process does", "it goes on");
  if (!ended) kill(h.pid, SIGKILL);
  end(&h);
  target_end(&t);
}

static const struct test tests[] = {
  {"held_pause", held_pause},
  {"held_restart", held_restart},
  {"other_clock", other_clock},
  {},
};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
