// SPDX-License-Identifier: GPL-2.0-only
// Threads that wait in a system call: a checkpoint must not interrupt the call, and after
// a pause or restart they must be in the same call again.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

enum { FOREVER = -1, LONG = 1000000, SHORT = 3000 };  // ms

struct call {
  const char *name;
  long nr;
  long (*make)(struct call *);
  void (*wake)(struct call *);  // NULL: the timeout ends it
  long want;                    // result, or -errno
  int timeout;                  // ms
  bool whole;                   // the kernel keeps no remaining time: the timeout may start again
  bool absolute;
  int a, b;                     // descriptors or other arguments
  _Atomic int word;
  pthread_t thread;
  volatile pid_t tid;
  volatile int64_t began, ended;
  volatile bool inside, returned;
  volatile long result;
  sigset_t mask_before, mask_after;
};

static _Atomic int handled;  // two threads may be in their handlers at once
static void on_signal(int signal) {
  (void)signal;
  handled++;
}

static void *run_call(void *arg) {
  struct call *c = arg;
  pthread_sigmask(SIG_SETMASK, NULL, &c->mask_before);
  c->tid = gettid_();
  c->began = now_ns();
  c->inside = true;
  errno = 0;
  long result = c->make(c);
  c->result = result < 0 ? -errno : result;
  c->ended = now_ns();
  pthread_sigmask(SIG_SETMASK, NULL, &c->mask_after);
  c->returned = true;
  while (c->returned) sleep_ms(1000);
  return NULL;
}

/* ---- the calls */

static void use_pipe(struct call *c) {
  int ends[2];
  MUST(pipe(ends));
  c->a = ends[0], c->b = ends[1];
}
static void write_byte(struct call *c) { MUST(write(c->b, "x", 1)); }
static long then_read(struct call *c, long result) {
  char byte;
  return result == 1 && read(c->a, &byte, 1) != 1 ? -1 : result;
}
static const struct timespec *spec(struct call *c, struct timespec *t) {
  *t = (struct timespec){c->timeout / 1000, c->timeout % 1000 * 1000000L};
  return c->timeout < 0 ? NULL : t;
}
static void other_mask(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGUSR2);
  sigaddset(set, SIGRTMIN + 7);
}

