// SPDX-License-Identifier: GPL-2.0-only
// Descriptors of every kind except sockets.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <termios.h>
#include <unistd.h>

#include "harness.h"

static int fd[16];

static int make(const char *name, int flags) {
  int f = MUST(open(path(name), O_RDWR | O_CREAT, 0640));
  for (int i = 0; i < 100; i++) MUST(write(f, "0123456789", 10));
  close(f);
  return MUST(open(path(name), flags));
}

/* ---- regular files: positions, flags; opened, closed, duplicated since */

static void files_setup(void) {
  fd[0] = make("a", O_RDWR);
  fd[1] = MUST(open(path("a"), O_RDONLY));  // a second open file description of the same file
  fd[2] = make("b", O_RDWR | O_APPEND | O_CLOEXEC);
  fd[3] = make("c", O_WRONLY | O_NONBLOCK);
  fd[4] = MUST(dup(fd[0]));
  fd[5] = MUST(fcntl(fd[1], F_DUPFD_CLOEXEC, 300));
  fd[6] = MUST(open(path("b"), O_PATH));
  fd[7] = make("closed since", O_RDWR);
  MUST(lseek(fd[0], 123, SEEK_SET));
  MUST(lseek(fd[1], 456, SEEK_SET));
  MUST(lseek(fd[2], 789, SEEK_SET));
  MUST(lseek(fd[3], 5000, SEEK_SET));  // beyond its end
  MUST(lseek(fd[7], 11, SEEK_SET));
  fds_note();
}
static const char *files_ok(void) { return fds_same(); }
static void positions_change(void) {
  for (int i = 0; i < 4; i++) MUST(lseek(fd[i], i + 1, SEEK_SET));
}
static void flags_change(void) {
  MUST(fcntl(fd[2], F_SETFL, 0));
  MUST(fcntl(fd[3], F_SETFL, O_APPEND));
  MUST(fcntl(fd[0], F_SETFD, FD_CLOEXEC));
  MUST(fcntl(fd[2], F_SETFD, 0));
}
static void table_change(void) {
  close(fd[1]);  // its duplicate stays open
  close(fd[7]);  // has no duplicate
  close(fd[4]);
  MUST(dup2(fd[2], fd[3]));
  MUST(open("/dev/null", O_RDONLY));
  MUST(open(path("b"), O_RDONLY));
  MUST(dup2(fd[0], 40));
  MUST(dup2(fd[0], 500));
  int ends[2];
  MUST(pipe(ends));
}
static void all_closed(void) {
  for (int i = 0; i < 8; i++) close(fd[i]);
  for (int i = 0; i < 12; i++) MUST(open(path("a"), O_RDONLY));
}

/* ---- a file that lost its name */

static void unlinked_setup(void) {
  fd[0] = make("unlinked", O_RDWR);
  MUST(lseek(fd[0], 77, SEEK_SET));
  unlink(path("unlinked"));
  fds_note();
}
static void unlinked_change(void) { MUST(lseek(fd[0], 5, SEEK_SET)); }
static void unlinked_closed(void) { close(fd[0]); }

static void unlink_since_setup(void) {
  fd[0] = make("unlinked", O_RDWR);
  MUST(lseek(fd[0], 77, SEEK_SET));
  fds_note();
}
static void unlink_since(void) {
  unlink(path("unlinked"));
  MUST(lseek(fd[0], 5, SEEK_SET));
}
static const char *position_77(void) {
  off_t at = lseek(fd[0], 0, SEEK_CUR);
  return at == 77 ? NULL : no("is at %ld instead of 77", (long)at);
}

/* ---- directories and devices */

static DIR *dir;
static char next_name[256];
static long dir_position;
static void devices_setup(void) {
  MUST(mkdir(path("folder"), 0700));
  for (int i = 0; i < 20; i++) close(MUST(open(path("folder"), O_TMPFILE | O_RDWR, 0600)));
  for (int i = 0; i < 20; i++) {
    char name[32];
    snprintf(name, sizeof name, "folder/%d", i);
    close(MUST(open(path(name), O_CREAT | O_RDWR, 0600)));
  }
  fd[0] = MUST(open(path("folder"), O_RDONLY | O_DIRECTORY));
  fd[1] = MUST(open("/dev/null", O_RDWR));
  fd[2] = MUST(open("/dev/zero", O_RDONLY));
  fd[3] = MUST(open("/dev/full", O_WRONLY));
  fd[4] = MUST(open("/dev/urandom", O_RDONLY));
  fd[5] = MUST(open("/proc/self/status", O_RDONLY));
  dir = opendir(path("folder"));
  for (int i = 0; i < 7; i++) readdir(dir);
  dir_position = telldir(dir);
  snprintf(next_name, sizeof next_name, "%s", readdir(dir)->d_name);
  seekdir(dir, dir_position);
  fds_note();
}
static const char *devices_ok(void) {
  part("table", fds_same());
  char bytes[8] = "x";
  part("/dev/zero", read(fd[2], bytes, 8) != 8 || bytes[0] ? no("cannot be read") : NULL);
  part("/dev/urandom", read(fd[4], bytes, 8) != 8 ? no("cannot be read") : NULL);
  part("/dev/full", write(fd[3], bytes, 1) != -1 || errno != ENOSPC ? no("can be written") : NULL);
  struct dirent *e = NULL;
  if (fcntl(dirfd(dir), F_GETFD) >= 0) seekdir(dir, telldir(dir)), e = readdir(dir);
  part("next entry", !e || strcmp(e->d_name, next_name) ? no("%s instead of %s", e ? e->d_name : "none", next_name) : NULL);
  if (e) seekdir(dir, dir_position);
  return parts();
}
static void devices_change(void) {
  while (readdir(dir)) {
  }
  for (int i = 1; i < 6; i++) close(fd[i]);
  close(dirfd(dir));
  MUST(syscall(SYS_getdents64, fd[0], next_name, sizeof next_name));
}

