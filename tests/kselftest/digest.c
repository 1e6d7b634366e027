// SPDX-License-Identifier: GPL-2.0-only
// CR_IOC_DIGEST: every change of the state must change the digest of its area, or make it 0, and no other; when the
// change is undone, the digests must be what they were.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "cases.h"

// ---------------------------------------------------------------- the target

static char *area;                       // three pages, the middle one of its own
static int file, other, pipe_ends[2], fifo;   // a file opened twice, a pipe and a FIFO
static int event, timer_file, signals, polled;   // an eventfd, a timerfd, a signalfd; an epoll set of the pipe
static char folder[] = "/tmp/digest.XXXXXX";
static volatile int stay;

static void *idle(void *unused) {
  (void)unused;
  while (stay) usleep(1000);
  return NULL;
}
static pthread_t helper;
static int ok(long result) { return result == -1 ? errno : 0; }

static void put(const char *name, const char *text) {
  int fd = open(name, O_WRONLY);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) sh->wrong++;
  close(fd);
}

#define DO(name, ...) \
  static int name(void) { \
    __VA_ARGS__; \
  }

DO(map_more, return area + 16 * PAGE == mmap(area + 16 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ? 0 : errno)
DO(map_less, return ok(munmap(area + 16 * PAGE, PAGE)))
DO(protect, return ok(mprotect(area, PAGE, PROT_READ)))
DO(unprotect, return ok(mprotect(area, PAGE, PROT_READ | PROT_WRITE)))
DO(no_fork, return ok(madvise(area, PAGE, MADV_DONTFORK)))
DO(do_fork, return ok(madvise(area, PAGE, MADV_DOFORK)))
DO(lock, return ok(mlock(area, PAGE)))
DO(unlock, return ok(munlock(area, PAGE)))
DO(map_other_file, return mmap(area + 8 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, other, 0) == MAP_FAILED ? errno : 0)
DO(more_heap, return sbrk(PAGE) == (void *)-1 ? errno : 0)
DO(less_heap, return sbrk(-(long)PAGE) == (void *)-1 ? errno : 0)

DO(open_one, return ok(dup2(file, 100)))
DO(close_one, return ok(close(100)))
DO(seek, return ok(lseek(file, 7, SEEK_SET)))
DO(seek_back, return ok(lseek(file, 0, SEEK_SET)))
DO(set_flags, return ok(fcntl(file, F_SETFL, O_APPEND)))
DO(reset_flags, return ok(fcntl(file, F_SETFL, 0)))
DO(set_cloexec, return ok(fcntl(file, F_SETFD, FD_CLOEXEC)))
DO(reset_cloexec, return ok(fcntl(file, F_SETFD, 0)))
DO(set_owner, return ok(fcntl(pipe_ends[0], F_SETOWN, getpid())))
DO(reset_owner, return ok(fcntl(pipe_ends[0], F_SETOWN, 0)))
DO(grow_file, return ok(ftruncate(other, 50000)))
DO(lock_file, return ok(flock(file, LOCK_EX)))
DO(unlock_file, return ok(flock(file, LOCK_UN)))
DO(replace_file, char name[64]; snprintf(name, sizeof name, "%s/b", folder); int fd = open(name, O_RDONLY | O_CREAT, 0600); return fd < 0 ? errno : ok(dup2(fd, file)))

DO(fill_pipe, return ok(write(pipe_ends[1], "some", 4)))
DO(drain_pipe, char some[4]; return ok(read(pipe_ends[0], some, 4)))
DO(fill_fifo, return ok(write(fifo, "some", 4)))
DO(drain_fifo, char some[4]; return ok(read(fifo, some, 4)))
static int pipe_size;
DO(resize_pipe, pipe_size = fcntl(pipe_ends[0], F_GETPIPE_SZ); return ok(fcntl(pipe_ends[0], F_SETPIPE_SZ, 2 * pipe_size)))
DO(reset_pipe, return ok(fcntl(pipe_ends[0], F_SETPIPE_SZ, pipe_size)))

DO(count_up, return ok(eventfd_write(event, 3)))
DO(count_down, eventfd_t value; return eventfd_read(event, &value) ? errno : ok(eventfd_write(event, 1)))
DO(arm, struct itimerspec t = {.it_value = {1000, 0}}; return ok(timerfd_settime(timer_file, 0, &t, NULL)))
DO(disarm, struct itimerspec t = {0}; return ok(timerfd_settime(timer_file, 0, &t, NULL)))
static int mask_of(int number) {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, number);
  return signalfd(signals, &mask, 0);
}
DO(other_signal, return ok(mask_of(SIGUSR2)))
DO(first_signal, return ok(mask_of(SIGUSR1)))
static int control(int operation, int fd, uint32_t events, uint64_t data) {
  struct epoll_event e = {.events = events, .data.u64 = data};
  return epoll_ctl(polled, operation, fd, &e);
}
DO(watch_more, return ok(control(EPOLL_CTL_ADD, fifo, EPOLLIN, 2)))
DO(watch_less, return ok(control(EPOLL_CTL_DEL, fifo, 0, 0)))
DO(other_events, return ok(control(EPOLL_CTL_MOD, pipe_ends[0], EPOLLIN | EPOLLET, 1)))
DO(other_data, return ok(control(EPOLL_CTL_MOD, pipe_ends[0], EPOLLIN, 3)))
DO(first_events, return ok(control(EPOLL_CTL_MOD, pipe_ends[0], EPOLLIN, 1)))
DO(watch_none, return ok(control(EPOLL_CTL_DEL, pipe_ends[0], 0, 0)))
// under the number of another file of the same inode
DO(watch_other_end, int saved = dup(pipe_ends[0]), r = control(EPOLL_CTL_DEL, pipe_ends[0], 0, 0);
   r = r || dup2(pipe_ends[1], pipe_ends[0]) < 0 || control(EPOLL_CTL_ADD, pipe_ends[0], EPOLLIN, 1);
   r = r || dup2(saved, pipe_ends[0]) < 0 || close(saved); return r ? errno : 0)

