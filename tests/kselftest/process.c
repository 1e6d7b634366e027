// SPDX-License-Identifier: GPL-2.0-only
// Attributes of the process as a whole: signals, timers, limits, names, rights.
#include <asm/ldt.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

/* ---- dispositions and pending signals */

static volatile int counted[65];
static void count(int signal) { counted[signal]++; }
static void count_info(int signal, siginfo_t *info, void *context) {
  (void)info, (void)context;
  counted[signal]++;
}

static void dispositions_setup(void) {
  struct sigaction a = {.sa_handler = count, .sa_flags = SA_RESTART | SA_NODEFER};
  sigaddset(&a.sa_mask, SIGUSR2);
  sigaction(SIGUSR1, &a, NULL);
  struct sigaction b = {.sa_sigaction = count_info, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigaction(SIGRTMIN + 3, &b, NULL);
  signal(SIGHUP, SIG_IGN);
  signal(SIGCHLD, SIG_IGN);
}
static const char *action_is(int signal_, void *handler, int flags, int masked) {
  struct sigaction a;
  sigaction(signal_, NULL, &a);
  if ((void *)a.sa_handler != handler) return no("handler is %p", (void *)a.sa_handler);
  if ((a.sa_flags & ~0x4000000) != flags) return no("flags are %#x", a.sa_flags);
  return masked && !sigismember(&a.sa_mask, masked) ? no("its mask differs") : NULL;
}
static const char *dispositions_ok(void) {
  part("with a mask", action_is(SIGUSR1, count, SA_RESTART | SA_NODEFER, SIGUSR2));
  part("real-time", action_is(SIGRTMIN + 3, count_info, SA_SIGINFO | SA_ONSTACK, 0));
  part("ignored", action_is(SIGHUP, SIG_IGN, SA_RESTART, 0));
  part("default", action_is(SIGTERM, SIG_DFL, 0, 0));
  part("children", action_is(SIGCHLD, SIG_IGN, SA_RESTART, 0));
  return parts();
}
static void dispositions_change(void) {
  signal(SIGUSR1, SIG_DFL);
  signal(SIGHUP, count);
  signal(SIGTERM, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);
  struct sigaction b = {.sa_handler = count};
  sigaction(SIGRTMIN + 3, &b, NULL);
}
static const char *dispositions_finish(void) {
  int before = counted[SIGUSR1];
  raise(SIGUSR1);
  raise(SIGHUP);
  return counted[SIGUSR1] == before + 1 ? NULL : no("the handler does not run");
}

static struct worker w;
static const int waiting[] = {SIGUSR1, SIGUSR2, 40, 41, 42};
static const char *queue_own(void *arg) {
  union sigval value = {.sival_int = 77};
  (void)arg;
  pthread_sigqueue(pthread_self(), 42, value);
  raise(SIGUSR2);  // pending for this thread alone
  return NULL;
}
static void pending_setup(void) {
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < ARRAY_SIZE(waiting); i++) sigaddset(&set, waiting[i]);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  worker_start(&w);
  kill(getpid(), SIGUSR1);
  for (int i = 0; i < 3; i++) {  // real-time signals queue, in order
    union sigval value = {.sival_ptr = (void *)(0x100000000L + i)};
    sigqueue(getpid(), 40, value);
  }
  worker_do(&w, queue_own, NULL);
}
static bool is_pending(int signal_) {
  sigset_t set;
  sigpending(&set);
  return sigismember(&set, signal_);
}
static const char *own_pending(void *arg) {
  (void)arg;
  if (!is_pending(42)) return no("the real-time one is not");
  return is_pending(SIGUSR2) ? NULL : no("the standard one is not");
}
static const char *pending_ok(void) {
  part("standard", is_pending(SIGUSR1) ? NULL : no("is not pending"));
  part("real-time", is_pending(40) ? NULL : no("is not pending"));
  part("sent since", is_pending(41) ? no("is pending") : NULL);
  part("a thread's own", worker_do(&w, own_pending, NULL));
  if (is_pending(SIGUSR2)) part("another thread's", no("is pending here"));
  return parts();
}
static int take(int signal_, siginfo_t *info) {
  static const struct timespec now = {0};
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal_);
  memset(info, 0, sizeof *info);
  return sigtimedwait(&set, info, &now);
}
static const char *take_own(void *arg) {
  siginfo_t info;
  (void)arg;
  if (take(42, &info) != 42 || info.si_value.sival_int != 77 || info.si_code != SI_QUEUE)
    return no("code %d, value %d", info.si_code, info.si_value.sival_int);
  int got = take(SIGUSR2, &info);  // the C library shows SI_TKILL as SI_USER
  if (got != SIGUSR2 || info.si_code != SI_USER || info.si_pid != getpid())
    return no("the standard one: %d, code %d, from %d", got, info.si_code, info.si_pid);
  return take(42, &info) == -1 ? NULL : no("one too many");
}
static const char *pending_finish(void) {
  siginfo_t info;
  int got = take(SIGUSR1, &info);
  part("standard", got != SIGUSR1 || info.si_code != SI_USER || info.si_pid != getpid() || info.si_uid != getuid()
                       ? no("%d, code %d, from %d", got, info.si_code, info.si_pid)
                       : NULL);
  for (int i = 0; i < 3; i++) {
    got = take(40, &info);
    part("real-time", got != 40 || info.si_code != SI_QUEUE || info.si_value.sival_ptr != (void *)(0x100000000L + i)
                          ? no("number %d: %d, code %d, value %p", i, got, info.si_code, info.si_value.sival_ptr)
                          : NULL);
  }
  part("queue", take(40, &info) == -1 ? NULL : no("one too many"));
  part("a thread's own", worker_do(&w, take_own, NULL));
  return parts();
}
static void pending_change(void) {
  siginfo_t info;
  take(SIGUSR1, &info);
  while (take(40, &info) == 40) {
  }
  worker_do(&w, take_own, NULL);
  for (int i = 0; i < 5; i++) kill(getpid(), 41);
}
static void pending_more(void) {  // adds to the pending signals
  union sigval value = {.sival_int = 1};
  for (int i = 0; i < 5; i++) kill(getpid(), 41);
  sigqueue(getpid(), 40, value);
}
static const char *no_41(void) { return is_pending(41) ? no("a signal sent since is pending") : NULL; }

