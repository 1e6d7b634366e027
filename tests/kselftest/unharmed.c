// SPDX-License-Identifier: GPL-2.0-only
/*
 * A freeze must not harm a program: not with stops and debuggers meanwhile, and not with
 * calls of the session that do not return in time. No signal may be lost.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "underway.h"

/* ---- new threads that do nothing */

static bool only_its_own(void *arg) {
  (void)arg;
  char status[64];
  snprintf(status, sizeof status, "/proc/%d/status", pid);
  return file_number(status, "\nThreads:") == THREADS;
}

static void threads_left(void) {
  uint64_t flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
  pid = target(ticking);
  need(!session_open(&s, pid), "attach");
  for (int i = 0; i < 4; i++) {
    need(session_freeze(&s, 5000, 0) == THREADS && !session_arena(&s, 0), "freeze %d", i);
    for (int k = 0; k < 3; k++) {
      long tid = session_call(&s, pid, SYS_clone, flags, s.arena.data_addr + s.arena.data_size, 0, 0, 0, 0);
      need(tid > 0, "clone: %ld", tid);
    }
    if (i & 1) {
      session_close(&s);
      need(!session_open(&s, pid), "attach again");
    } else {
      need(!session_thaw(&s, 0), "thaw");
    }
    need(runs_on(), "the target does not run on: %s", threads_of(pid));
    need(soon(only_its_own, NULL, 10), "threads that were made do not end: %s", threads_of(pid));
  }
}

/* ---- stops */

static bool is_stopped(void *arg) {
  (void)arg;
  return task_state(pid) == 'T' || task_state(pid) == 't';
}

static long getpid_soon(void) {
  s.calls[0] = (struct cr_call){.nr = SYS_getpid};
  int r = session_run(&s, pid, 1, 0, 2000, &run);
  return r ? r : run.ret;
}

static void stopped_while_frozen(void) {
  pid = target(ticking);
  need(!session_open(&s, pid), "attach");
  for (int i = 0; i < 6; i++) {
    int r = session_freeze(&s, 5000, 0);
    need(r == THREADS, "freeze %d: %d", i, r);
    r = session_arena(&s, 0);
    need(!r, "arena: %d", r);
    long got = i & 1 ? getpid_soon() : pid;
    kill(pid, SIGSTOP);
    for (int k = 0; k < 3 && got == pid; k++) got = getpid_soon();
    expect(got == pid, "a call of a frozen program that was sent SIGSTOP: %ld", got);
    r = session_thaw(&s, 0);
    expect(!r, "thaw: %d", r);
    expect(soon(is_stopped, NULL, 10), "SIGSTOP was lost: state %c", task_state(pid));
    sleep_ms(2000 * !i);
    expect(stands_still(), "it is stopped and moves");
    kill(pid, SIGCONT);
    need(runs_on(), "it does not run on after SIGCONT: state %c", task_state(pid));
  }
}

/* ---- stopped before the freeze: it can be frozen, and stays stopped */

static bool no_notice(void) {
  siginfo_t info = {};
  return waitid(P_PID, (id_t)pid, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) == 0 && info.si_pid == 0;
}

static void stop_it(void) {
  int status;
  need(!kill(pid, SIGSTOP), "SIGSTOP");
  need(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status), "it does not stop: state %c", task_state(pid));
}

static void stopped_before(void) {
  pid = target(ticking);
  need(!session_open(&s, pid), "attach");
  for (int i = 0; i < 8; i++) {
    stop_it();
    int r = session_freeze(&s, 5000, 0);
    need(r == THREADS, "freeze %d of a stopped process: %d", i, r);
    if (i & 1) {
      r = session_arena(&s, 0);
      need(!r, "arena: %d", r);
      long got = getpid_soon();
      expect(got == pid, "a call of a stopped program: %ld", got);
    }
    const bool goes_on = i & 2;
    if (goes_on) kill(pid, SIGCONT);
    if (i & 4) kill(pid, SIGWINCH);  // stays pending while stopped, and is ignored then
    r = session_thaw(&s, 0);
    expect(!r, "thaw: %d", r);
    if (!goes_on) {
      expect(soon(is_stopped, NULL, 10), "it is no longer stopped: state %c", task_state(pid));
      expect(stands_still(), "it is stopped and moves");
      expect(no_notice(), "its parent gets a status change");
      kill(pid, SIGCONT);
    }
    need(runs_on(), "it does not run on after SIGCONT: state %c", task_state(pid));
    int status;
    bool told = waitpid(pid, &status, WCONTINUED | WNOHANG) == pid && WIFCONTINUED(status);
    expect(told, "waitpid() does not report WIFCONTINUED");
  }
}

