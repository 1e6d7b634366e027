// SPDX-License-Identifier: GPL-2.0-only
// epoll sets: an entry is an open file description and a descriptor number. The number may since refer to another file
// or to none.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

enum { KCMP_EPOLL_TFD = 7, MOST = 8, ALWAYS = EPOLLERR | EPOLLHUP };

static int set, outer, a, b, c, number;
static pid_t holder;

/* ---- entries of a set */

// An entry that must exist: with this number, and of the file that is open as `file`; -1: of a file not open here.
struct want {
  int in, number;
  unsigned events;
  uint64_t data;
  int file;
};
static struct want wanted[MOST];
static int n_wanted;

static void want(int in, int at, unsigned events, uint64_t data, int file) {
  wanted[n_wanted++] = (struct want){in, at, events, data, file};
}

static bool is_file(int in, int at, unsigned nth, int file) {
  struct {
    uint32_t efd, tfd, toff;
  } slot = {in, at, nth};
  return syscall(SYS_kcmp, getpid(), getpid(), KCMP_EPOLL_TFD, file, &slot) == 0;
}

static bool is_open_here(int in, int at, unsigned nth) {
  for (int f = 0; f < 64; f++)
    if (is_file(in, at, nth, f)) return true;
  return false;
}

static const char *found(const struct want *w) {
  char name[64], text[8192];
  unsigned nth[256] = {0};
  snprintf(name, sizeof name, "/proc/self/fdinfo/%d", w->in);
  slurp(name, text, sizeof text);
  for (char *at = text; (at = strstr(at, "tfd:")); at++) {
    int tfd;
    unsigned events;
    unsigned long data;
    if (sscanf(at, "tfd: %d events: %x data: %lx", &tfd, &events, &data) != 3 || tfd < 0 || tfd > 255) continue;
    unsigned which = nth[tfd]++;
    if (tfd != w->number || events != w->events || data != w->data) continue;
    if (w->file < 0 ? is_open_here(w->in, tfd, which) : !is_file(w->in, tfd, which, w->file)) continue;
    return NULL;
  }
  return no("set %d has no entry for %d with %#x and %#lx of descriptor %d:\n%s", w->in, w->number, w->events,
            (unsigned long)w->data, w->file, text);
}

static int entries(int in) {
  char name[64], text[8192];
  int n = 0;
  snprintf(name, sizeof name, "/proc/self/fdinfo/%d", in);
  slurp(name, text, sizeof text);
  for (char *at = text; (at = strstr(at, "tfd:")); at++) n++;
  return n;
}

static const char *sets_ok(void) {
  int n = 0;
  for (int i = 0; i < n_wanted; i++) {
    const char *why = found(&wanted[i]);
    if (why) return why;
    n += wanted[i].in == set;
  }
  if (entries(set) != n) return no("%d entries instead of %d", entries(set), n);
  return fds_same();
}

static void add(int in, int f, unsigned events, uint64_t data) {
  struct epoll_event e = {events, {.u64 = data}};
  MUST(epoll_ctl(in, EPOLL_CTL_ADD, f, &e));
}
static void modify(int in, int f, unsigned events, uint64_t data) {
  struct epoll_event e = {events, {.u64 = data}};
  MUST(epoll_ctl(in, EPOLL_CTL_MOD, f, &e));
}
static const char *event_is(int in, uint64_t data) {
  struct epoll_event e[MOST];
  int n = epoll_wait(in, e, MOST, 0);
  if (data == 0) return n ? no("%d events, %lu", n, (unsigned long)e[0].data.u64) : NULL;
  if (n == 1 && e[0].data.u64 == data) return NULL;
  return no("%d events, %lu instead of %lu", n, n > 0 ? (unsigned long)e[0].data.u64 : 0, (unsigned long)data);
}
static void signal_it(int f) {
  uint64_t one = 1;
  MUST(write(f, &one, sizeof one));
}
static void take_it(int f) {
  uint64_t count;
  MUST(read(f, &count, sizeof count));
}