/* ---- interval timers and POSIX timers, with the remaining time */

static void itimers_setup(void) {
  struct itimerval real = {{50, 0}, {1000, 0}}, virtual_ = {{0, 0}, {2000, 0}}, prof = {{70, 0}, {3000, 0}};
  signal(SIGALRM, count);
  MUST(setitimer(ITIMER_REAL, &real, NULL));
  MUST(setitimer(ITIMER_VIRTUAL, &virtual_, NULL));
  MUST(setitimer(ITIMER_PROF, &prof, NULL));
}
static const char *itimer_is(int which, long left, long interval) {
  struct itimerval now;
  getitimer(which, &now);
  return now.it_interval.tv_sec != interval || now.it_value.tv_sec > left || now.it_value.tv_sec < left - 60
             ? no("%ld s left, interval %ld s", now.it_value.tv_sec, now.it_interval.tv_sec)
             : NULL;
}
static const char *itimers_ok(void) {
  part("real", itimer_is(ITIMER_REAL, 1000, 50));
  part("virtual", itimer_is(ITIMER_VIRTUAL, 2000, 0));
  part("prof", itimer_is(ITIMER_PROF, 3000, 70));
  return parts();
}
static void itimers_change(void) {
  struct itimerval none = {0}, other = {{1, 0}, {500, 0}};
  MUST(setitimer(ITIMER_REAL, &other, NULL));
  MUST(setitimer(ITIMER_VIRTUAL, &none, NULL));
  MUST(setitimer(ITIMER_PROF, &none, NULL));
}