// Signals that are pending until SIGCONT stay pending, also those that end the process.
static void stopped_with_signals(void) {
  pid = target(ticking);
  need(!session_open(&s, pid), "attach");
  stop_it();
  kill(pid, SIGTERM);
  for (int i = 0; i < 3; i++) {
    need(session_freeze(&s, 5000, 0) == THREADS, "freeze");
    need(!session_thaw(&s, 0), "thaw");
    expect(soon(is_stopped, NULL, 10), "it is no longer stopped: state %c", task_state(pid));
  }
  kill(pid, SIGCONT);
  int status;
  need(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "SIGTERM was lost");
  pid = 0;
}

// The stop signal arrives while threads are being parked.
static void stopped_meanwhile(void) {
  pid = target(ticking);
  need(!session_open(&s, pid), "attach");
  time_t end = time(NULL) + 8;
  for (int i = 0; i < 200 && time(NULL) < end; i++) {
    kill(pid, SIGSTOP);
    int r = session_freeze(&s, 5000, 0);
    need(r == THREADS, "freeze %d: %d", i, r);
    need(!session_thaw(&s, 0), "thaw");
    expect(soon(is_stopped, NULL, 10), "SIGSTOP was lost: state %c", task_state(pid));
    kill(pid, SIGCONT);
  }
  expect(runs_on(), "it does not run on after SIGCONT: state %c", task_state(pid));
}

// The stop signal arrives while the target makes a call that sleeps.
static void stopped_in_call(void) {
  pthread_t t;
  frozen(ticking, 0);
  need(!pthread_create(&t, NULL, run_sleep_thread, NULL), "pthread_create");
  wait_in_run();
  kill(pid, SIGSTOP);
  sleep_ms(100);
  kill(pid, SIGCONT);
  sleep_ms(100);
  kill(pid, SIGSTOP);
  sleep_ms(100);
  close_by_thread();
  expect(soon(is_stopped, NULL, 10), "SIGSTOP was lost: state %c", task_state(pid));
  sleep_ms(2000);
  kill(pid, SIGCONT);
  expect(runs_on(), "it does not run on after SIGCONT: state %c", task_state(pid));
}

static void debugger_attaches(void) {
  pid = target(ticking);
  need(!session_open(&s, pid), "attach");
  for (int i = 0; i < 4; i++) {
    int r = session_freeze(&s, 5000, 0), status = 0;
    need(r == THREADS, "freeze %d: %d", i, r);
    r = session_arena(&s, 0);
    need(!r, "arena: %d", r);
    need(!ptrace(PTRACE_SEIZE, pid, 0, 0), "PTRACE_SEIZE: errno %d", errno);
    need(!ptrace(PTRACE_INTERRUPT, pid, 0, 0), "PTRACE_INTERRUPT: errno %d", errno);
    s.calls[0] = (struct cr_call){.nr = SYS_getpid};
    r = i & 1 ? session_run(&s, pid, 1, 0, 500, &run) : 0;
    note("a call of a thread with a debugger: %d", r);
    r = session_thaw(&s, 0);
    expect(!r, "thaw: %d", r);
    need(soon(is_stopped, NULL, 10), "it does not stop for its debugger: state %c", task_state(pid));
    sleep_ms(1500 * (i < 2));
    need(waitpid(pid, &status, __WALL | WNOHANG) == pid && WIFSTOPPED(status), "it ended: wait status %#x", status);
    need(!ptrace(PTRACE_DETACH, pid, 0, 0), "PTRACE_DETACH: errno %d", errno);
    need(runs_on(), "it does not run on after its debugger has detached: state %c", task_state(pid));
  }
}

/* ---- a call that does not return in time */