/* ---- pipes and FIFOs with both ends inside */

static char big[200000];
static const char *read_exactly(int f, const char *want, size_t bytes) {
  size_t have = 0;
  ssize_t n = 0;
  int flags = fcntl(f, F_GETFL);
  if (flags < 0) return no("is closed");
  fcntl(f, F_SETFL, flags | O_NONBLOCK);
  while (have < sizeof big && (n = read(f, big + have, sizeof big - have)) > 0) have += n;
  fcntl(f, F_SETFL, flags);
  if (have != bytes) return no("holds %zu bytes instead of %zu", have, bytes);
  return memcmp(big, want, bytes) ? no("holds something else") : NULL;
}
static char content[150000];
static void pipes_setup(void) {
  for (size_t i = 0; i < sizeof content; i++) content[i] = (char)(i * 7 + i / 251);
  MUST(pipe(fd));                            // some bytes
  MUST(pipe2(fd + 2, O_CLOEXEC | O_NONBLOCK));  // larger, and completely full
  MUST(pipe(fd + 4));                        // large pieces, the last one not full
  MUST(pipe(fd + 6));                        // empty
  MUST(pipe(fd + 8));                        // the writing end is closed
  MUST(mkfifo(path("fifo"), 0600));
  fd[10] = MUST(open(path("fifo"), O_RDWR));
  fd[11] = MUST(open(path("fifo"), O_WRONLY));
  MUST(write(fd[1], content, 1000));
  MUST(fcntl(fd[3], F_SETPIPE_SZ, 131072));
  if (write(fd[3], content, 131072) != 131072) die("the pipe takes less than its size");
  for (int i = 0; i < 3; i++) MUST(write(fd[5], content + 4000 * i, 4000));
  MUST(write(fd[9], content, 50));
  close(fd[9]);
  MUST(write(fd[11], content, 300));
  fds_note();
}
static int waiting(int f) {
  int n = -1;
  return ioctl(f, FIONREAD, &n) ? -1 : n;
}
static const char *holds(int f, int bytes) {
  return waiting(f) != bytes ? no("holds %d bytes instead of %d", waiting(f), bytes) : NULL;
}
static const char *pipes_ok(void) {
  part("pipe", holds(fd[0], 1000));
  part("full pipe", holds(fd[2], 131072));
  part("size of the full pipe", fcntl(fd[2], F_GETPIPE_SZ) != 131072 ? no("%d", fcntl(fd[2], F_GETPIPE_SZ)) : NULL);
  part("pieces", holds(fd[4], 12000));
  part("empty pipe", holds(fd[6], 0));
  part("half pipe", holds(fd[8], 50));
  part("FIFO", holds(fd[10], 300));
  part("table", fds_same());
  return parts();
}
static void sip(int f, size_t bytes) {  // if there is something to read
  struct pollfd p = {f, POLLIN, 0};
  if (poll(&p, 1, 0) == 1 && p.revents & POLLIN) MUST(read(f, big, bytes));
}
static void pipes_change(void) {
  sip(fd[0], 100);
  sip(fd[2], 131072);
  fcntl(fd[2], F_SETPIPE_SZ, 4096);
  sip(fd[4], 100);
  write(fd[7], "not empty", 9);
  sip(fd[8], 100);
  write(fd[11], "more", 4);
  close(fd[7]);
}
static const char *pipes_finish(void) {
  part("pipe", read_exactly(fd[0], content, 1000));
  part("full pipe", read_exactly(fd[2], content, 131072));
  part("pieces", read_exactly(fd[4], content, 12000));
  part("FIFO", read_exactly(fd[10], content, 300));
  part("half pipe", read(fd[8], big, 100) != 50 || read(fd[8], big, 1) != 0 ? no("has no end") : NULL);
  write(fd[7], "x", 1);
  part("empty pipe", read_exactly(fd[6], "x", 1));
  return parts();
}
static void pipes_all_closed(void) {
  for (int i = 0; i < 12; i++) close(fd[i]);
}