// Expires 3 s after it was set; after a rollback, when the time that remained at the checkpoint has passed.
static int64_t alarm_set;
static volatile int64_t alarm_rang;
static void ring(int signal_) {
  (void)signal_;
  alarm_rang = now_ns();
}
static void alarm_setup(void) {
  signal(SIGALRM, ring);
  struct itimerval once = {{0, 0}, {3, 0}};
  alarm_set = now_ns();
  MUST(setitimer(ITIMER_REAL, &once, NULL));
}
static const char *alarm_ok(void) {
  struct itimerval now;
  getitimer(ITIMER_REAL, &now);
  if (alarm_rang) return no("has rung");
  return now.it_value.tv_sec || now.it_value.tv_usec ? NULL : no("is not set");
}
static bool rang(void *arg) {
  (void)arg;
  return alarm_rang != 0;
}
static const char *alarm_finish(void) {
  const struct times *t = times();
  int64_t from = alarm_set + 3000000000, to = from;
  if (!soon(rang, NULL, 8000)) return no("does not ring");
  if (t->back_start) {
    from = t->back_start + 3000000000 - (t->checkpoint_end - alarm_set);
    to = t->back_end + 3000000000 - (t->checkpoint_start - alarm_set);
  }
  if (alarm_rang < from - 60000000) return no("rings %ld ms too early", (from - alarm_rang) / 1000000);
  return alarm_rang > to + 2500000000 ? no("rings %ld ms too late", (alarm_rang - to) / 1000000) : NULL;
}

enum { TIMERS = 5 };
static int timer[TIMERS];  // the kernel's timer ids
static pid_t main_tid;
static int make_timer(clockid_t clock, struct sigevent *event) {
  int id;
  MUST(syscall(SYS_timer_create, clock, event, &id));
  return id;
}
static void timers_setup(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, 45);
  sigaddset(&set, 46);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  main_tid = gettid_();
  struct sigevent by_signal = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = 45, .sigev_value.sival_int = 99};
  struct sigevent none = {.sigev_notify = SIGEV_NONE};
  struct sigevent to_thread = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = 46};
  to_thread._sigev_un._tid = main_tid;
  make_timer(CLOCK_REALTIME, &none);  // id 0: deleted again below, so that the ids do not start at 0
  timer[0] = make_timer(CLOCK_MONOTONIC, &by_signal);
  timer[1] = make_timer(CLOCK_REALTIME, &none);
  timer[2] = make_timer(CLOCK_BOOTTIME, &to_thread);
  timer[3] = make_timer(CLOCK_MONOTONIC, &by_signal);        // not armed (with SIGEV_NONE the kernel shows an old time)
  timer[4] = make_timer(CLOCK_PROCESS_CPUTIME_ID, &none);
  syscall(SYS_timer_delete, 0);
  struct itimerspec a = {{0, 0}, {1000, 0}}, b = {{20, 0}, {2000, 0}}, c = {{0, 0}, {3000, 0}}, d = {{0, 0}, {4000, 0}};
  MUST(syscall(SYS_timer_settime, timer[0], 0, &a, NULL));
  MUST(syscall(SYS_timer_settime, timer[1], 0, &b, NULL));
  MUST(syscall(SYS_timer_settime, timer[2], 0, &c, NULL));
  MUST(syscall(SYS_timer_settime, timer[4], 0, &d, NULL));
}
static const char *timer_is(int id, long left, long interval) {
  struct itimerspec now = {0};
  if (syscall(SYS_timer_gettime, id, &now)) return no("timer %d does not exist", id);
  return now.it_interval.tv_sec != interval || now.it_value.tv_sec > left || now.it_value.tv_sec < left - 60
             ? no("%ld s left, interval %ld s", now.it_value.tv_sec, now.it_interval.tv_sec)
             : NULL;
}
static const char *timers_ok(void) {
  part("by signal", timer_is(timer[0], 1000, 0));
  part("interval", timer_is(timer[1], 2000, 20));
  part("to a thread", timer_is(timer[2], 3000, 0));
  part("not armed", timer_is(timer[3], 0, 0));
  part("of CPU time", timer_is(timer[4], 4000, 0));
  struct itimerspec now;
  int extra = 0;
  for (int id = 0; id < 40; id++) extra += syscall(SYS_timer_gettime, id, &now) == 0;
  part("number of timers", extra != TIMERS ? no("%d instead of %d", extra, TIMERS) : NULL);
  return parts();
}
static void timers_change(void) {
  struct sigevent none = {.sigev_notify = SIGEV_NONE};
  struct itimerspec other = {{1, 0}, {500, 0}};
  MUST(syscall(SYS_timer_settime, timer[0], 0, &other, NULL));
  MUST(syscall(SYS_timer_settime, timer[1], 0, &other, NULL));
  MUST(syscall(SYS_timer_settime, timer[2], 0, &other, NULL));
  MUST(syscall(SYS_timer_settime, timer[3], 0, &other, NULL));
  MUST(syscall(SYS_timer_settime, timer[4], 0, &other, NULL));
  make_timer(CLOCK_MONOTONIC, &none);
}
static void timers_deleted(void) {
  for (int i = 0; i < TIMERS; i++) MUST(syscall(SYS_timer_delete, timer[i]));
}
static const char *timers_finish(void) {
  struct itimerspec soon_ = {{0, 0}, {0, 1000000}};
  struct timespec limit = {5, 0};
  siginfo_t info;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, 45);
  MUST(syscall(SYS_timer_settime, timer[0], 0, &soon_, NULL));
  int got = sigtimedwait(&set, &info, &limit);
  part("by signal", got != 45 || info.si_code != SI_TIMER || info.si_value.sival_int != 99
                        ? no("%d, code %d, value %d", got, info.si_code, info.si_value.sival_int)
                        : NULL);
  sigemptyset(&set);
  sigaddset(&set, 46);
  MUST(syscall(SYS_timer_settime, timer[2], 0, &soon_, NULL));
  got = sigtimedwait(&set, &info, &limit);
  part("to a thread", got != 46 ? no("%d", got) : NULL);
  return parts();
}