// Registers and result after a read() with known registers that the freeze interrupts.
struct known {
  uint64_t rbx, rbp, r8, r9, r10, r12, r13, r14, r15;
  int64_t ret;
};
static void read_known(int fd, char *to, struct known *k) {
  k->ret = -1000;
  __asm__ volatile(
      "pushq %%rbp\n\tpushq %%rdi\n\t"
      "movq $0x1111111111111111, %%rbx\n\tmovq $0x2222222222222222, %%rbp\n\t"
      "movq $0x3333333333333333, %%r8\n\tmovq $0x4444444444444444, %%r9\n\t"
      "movq $0x5555555555555555, %%r10\n\tmovq $0x6666666666666666, %%r12\n\t"
      "movq $0x7777777777777777, %%r13\n\tmovq $0x8888888888888888, %%r14\n\t"
      "movq $0x9999999999999999, %%r15\n\t"
      "movl %%ecx, %%edi\n\txorl %%eax, %%eax\n\tsyscall\n\t"
      "popq %%rdi\n\t"
      "movq %%rbx, 0(%%rdi)\n\tmovq %%rbp, 8(%%rdi)\n\tmovq %%r8, 16(%%rdi)\n\tmovq %%r9, 24(%%rdi)\n\t"
      "movq %%r10, 32(%%rdi)\n\tmovq %%r12, 40(%%rdi)\n\tmovq %%r13, 48(%%rdi)\n\tmovq %%r14, 56(%%rdi)\n\t"
      "movq %%r15, 64(%%rdi)\n\tmovq %%rax, 72(%%rdi)\n\tpopq %%rbp"
      : "+D"(k), "+S"(to)
      : "c"(fd), "d"(1UL)
      : "rax", "rbx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc");
}

static void slow_target(void) {
  static struct known k;
  static char byte;
  struct pit own;
  int p[2], q[2];
  sigset_t set, now;
  if (!pit_open(&own, 4 * PAGE) || pipe(p) || pipe(q) || write(q[1], "xxxx", 4) != 4) _exit(1);
  sh->value[0] = own.uffd;
  sh->at[0] = own.at;
  sh->value[1] = p[1];
  sh->value[2] = q[0];
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGRTMIN + 3);
  sigprocmask(SIG_SETMASK, &set, NULL);
  tick_threads(1);
  sh->ready = 1;
  for (;;) {
    read_known(p[0], &byte, &k);
    sigprocmask(SIG_SETMASK, NULL, &now);
    if (k.ret != 1 || byte != 'y') sh->value[4] = k.ret, sh->wrong |= 1;
    if (k.rbx != 0x1111111111111111 || k.rbp != 0x2222222222222222 || k.r8 != 0x3333333333333333 ||
        k.r9 != 0x4444444444444444 || k.r10 != 0x5555555555555555 || k.r12 != 0x6666666666666666 ||
        k.r13 != 0x7777777777777777 || k.r14 != 0x8888888888888888 || k.r15 != 0x9999999999999999)
      sh->wrong |= 2;
    for (int i = 1; i < 64; i++)
      if (sigismember(&set, i) != sigismember(&now, i)) sh->wrong |= 4;
    sh->ticks[0]++;
  }
}

static int slow_write;  // the write end of the pipe that the target's leader reads
static bool others_tick(void) { return one_ticks(1) && one_ticks(2) && one_ticks(3); }

static int slow_call(void) {
  s.calls[0] = (struct cr_call){.nr = SYS_read, .arg = {(uint64_t)sh->value[2], (uintptr_t)sh->at[0], 1}};
  return session_run(&s, pid, 1, 0, 300, &run);
}

static void slow_begin(void) {
  frozen(slow_target, 0);
  int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  slow_write = (int)syscall(SYS_pidfd_getfd, pidfd, (int)sh->value[1], 0);
  need(slow_write >= 0, "pidfd_getfd: errno %d", errno);
  close(pidfd);
}

static void slow_memory_comes(int uffd) {
  for (int i = 0; i < 4; i++) {
    struct uffdio_zeropage zero = {.range = {(uintptr_t)sh->at[0] + (unsigned)i * PAGE, PAGE}};
    ioctl(uffd, UFFDIO_ZEROPAGE, &zero);
  }
}

static void slow_is_intact(void) {
  for (int i = 0; i < 3; i++) {
    long before = sh->ticks[0];
    need(write(slow_write, "y", 1) == 1, "write: errno %d", errno);
    for (int k = 0; k < 2000 && sh->ticks[0] == before; k++) sleep_ms(5);
    need(sh->ticks[0] == before + 1, "its thread does not run on: state %c", task_state(pid));
  }
  expect(!(sh->wrong & 1), "the interrupted read returned %ld", sh->value[4]);
  expect(!(sh->wrong & 2), "registers have changed");
  expect(!(sh->wrong & 4), "the signal mask has changed");
}