static void packets_setup(void) {
  MUST(pipe2(fd, O_DIRECT));
  MUST(write(fd[1], "one", 3));
  MUST(write(fd[1], "three", 5));
  fds_note();
}
static const char *packets_ok(void) {
  part("packets", holds(fd[0], 8));
  const char *why = fds_same();
  if (why) part("table", why);
  return parts();
}
static const char *packets_finish(void) {
  char packet[100];
  ssize_t n = read(fd[0], packet, sizeof packet);
  if (n != 3 || memcmp(packet, "one", 3)) return no("the first packet has %zd bytes", n);
  n = read(fd[0], packet, sizeof packet);
  return n != 5 || memcmp(packet, "three", 5) ? no("the second packet has %zd bytes", n) : NULL;
}

/* ---- eventfd, timerfd, signalfd, epoll */

static uint64_t eventfd_count(int f) {
  char name[64], text[1024];
  snprintf(name, sizeof name, "/proc/self/fdinfo/%d", f);
  slurp(name, text, sizeof text);
  char *at = strstr(text, "eventfd-count:");
  return at ? strtoull(at + 14, NULL, 16) : ~0UL;
}
static void eventfd_setup(void) {
  fd[0] = MUST(eventfd(5, EFD_NONBLOCK));
  fd[1] = MUST(eventfd(3, EFD_SEMAPHORE | EFD_CLOEXEC));
  fd[2] = MUST(eventfd(0, 0));
  fds_note();
}
static const char *eventfd_ok(void) {
  part("count", eventfd_count(fd[0]) != 5 ? no("%lu", eventfd_count(fd[0])) : NULL);
  part("semaphore", eventfd_count(fd[1]) != 3 ? no("%lu", eventfd_count(fd[1])) : NULL);
  part("zero", eventfd_count(fd[2]) != 0 ? no("%lu", eventfd_count(fd[2])) : NULL);
  const char *why = fds_same();
  if (why) part("table", why);
  return parts();
}
static const char *eventfd_finish(void) {
  uint64_t value, one = 1;
  part("count", read(fd[0], &value, 8) != 8 || value != 5 ? no("read %lu", value) : NULL);
  part("semaphore", read(fd[1], &value, 8) != 8 || value != 1 ? no("read %lu", value) : NULL);
  part("write", write(fd[2], &one, 8) != 8 ? no("errno %d", errno) : NULL);
  return parts();
}

static void timerfd_setup(void) {
  static const struct itimerspec once = {.it_value = {1000, 0}}, every = {{0, 100000000}, {0, 100000000}},
                                 soon_ = {.it_value = {0, 1000000}};
  fd[0] = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
  fd[1] = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
  fd[2] = MUST(timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC));
  fd[3] = MUST(timerfd_create(CLOCK_BOOTTIME, 0));
  fd[4] = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
  struct itimerspec day = {.it_value = {time(NULL) + 86400, 0}};
  MUST(timerfd_settime(fd[0], 0, &once, NULL));
  MUST(timerfd_settime(fd[1], 0, &every, NULL));
  MUST(timerfd_settime(fd[2], TFD_TIMER_ABSTIME, &day, NULL));
  MUST(timerfd_settime(fd[4], 0, &soon_, NULL));
  sleep_ms(20);  // the last one has expired and was not read
  fds_note();
}
static const char *left_about(int f, time_t want) {
  struct itimerspec now = {0};
  if (timerfd_gettime(f, &now)) return no("errno %d", errno);
  long left = now.it_value.tv_sec;
  return left > want || left < want - 60 ? no("%ld s left instead of %ld s", left, (long)want) : NULL;
}
static const char *timerfd_ok(void) {
  struct itimerspec now = {0};
  part("once", left_about(fd[0], 1000));
  // Between its expiry and the interrupt a timer also has no time left.
  for (int turn = 0; turn < 50 && (timerfd_gettime(fd[1], &now) || !(now.it_value.tv_sec + now.it_value.tv_nsec)); turn++) sleep_ms(1);
  part("interval", now.it_interval.tv_nsec != 100000000 || (!now.it_value.tv_nsec && !now.it_value.tv_sec)
                       ? no("%ld ns, %ld ns left", now.it_interval.tv_nsec, now.it_value.tv_nsec)
                       : NULL);
  part("absolute", left_about(fd[2], 86400));
  part("not armed", left_about(fd[3], 0));
  struct pollfd p = {fd[4], POLLIN, 0};
  part("run out", poll(&p, 1, 0) != 1 || p.revents != POLLIN ? no("cannot be read") : NULL);
  const char *why = fds_same();
  if (why) part("table", why);
  return parts();
}
static void timerfd_change(void) {
  static const struct itimerspec none = {0}, short_ = {.it_value = {300, 0}};
  uint64_t ticks;
  MUST(timerfd_settime(fd[0], 0, &short_, NULL));
  MUST(timerfd_settime(fd[1], 0, &none, NULL));
  MUST(timerfd_settime(fd[2], 0, &short_, NULL));
  MUST(timerfd_settime(fd[3], 0, &short_, NULL));
  read(fd[4], &ticks, 8);
}
static void timerfd_closed(void) {
  for (int i = 0; i < 5; i++) close(fd[i]);
}
static const char *timerfd_finish(void) {
  struct pollfd p = {fd[1], POLLIN, 0};
  uint64_t ticks = 0;
  if (poll(&p, 1, 2000) != 1 || read(fd[1], &ticks, 8) != 8 || !ticks) return no("the interval timer does not tick");
  return read(fd[4], &ticks, 8) == 8 && ticks == 1 ? NULL : no("the one that had run out gives %lu", ticks);
}