/* ---- directory, umask, limits, names */

static void surroundings_setup(void) {
  MUST(mkdir(path("here"), 0700));
  MUST(chdir(path("here")));
  umask(027);
  struct rlimit files = {800, 4000}, core = {1000000, 2000000}, stack = {6 * MB, RLIM_INFINITY};
  MUST(setrlimit(RLIMIT_NOFILE, &files));
  MUST(setrlimit(RLIMIT_CORE, &core));
  MUST(setrlimit(RLIMIT_STACK, &stack));
  MUST(prctl(PR_SET_NAME, "called so"));
  MUST(prctl(PR_SET_CHILD_SUBREAPER, 1));
  MUST(personality(ADDR_NO_RANDOMIZE));
  int fd = MUST(open("/proc/self/oom_score_adj", O_WRONLY));
  MUST(write(fd, "321", 3));
  close(fd);
}
static const char *limit_is(int which, rlim_t soft, rlim_t hard) {
  struct rlimit now;
  getrlimit(which, &now);
  return now.rlim_cur != soft || now.rlim_max != hard ? no("%lu, %lu", now.rlim_cur, now.rlim_max) : NULL;
}
static const char *surroundings_ok(void) {
  char text[256], name[16];
  part("directory", getcwd(text, sizeof text) && !strcmp(text, path("here")) ? NULL : no("%s", text));
  mode_t mask = umask(0);
  umask(mask);
  part("umask", mask != 027 ? no("%#o", mask) : NULL);
  part("limit of files", limit_is(RLIMIT_NOFILE, 800, 4000));
  part("limit of core", limit_is(RLIMIT_CORE, 1000000, 2000000));
  part("limit of stack", limit_is(RLIMIT_STACK, 6 * MB, RLIM_INFINITY));
  prctl(PR_GET_NAME, name);
  part("name", strcmp(name, "called so") ? no("%s", name) : NULL);
  int reaper = -1;
  prctl(PR_GET_CHILD_SUBREAPER, &reaper);
  part("subreaper", reaper != 1 ? no("%d", reaper) : NULL);
  part("personality", personality(0xffffffff) != ADDR_NO_RANDOMIZE ? no("%#x", personality(0xffffffff)) : NULL);
  slurp("/proc/self/oom_score_adj", text, sizeof text);
  part("OOM score", strcmp(text, "321\n") ? no("%s", text) : NULL);
  return parts();
}
static void surroundings_change(void) {
  MUST(chdir("/"));
  umask(077);
  struct rlimit files = {750, 2000}, core = {0, 0}, stack = {8 * MB, 16 * MB};
  MUST(setrlimit(RLIMIT_NOFILE, &files));
  MUST(setrlimit(RLIMIT_CORE, &core));
  MUST(setrlimit(RLIMIT_STACK, &stack));
  MUST(prctl(PR_SET_NAME, "otherwise"));
  MUST(prctl(PR_SET_CHILD_SUBREAPER, 0));
  MUST(personality(0));
  int fd = MUST(open("/proc/self/oom_score_adj", O_WRONLY));
  MUST(write(fd, "111", 3));
  close(fd);
}

/* ---- ids and rights */