static long do_read(struct call *c) {
  char byte[2];
  return read(c->a, byte, 2);
}
static long do_read_eventfd(struct call *c) {
  uint64_t value = 0;
  return read(c->a, &value, 8) == 8 ? (long)value : -1;
}
static void write_eventfd(struct call *c) {
  uint64_t value = 42;
  MUST(write(c->a, &value, 8));
}
static char block[65536];
static long do_write(struct call *c) { return write(c->b, block, 4096); }
static void drain(struct call *c) { MUST(read(c->a, block, 8192)); }
static long do_poll(struct call *c) {
  struct pollfd p = {c->a, POLLIN, 0};
  return then_read(c, poll(&p, 1, c->timeout));
}
static long do_ppoll(struct call *c) {
  struct pollfd p = {c->a, POLLIN, 0};
  struct timespec t;
  sigset_t set;
  other_mask(&set);
  return then_read(c, ppoll(&p, 1, spec(c, &t), &set));
}
static long do_select(struct call *c) {
  struct timeval t = {c->timeout / 1000, c->timeout % 1000 * 1000};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(c->a, &set);
  return then_read(c, syscall(SYS_select, c->a + 1, &set, NULL, NULL, c->timeout < 0 ? NULL : &t));
}
static long do_pselect(struct call *c) {
  struct timespec t;
  sigset_t mask;
  other_mask(&mask);
  fd_set set;
  FD_ZERO(&set);
  FD_SET(c->a, &set);
  return then_read(c, pselect(c->a + 1, &set, NULL, NULL, spec(c, &t), &mask));
}
static long do_epoll_wait(struct call *c) {
  struct epoll_event e;
  return then_read(c, epoll_wait(c->word, &e, 1, c->timeout));
}
static long do_epoll_pwait(struct call *c) {
  struct epoll_event e;
  sigset_t mask;
  other_mask(&mask);
  return then_read(c, epoll_pwait(c->word, &e, 1, c->timeout, &mask));
}
static long do_futex(struct call *c) {
  struct timespec t;
  return syscall(SYS_futex, &c->word, FUTEX_WAIT_PRIVATE, 0, spec(c, &t), NULL, 0);
}
static void wake_futex(struct call *c) {
  c->word = 1;
  syscall(SYS_futex, &c->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long do_cond(struct call *c) {
  struct timespec t;
  int got = 0;
  clock_gettime(CLOCK_REALTIME, &t);
  int64_t end = t.tv_sec * 1000000000LL + t.tv_nsec + c->timeout * 1000000LL;
  t = (struct timespec){end / 1000000000, end % 1000000000};
  pthread_mutex_lock(&lock);
  while (!c->word && !got) got = pthread_cond_timedwait(&changed, &lock, &t);
  pthread_mutex_unlock(&lock);
  errno = got;
  return got ? -1 : 7;
}
static void wake_cond(struct call *c) {
  pthread_mutex_lock(&lock);
  c->word = 1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}
static long do_nanosleep(struct call *c) {
  struct timespec t, left = {0};
  spec(c, &t);
  long result = syscall(SYS_nanosleep, &t, &left);
  if (result < 0 && errno == EINTR && (left.tv_sec < 900 || left.tv_sec >= 1000)) errno = ERANGE;
  return result;
}
static long do_absolute_sleep(struct call *c) {
  int64_t end = now_ns() + c->timeout * 1000000LL;
  struct timespec t = {end / 1000000000, end % 1000000000};
  errno = (int)syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
  return errno ? -1 : 0;
}
static long do_sigtimedwait(struct call *c) {
  struct timespec t;
  siginfo_t info;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, c->b);
  long got = sigtimedwait(&set, &info, spec(c, &t));
  return got == c->b ? 5 : got;
}
static void send_signal(struct call *c) { MUST(syscall(SYS_tgkill, getpid(), c->tid, c->b)); }
static long do_sigsuspend(struct call *c) {
  sigset_t set;
  (void)c;
  sigemptyset(&set);
  return sigsuspend(&set);
}
static void send_then_write(struct call *c) {
  MUST(syscall(SYS_tgkill, getpid(), c->tid, SIGUSR2));  // its handler has SA_RESTART
  sleep_ms(50);
  write_byte(c);
}
static long do_accept(struct call *c) {
  int got = accept(c->a, NULL, NULL);
  return got < 0 ? got : 0;
}
static void connect_to(struct call *c) {
  struct sockaddr_in to;
  socklen_t size = sizeof to;
  MUST(getsockname(c->a, (struct sockaddr *)&to, &size));
  int s = MUST(socket(AF_INET, SOCK_STREAM, 0));
  MUST(connect(s, (struct sockaddr *)&to, size));
}
static long do_open_fifo(struct call *c) {
  int fd = open(path("fifo"), O_RDONLY);
  (void)c;
  return fd < 0 ? fd : close(fd);
}
static void open_fifo(struct call *c) {
  (void)c;
  int fd = MUST(open(path("fifo"), O_WRONLY));
  sleep_ms(20);
  close(fd);
}
static long do_recv(struct call *c) {
  char byte;
  return recv(c->a, &byte, 1, 0);
}
static long do_flock(struct call *c) { return flock(c->a, LOCK_EX); }
static void undo_flock(struct call *c) { MUST(flock(c->b, LOCK_UN)); }
static long do_ofd_lock(struct call *c) {
  struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
  return fcntl(c->a, F_OFD_SETLKW, &l);
}
static void undo_ofd_lock(struct call *c) {
  struct flock l = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
  MUST(fcntl(c->b, F_OFD_SETLK, &l));
}

/* ---- groups of calls */

static struct call until_event[] = {
    {"read(pipe)", SYS_read, do_read, write_byte, 1, FOREVER},
    {"read(eventfd)", SYS_read, do_read_eventfd, write_eventfd, 42, FOREVER},
    {"write(full pipe)", SYS_write, do_write, drain, 4096, FOREVER},
    {"futex", SYS_futex, do_futex, wake_futex, 0, FOREVER},
    {"poll", SYS_poll, do_poll, write_byte, 1, FOREVER},
    {"ppoll", SYS_ppoll, do_ppoll, write_byte, 1, FOREVER},
    {"select", SYS_select, do_select, write_byte, 1, FOREVER},
    {"pselect", SYS_pselect6, do_pselect, write_byte, 1, FOREVER},
    {"epoll_wait", SYS_epoll_wait, do_epoll_wait, write_byte, 1, FOREVER},
    {"epoll_pwait", SYS_epoll_pwait, do_epoll_pwait, write_byte, 1, FOREVER},
    {"sigtimedwait", SYS_rt_sigtimedwait, do_sigtimedwait, send_signal, 5, FOREVER},
    {"sigsuspend", SYS_rt_sigsuspend, do_sigsuspend, send_signal, -EINTR, FOREVER, .b = SIGUSR1},
    {"accept", SYS_accept, do_accept, connect_to, 0, FOREVER},
    {"open(FIFO)", SYS_openat, do_open_fifo, open_fifo, 0, FOREVER},
    {"read, interrupted", SYS_read, do_read, send_signal, -EINTR, FOREVER, .b = SIGUSR1},
    {"read, SA_RESTART", SYS_read, do_read, send_then_write, 1, FOREVER},
    {}};
static struct call long_timeout[] = {
    {"futex", SYS_futex, do_futex, wake_futex, 0, LONG},
    {"cond_timedwait", SYS_futex, do_cond, wake_cond, 7, LONG},
    {"poll", SYS_poll, do_poll, write_byte, 1, LONG},
    {"ppoll", SYS_ppoll, do_ppoll, write_byte, 1, LONG},
    {"select", SYS_select, do_select, write_byte, 1, LONG},
    {"pselect", SYS_pselect6, do_pselect, write_byte, 1, LONG},
    {"epoll_wait", SYS_epoll_wait, do_epoll_wait, write_byte, 1, LONG},
    {"sigtimedwait", SYS_rt_sigtimedwait, do_sigtimedwait, send_signal, 5, LONG},
    {"accept, SO_RCVTIMEO", SYS_accept, do_accept, connect_to, 0, LONG},
    {"nanosleep, interrupted", SYS_nanosleep, do_nanosleep, send_signal, -EINTR, LONG, .b = SIGUSR1},
    {}};
static struct call short_timeout[] = {
    {"futex", SYS_futex, do_futex, NULL, -ETIMEDOUT, SHORT},
    {"cond_timedwait", SYS_futex, do_cond, NULL, -ETIMEDOUT, SHORT, .absolute = true},
    {"poll", SYS_poll, do_poll, NULL, 0, SHORT},
    {"ppoll", SYS_ppoll, do_ppoll, NULL, 0, SHORT},
    {"select", SYS_select, do_select, NULL, 0, SHORT},
    {"pselect", SYS_pselect6, do_pselect, NULL, 0, SHORT},
    {"epoll_wait", SYS_epoll_wait, do_epoll_wait, NULL, 0, SHORT, .whole = true},
    {"sigtimedwait", SYS_rt_sigtimedwait, do_sigtimedwait, NULL, -EAGAIN, SHORT, .whole = true},
    {"nanosleep", SYS_nanosleep, do_nanosleep, NULL, 0, SHORT},
    {"clock_nanosleep(absolute)", SYS_clock_nanosleep, do_absolute_sleep, NULL, 0, SHORT, .absolute = true},
    {}};
static struct call on_sockets[] = {
    {"recv(socketpair)", SYS_recvfrom, do_recv, write_byte, 1, FOREVER},
    {"recv, SO_RCVTIMEO", SYS_recvfrom, do_recv, write_byte, 1, LONG},
    {"read, SO_RCVTIMEO", SYS_read, do_read, write_byte, 1, LONG},
    {"poll(socketpair)", SYS_poll, do_poll, write_byte, 1, LONG},
    {}};
static struct call on_locks[] = {
    {"flock", SYS_flock, do_flock, undo_flock, 0, FOREVER},
    {"fcntl(F_OFD_SETLKW)", SYS_fcntl, do_ofd_lock, undo_ofd_lock, 0, FOREVER},
    {}};
static struct call *calls;

static bool waits(void *arg) {
  struct call *c = arg;
  return thread_in_call(c->tid, c->nr) || thread_in_call(c->tid, SYS_restart_syscall);
}
static bool has_returned(void *arg) { return ((struct call *)arg)->returned; }

static void prepare(struct call *c, int i) {
  if (calls == on_sockets) {
    int ends[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    c->a = ends[0], c->b = ends[1];
  } else if (calls == on_locks) {
    c->a = MUST(open(path("locked"), O_RDWR | O_CREAT, 0600));
    c->b = MUST(open(path("locked"), O_RDWR));
    if (c->make == do_flock) MUST(flock(c->b, LOCK_EX));
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 100};
    if (c->make == do_ofd_lock) MUST(fcntl(c->b, F_OFD_SETLK, &l));
  } else if (c->make == do_read_eventfd) {
    c->a = MUST(eventfd(0, 0));
  } else if (c->make == do_accept) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;  // connections of the old process may still use the port
    c->a = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(setsockopt(c->a, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
    MUST(bind(c->a, (struct sockaddr *)&any, sizeof any));
    MUST(listen(c->a, 4));
  } else if (c->make == do_open_fifo) {
    MUST(mkfifo(path("fifo"), 0600));
  } else if (c->make == do_sigtimedwait) {
    c->b = SIGRTMIN + i % 8;
  } else if (!c->b) {
    use_pipe(c);
  } else {  // b is a signal
    int keep = c->b;
    use_pipe(c);
    c->b = keep;
  }
  // With a timeout a socket call returns EINTR, which the kernel does not restart.
  struct timeval limit = {c->timeout / 1000, 0};
  if ((c->make == do_accept || calls == on_sockets) && c->timeout > 0)
    MUST(setsockopt(c->a, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
  if (c->make == do_write) {
    MUST(fcntl(c->b, F_SETPIPE_SZ, 8192));
    MUST(write(c->b, block, 8192));
  }
  if (c->nr == SYS_epoll_wait || c->nr == SYS_epoll_pwait) {
    struct epoll_event e = {EPOLLIN, {.fd = c->a}};
    c->word = MUST(epoll_create1(0));
    MUST(epoll_ctl(c->word, EPOLL_CTL_ADD, c->a, &e));
  }
}

static void start(struct call *list) {
  sigset_t waited;
  calls = list;
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGUSR1, &action, NULL);
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR2, &action, NULL);
  sigemptyset(&waited);
  for (int i = 0; i < 8; i++) sigaddset(&waited, SIGRTMIN + i);
  pthread_sigmask(SIG_BLOCK, &waited, NULL);
  int i = 0;
  for (struct call *c = list; c->name; c++, i++) {
    prepare(c, i);
    if ((errno = pthread_create(&c->thread, NULL, run_call, c))) die("pthread_create: errno %d", errno);
    for (int j = 0; j < 5000 && !c->inside; j++) sleep_ms(1);
    if (!soon(waits, c, 5000)) die("%s does not wait", c->name);
  }
}

static const char *still_waiting(void) {
  for (struct call *c = calls; c->name; c++) {
    const char *why = NULL;
    // A rollback does not postpone an absolute deadline, which may have passed.
    if (c->absolute && times()->back_start && now_ns() > c->began + c->timeout * 1000000LL) continue;
    if (c->returned)
      why = no("has returned %ld", c->result);
    else if (!thread_exists(c->tid))
      why = no("its thread does not exist");
    else if (!soon(waits, c, 3000) && !c->returned)
      why = no("does not wait in the call");
    else if (c->returned)
      why = no("has returned %ld", c->result);
    part(c->name, why);
  }
  if (handled) part("signal handlers", no("have run"));
  return parts();
}

static const char *right_time(const struct call *c) {
  const struct times *t = times();
  int64_t ms = 1000000, whole = c->timeout * ms, slack = 2500 * ms;
  int64_t from, to;
  if (!t->back_start) {
    from = c->began + whole;
    to = from + slack;
  } else {
    from = t->back_start + whole - (t->checkpoint_end - c->began);
    to = t->back_end + whole - (t->checkpoint_start - c->began) + slack;
  }
  int64_t latest = t->back_start ? t->back_end : t->checkpoint_end;
  if (c->absolute) {
    from = c->began + whole;
    to = (from > latest ? from : latest) + slack + (t->back_start ? whole : 0);  // or later by the remaining time
  } else if (c->whole && to < latest + whole + slack) {
    to = latest + whole + slack;
  }
  if (c->ended < from - 60 * ms) return no("ended %ld ms too early", (from - c->ended) / ms);
  if (c->ended > to) return no("ended %ld ms too late", (to - slack - c->ended) / -ms);
  return NULL;
}

static const char *ends_right(void) {
  for (struct call *c = calls; c->name; c++)
    if (c->wake) c->wake(c);
  for (struct call *c = calls; c->name; c++) {
    const char *why = NULL;
    if (!soon(has_returned, c, c->wake ? 5000 : c->timeout * 2 + 5000))
      why = no("does not return");
    else if (c->result != c->want)
      why = no("returned %ld instead of %ld", c->result, c->want);
    else if (memcmp(&c->mask_before, &c->mask_after, 8))
      why = no("left the signal mask at %#lx instead of %#lx", *(long *)&c->mask_after, *(long *)&c->mask_before);
    else if (!c->wake)
      why = right_time(c);
    part(c->name, why);
  }
  int want = calls == until_event ? 3 : calls == long_timeout ? 1 : 0;
  if (handled != want) part("signal handlers", no("have run %d times instead of %d", handled, want));
  return parts();
}

static void start_until_event(void) { start(until_event); }
static void start_long_timeout(void) { start(long_timeout); }
static void start_short_timeout(void) { start(short_timeout); }
static void start_on_sockets(void) { start(on_sockets); }
static void start_on_locks(void) { start(on_locks); }

/* ---- waitpid: a child is not rolled back, so its end is tested last */

static pid_t child;
static volatile int counter;
static long do_waitpid(struct call *c) {
  int status = 0;
  long got = waitpid(child, &status, 0);
  (void)c;
  return got == child && WIFSIGNALED(status) ? 9 : got;
}
static void kill_child(struct call *c) {
  (void)c;
  kill(child, SIGKILL);
}
static struct call on_child[] = {{"waitpid", SYS_wait4, do_waitpid, kill_child, 9, FOREVER}, {}};
static void start_on_child(void) {
  child = MUST(fork());
  if (!child)
    while (true) pause();
  start(on_child);
}
static const char *waits_for_child(void) { return counter ? no("the counter is %d", counter) : still_waiting(); }
static void count(void) { counter++; }

// After a restart the process has no child.
static void start_childless(void) {
  start_on_child();
  on_child[0].want = -ECHILD;
}
static const char *gets_echild(void) {
  struct call *c = on_child;
  if (!soon(has_returned, c, 5000)) return no("waitpid does not return");
  return c->result == -ECHILD ? NULL : no("waitpid returned %ld", c->result);
}
static const char *waits_or_echild(void) { return times()->restarted ? gets_echild() : waits_for_child(); }

static const struct scenario scenarios[] = {
    {.name = "calls that wait for an event", .setup = start_until_event, .check = still_waiting, .finish = ends_right},
    {.name = "calls only frozen", .flags = MANY_FREEZES | NO_PAUSE | NO_RESTART, .setup = start_until_event,
     .check = still_waiting, .finish = ends_right},
    {.name = "calls with a long timeout", .flags = MANY_FREEZES, .setup = start_long_timeout, .check = still_waiting,
     .finish = ends_right},
    {.name = "calls whose timeout ends", .setup = start_short_timeout, .check = still_waiting, .finish = ends_right},
    {.name = "calls on sockets", .flags = NO_RESTART, .setup = start_on_sockets, .check = still_waiting,
     .finish = ends_right},
    {.name = "calls that wait for a lock", .setup = start_on_locks, .check = still_waiting, .finish = ends_right},
    {.name = "waitpid", .flags = NO_RESTART | FINISH_LAST, .setup = start_on_child, .check = waits_for_child,
     .mutate = count, .finish = ends_right},
    {.name = "waitpid, restarted", .flags = NO_PAUSE | RESTART_MAY_REFUSE, .setup = start_childless,
     .check = waits_or_echild, .mutate = count},
    {},
};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, NULL); }