/* Among so many timers, some expire just when they are saved: timerfd_gettime() then returns 0, as for unarmed ones. */
enum { DUE = 600 };
static int due[DUE];
static void due_setup(void) {
  for (int i = 0; i < DUE; i++) due[i] = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
  for (long i = 0; i < DUE; i++) {
    // 500 us apart, in another order than that of their numbers; every third one without an interval
    const struct timespec first = {.tv_nsec = 1000000 + i * 7 % DUE * 500000}, none = {0}, again = {.tv_nsec = 100000000};
    const struct itimerspec spec = {.it_value = first, .it_interval = i % 3 ? none : again};
    MUST(timerfd_settime(due[i], 0, &spec, NULL));
  }
}
static const char *due_ok(void) {
  for (int i = 0; i < DUE; i++)
    for (int turn = 0;; turn++) {
      struct itimerspec now;
      struct pollfd p = {due[i], POLLIN, 0};
      if (poll(&p, 1, 0) == 1 || MUST(timerfd_gettime(due[i], &now)) || now.it_value.tv_sec || now.it_value.tv_nsec) break;
      if (turn == 50) return no("timer %d is not armed, and has not run out", i);
      sleep_ms(1);
    }
  return NULL;
}
static void due_change(void) {
  static const struct itimerspec none = {0};
  for (int i = 0; i < DUE; i++) MUST(timerfd_settime(due[i], 0, &none, NULL));
}

static void set_of(sigset_t *set, int a, int b) {
  sigemptyset(set);
  sigaddset(set, a);
  sigaddset(set, b);
}
static void signalfd_setup(void) {
  sigset_t set;
  set_of(&set, SIGUSR1, SIGRTMIN + 2);
  sigprocmask(SIG_BLOCK, &set, NULL);
  fd[0] = MUST(signalfd(-1, &set, SFD_NONBLOCK));
  fds_note();
}
static const char *signalfd_ok(void) {
  const char *why = fds_same();
  if (why) return why;
  char name[64], text[1024];
  snprintf(name, sizeof name, "/proc/self/fdinfo/%d", fd[0]);
  slurp(name, text, sizeof text);
  char *at = strstr(text, "sigmask:");
  uint64_t mask = at ? strtoull(at + 8, NULL, 16) : 0, want = 1UL << (SIGUSR1 - 1) | 1UL << (SIGRTMIN + 2 - 1);
  return mask == want ? NULL : no("mask is %#lx instead of %#lx", mask, want);
}
static const char *signalfd_finish(void) {
  struct signalfd_siginfo info = {0};
  union sigval value = {.sival_int = 4711};
  sigqueue(getpid(), SIGRTMIN + 2, value);
  ssize_t n = read(fd[0], &info, sizeof info);
  return n == sizeof info && info.ssi_int == 4711 ? NULL : no("reading gives %zd, value %d", n, info.ssi_int);
}
static void signalfd_change(void) {
  sigset_t set;
  set_of(&set, SIGUSR2, SIGRTMIN + 4);
  MUST(signalfd(fd[0], &set, 0));
}