static pid_t ids[6];
static void note_ids(pid_t *to) {
  to[0] = getpid(), to[1] = gettid_(), to[2] = getpgrp(), to[3] = getsid(0);
}
static void ids_setup(void) { note_ids(ids); }
static volatile int dummy;
static void dummy_change(void) { dummy = 1; }
static const char *ids_ok(void) {
  static const char *const names[] = {"pid", "tid", "process group", "session"};
  pid_t now[4];
  note_ids(now);
  for (int i = 0; i < 4; i++)
    if (now[i] != ids[i]) return no("%s is %d instead of %d", names[i], now[i], ids[i]);
  char text[64], want[64];
  ssize_t n = readlink("/proc/self", text, sizeof text - 1);
  text[n > 0 ? n : 0] = 0;
  snprintf(want, sizeof want, "%d", ids[0]);
  return strcmp(text, want) ? no("/proc/self is %s", text) : dummy ? no("memory has changed") : NULL;
}

static const char *not_root(void) { return geteuid() ? "needs root" : NULL; }
static void capabilities(uint32_t *now, bool set) {
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  MUST(syscall(SYS_capget, &head, data));
  if (set) {
    data[0].effective = now[0], data[1].effective = now[1];
    MUST(syscall(SYS_capset, &head, data));
  }
  now[0] = data[0].effective, now[1] = data[1].effective;
}
static uint32_t rights[2];
static void credentials_setup(void) {
  gid_t groups[] = {10, 20, 30};
  MUST(setgroups(3, groups));
  MUST(setresgid(100, 101, 0));
  MUST(setresuid(1000, 0, 0));
  capabilities(rights, false);
}
static const char *credentials_ok(void) {
  uid_t r, e, s;
  gid_t groups[64];
  getresuid(&r, &e, &s);
  part("user ids", r != 1000 || e != 0 || s != 0 ? no("%u %u %u", r, e, s) : NULL);
  getresgid(&r, &e, &s);
  part("group ids", r != 100 || e != 101 || s != 0 ? no("%u %u %u", r, e, s) : NULL);
  int n = getgroups(64, groups);
  part("groups", n != 3 || groups[0] != 10 || groups[2] != 30 ? no("%d of them", n) : NULL);
  uint32_t now[2];
  capabilities(now, false);
  part("capabilities", now[0] != rights[0] || now[1] != rights[1] ? no("%#x instead of %#x", now[0], rights[0]) : NULL);
  return parts();
}
static void credentials_change(void) {  // changes that can be undone
  gid_t groups[] = {77};
  MUST(setgroups(1, groups));
  MUST(setresgid(5, 6, 7));
  MUST(setresuid(0, 1000, 0));  // clears the effective capabilities
}
static void credentials_dropped(void) {  // changes that cannot be undone
  gid_t groups[] = {77};
  MUST(setgroups(1, groups));
  MUST(setresgid(5, 5, 5));
  MUST(setresuid(1000, 1000, 1000));
}
static void as_root_setup(void) { MUST(setresuid(0, 0, 0)); }
static const char *as_root_ok(void) { return geteuid() ? no("user id is %u", geteuid()) : NULL; }
static void no_new_privs(void) { MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)); }
static const char *no_new_privs_ok(void) {
  return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? ids[0] ? NULL : no("no ids") : no("is off");
}
static void no_new_privs_setup(void) {
  no_new_privs();
  note_ids(ids);
}
static void no_new_privs_change(void) { ids[0] = 0; }

static void user_setup(void) { surroundings_setup(); }
static const char *as_user_ok(void) {
  uid_t r, e, s;
  getresuid(&r, &e, &s);
  if (r != 1000 || e != 1000 || s != 1000) return no("user ids are %u %u %u", r, e, s);
  char text[256];
  if (!getcwd(text, sizeof text) || strcmp(text, path("here"))) return no("directory is %s", text);
  mode_t mask = umask(0);
  umask(mask);
  return mask == 027 ? NULL : no("umask is %#o", mask);
}
static void as_user_change(void) {
  MUST(chdir("/"));
  umask(077);
}

// NO_SELF_CHECK: the kernel has no way to remove a registration.
static void membarrier_setup(void) { MUST(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0)); }
static const char *membarrier_ok(void) {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) ? no("errno %d", errno) : NULL;
}

