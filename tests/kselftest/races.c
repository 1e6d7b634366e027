// SPDX-License-Identifier: GPL-2.0-only
/*
 * Descriptors that are passed to other processes, memory and processes that appear and
 * disappear while the module uses them, and unloading.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cases.h"

static pid_t victim;
enum { CLONE_THREAD_FLAGS = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM };

/* ---- descriptors that are passed to other processes */

static int sockets[2];
static volatile long *in_call;

static void passed_requester(void *arg) {
  bool exec = arg != NULL;
  struct session s = {.dev = receive_fd(sockets[1]), .mem = -1};
  while (!*in_call) sleep_ms(1);  // first the owner must close its own descriptor: that thaws
  if (s.dev < 0 || session_attach(&s, victim) || session_freeze(&s, 5000, 0) != THREADS || session_arena(&s, 0)) _exit(1);
  char *text = s.data + 4096;
  struct timespec *ts = (struct timespec *)(void *)text;
  *ts = (struct timespec){1, 0};
  s.calls[0] = (struct cr_call){.nr = SYS_nanosleep, .arg = {s.arena.data_addr + 4096, 0}};
  if (exec) {
    uint64_t *argv = (uint64_t *)(void *)(text + 256), at = s.arena.data_addr + 4096;
    strcpy(text, "/proc/self/exe");
    strcpy(text + 128, "--pause");
    argv[0] = at, argv[1] = at + 128, argv[2] = 0;
    s.calls[0] = (struct cr_call){.nr = SYS_execve, .arg = {at, at + 256, at + 272}};
  }
  *in_call = 2;
  session_run(&s, victim, 1, 0, 20000, NULL);
  for (;;) pause();
}