// The same target with calls that return in time.
static void call_in_time(void) {
  slow_begin();
  for (int i = 0; i < 10; i++) {
    long got = session_call(&s, pid, SYS_getpid, 0);
    need(got == pid, "a call: %ld", got);
    int r = session_thaw(&s, 0);
    need(!r, "thaw: %d", r);
    if (i % 2) slow_is_intact();
    need(session_freeze(&s, 5000, 0) == THREADS && !session_arena(&s, 0), "freeze %d", i);
  }
  session_thaw(&s, 0);
  slow_is_intact();
}

static void slow_call_thaw(void) {
  slow_begin();
  int uffd = uffd_of_target();
  int r = slow_call();
  expect(r == -ETIMEDOUT && s.why.reason == CR_WHY_STUCK, "a call that does not return in time: %d, reason %u", r,
         s.why.reason);
  r = session_thaw(&s, 0);
  expect(!r, "thaw: %d", r);
  need(others_tick(), "the other threads do not run on: state %c", task_state(pid));
  sleep_ms(2500);
  need(alive(pid), "it was killed for being slow");
  expect(!sh->ticks[0], "the thread in the call continued before its call ended");
  slow_memory_comes(uffd);
  slow_is_intact();
  r = session_freeze(&s, 5000, 0);
  expect(r == THREADS, "freeze afterwards: %d", r);
  session_thaw(&s, 0);
  slow_is_intact();
}

static void slow_call_freeze(void) {
  struct session other;
  slow_begin();
  int uffd = uffd_of_target();
  int r = slow_call();
  expect(r == -ETIMEDOUT, "a call that does not return in time: %d", r);
  r = session_thaw(&s, 0);
  expect(!r, "thaw: %d", r);
  r = session_freeze(&s, 300, 0);
  expect(r == -ETIMEDOUT, "freeze by the same session: %d", r);
  need(!session_open(&other, pid), "another session");
  r = session_freeze(&other, 300, 0);
  expect(r == -EBUSY && other.why.reason == CR_WHY_BUSY, "freeze by another session: %d, reason %u", r, other.why.reason);
  need(others_tick(), "the other threads do not run on: state %c", task_state(pid));
  slow_memory_comes(uffd);
  slow_is_intact();
  r = session_freeze(&other, 5000, 0);
  expect(r == THREADS, "another session's freeze afterwards: %d", r);
  session_close(&other);
  slow_is_intact();
}

static void slow_call_close(void) {
  slow_begin();
  int uffd = uffd_of_target();
  slow_call();
  session_close(&s);
  need(others_tick(), "the other threads do not run on: state %c", task_state(pid));
  sleep_ms(2500);
  need(alive(pid), "it was killed for being slow");
  slow_memory_comes(uffd);
  slow_is_intact();
  need(!session_open(&s, pid), "attach");
  int r = session_freeze(&s, 5000, 0);
  expect(r == THREADS, "freeze afterwards: %d", r);
}

static void slow_call_kill(void) {
  slow_begin();
  slow_call();
  session_thaw(&s, 0);
  kill(pid, SIGKILL);
  expect(ends(pid, 10, NULL), "it outlives SIGKILL in a slow call");
}

/* ---- signals that arrive during the freeze */

static volatile long handled_by;
static void handler(int sig) {
  (void)sig;
  sh->value[1] = handled_by = gettid();  // store it before the count, which the test polls
  sh->value[0]++;
}
static void *waits(void *arg) {
  for (;;) {
    pause();
    sh->ticks[(intptr_t)arg]++;
  }
  return NULL;
}
static void signalled_target(void) {
  pthread_t t;
  signal(SIGUSR1, handler);
  pthread_create(&t, NULL, waits, (void *)1);
  sleep_ms(50);
  sh->ready = 1;
  waits((void *)0);
}
static bool was_handled(void *arg) { return sh->value[0] >= *(long *)arg; }

