// SPDX-License-Identifier: GPL-2.0-only
// Whether a process runs: stops by signals.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

static struct target t;
static struct run r;

/* ---- a program to be stopped: threads in calls that a stop interrupts, and a signal that it counts */

static volatile int number, sleeper_woke, poller_woke, usr1;
static void count(int signal_) {
  (void)signal_;
  usr1++;
}
static void *sleeper(void *arg) {
  struct timespec long_ = {5000, 0};
  sleeper_woke = nanosleep(&long_, NULL) ? errno : -1;
  return arg;
}
static void *poller(void *arg) {
  sigset_t all;
  sigfillset(&all);
  poller_woke = ppoll(NULL, 0, NULL, &all) ? errno : -1;
  return arg;
}
static void plain_setup(void) {
  pthread_t thread;
  signal(SIGUSR1, count);
  if (pthread_create(&thread, NULL, sleeper, NULL) || pthread_create(&thread, NULL, poller, NULL)) die("no threads");
  sleep_ms(100);
}
static const char *plain_ok(void) {
  if (sleeper_woke) return no("a sleeping thread woke: %d", sleeper_woke);
  if (poller_woke) return no("a polling thread woke: %d", poller_woke);
  if (usr1) return no("SIGUSR1 came");
  return number ? no("memory has changed") : NULL;
}
static void plain_change(void) { number++; }
// After SIGUSR1 was sent to it while it was stopped.
static const char *signalled(void) {
  if (usr1 != 1) return no("SIGUSR1 came %d times", usr1);
  if (sleeper_woke && sleeper_woke != EINTR) return no("a sleeping thread woke: %d", sleeper_woke);
  return number ? no("memory has changed") : NULL;
}

static const struct scenario scenarios[] = {
    {.name = "plain", .flags = NO_PAUSE | NO_RESTART, .setup = plain_setup, .check = plain_ok, .mutate = plain_change,
     .finish = signalled},
    {},
};

/* ---- stops */

static char state(void) {
  char name[64], text[512];
  snprintf(name, sizeof name, "/proc/%d/stat", t.pid);
  slurp(name, text, sizeof text);
  const char *at = strrchr(text, ')');
  return at ? at[2] : '?';
}
static bool stopped(void *arg) {
  (void)arg;
  return state() == 'T';
}
// What the parent hears: 's'topped, 'c'ontinued, '-' nothing.
static char notice(void) {
  siginfo_t info = {0};
  if (waitid(P_PID, (id_t)t.pid, &info, WSTOPPED | WCONTINUED | WNOHANG) || !info.si_pid) return '-';
  return info.si_code == CLD_STOPPED ? 's' : info.si_code == CLD_CONTINUED ? 'c' : '?';
}
static bool heard_stop(void *arg) {
  (void)arg;
  return notice() == 's';
}
static void stop(void) {
  kill(t.pid, SIGSTOP);
  if (!soon(heard_stop, NULL, 20000)) die("the target does not stop");
}
static void is_stopped(const char *what, char heard) {
  // The last thread that stops tells the parent.
  char got = heard == 's' && soon(heard_stop, NULL, 20000) ? 's' : notice();
  bool is = soon(stopped, NULL, 5000);
  tap(is && got == heard, what, "state %c, the parent hears %c instead of %c", state(), got, heard);
}
static void goes_on(const char *what, enum op op) {
  kill(t.pid, SIGCONT);
  char got = notice();
  const char *why = target_op(&t, op);
  tap(!why && got == 'c', what, "%s (the parent hears %c)", why ? why : "", got);
}
static bool command(int (*way)(struct target *, struct run *), const char *what) {
  int code = way(&t, &r);
  tap(code == 0, what, "%s", why_not(&r));
  return code == 0;
}

static void stopped_process(void) {
  if (!target_start(&t, scenario_named(scenarios, "plain"))) return;
  stop();
  if (command(target_checkpoint, "a stopped process: checkpoint")) {
    is_stopped("it stays stopped", '-');
    goes_on("it goes on unchanged", OP_CHECK);
    target_op(&t, OP_MUTATE);
    command(target_pause, "a pause while it runs");
    is_stopped("it is stopped again", 's');
    goes_on("it goes on as at the checkpoint", OP_CHECK);
    target_op(&t, OP_MUTATE);
    stop();
    command(target_pause, "a pause while it is stopped");
    is_stopped("it stays stopped after a pause", '-');
    kill(t.pid, SIGUSR1);
    target_checkpoint(&t, &r);
    is_stopped("stopped with a signal that waits", '-');
    goes_on("the signal is there when it goes on", OP_FINISH);
    target_op(&t, OP_MUTATE);
    command(target_pause, "a pause to that");
    is_stopped("it is stopped with the signal", 's');
    goes_on("the signal is there again", OP_FINISH);
    target_kill(&t);
    if (command(target_restart, "a restart")) {
      is_stopped("the new process is stopped", 's');
      goes_on("it goes on and has the signal", OP_FINISH);
    }
  }
  target_end(&t);
}

static void stopped_since(void) {
  if (!target_start(&t, scenario_named(scenarios, "plain"))) return;
  if (command(target_checkpoint, "a running process: checkpoint")) {
    target_op(&t, OP_MUTATE);
    stop();
    command(target_pause, "a pause when it was stopped since");
    const char *why = target_op(&t, OP_CHECK);
    char got = notice();
    tap(!why && got == 'c', "it runs as at the checkpoint", "%s (the parent hears %c)", why ? why : "", got);
  }
  target_end(&t);
}

static const struct test tests[] = {
    {"a stopped process", stopped_process},
    {"stopped since", stopped_since},
    {},
};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