DO(share_set, return ok(dup2(polled, 101)))  // as if another process had it open
DO(unshare_set, return ok(close(101)))
#define MANY 40  // more than fits into the first room for the text
static int watch_many(void) {
  for (int i = 0; i < MANY; i++) {
    const int fd = open("fifo", O_RDWR);
    if (fd < 0 || dup2(fd, 200 + i) < 0 || close(fd) || control(EPOLL_CTL_ADD, 200 + i, EPOLLIN, (uint64_t)i)) return errno;
  }
  return 0;
}
static int watch_few(void) {
  for (int i = 0; i < MANY; i++)
    if (close(200 + i)) return errno;
  return 0;
}

static void on_usr2(int signal) { (void)signal; }
DO(handle, return signal(SIGUSR2, on_usr2) == SIG_ERR ? errno : 0)
// as it was at first: the C library would leave its own flags
DO(unhandle, const uint64_t none[4] = {0}; return ok(syscall(SYS_rt_sigaction, SIGUSR2, none, NULL, 8)))
DO(go_elsewhere, return ok(chdir("/usr")))
DO(go_back, return ok(chdir(folder)))
DO(mask_more, umask(077); return 0)
DO(mask_less, umask(022); return 0)
DO(limit, struct rlimit l = {100 << 20, RLIM_INFINITY}; return ok(setrlimit(RLIMIT_FSIZE, &l)))
DO(unlimit, struct rlimit l = {RLIM_INFINITY, RLIM_INFINITY}; return ok(setrlimit(RLIMIT_FSIZE, &l)))
DO(alarm_on, struct itimerval t = {{1000, 0}, {1000, 0}}; return ok(setitimer(ITIMER_REAL, &t, NULL)))
DO(alarm_off, struct itimerval t = {{0, 0}, {0, 0}}; return ok(setitimer(ITIMER_REAL, &t, NULL)))
static timer_t timer;
DO(timer_on, struct sigevent e = {.sigev_notify = SIGEV_NONE}; return ok(timer_create(CLOCK_MONOTONIC, &e, &timer)))
DO(timer_off, return ok(timer_delete(timer)))
DO(adopt, return ok(prctl(PR_SET_CHILD_SUBREAPER, 1)))
DO(adopt_not, return ok(prctl(PR_SET_CHILD_SUBREAPER, 0)))
DO(oom_more, put("/proc/self/oom_score_adj", "500"); return 0)
DO(oom_less, put("/proc/self/oom_score_adj", "0"); return 0)
DO(dump_more, put("/proc/self/coredump_filter", "0x7f"); return 0)
static char dumped[32];  // as it was at first
DO(dump_less, put("/proc/self/coredump_filter", dumped); return 0)
DO(undumpable, return ok(prctl(PR_SET_DUMPABLE, 0)))
DO(dumpable, return ok(prctl(PR_SET_DUMPABLE, 1)))
DO(no_huge, return ok(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)))
DO(huge, return ok(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0)))
DO(send, return ok(kill(getpid(), SIGUSR1)))  // blocked
DO(send_thread, return ok(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1)))
DO(receive, sigset_t set; sigemptyset(&set); sigaddset(&set, SIGUSR1); return sigtimedwait(&set, NULL, &(struct timespec){0, 0}) == SIGUSR1 ? 0 : errno)