static void epoll_setup(void) {
  fd[0] = MUST(epoll_create1(EPOLL_CLOEXEC));
  MUST(pipe(fd + 1));
  MUST(pipe(fd + 3));
  fd[5] = MUST(eventfd(1, 0));
  fd[6] = MUST(epoll_create1(0));  // watches the first one
  fd[7] = MUST(dup(fd[3]));
  struct epoll_event e = {EPOLLIN, {.u64 = 0x1111222233334444}};
  MUST(epoll_ctl(fd[0], EPOLL_CTL_ADD, fd[1], &e));
  e = (struct epoll_event){EPOLLIN | EPOLLET, {.u64 = 2}};
  MUST(epoll_ctl(fd[0], EPOLL_CTL_ADD, fd[3], &e));
  e = (struct epoll_event){EPOLLOUT | EPOLLONESHOT, {.u64 = 3}};
  MUST(epoll_ctl(fd[0], EPOLL_CTL_ADD, fd[4], &e));
  e = (struct epoll_event){EPOLLIN, {.u64 = 4}};
  MUST(epoll_ctl(fd[6], EPOLL_CTL_ADD, fd[0], &e));
  fds_note();
}
static int entries(int f, char *text, size_t size) {
  char name[64];
  int n = 0;
  snprintf(name, sizeof name, "/proc/self/fdinfo/%d", f);
  slurp(name, text, size);
  for (char *at = text; (at = strstr(at, "tfd:")); at++) n++;
  return n;
}
static const char *watched(int epoll, int f, unsigned events, uint64_t data) {
  char text[4096];
  entries(epoll, text, sizeof text);
  for (char *at = text; (at = strstr(at, "tfd:")); at++) {
    int t;
    unsigned e;
    unsigned long d;
    if (sscanf(at, "tfd: %d events: %x data: %lx", &t, &e, &d) == 3 && t == f && (e & 0xe000001fU) == events && d == data)
      return NULL;
  }
  return no("descriptor %d is not watched for %#x with %#lx", f, events, data);
}
static const char *epoll_ok(void) {
  char text[4096];
  part("first", watched(fd[0], fd[1], EPOLLIN | EPOLLERR | EPOLLHUP, 0x1111222233334444));
  part("edge", watched(fd[0], fd[3], EPOLLIN | EPOLLERR | EPOLLHUP | EPOLLET, 2));
  part("one-shot", watched(fd[0], fd[4], EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLONESHOT, 3));
  part("nested", watched(fd[6], fd[0], EPOLLIN | EPOLLERR | EPOLLHUP, 4));
  int n = entries(fd[0], text, sizeof text);
  part("entries", n != 3 ? no("%d instead of 3", n) : NULL);
  const char *why = fds_same();
  if (why) part("table", why);
  return parts();
}
static void epoll_change(void) {
  struct epoll_event e = {EPOLLPRI, {.u64 = 99}};
  MUST(epoll_ctl(fd[0], EPOLL_CTL_MOD, fd[1], &e));
  MUST(epoll_ctl(fd[0], EPOLL_CTL_DEL, fd[3], NULL));
  MUST(epoll_ctl(fd[0], EPOLL_CTL_DEL, fd[4], NULL));
  MUST(epoll_ctl(fd[0], EPOLL_CTL_ADD, fd[5], &e));
  MUST(epoll_ctl(fd[0], EPOLL_CTL_ADD, fd[2], &e));
  MUST(epoll_ctl(fd[0], EPOLL_CTL_ADD, fd[7], &e));
  MUST(epoll_ctl(fd[6], EPOLL_CTL_MOD, fd[0], &e));
}
static void epoll_closed(void) {
  for (int i = 0; i < 8; i++) close(fd[i]);
}
static const char *epoll_finish(void) {
  struct epoll_event e[8];
  int n = epoll_wait(fd[0], e, 8, 0);
  part("one-shot", n != 1 || e[0].data.u64 != 3 ? no("%d events, %lu", n, n > 0 ? e[0].data.u64 : 0) : NULL);
  write(fd[2], "x", 1);
  n = epoll_wait(fd[0], e, 8, 1000);
  part("first", n != 1 || e[0].data.u64 != 0x1111222233334444 ? no("%d events, %lx", n, n > 0 ? e[0].data.u64 : 0) : NULL);
  n = epoll_wait(fd[6], e, 8, 1000);
  part("nested", n != 1 || e[0].data.u64 != 4 ? no("%d events", n) : NULL);
  return parts();
}

/* ---- inotify: restored, or refused */