static void signal_meanwhile(void) {
  long n = 0;
  pid = target(signalled_target);
  need(!session_open(&s, pid), "attach");
  for (int way = 0; way < 6; way++) {
    struct cr_thread list[4];
    int r = session_freeze(&s, 5000, 0);
    need(r == 2, "freeze: %d", r);
    need(!session_arena(&s, 0) && session_threads(&s, list, 4) == 2, "arena, threads");
    struct cr_sigmask mask = {.tid = pid, .mask = 1ULL << (SIGUSR1 - 1)};
    struct cr_sigmask none = {.tid = pid, .mask = 0};
    if (way == 1) session_call(&s, pid, SYS_getpid, 0);
    kill(pid, SIGUSR1);
    if (way == 2) session_call(&s, pid, SYS_getpid, 0);
    if (way == 3) session_call(&s, list[1].tid, SYS_getpid, 0);
    if (way == 5) {  // blocked in all threads, then unblocked in one
      mask.tid = list[1].tid;
      session_ioctl(&s, CR_IOC_SET_SIGMASK, &mask);
      none.tid = list[1].tid;
      session_ioctl(&s, CR_IOC_SET_SIGMASK, &none);
      mask.tid = pid;
    }
    if (way != 4) r = session_ioctl(&s, CR_IOC_SET_SIGMASK, &mask);
    need(r >= 0, "SET_SIGMASK: %d", r);
    session_thaw(&s, 0);
    n++;
    expect(soon(was_handled, &n, 5), "way %d: a signal that came meanwhile is not delivered", way);
    if (way != 4)
      expect(sh->value[0] < n || sh->value[1] == list[1].tid, "way %d: handled by a thread that has blocked it", way);
    // unblock it again
    session_freeze(&s, 5000, 0);
    none.tid = pid;
    session_ioctl(&s, CR_IOC_SET_SIGMASK, &none);
    session_thaw(&s, 0);
    n = sh->value[0] > n ? sh->value[0] : n;
    soon(was_handled, &n, 3);
    n = sh->value[0];
  }
}

/* ---- no call fails because of a freeze */

enum { FALLOCATE, SENDFILE, SPLICE, MSGRCV, SEMOP, FIFO, FLOCK, SETLKW, GETRANDOM, CALLS };
static const char *const call_names[CALLS] = {"posix_fallocate", "sendfile", "splice", "msgrcv",      "semop",
                                              "open of a FIFO",  "flock",    "F_SETLKW", "getrandom"};
struct eintr {
  long calls[CALLS], interrupted[CALLS], last[CALLS];
};
static struct eintr *volatile eintr;
static char fifo[64], lock_file[64];
static int queue_id, sem_id, pipe_full[2], pipe_in[2], pipe_out[2], source;

static long one_call(int which) {
  static __thread char *buffer;
  static __thread int fd = -1;
  long r = 0;
  switch (which) {
    case FALLOCATE:
      if (fd < 0) fd = memfd_create("fallocate", 0);
      if (ftruncate(fd, 0)) return -1;
      errno = posix_fallocate(fd, 0, 2 << 20);
      return errno ? -1 : 0;
    case SENDFILE: {
      off_t at = 0;
      r = sendfile(pipe_full[1], source, &at, 65536);
      return r;
    }
    case SPLICE:
      return splice(pipe_in[0], NULL, pipe_out[1], NULL, 4096, 0);
    case MSGRCV: {
      char message[64];
      return msgrcv(queue_id, message, 40, 1, 0);
    }
    case SEMOP: {
      struct sembuf down = {0, -1, 0};
      return semop(sem_id, &down, 1);
    }
    case FIFO:
      r = open(fifo, O_RDONLY);
      if (r >= 0) close((int)r);
      return r;
    case FLOCK:
      if (fd < 0) fd = open(lock_file, O_RDWR);
      r = flock(fd, LOCK_EX);
      if (!r) flock(fd, LOCK_UN);
      return r;
    case SETLKW: {
      struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = 1};
      if (fd < 0) fd = open(lock_file, O_RDWR);
      r = fcntl(fd, F_SETLKW, &l);
      l.l_type = F_UNLCK;
      if (!r) fcntl(fd, F_SETLK, &l);
      return r;
    }
    case GETRANDOM:
      if (!buffer) buffer = malloc(256);
      return getrandom(buffer, 256, 0) == 256 ? 0 : -1;
  }
  return 0;
}

static void *caller(void *arg) {
  int which = (int)(intptr_t)arg;
  if (which < 0 || which >= CALLS) abort();
  for (;;) {
    errno = 0;
    long r = one_call(which);
    if (r < 0) eintr->interrupted[which]++, eintr->last[which] = errno;
    eintr->calls[which]++;
    if (which != FALLOCATE) usleep(500);  // leave CPU time to the others
  }
  return NULL;
}