DO(name, return ok(prctl(PR_SET_NAME, "another")))
DO(name_back, return ok(prctl(PR_SET_NAME, "digest")))
static char stack[1 << 16];
DO(stack_on, stack_t s = {.ss_sp = stack, .ss_size = sizeof stack}; return ok(sigaltstack(&s, NULL)))
DO(stack_off, stack_t s = {.ss_flags = SS_DISABLE}; return ok(sigaltstack(&s, NULL)))
static cpu_set_t cpus;
DO(fewer_cpus, sched_getaffinity(0, sizeof cpus, &cpus); cpu_set_t one; CPU_ZERO(&one); CPU_SET(0, &one); return ok(sched_setaffinity(0, sizeof one, &one)))
DO(all_cpus, return ok(sched_setaffinity(0, sizeof cpus, &cpus)))
DO(nicer, return ok(setpriority(PRIO_PROCESS, 0, 5)))
DO(as_nice, return ok(setpriority(PRIO_PROCESS, 0, 0)))
DO(batch, struct sched_param p = {0}; return ok(sched_setscheduler(0, SCHED_BATCH, &p)))
DO(usual, struct sched_param p = {0}; return ok(sched_setscheduler(0, SCHED_OTHER, &p)))
DO(slack, return ok(prctl(PR_SET_TIMERSLACK, 12345)))
DO(no_slack, return ok(prctl(PR_SET_TIMERSLACK, 0)))
DO(death, return ok(prctl(PR_SET_PDEATHSIG, SIGHUP)))
DO(no_death, return ok(prctl(PR_SET_PDEATHSIG, SIGKILL)))  // as process() sets it
DO(persona, return personality(ADDR_NO_RANDOMIZE) == -1 ? errno : 0)
DO(no_persona, return personality(0) == -1 ? errno : 0)
DO(groups, gid_t g[] = {4, 5}; return ok(syscall(SYS_setgroups, 2, g)))
DO(no_groups, return ok(syscall(SYS_setgroups, 0, NULL)))
DO(other_user, return ok(syscall(SYS_setresuid, 0, 0, 1000)))
DO(root, return ok(syscall(SYS_setresuid, 0, 0, 0)))
DO(fewer_capabilities, return ok(prctl(PR_CAPBSET_DROP, 38)))
DO(no_new_rights, return ok(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)))
DO(one_more_thread, stay = 1; return pthread_create(&helper, NULL, idle, NULL))
DO(one_thread_less, stay = 0; return pthread_join(helper, NULL))