static int wd;
static void inotify_setup(void) {
  MUST(mkdir(path("watched"), 0700));
  fd[0] = MUST(inotify_init1(IN_NONBLOCK));
  wd = MUST(inotify_add_watch(fd[0], path("watched"), IN_CREATE));
  fds_note();
}
static const char *inotify_ok(void) {
  char name[64], text[1024];
  snprintf(name, sizeof name, "/proc/self/fdinfo/%d", fd[0]);
  slurp(name, text, sizeof text);
  int n = 0;
  for (char *at = text; (at = strstr(at, "inotify wd:")); at++) n++;
  if (n != 1) return no("%d watches instead of 1", n);
  char *mask = strstr(text, "mask:"), *number = strstr(text, "wd:");
  if (strtol(number + 3, NULL, 16) != wd) return no("watch is called %ld instead of %d", strtol(number + 3, NULL, 16), wd);
  return mask && strtoul(mask + 5, NULL, 16) == IN_CREATE ? fds_same() : no("the mask differs");
}
static void inotify_change(void) {
  MUST(inotify_rm_watch(fd[0], wd));
  MUST(inotify_add_watch(fd[0], path("."), IN_DELETE));
}
static const char *inotify_finish(void) {
  static char event[4096];
  static int round;
  char name[64];
  while (read(fd[0], event, sizeof event) > 0) {
  }
  snprintf(name, sizeof name, "watched/%d-%d-%ld", round++, times()->restarted, (long)(times()->back_end / 1000 % 1000000));
  close(open(path(name), O_CREAT | O_RDWR, 0600));
  ssize_t n = read(fd[0], event, sizeof event);
  return n > 0 ? NULL : no("reports no event for a new file");
}
static void inotify_closed(void) { close(fd[0]); }

/* ---- terminals; the size is that of a window and is not restored */

static void terminal_setup(void) {
  fd[0] = MUST(posix_openpt(O_RDWR | O_NOCTTY));
  MUST(grantpt(fd[0]));
  MUST(unlockpt(fd[0]));
  fd[1] = MUST(open(ptsname(fd[0]), O_RDWR | O_NOCTTY));
  struct termios t;
  MUST(tcgetattr(fd[1], &t));
  t.c_lflag &= ~(ECHO | ICANON);
  t.c_cc[VMIN] = 3;
  MUST(tcsetattr(fd[1], TCSANOW, &t));
  fds_note();
}
static const char *terminal_ok(void) {
  struct termios t = {0};
  tcgetattr(fd[1], &t);
  part("settings", t.c_lflag & (ECHO | ICANON) || t.c_cc[VMIN] != 3 ? no("differ") : NULL);
  return parts();
}
static void terminal_change(void) {
  struct termios t;
  MUST(tcgetattr(fd[1], &t));
  t.c_lflag |= ECHO | ICANON;
  t.c_cc[VMIN] = 1;
  MUST(tcsetattr(fd[1], TCSANOW, &t));
}
static const char *terminal_finish(void) {
  char text[16] = "";
  MUST(write(fd[0], "abc", 3));
  ssize_t n = read(fd[1], text, sizeof text);
  return n == 3 && !memcmp(text, "abc", 3) ? NULL : no("reading what was typed gives %zd", n);
}

/* ---- locks, owners */

static bool locked_elsewhere(int kind) {  // tests the lock from another open file description
  int other = open(path("locked"), O_RDWR);
  struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = kind == 1 ? 10 : 100, .l_len = 5};
  bool locked;
  if (kind == 0) {
    locked = flock(other, LOCK_EX | LOCK_NB) != 0;
  } else {
    fcntl(other, F_OFD_GETLK, &l);
    locked = l.l_type != F_UNLCK;
  }
  if (other >= 0 && kind == 0) close(other);  // closing would drop POSIX locks: keep those
  return locked;
}
static void locks_setup(void) {
  fd[0] = make("locked", O_RDWR);
  MUST(flock(fd[0], LOCK_EX));
  struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
  MUST(fcntl(fd[0], F_OFD_SETLK, &l));
}
static const char *locks_ok(void) {
  part("flock", locked_elsewhere(0) ? NULL : no("is not held"));
  part("OFD lock", locked_elsewhere(1) ? NULL : no("is not held"));
  return parts();
}
static void locks_change(void) {
  MUST(flock(fd[0], LOCK_UN));
  struct flock l = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
  MUST(fcntl(fd[0], F_OFD_SETLK, &l));
}
// Locks that the next description of the same file has taken over since: it must give them back first.
static void passed_on_setup(void) {
  locks_setup();
  fd[1] = MUST(open(path("locked"), O_RDWR));
}
static const char *passed_on_ok(void) {
  struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
  part("flock", flock(fd[1], LOCK_EX | LOCK_NB) ? NULL : no("is not held by the first description"));
  fcntl(fd[1], F_OFD_GETLK, &l);
  part("OFD lock", l.l_type != F_UNLCK ? NULL : no("is not held by the first description"));
  return parts();
}
static void passed_on_change(void) {
  locks_change();
  MUST(flock(fd[1], LOCK_EX));
  struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
  MUST(fcntl(fd[1], F_OFD_SETLK, &l));
}
static void posix_lock_setup(void) {
  fd[0] = make("locked", O_RDWR);
  struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = 5};
  MUST(fcntl(fd[0], F_SETLK, &l));
}
static const char *posix_lock_ok(void) {
  char text[8192], want[64];
  struct stat st;
  fstat(fd[0], &st);
  slurp("/proc/locks", text, sizeof text);
  snprintf(want, sizeof want, ":%lu 100 104", st.st_ino);
  return strstr(text, want) ? NULL : no("is not held");
}
static void posix_lock_change(void) {
  struct flock l = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
  MUST(fcntl(fd[0], F_SETLK, &l));
}