static void pass(bool exec) {
  in_call = shared_memory(PAGE);
  for (int i = 0; i < 8; i++) {
    *in_call = 0;
    need(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    victim = target(ticking);
    pid_t requester = process(passed_requester, exec ? &sockets : NULL);
    int dev = open(CR_DEVICE, O_RDWR);
    need(dev >= 0 && !send_fd(sockets[0], dev), "pass the descriptor");
    close(dev);
    *in_call = 1;
    for (int k = 0; k < 2000 && *in_call != 2; k++) sleep_ms(1);
    need(*in_call == 2, "the requester does not reach its call");
    sleep_ms(below(40));
    kill(requester, SIGKILL);
    need(ends(requester, 10, NULL), "the requester outlives SIGKILL");
    close(sockets[0]);
    close(sockets[1]);
    if (!exec) expect(runs_on(), "the target does not run on after the last close of the session");
    if (exec) sleep_ms(100);
    kill(victim, SIGKILL);
    need(ends(victim, 10, NULL), "the target outlives SIGKILL: state %c", task_state(victim));
  }
}
static void passed_sleep(void) { pass(false); }
static void passed_exec(void) { pass(true); }

// The owner dies while another process holds the descriptor: the target thaws, and the other process can use it.
static void freezing_owner(void *arg) {
  struct session s;
  (void)arg;
  if (session_open(&s, victim) || session_freeze(&s, 5000, 0) != THREADS || session_arena(&s, 0)) _exit(1);
  session_call(&s, victim, SYS_getpid, 0);
  if (send_fd(sockets[0], s.dev)) _exit(1);
  for (;;) pause();
}
static void passed_owner_dies(void) {
  for (int i = 0; i < 10; i++) {
    need(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    victim = target(ticking);
    pid_t own = process(freezing_owner, NULL);
    struct session s = {.dev = receive_fd(sockets[1]), .mem = -1, .pid = victim};
    need(s.dev >= 0, "no descriptor came");
    need(stands_still(), "it is not frozen");
    kill(own, SIGKILL);
    need(ends(own, 10, NULL), "the owner outlives SIGKILL");
    need(runs_on(), "the owner's death does not thaw");
    int r = session_freeze(&s, 5000, 0);
    if (r == THREADS) {
      expect(!session_arena(&s, 0) && session_call(&s, victim, SYS_getpid, 0) == victim, "a call by the new holder");
      if (i & 1) session_thaw(&s, 0);
    }
    session_close(&s);
    need(runs_on(), "the last holder's close does not thaw");
    close(sockets[0]);
    close(sockets[1]);
    kill(victim, SIGKILL);
    need(ends(victim, 10, NULL), "the target outlives SIGKILL");
  }
}

/* ---- the arena's data, accessed while the arena is created */

static sigjmp_buf no_page;
static void on_bus(int sig) {
  (void)sig;
  siglongjmp(no_page, 1);
}
static char *volatile touched;
static volatile int touch_stop;
static void *touch(void *arg) {
  volatile long n = 0;
  (void)arg;
  while (!touch_stop) {
    char *at = touched;
    if (!at) continue;
    if (!sigsetjmp(no_page, 1)) {
      *(volatile char *)(at + 63 * PAGE);
      *(volatile char *)at;
      touched = NULL;
    }
    n++;
  }
  return NULL;
}
static void arena_touched(void) {
  pthread_t t;
  struct sigaction a = {.sa_handler = on_bus, .sa_flags = SA_NODEFER};
  sigaction(SIGBUS, &a, NULL);
  victim = target(ticking);
  need(!pthread_create(&t, NULL, touch, NULL), "pthread_create");
  int64_t end = now_ms() + 6000;
  int n = 0;
  for (; n < 1500 && now_ms() < end; n++) {
    struct session s;
    int opened = session_open(&s, victim), frozen = opened ? 0 : session_freeze(&s, 5000, 0);
    need(frozen == THREADS, "session %d: attach %d, freeze %d, reason %u", n, opened, frozen, s.why.reason);
    char *at = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, s.dev, 0);
    need(at != MAP_FAILED, "the data cannot be mapped before the arena is made: errno %d", errno);
    touched = at;
    random_us(100);
    struct cr_arena arena = {0};
    int r = session_ioctl(&s, CR_IOC_ARENA, &arena);
    need(!r, "arena: %d", r);
    for (int64_t until = now_ms() + 10000; touched && now_ms() < until;) sched_yield();
    need(!touched, "the data is not there after the arena was made");
    at[63 * PAGE] = 1;
    munmap(at, 64 * PAGE);
    session_close(&s);
  }
  touch_stop = 1;
  pthread_join(t, NULL);
  note("%d arenas", n);
  expect(runs_on(), "the target does not run on");
}

/* ---- a freeze that follows a failed one at once */

static struct late {
  volatile long asked, begun, may_end;  // numbers of a vfork() by both threads
} *late;

_Noreturn static void vforking(unsigned later_us) {
  for (volatile long n = 1;; n++) {  // vfork() returns twice
    while (late->asked != n) usleep(100);
    if (!vfork()) {
      __atomic_add_fetch(&late->begun, 1, __ATOMIC_SEQ_CST);
      while (late->may_end != n) usleep(100);
      if (later_us) usleep(later_us);
      _exit(0);
    }
  }
}
static void *vforking_thread(void *arg) {
  (void)arg;
  vforking(0);
}
static void vforking_target(void) {
  pthread_t t;
  signal(SIGCHLD, SIG_IGN);  // children are reaped automatically
  if (pthread_create(&t, NULL, vforking_thread, NULL)) abort();
  sh->ready = 1;
  vforking(3000);
}

/*
 * All threads come too late for a freeze that failed. The first that comes leaves that freeze; the next freeze must not
 * take it for one that will park.
 */
static void late_for_a_freeze(void) {
  late = shared_memory(sizeof *late);
  victim = target(vforking_target);
  struct session s;
  need(!session_open(&s, victim), "attach");
  int64_t end = now_ms() + 8000;
  long n = 0;
  while (now_ms() < end) {
    late->asked = ++n;
    while (late->begun != n * 2) usleep(100);
    int r = session_freeze(&s, 1, 0);
    need(r == -ETIMEDOUT, "freeze %ld with threads in vfork: %d", n, r);
    late->may_end = n;
    random_us(1000);
    r = session_freeze(&s, 5000, 0);
    need(r == 2, "freeze %ld while a thread leaves the one before: %d threads, not 2", n, r);
    need(!session_thaw(&s, 0), "thaw");
  }
  note("%ld freezes", n);
  session_close(&s);
}

/* ---- attaching to exiting processes */

// Many younger idle processes make the module's search for the target's task long.
static void leaves(void *arg) {
  char byte;
  if (read(((int *)arg)[0], &byte, 1) < 0) _exit(1);
}
static void idle_process(void *arg) {
  (void)arg;
  for (;;) pause();
}
static void attach_exiting(void) {
  enum { LEAVING = 200, IDLE = 500 };
  static int pipes[LEAVING][2];
  static pid_t leaving[LEAVING], idle[IDLE];
  int64_t end = now_ms() + 8000;
  int n = 0, came = 0;
  signal(SIGCHLD, SIG_IGN);  // children are reaped automatically
  while (now_ms() < end) {
    for (int i = 0; i < LEAVING; i++) {
      need(!pipe2(pipes[i], O_CLOEXEC), "pipe: errno %d", errno);
      leaving[i] = process(leaves, pipes[i]);
    }
    for (int i = 0; i < IDLE; i++) need((idle[i] = process(idle_process, NULL)) > 0, "fork: errno %d", errno);
    for (int i = 0; i < LEAVING; i++) {
      char name[64];
      snprintf(name, sizeof name, "/proc/%d/mem", leaving[i]);
      struct session s = {.dev = open(CR_DEVICE, O_RDWR), .mem = open(name, O_RDWR)};
      struct cr_attach a = {.mem_fd = s.mem};
      need(write(pipes[i][1], "", 1) == 1, "write: errno %d", errno);
      if (i % 4) random_us(below(2) ? 200 : 1500);
      int r = session_ioctl(&s, CR_IOC_ATTACH, &a);
      came += !r;
      expect(!r || r == -ESRCH, "attach to an exiting process: %d, reason %u", r, a.why.reason);
      session_close(&s);
      close(pipes[i][0]);
      close(pipes[i][1]);
      n++;
    }
    for (int i = 0; i < IDLE; i++) kill(idle[i], SIGKILL);
    for (int i = 0; i < IDLE; i++) need(ends(idle[i], 10, NULL), "an idle process outlives SIGKILL");
  }
  note("%d of %d came in time", came, n);
}

/* ---- threads that reach the gate while the session ends */

static struct session gate;
static void *clones(void *arg) {
  (void)arg;
  session_run(&gate, victim, 100, 0, 1 + below(5), NULL);
  return NULL;
}
static void gate_race(void) {
  int64_t end = now_ms() + 8000;
  int n = 0;
  for (; now_ms() < end; n++) {
    pthread_t t;
    victim = target(ticking);
    need(!session_open(&gate, victim) && session_freeze(&gate, 5000, 0) == THREADS && !session_arena(&gate, 0), "session");
    for (int i = 0; i < 100; i++)
      gate.calls[i] = (struct cr_call){.nr = SYS_clone, .arg = {CLONE_THREAD_FLAGS, gate.arena.data_addr + PAGE}};
    need(!pthread_create(&t, NULL, clones, NULL), "pthread_create");
    random_us(8000);
    switch (n % 4) {
      case 0:
        session_thaw(&gate, CR_THAW_KILL);
        break;
      case 1:
        session_thaw(&gate, 0);
        break;
      case 2:
        kill(victim, SIGKILL);
        break;
      default:
        close(gate.dev);
        gate.dev = -1;
    }
    if (n % 8 >= 4 && gate.dev >= 0) session_freeze(&gate, 50, 0);
    pthread_join(t, NULL);
    session_close(&gate);
    kill(victim, SIGKILL);
    need(ends(victim, 10, NULL), "the target outlives SIGKILL: state %c", task_state(victim));
  }
  note("%d times", n);
}

/* ---- unloading */

static int quietly(const char *command) {
  char text[128];
  snprintf(text, sizeof text, "%s 2>/dev/null", command);
  return system(text);
}
static int unload(void) {  // retries: other tasks drop the last references
  for (int i = 0; i < 500; i++, sleep_ms(10))
    if (!quietly("rmmod cr")) return 0;
  return -1;
}
static void unloading(void) {
  if (file_number("/sys/module/cr/refcnt", "") < 0) skip("the module is not loadable");
  for (int i = 0; i < 12; i++) {
    struct session s;
    victim = target(ticking);
    need(!session_open(&s, victim), "attach");
    need(session_freeze(&s, 5000, i % 3 ? 0 : 1) > 0, "freeze");
    if (!session_arena(&s, 0)) session_call(&s, victim, SYS_getpid, 0);
    if (i % 2) session_thaw(&s, 0);
    if (i % 5 == 4) kill(victim, SIGKILL);
    session_close(&s);
    need(!unload(), "round %d: the module stays in use: %ld", i, file_number("/sys/module/cr/refcnt", ""));
    need(i % 5 == 4 || runs_on(), "round %d: the target does not run on", i);
    kill(victim, SIGKILL);
    need(ends(victim, 10, NULL), "the target outlives SIGKILL");
    need(!quietly("modprobe cr"), "modprobe");
    for (int k = 0; k < 500 && access(CR_DEVICE, F_OK); k++) sleep_ms(10);
  }
}

int main(int argc, char **argv) {
  static const struct tcase cases[] = {
      {"passed_sleep", passed_sleep},
      {"passed_exec", passed_exec},
      {"passed_owner_dies", passed_owner_dies},
      {"arena_touched", arena_touched},
      {"late_for_a_freeze", late_for_a_freeze, 0},
      {"attach_exiting", attach_exiting},
      {"gate_race", gate_race},
      {"unloading", unloading, 60},
  };
  if (argc == 2 && !strcmp(argv[1], "--pause"))
    for (;;) pause();
  return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