static void eintr_target(void) {
  pthread_t t;
  for (intptr_t i = 0; i < CALLS; i++)
    if (pthread_create(&t, NULL, caller, (void *)i)) abort();
  sh->ready = 1;
  for (;;) pause();
}

// Ends the target's calls now and then.
static void partner(void *arg) {
  (void)arg;
  char buf[65536];
  int lock = open(lock_file, O_RDWR), wait = 0;
  for (;;) {
    struct {
      long type;
      char text[8];
    } message = {1, "x"};
    struct sembuf up = {0, 1, 0};
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = 1};
    flock(lock, LOCK_EX);
    fcntl(lock, F_SETLKW, &l);
    sleep_ms(15 + wait++ % 7);
    flock(lock, LOCK_UN);
    l.l_type = F_UNLCK;
    fcntl(lock, F_SETLK, &l);
    ssize_t r = read(pipe_full[0], buf, sizeof buf);
    r += write(pipe_in[1], "some bytes", 10);
    r += read(pipe_out[0], buf, sizeof buf);
    if (msgsnd(queue_id, &message, 8, IPC_NOWAIT) || semop(sem_id, &up, 1)) continue;
    int fd = open(fifo, O_WRONLY | O_NONBLOCK);
    if (fd >= 0) close(fd);
    sleep_ms(5);
  }
}

static void no_eintr(void) {
  eintr = shared_memory(sizeof *eintr);
  snprintf(fifo, sizeof fifo, "/tmp/fifo-%d", getpid());
  snprintf(lock_file, sizeof lock_file, "/tmp/lock-%d", getpid());
  need(!mkfifo(fifo, 0600) && close(creat(lock_file, 0600)) == 0, "files in /tmp");
  queue_id = msgget(IPC_PRIVATE, 0600);
  sem_id = semget(IPC_PRIVATE, 1, 0600);
  source = memfd_create("source", 0);
  need(queue_id >= 0 && sem_id >= 0 && !ftruncate(source, 65536) && !pipe(pipe_full) && !pipe(pipe_in) &&
           !pipe(pipe_out),
       "pipes and queues: errno %d", errno);
  fcntl(pipe_full[0], F_SETFL, O_NONBLOCK);
  fcntl(pipe_out[0], F_SETFL, O_NONBLOCK);
  pid_t helper = process(partner, NULL);
  pid = target(eintr_target);
  need(!session_open(&s, pid), "attach");
  int64_t end = now_ms() + 8000;
  int freezes = 0;
  while (now_ms() < end) {
    int r = session_freeze(&s, 5000, 0);
    need(r == CALLS + 1, "freeze %d: %d", freezes, r);
    sleep_ms(1);
    session_thaw(&s, 0);
    freezes++;
    sleep_ms(3 + (unsigned)freezes % 20 * ((unsigned)freezes % 5 == 0));
  }
  sleep_ms(300);
  note("%d freezes", freezes);
  for (int i = 0; i < CALLS; i++) {
    note("%s: %ld calls, %ld failed", call_names[i], eintr->calls[i], eintr->interrupted[i]);
    expect(!eintr->interrupted[i], "%s failed %ld times of %ld, last by errno %ld", call_names[i], eintr->interrupted[i],
           eintr->calls[i], eintr->last[i]);
    expect(eintr->calls[i], "%s was never made", call_names[i]);
  }
  kill(helper, SIGKILL);
  kill(pid, SIGKILL);
  msgctl(queue_id, IPC_RMID, NULL);
  semctl(sem_id, 0, IPC_RMID);
  unlink(fifo);
  unlink(lock_file);
}

int main(int argc, char **argv) {
  static const struct tcase cases[] = {
      {"threads_left", threads_left},
      {"stopped_while_frozen", stopped_while_frozen},
      {"stopped_before", stopped_before},
      {"stopped_with_signals", stopped_with_signals},
      {"stopped_meanwhile", stopped_meanwhile},
      {"stopped_in_call", stopped_in_call},
      {"debugger_attaches", debugger_attaches},
      {"call_in_time", call_in_time},
      {"slow_call_thaw", slow_call_thaw},
      {"slow_call_freeze", slow_call_freeze},
      {"slow_call_close", slow_call_close},
      {"slow_call_kill", slow_call_kill},
      {"signal_meanwhile", signal_meanwhile},
      {"no_eintr", no_eintr},
  };
  return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
