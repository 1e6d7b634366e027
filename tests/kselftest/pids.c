// SPDX-License-Identifier: GPL-2.0-only
// Stops by signals, other ids after a restart, pid namespaces.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

static struct target t;
static struct run r;

/* ---- a program that is stopped: threads in calls that a stop interrupts, and a counted signal */

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
// Check after SIGUSR1 was sent to the stopped process.
static const char *signalled(void) {
  for (int i = 0; i < 500 && !usr1; i++) sleep_ms(10);  // another thread may handle it
  if (usr1 != 1) return no("SIGUSR1 came %d times", usr1);
  if (sleeper_woke && sleeper_woke != EINTR) return no("a sleeping thread woke: %d", sleeper_woke);
  return number ? no("memory has changed") : NULL;
}

/* ---- kernel objects that refer to the process or its threads by id, and must do so after the ids have changed */

static struct worker w;
static pthread_t main_thread;
static int timer_main, timer_worker, own_pidfd, pipe_main[2], pipe_worker[2];
static int make_timer(pid_t tid, int signal_) {
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signal_};
  event._sigev_un._tid = tid;
  int id;
  MUST(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id));
  return id;
}
static void owned_pipe(int *ends, int type, pid_t owner, int signal_) {
  struct f_owner_ex to = {type, owner};
  MUST(pipe(ends));
  MUST(fcntl(ends[0], F_SETOWN_EX, &to));
  MUST(fcntl(ends[0], F_SETSIG, signal_));
  MUST(fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK));
}
static void block(void) {
  sigset_t set;
  sigemptyset(&set);
  for (int i = 50; i < 57; i++) sigaddset(&set, i);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
}
static void names_setup(void) {
  block();  // the worker inherits the mask
  main_thread = pthread_self();
  worker_start(&w);
  timer_main = make_timer(gettid_(), 50);
  timer_worker = make_timer(w.tid, 51);
  own_pidfd = (int)MUST(syscall(SYS_pidfd_open, getpid(), 0));
  owned_pipe(pipe_main, F_OWNER_PID, getpid(), 52);
  owned_pipe(pipe_worker, F_OWNER_TID, w.tid, 53);
  union sigval value = {.sival_int = 7};
  sigqueue(getpid(), 54, value);
}
static void names_end(void) { worker_end(&w); }
static int take(int signal_, siginfo_t *info) {
  struct timespec limit = {2, 0};
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal_);
  return sigtimedwait(&set, info, &limit);
}
static const char *take_own(void *arg) {
  siginfo_t info;
  const int signal_ = (int)(intptr_t)arg;
  return take(signal_, &info) == signal_ ? NULL : no("signal %d does not arrive", signal_);
}
static const char *names_finish(void) {
  struct itimerspec soon_ = {{0, 0}, {0, 1000000}};
  part("timer", syscall(SYS_timer_settime, timer_main, 0, &soon_, NULL) ? no("errno %d", errno) : take_own((void *)50));
  part("timer of the worker", syscall(SYS_timer_settime, timer_worker, 0, &soon_, NULL)
                                  ? no("errno %d", errno) : worker_do(&w, take_own, (void *)51));
  part("own pidfd", syscall(SYS_pidfd_send_signal, own_pidfd, 55, NULL, 0) ? no("errno %d", errno) : take_own((void *)55));
  MUST(write(pipe_main[1], "x", 1));
  part("owner of a pipe", take_own((void *)52));
  MUST(write(pipe_worker[1], "x", 1));
  part("owner of a pipe, a thread", worker_do(&w, take_own, (void *)53));
  part("pthread_kill() to the worker", pthread_kill(w.thread, 56) ? no("fails") : worker_do(&w, take_own, (void *)56));
  part("pthread_kill() to the main thread", pthread_kill(main_thread, 56) ? no("fails") : take_own((void *)56));
  siginfo_t info;
  int got = take(54, &info);
  part("sender of a pending signal", got != 54 ? no("%d", got) : info.si_pid != getpid() ? no("%d", info.si_pid) : NULL);
  part("session", getsid(0) != getpid() || getpgrp() != getpid() ? no("%d, group %d", getsid(0), getpgrp()) : NULL);
  return parts();
}