/* ---- settings of prctl() and the like, of the process and of a thread */

static int own_key;
static void segment(unsigned index, unsigned base) {
  struct user_desc desc = {.entry_number = index, .base_addr = base, .limit = 0xfffff, .seg_32bit = 1, .limit_in_pages = 1,
                           .useable = 1};
  if ((int)syscall(SYS_modify_ldt, 0x11, &desc, sizeof desc)) die("modify_ldt");
}
static uint64_t segment_is(unsigned index) {
  uint64_t table[16] = {0};
  syscall(SYS_modify_ldt, 0, table, sizeof table);
  return table[index];
}
static uint64_t third, fifth;
static void core_filter(const char *value) {
  int fd = MUST(open("/proc/self/coredump_filter", O_WRONLY));
  MUST(write(fd, value, strlen(value)));
  close(fd);
}
static const char *thread_switches(void *arg) {
  const bool on = arg;
  if (prctl(PR_SET_TSC, on ? PR_TSC_SIGSEGV : PR_TSC_ENABLE)) return no("PR_SET_TSC: errno %d", errno);
  if (prctl(PR_MCE_KILL, on ? PR_MCE_KILL_SET : PR_MCE_KILL_CLEAR, on ? PR_MCE_KILL_EARLY : 0, 0, 0))
    return no("PR_MCE_KILL: errno %d", errno);
  return NULL;
}
static const char *thread_switches_ok(void *arg) {
  int tsc = 0;
  (void)arg;
  prctl(PR_GET_TSC, &tsc);
  if (tsc != PR_TSC_SIGSEGV) return no("PR_GET_TSC: %d", tsc);
  return prctl(PR_MCE_KILL_GET, 0, 0, 0, 0) != PR_MCE_KILL_EARLY ? no("PR_MCE_KILL_GET") : NULL;
}
static const char *no_io_flusher(void) {
  if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0)) return "needs CAP_SYS_RESOURCE";
  MUST(prctl(PR_SET_IO_FLUSHER, 0, 0, 0, 0));
  return NULL;
}
static void switches_setup(void) {
  worker_start(&w);
  const char *why = worker_do(&w, thread_switches, &w);
  if (why) die("%s", why);
  MUST(prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0));
  core_filter("0x7f");
  segment(3, 0x12345000);
  third = segment_is(3), fifth = segment_is(5);
  own_key = (int)syscall(SYS_pkey_alloc, 0, 0);
}
static const char *switches_ok(void) {
  char text[64];
  part("of a thread", worker_do(&w, thread_switches_ok, NULL));
  part("I/O flusher", prctl(PR_GET_IO_FLUSHER, 0, 0, 0, 0) != 1 ? no("is off") : NULL);
  slurp("/proc/self/coredump_filter", text, sizeof text);
  part("core files", strtoul(text, NULL, 16) != 0x7f ? no("%s", text) : NULL);
  part("a segment", segment_is(3) != third ? no("%lx", segment_is(3)) : NULL);
  part("no segment", segment_is(5) != fifth ? no("%lx", segment_is(5)) : NULL);
  if (own_key > 0) {  // pkey_free() succeeds only for an allocated key, and pkey_alloc() returns the lowest free key
    long freed = syscall(SYS_pkey_free, own_key);
    part("a protection key", freed || syscall(SYS_pkey_alloc, 0, 0) != own_key ? no("is not allocated") : NULL);
  }
  return parts();
}
static void switches_change(void) {
  const char *why = worker_do(&w, thread_switches, NULL);
  if (why) die("%s", why);
  MUST(prctl(PR_SET_IO_FLUSHER, 0, 0, 0, 0));
  core_filter("0x33");
  segment(3, 0x54321000);
  segment(5, 0x1000);
  if (own_key > 0) MUST(syscall(SYS_pkey_free, own_key));
}
static void mdwe_setup(void) {
  if (prctl(65, 1, 0, 0, 0)) own_key = -1;
}
static const char *mdwe_ok(void) {
  return own_key >= 0 && prctl(66, 0, 0, 0, 0) != 1 ? no("PR_GET_MDWE: %d", prctl(66, 0, 0, 0, 0)) : NULL;
}

/* ---- a descriptor above the present RLIMIT_NOFILE */