/* ---- a descriptor that was closed while its file stays open as another descriptor */

static void closed_setup(void) {
  set = MUST(epoll_create1(EPOLL_CLOEXEC));
  a = MUST(eventfd(0, EFD_NONBLOCK));
  b = MUST(eventfd(0, EFD_NONBLOCK));  // of the same inode
  add(set, a, EPOLLIN, 1);
  add(set, b, EPOLLIN, 2);
  number = a;
  a = MUST(fcntl(number, F_DUPFD, 30));
  close(number);
  want(set, number, EPOLLIN | ALWAYS, 1, a);
  want(set, b, EPOLLIN | ALWAYS, 2, b);
  fds_note();
}
static void closed_change(void) { close(a), close(b); }
static void closed_change_data(void) {
  MUST(dup2(a, number));
  modify(set, number, EPOLLIN, 9);
  modify(set, b, EPOLLIN, 9);
  close(number);
  close(MUST(dup2(b, a)));  // closes the file, which removes its entry
}
static const char *closed_finish(void) {
  part("nothing is ready", event_is(set, 0));
  signal_it(a);
  part("the closed one", event_is(set, 1));
  take_it(a);
  signal_it(b);
  part("the open one", event_is(set, 2));
  take_it(b);
  return parts();
}

/* ---- several files under one number */

static void reused_setup(void) {
  set = MUST(epoll_create1(0));
  number = MUST(eventfd(0, EFD_NONBLOCK));
  add(set, number, EPOLLIN, 1);
  a = MUST(fcntl(number, F_DUPFD, 30));
  b = MUST(eventfd(0, EFD_NONBLOCK));
  MUST(dup2(b, number));
  add(set, number, EPOLLIN | EPOLLET, 2);
  c = MUST(eventfd(0, EFD_NONBLOCK));
  close(b);
  b = MUST(fcntl(number, F_DUPFD, 40));
  MUST(dup2(c, number));
  add(set, number, EPOLLIN, 3);
  want(set, number, EPOLLIN | ALWAYS, 1, a);
  want(set, number, EPOLLIN | EPOLLET | ALWAYS, 2, b);
  want(set, number, EPOLLIN | ALWAYS, 3, number);
  fds_note();
}
static void reused_change(void) {
  modify(set, number, EPOLLOUT, 9);
  int keep = MUST(dup(number));
  MUST(dup2(a, number));
  MUST(epoll_ctl(set, EPOLL_CTL_DEL, number, NULL));
  MUST(dup2(keep, number));
  MUST(dup2(b, keep));
  close(b);
  MUST(dup2(keep, number));
  modify(set, number, EPOLLIN, 9);
}
static const char *reused_finish(void) {
  part("nothing is ready", event_is(set, 0));
  signal_it(a);
  part("the first", event_is(set, 1));
  take_it(a);
  signal_it(b);
  part("the second", event_is(set, 2));
  take_it(b);
  signal_it(number);
  part("the third", event_is(set, 3));
  take_it(number);
  return parts();
}

/* ---- the same number, events and data, but of another file: all eventfds are one inode */

static void exchanged_setup(void) {
  set = MUST(epoll_create1(0));
  a = MUST(eventfd(0, EFD_NONBLOCK));
  b = MUST(eventfd(0, EFD_NONBLOCK));
  add(set, a, EPOLLIN, 1);
  want(set, a, EPOLLIN | ALWAYS, 1, a);
  fds_note();
}
static void exchanged_change(void) {
  c = MUST(dup(a));
  MUST(epoll_ctl(set, EPOLL_CTL_DEL, a, NULL));
  MUST(dup2(b, a));
  add(set, a, EPOLLIN, 1);  // of b
  MUST(dup2(c, a));
  close(c);
}
static const char *exchanged_finish(void) {
  signal_it(b);
  part("the other", event_is(set, 0));
  take_it(b);
  signal_it(a);
  part("the right one", event_is(set, 1));
  take_it(a);
  return parts();
}

/* ---- one-shot entries that have fired, edges, exclusive waiters, sets in sets */