static const struct scenario scenarios[] = {
    {.name = "names", .flags = NO_PAUSE | NO_RESTART, .setup = names_setup, .mutate = names_end, .finish = names_finish},
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
// Status change that waitid() reports to the parent: 's'topped, 'c'ontinued, '-' none.
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
  // The kernel notifies the parent when the last thread has stopped.
  char got = heard == 's' && soon(heard_stop, NULL, 20000) ? 's' : notice();
  bool is = soon(stopped, NULL, 5000);
  tap(is && got == heard, what, "state %c, waitid() reports %c instead of %c", state(), got, heard);
}
static void goes_on(const char *what, enum op op) {
  kill(t.pid, SIGCONT);
  char got = notice();
  const char *why = target_op(&t, op);
  tap(!why && got == 'c', what, "%s (waitid() reports %c)", why ? why : "", got);
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
    tap(!why && got == 'c', "it runs as at the checkpoint", "%s (waitid() reports %c)", why ? why : "", got);
  }
  target_end(&t);
}

/* ---- other ids */

static bool restart(const char *const argv[], const char *what) {
  run(&r, argv);
  static const char says[] = "cr_restart: process ";
  const char *at = strstr(r.err, says) ?: strstr(r.out, says);
  const bool ok = r.code == 0 && at;
  tap(ok, what, "%s", why_not(&r));
  if (!ok) return false;
  t.pid = atoi(at + strlen(says));
  target_adopt(&t);
  return true;
}

static void other_ids(void) {
  if (!target_start(&t, scenario_named(scenarios, "names"))) return;
  const pid_t was = t.pid;
  if (command(target_checkpoint, "what names a process: checkpoint")) {
    const char *why = target_op(&t, OP_FINISH);
    tap(!why, "as it was", "%s", why ? why : "");
    target_kill(&t);
    if (restart((const char *const[]){"cr_restart", "--detach", t.image, NULL}, "a restart with its ids")) {
      why = target_op(&t, OP_FINISH);
      tap(!why && t.pid == was, "what names it names it", "%s (pid %d, was %d)", why ? why : "", t.pid, was);
    }
    target_kill(&t);
    if (restart((const char *const[]){"cr_restart", "--detach", "--no-restore-pid", t.image, NULL},
                "a restart with other ids")) {
      why = target_op(&t, OP_FINISH);
      tap(!why && t.pid != was, "what named it names it", "%s (pid %d, was %d)", why ? why : "", t.pid, was);
    }
  }
  target_end(&t);
}

/* ---- a target in another pid namespace than the commands */

static pid_t init_of_it;
static bool start_inside(const char *scenario) {
  int ours = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
  if (ours < 0 || unshare(CLONE_NEWPID)) {
    tap_skip("another pid namespace", "cannot be made");
    return false;
  }
  init_of_it = fork();
  if (!init_of_it)
    for (;;) pause();
  bool started = target_start(&t, scenario_named(scenarios, scenario));
  MUST(setns(ours, CLONE_NEWPID));
  close(ours);
  return started;
}
static void end_inside(void) {
  target_end(&t);
  kill(init_of_it, SIGKILL);
  waitpid(init_of_it, NULL, 0);
}

static void other_namespace(void) {
  if (!start_inside("names")) return;
  if (command(target_checkpoint, "in another pid namespace: checkpoint")) {
    const char *why = target_op(&t, OP_FINISH);
    tap(!why, "as it was", "%s", why ? why : "");
    for (int i = 0; i < 2; i++) {
      if (command(target_pause, "a pause from outside")) {
        tap(!strstr(r.err, "lost"), "nothing is lost", "%s", r.err);
        why = target_op(&t, OP_FINISH);
        tap(!why, "what names it names it after a pause", "%s", why ? why : "");
      }
    }
    target_op(&t, OP_MUTATE);
    target_pause(&t, &r);
    tap(r.code == 3 && strstr(r.err, "namespace"), "a thread that has ended there: refused by name", "%s", why_not(&r));
    tap(target_alive(&t), "and the target lives", " ");
    target_kill(&t);
    if (restart((const char *const[]){"cr_restart", "--detach", "--no-restore-pid", t.image, NULL},
                "a restart in our namespace")) {
      why = target_op(&t, OP_FINISH);
      tap(!why, "what named it names it in ours", "%s", why ? why : "");
    }
    target_kill(&t);
    runl(&r, "cr_restart", "--detach", t.image, NULL);
    tap(r.code == 3 && strstr(r.err, "pid 2 "), "its own pid is asked for", "%s", why_not(&r));
  }
  end_inside();
}

static const struct test tests[] = {
    {"other ids", other_ids},
    {"in another pid namespace", other_namespace},
    {"a stopped process", stopped_process},
    {"stopped since", stopped_since},
    {},
};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