static void owner_setup(void) {
  MUST(pipe(fd));
  MUST(fcntl(fd[0], F_SETOWN, getpid()));
  MUST(fcntl(fd[0], F_SETSIG, SIGRTMIN + 1));
}
static const char *owner_ok(void) {
  part("owner", fcntl(fd[0], F_GETOWN) != getpid() ? no("%d", fcntl(fd[0], F_GETOWN)) : NULL);
  part("signal", fcntl(fd[0], F_GETSIG) != SIGRTMIN + 1 ? no("%d", fcntl(fd[0], F_GETSIG)) : NULL);
  return parts();
}
static void owner_change(void) {
  MUST(fcntl(fd[0], F_SETOWN, getpgrp() == getpid() ? 1 : 0));
  MUST(fcntl(fd[0], F_SETSIG, 0));
}

/* ---- many */

static void many_setup(void) {
  struct rlimit limit = {20000, 20000};
  MUST(setrlimit(RLIMIT_NOFILE, &limit));
  int f = make("many", O_RDONLY);
  for (int i = 0; i < 400; i++) MUST(lseek(MUST(open(path("many"), O_RDONLY)), i, SEEK_SET));
  MUST(dup2(f, 15000));
  fds_note();
}
static const char *many_ok(void) {
  return fcntl(15000, F_GETFD) < 0 ? no("descriptor 15000 is missing") : fds_same();
}
static void many_change(void) {
  for (int i = 10; i < 200; i++) close(i);
  for (int i = 200; i < 300; i++) lseek(i, 0, SEEK_SET);
  close(15000);
  struct rlimit limit = {1024, 20000};
  MUST(setrlimit(RLIMIT_NOFILE, &limit));
}

/* ---- files of /proc: after a restart the process's own files must be those of the new process */