// Bit n: enum cr_area n may change. A thread and the heap also change mappings.
#define M (1U << CR_AREA_MAPPINGS)
#define D (1U << CR_AREA_DESCRIPTORS)
#define P (1U << CR_AREA_PROCESS)
#define T (1U << CR_AREA_THREADS)
#define I (1U << CR_AREA_CONTENT)
static const struct change {
  const char *name;
  int (*make)(void), (*undo)(void);  // undo NULL: it cannot be undone
  unsigned area, also;               // what must change, and what may
} changes[] = {
    {"mapped", map_more, map_less, M, 0},
    {"protected", protect, unprotect, M, 0},
    {"advised", no_fork, do_fork, M, 0},
    {"locked", lock, unlock, M, 0},
    {"other_file", map_other_file, NULL, M, 0},
    {"heap", more_heap, less_heap, M | P, 0},
    {"opened", open_one, close_one, D, 0},
    {"position", seek, seek_back, D, 0},
    {"flags", set_flags, reset_flags, D, 0},
    {"cloexec", set_cloexec, reset_cloexec, D, 0},
    {"owner", set_owner, reset_owner, D, 0},
    {"file_size", grow_file, NULL, D, 0},
    {"file_locked", lock_file, unlock_file, D, 0},
    {"replaced", replace_file, NULL, D, 0},
    {"pipe_filled", fill_pipe, drain_pipe, I, 0},
    {"fifo_filled", fill_fifo, drain_fifo, I, 0},
    {"pipe_resized", resize_pipe, reset_pipe, I, 0},
    {"eventfd", count_up, count_down, I, 0},
    {"timerfd", arm, disarm, I, 0},
    {"signalfd", other_signal, first_signal, I, 0},
    {"watched", watch_more, watch_less, I, 0},
    {"watched_events", other_events, first_events, I, 0},
    {"watched_data", other_data, first_events, I, 0},
    {"not_watched", watch_none, NULL, I, 0},
    {"watched_other", watch_other_end, NULL, I, 0},
    {"set_shared", share_set, unshare_set, D | I, 0},
    {"many_watched", watch_many, watch_few, D | I, 0},
    {"handler", handle, unhandle, P, 0},
    {"directory", go_elsewhere, go_back, P, 0},
    {"umask", mask_more, mask_less, P, 0},
    {"limit", limit, unlimit, P, 0},
    {"itimer", alarm_on, alarm_off, P, 0},
    {"timer", timer_on, timer_off, P, 0},
    {"subreaper", adopt, adopt_not, P, 0},
    {"oom_score", oom_more, oom_less, P, 0},
    {"dump_filter", dump_more, dump_less, P, 0},
    {"dumpable", undumpable, dumpable, P, 0},
    {"no_huge_pages", no_huge, huge, P, 0},
    {"signal", send, receive, P, 0},
    {"signal_thread", send_thread, receive, T, 0},
    {"name", name, name_back, T, 0},
    {"altstack", stack_on, stack_off, T, 0},
    {"cpus", fewer_cpus, all_cpus, T, 0},
    {"nice", nicer, as_nice, T, 0},
    {"policy", batch, usual, T, 0},
    {"slack", slack, no_slack, T, 0},
    {"death", death, no_death, T, 0},
    {"personality", persona, no_persona, T, 0},
    {"groups", groups, no_groups, T, 0},
    {"users", other_user, root, T, P},
    {"capabilities", fewer_capabilities, NULL, T, 0},
    {"no_new_privs", no_new_rights, NULL, T, 0},
    {"thread", one_more_thread, one_thread_less, T, M | P},
};

static const struct change *now;  // the change of this case