static void high_setup(void) {
  struct rlimit files = {6000, 6000};
  MUST(setrlimit(RLIMIT_NOFILE, &files));
  int fd = MUST(open("/dev/null", O_RDONLY));
  MUST(dup2(fd, 5000));
  close(fd);
}
static const char *high_ok(void) { return fcntl(5000, F_GETFD) < 0 ? no("descriptor 5000 is closed") : NULL; }
static void high_change(void) {
  struct rlimit files = {1000, 1000};
  close(5000);
  MUST(setrlimit(RLIMIT_NOFILE, &files));
}
static const struct scenario scenarios[] = {
    {.name = "membarrier", .flags = NO_SELF_CHECK, .setup = membarrier_setup, .check = membarrier_ok,
     .mutate = dummy_change},
    {.name = "signal dispositions", .setup = dispositions_setup, .check = dispositions_ok, .mutate = dispositions_change,
     .finish = dispositions_finish},
    {.name = "pending signals", .setup = pending_setup, .check = pending_ok, .mutate = pending_change,
     .finish = pending_finish},
    {.name = "pending signals, more of them", .setup = pending_setup, .check = no_41, .mutate = pending_more,
     .finish = pending_finish},
    {.name = "interval timers", .setup = itimers_setup, .check = itimers_ok, .mutate = itimers_change},
    {.name = "alarm that rings", .setup = alarm_setup, .check = alarm_ok, .finish = alarm_finish},
    {.name = "POSIX timers", .setup = timers_setup, .check = timers_ok, .mutate = timers_change, .finish = timers_finish},
    {.name = "POSIX timers, deleted", .setup = timers_setup, .check = timers_ok, .mutate = timers_deleted,
     .finish = timers_finish, .flags = PAUSE_MAY_REFUSE},
    {.name = "surroundings", .setup = surroundings_setup, .check = surroundings_ok, .mutate = surroundings_change},
    {.name = "surroundings of a user", .flags = AS_USER | NO_RESTART, .setup = user_setup, .check = as_user_ok,
     .mutate = as_user_change},
    {.name = "ids", .setup = ids_setup, .check = ids_ok, .mutate = dummy_change},
    {.name = "credentials", .setup = credentials_setup, .check = credentials_ok, .mutate = credentials_change,
     .skip = not_root},
    {.name = "credentials dropped for good", .flags = PAUSE_MAY_REFUSE, .setup = as_root_setup, .check = as_root_ok,
     .mutate = credentials_dropped, .skip = not_root},
    {.name = "no_new_privs", .setup = no_new_privs_setup, .check = no_new_privs_ok, .mutate = no_new_privs_change},
    {.name = "switches", .setup = switches_setup, .check = switches_ok, .mutate = switches_change, .skip = no_io_flusher},
    // PR_SET_MDWE cannot be cleared.
    {.name = "never writable and executable", .flags = NO_SELF_CHECK, .setup = mdwe_setup, .check = mdwe_ok,
     .mutate = dummy_change},
    {.name = "high descriptor", .flags = NO_PAUSE | NO_RESTART, .setup = high_setup, .check = high_ok,
     .mutate = high_change},
    {},
};

static void nr_open_is(const char *value) {
  int fd = MUST(open("/proc/sys/fs/nr_open", O_WRONLY));
  MUST(write(fd, value, strlen(value)));
  close(fd);
}
static void below_nr_open(void) {
  static struct target t;
  static struct run r;
  char was[32] = "";
  if (geteuid() || !target_start(&t, scenario_named(scenarios, "high descriptor"))) return;
  slurp("/proc/sys/fs/nr_open", was, sizeof was);
  target_checkpoint(&t, &r);
  target_op(&t, OP_MUTATE);
  nr_open_is("4000");
  target_pause(&t, &r);
  tap(r.code == 3 && strstr(r.err, "nr_open"), "a descriptor above fs.nr_open is refused by name", "%s", why_not(&r));
  tap(target_alive(&t), "and the target lives", " ");
  nr_open_is(was);
  target_pause(&t, &r);
  const char *why = r.code ? why_not(&r) : target_op(&t, OP_CHECK);
  tap(!why, "it is back once it may be", "%s", why ? why : "");
  target_end(&t);
}

static const struct test tests[] = {
    {"descriptors above fs.nr_open", below_nr_open},
    {},
};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