enum { PROC_STATUS, PROC_MEM, PROC_MAPS, PROC_TASKS, PROC_THREAD, PROC_FDS, PROC_SYS, PROC_OOM, PROC_OTHER, PROC_FILES };
static struct worker proc_thread;
static char proc_secret[16] = "in my memory";
static void proc_setup(void) {
  char name[64];
  worker_start(&proc_thread);
  fd[PROC_STATUS] = MUST(open("/proc/self/status", O_RDONLY));
  fd[PROC_MEM] = MUST(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  fd[PROC_MAPS] = MUST(open("/proc/thread-self/maps", O_RDONLY));
  fd[PROC_TASKS] = MUST(open("/proc/self/task", O_RDONLY | O_DIRECTORY));
  snprintf(name, sizeof name, "/proc/self/task/%d/stat", proc_thread.tid);
  fd[PROC_THREAD] = MUST(open(name, O_RDONLY));
  fd[PROC_FDS] = MUST(open("/proc/self/fd", O_RDONLY | O_DIRECTORY));
  fd[PROC_SYS] = MUST(open("/proc/sys/kernel/pid_max", O_RDONLY));
  fd[PROC_OOM] = MUST(open("/proc/self/oom_score_adj", O_RDWR));
  fd[PROC_OTHER] = MUST(open("/proc/1/comm", O_RDONLY));
  MUST(lseek(fd[PROC_STATUS], 5, SEEK_SET));
  fds_note();
}
static void proc_user_setup(void) {
  become_user();
  MUST(prctl(PR_SET_DUMPABLE, 1));
  proc_setup();
}
static const char *proc_has(int i, const char *what) {
  static char text[8192];
  ssize_t n = pread(fd[i], text, sizeof text - 1, 0);
  if (n <= 0) return no("file %d of /proc: %zd, errno %d", i, n, errno);
  text[n] = 0;
  return strstr(text, what) ? NULL : no("file %d of /proc does not tell \"%s\"", i, what);
}
static const char *proc_ok(void) {
  char text[64];
  const char *why = fds_same();
  if (why) return why;
  snprintf(text, sizeof text, "Pid:\t%d\n", getpid());
  if ((why = proc_has(PROC_STATUS, text))) return why;
  if (pread(fd[PROC_MEM], text, sizeof proc_secret, (off_t)(uintptr_t)proc_secret) != sizeof proc_secret ||
      memcmp(text, proc_secret, sizeof proc_secret))
    return no("/proc/self/mem is not this memory");
  if ((why = proc_has(PROC_MAPS, "r-xp"))) return why;
  snprintf(text, sizeof text, "%d/comm", proc_thread.tid);
  if (faccessat(fd[PROC_TASKS], text, R_OK, 0)) return no("the thread is not in /proc/self/task");
  snprintf(text, sizeof text, "%d (", proc_thread.tid);
  if ((why = proc_has(PROC_THREAD, text))) return why;
  snprintf(text, sizeof text, "%d", fd[PROC_FDS]);
  if (faccessat(fd[PROC_FDS], text, F_OK, AT_SYMLINK_NOFOLLOW)) return no("the descriptor is not in /proc/self/fd");
  if ((why = proc_has(PROC_SYS, "\n"))) return why;
  return proc_has(PROC_OTHER, "\n");
}
static void proc_close(void) {
  for (int i = 0; i < PROC_FILES; i++) close(fd[i]);
}

static const struct scenario scenarios[] = {
    {.name = "files: positions", .setup = files_setup, .check = files_ok, .mutate = positions_change},
    {.name = "files: flags", .setup = files_setup, .check = files_ok, .mutate = flags_change},
    {.name = "files: opened, closed, duplicated", .setup = files_setup, .check = files_ok, .mutate = table_change},
    {.name = "files: all closed", .setup = files_setup, .check = files_ok, .mutate = all_closed},
    {.name = "unlinked file", .setup = unlinked_setup, .check = fds_same, .mutate = unlinked_change},
    {.name = "unlinked file, closed", .setup = unlinked_setup, .check = fds_same, .mutate = unlinked_closed},
    {.name = "file unlinked since", .flags = RESTART_MAY_REFUSE, .setup = unlink_since_setup, .check = position_77,
     .mutate = unlink_since},
    {.name = "directories and devices", .setup = devices_setup, .check = devices_ok, .mutate = devices_change},
    {.name = "files of /proc", .setup = proc_setup, .check = proc_ok, .mutate = proc_close},
    // Root must not open for a user a file that only the process itself may read, while it still has root's rights.
    {.name = "files of /proc of a user", .flags = RESTART_MAY_REFUSE, .setup = proc_user_setup, .check = proc_ok, .mutate = proc_close},
    {.name = "pipes and FIFOs", .setup = pipes_setup, .check = pipes_ok, .mutate = pipes_change, .finish = pipes_finish},
    {.name = "pipes and FIFOs, all closed", .setup = pipes_setup, .check = pipes_ok, .mutate = pipes_all_closed},
    {.name = "pipe of packets", .flags = CHECKPOINT_MAY_REFUSE, .setup = packets_setup, .check = packets_ok,
     .finish = packets_finish},
    {.name = "eventfd", .setup = eventfd_setup, .check = eventfd_ok, .finish = eventfd_finish},
    {.name = "timerfd", .setup = timerfd_setup, .check = timerfd_ok, .mutate = timerfd_change, .finish = timerfd_finish},
    {.name = "timerfd, closed", .setup = timerfd_setup, .check = timerfd_ok, .mutate = timerfd_closed},
    {.name = "timerfds becoming due", .setup = due_setup, .check = due_ok, .mutate = due_change},
    {.name = "signalfd", .setup = signalfd_setup, .check = signalfd_ok, .mutate = signalfd_change,
     .finish = signalfd_finish},
    {.name = "epoll", .setup = epoll_setup, .check = epoll_ok, .mutate = epoll_change, .finish = epoll_finish},
    {.name = "epoll, closed", .setup = epoll_setup, .check = epoll_ok, .mutate = epoll_closed, .finish = epoll_finish},
    {.name = "inotify", .flags = CHECKPOINT_MAY_REFUSE | PAUSE_MAY_REFUSE | RESTART_MAY_REFUSE, .setup = inotify_setup,
     .check = inotify_ok, .mutate = inotify_change, .finish = inotify_finish},
    {.name = "inotify, closed", .flags = CHECKPOINT_MAY_REFUSE | PAUSE_MAY_REFUSE | RESTART_MAY_REFUSE,
     .setup = inotify_setup, .check = inotify_ok, .mutate = inotify_closed, .finish = inotify_finish},
    {.name = "terminal", .flags = RESTART_MAY_REFUSE, .setup = terminal_setup, .check = terminal_ok,
     .mutate = terminal_change, .finish = terminal_finish},
    {.name = "flock and OFD locks", .setup = locks_setup, .check = locks_ok, .mutate = locks_change},
    {.name = "locks that were passed on", .setup = passed_on_setup, .check = passed_on_ok, .mutate = passed_on_change},
    {.name = "POSIX lock", .setup = posix_lock_setup, .check = posix_lock_ok, .mutate = posix_lock_change},
    {.name = "owner and signal", .setup = owner_setup, .check = owner_ok, .mutate = owner_change},
    {.name = "many descriptors", .setup = many_setup, .check = many_ok, .mutate = many_change},
    {},
};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, NULL); }