static void fired_setup(void) {
  set = MUST(epoll_create1(0));
  outer = MUST(epoll_create1(0));
  a = MUST(eventfd(1, EFD_NONBLOCK));
  b = MUST(eventfd(1, EFD_NONBLOCK));
  int pair[2];
  MUST(pipe(pair));
  c = pair[0];
  add(set, a, EPOLLIN | EPOLLONESHOT, 1);
  add(set, b, EPOLLIN | EPOLLONESHOT | EPOLLET, 2);
  struct epoll_event e[MOST];
  if (epoll_wait(set, e, MOST, 0) != 2) die("not ready");
  add(set, c, EPOLLIN | EPOLLONESHOT, 3);
  add(set, pair[1], EPOLLIN | EPOLLEXCLUSIVE, 4);
  add(outer, set, EPOLLIN | EPOLLET, 5);
  want(set, a, EPOLLONESHOT, 1, a);
  want(set, b, EPOLLONESHOT | EPOLLET, 2, b);
  want(set, c, EPOLLIN | EPOLLONESHOT | ALWAYS, 3, c);
  want(set, pair[1], EPOLLIN | EPOLLEXCLUSIVE | ALWAYS, 4, pair[1]);
  want(outer, set, EPOLLIN | EPOLLET | ALWAYS, 5, set);
  number = pair[1];
  fds_note();
}
static void fired_change(void) {
  modify(set, a, EPOLLIN | EPOLLONESHOT, 1);
  modify(set, b, EPOLLOUT | EPOLLONESHOT | EPOLLET, 2);
  MUST(epoll_ctl(set, EPOLL_CTL_DEL, c, NULL));
  add(set, c, EPOLLIN | EPOLLEXCLUSIVE, 3);
  MUST(epoll_ctl(set, EPOLL_CTL_DEL, number, NULL));
  add(set, number, EPOLLIN, 4);
  modify(outer, set, EPOLLOUT, 5);
}
static const char *fired_finish(void) {
  part("nothing is ready", event_is(set, 0));
  MUST(write(number, "x", 1));
  part("the one that had not fired", event_is(set, 3));
  char byte;
  MUST(read(c, &byte, 1));
  modify(set, c, EPOLLIN | EPOLLONESHOT, 3);
  return parts();
}

/* ---- files that only another process has open */

static void hold_elsewhere(void) {
  fflush(NULL);
  holder = MUST(fork());
  if (holder) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) pause();
}

static void surplus_setup(void) {
  exchanged_setup();
}
static void surplus_change(void) {
  int late = MUST(eventfd(1, 0));
  add(set, late, EPOLLIN, 9);
  int gone = MUST(eventfd(1, 0));
  add(set, gone, EPOLLIN, 8);
  hold_elsewhere();  // the other process also has the set open
  close(gone);
  MUST(epoll_ctl(set, EPOLL_CTL_DEL, a, NULL));
}
static void private_surplus_change(void) {
  int late = MUST(eventfd(1, 0));
  int copy = MUST(fcntl(set, F_DUPFD_CLOEXEC, 50));
  (void)copy;
  add(set, late, EPOLLIN, 9);
  int pair[2];
  // The file is in flight in a message: no process has it open.
  MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
  } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
  memcpy(CMSG_DATA(&control.header), &late, sizeof late);
  struct msghdr message = {.msg_control = &control, .msg_controllen = sizeof control};
  MUST(sendmsg(pair[0], &message, 0));
  fflush(NULL);
  holder = MUST(fork());
  if (!holder) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(late), close(set), close(copy);
    for (;;) pause();
  }
  close(late), close(pair[0]), close(pair[1]);
  MUST(epoll_ctl(set, EPOLL_CTL_DEL, a, NULL));
  sleep_ms(100);  // the child has closed the set
}