static void changing(void) {
  char name[80];
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, NULL);
  umask(022);
  prctl(PR_SET_NAME, "digest");
  syscall(SYS_setgroups, 0, NULL);
  snprintf(name, sizeof name, "%s/a", folder);
  file = open(name, O_RDWR | O_CREAT, 0600);
  other = open(name, O_RDWR);
  if (file < 0 || other < 0 || ftruncate(file, 2 * PAGE) || pipe(pipe_ends) || chdir(folder)) _exit(1);
  snprintf(name, sizeof name, "%s/fifo", folder);
  if (mkfifo(name, 0600) || (fifo = open(name, O_RDWR)) < 0) _exit(1);
  event = eventfd(1, 0);
  timer_file = timerfd_create(CLOCK_MONOTONIC, 0);
  signals = -1;
  signals = mask_of(SIGUSR1);
  polled = epoll_create1(0);
  if (event < 0 || timer_file < 0 || signals < 0 || polled < 0 || control(EPOLL_CTL_ADD, pipe_ends[0], EPOLLIN, 1)) _exit(1);
  area = mmap(NULL, 32 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(area + 16 * PAGE, 16 * PAGE);
  mprotect(area, PAGE, PROT_READ | PROT_WRITE);
  if (mmap(area + 8 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED) _exit(1);
  FILE *filter = fopen("/proc/self/coredump_filter", "r");
  if (!filter || fscanf(filter, "%29s", dumped + 2) != 1) _exit(1);
  memcpy(dumped, "0x", 2);
  fclose(filter);
  // what libraries do at the first call
  sbrk(0);
  one_more_thread();
  one_thread_less();
  sh->ready = 1;
  for (int step = 1; step <= 2; step++) {
    while (sh->go < step) usleep(500);
    const int error = step == 1 ? now->make() : now->undo ? now->undo() : 0;
    sh->value[step] = error;
    sh->ready = step + 1;
  }
  for (;;) usleep(500);
}

// ---------------------------------------------------------------- the cases

static void digest(struct session *s, struct cr_digest *d) {
  need(session_freeze(s, 0, 0) > 0, "freeze");
  memset(d, 0xff, sizeof *d);
  need(!session_ioctl(s, CR_IOC_DIGEST, d), "digest: errno %d", errno);
  for (size_t i = 0; i < ARRAY_SIZE(d->reserved); i++) expect(!d->reserved[i], "reserved member %zu is set", i);
  need(!session_thaw(s, 0), "thaw");
}

static bool came(void *step) { return sh->ready == *(int *)step; }

static void go(int step) {
  int done = step + 1;
  sh->go = step;
  need(soon(came, &done, 10), "the target does not come to step %d", step);
  if (sh->value[step] == EPERM || sh->value[step] == EINVAL) skip("this kernel or container refuses it");
  need(!sh->value[step] && !sh->wrong, "step %d: errno %ld", step, sh->value[step]);
}

static void one_change(void) {
  struct cr_digest before, again, changed, undone;
  struct session s;
  if (!mkdtemp(folder)) need(false, "mkdtemp");
  need(!session_open(&s, target(changing)), "attach");
  digest(&s, &before);
  digest(&s, &again);
  go(1);
  digest(&s, &changed);
  go(2);
  digest(&s, &undone);
  for (unsigned i = 0; i < CR_AREAS; i++) {
    expect(before.area[i], "area %u is 0 before", i);
    expect(before.area[i] == again.area[i], "area %u changes by itself", i);
    if (now->area >> i & 1)
      expect(changed.area[i] != before.area[i], "area %u does not show it", i);
    else if (!(now->also >> i & 1))
      expect(changed.area[i] == before.area[i], "area %u shows it, too", i);
    if (now->undo) expect(undone.area[i] == before.area[i], "area %u does not show that it was undone", i);
  }
  session_close(&s);
}

#define CASE(n) \
  static void case_##n(void) { \
    now = &changes[n]; \
    one_change(); \
  }
#define CASES(f) \
  f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15) f(16) f(17) f(18) f(19) f(20) f(21) \
  f(22) f(23) f(24) f(25) f(26) f(27) f(28) f(29) f(30) f(31) f(32) f(33) f(34) f(35) f(36) f(37) f(38) f(39) f(40) f(41) f(42) \
  f(43) f(44) f(45) f(46) f(47) f(48) f(49) f(50) f(51) f(52)
CASES(CASE)
#define ENTRY(n) {NULL, case_##n, 0},
static struct tcase cases[] = {CASES(ENTRY)};
_Static_assert(ARRAY_SIZE(cases) == ARRAY_SIZE(changes), "one case for each change");

int main(int argc, char **argv) {
  for (size_t i = 0; i < ARRAY_SIZE(cases); i++) cases[i].name = changes[i].name;
  return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