static void elsewhere_setup(void) {
  set = MUST(epoll_create1(0));
  a = MUST(eventfd(0, EFD_NONBLOCK));
  b = MUST(eventfd(0, EFD_NONBLOCK));
  number = MUST(eventfd(0, EFD_NONBLOCK));
  add(set, a, EPOLLIN, 1);
  add(set, number, EPOLLIN, 2);
  hold_elsewhere();
  close(number);
  want(set, a, EPOLLIN | ALWAYS, 1, a);
  want(set, number, EPOLLIN | ALWAYS, 2, -1);
  fds_note();
}
static void elsewhere_change(void) { MUST(epoll_ctl(set, EPOLL_CTL_DEL, a, NULL)); }
static void elsewhere_gone(void) {
  kill(holder, SIGKILL);
  waitpid(holder, NULL, 0);
}

static const struct scenario scenarios[] = {
    {.name = "closed, lives on", .setup = closed_setup, .check = sets_ok, .mutate = closed_change, .finish = closed_finish},
    {.name = "closed, lives on, modified", .setup = closed_setup,
     .check = sets_ok, .mutate = closed_change_data, .finish = closed_finish},
    {.name = "several under one number", .setup = reused_setup,
     .check = sets_ok, .mutate = reused_change, .finish = reused_finish},
    {.name = "another file of the same inode", .setup = exchanged_setup,
     .check = sets_ok, .mutate = exchanged_change, .finish = exchanged_finish},
    {.name = "one-shot, edge, exclusive, nested", .setup = fired_setup,
     .check = sets_ok, .mutate = fired_change, .finish = fired_finish},
    {.name = "added and sent away since", .flags = NO_RESTART, .setup = surplus_setup,
     .check = sets_ok, .mutate = private_surplus_change, .finish = exchanged_finish},
    {.name = "of another process", .flags = NO_RESTART, .setup = elsewhere_setup,
     .check = sets_ok, .mutate = elsewhere_change},
    {.name = "elsewhere", .flags = NO_PAUSE | NO_RESTART, .setup = elsewhere_setup,
     .check = sets_ok, .mutate = elsewhere_gone},
    {.name = "surplus", .flags = NO_PAUSE | NO_RESTART, .setup = surplus_setup, .check = sets_ok, .mutate = surplus_change},
    {},
};

/* ---- entries that cannot be restored */

static struct target t;
static struct run r;

static bool names(const char *what) { return strstr(r.err, what) != NULL; }

static void of_another_process(void) {
  if (!target_start(&t, scenario_named(scenarios, "elsewhere"))) return;
  if (target_checkpoint(&t, &r)) {
    tap(false, "an entry of another process's file", "%s", why_not(&r));
  } else {
    target_op(&t, OP_MUTATE);
    int code = target_pause(&t, &r);
    tap(code == 3 && names("epoll set") && names("entry for descriptor"),
        "a pause that cannot find its file refuses by name", "%s", why_not(&r));
    tap(target_alive(&t), "and the process runs on", "it has ended");
    target_kill(&t);
    code = target_restart(&t, &r);
    tap(code == 3 && names("epoll set") && names("entry for descriptor"), "so does a restart", "%s", why_not(&r));
    const char *argv[] = {"cr_restart", "--detach", "--dead-sockets", t.image, NULL};
    code = run(&r, argv);
    tap(code == 0 && names("entry for descriptor"), "--dead-sockets: does without it, and says so", "%s", why_not(&r));
    if (code == 0) target_adopt(&t);
  }
  target_end(&t);
}

static void surplus_in_a_shared_set(void) {
  if (!target_start(&t, scenario_named(scenarios, "surplus"))) return;
  if (target_checkpoint(&t, &r)) {
    tap(false, "an entry that another process's file has got since", "%s", why_not(&r));
  } else {
    target_op(&t, OP_MUTATE);
    int code = target_pause(&t, &r);
    tap(code == 3 && names("epoll set") && names("entry for descriptor"),
        "an entry that nobody can take out is refused by name", "%s", why_not(&r));
    tap(target_alive(&t), "and the process runs on", "it has ended");
  }
  target_end(&t);
}

static const struct test tests[] = {{"of another process", of_another_process},
                                    {"surplus in a shared set", surplus_in_a_shared_set},
                                    {}};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
