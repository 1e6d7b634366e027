// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sessions, threads and descriptors that end while somebody still uses them: every
 * pair of ends at once, at random moments. Whatever comes first, nobody is left
 * parked, the kernel is unharmed and the module can be unloaded.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

static unsigned below(unsigned n) {
  static unsigned long state;
  if (!state) state = (unsigned long)now_ms() * 2654435761UL + (unsigned)getpid();
  state = state * 6364136223846793005UL + 1442695040888963407UL;
  return (unsigned)(state >> 33) % n;
}
static void random_us(unsigned most) {
  struct timespec t = {0, below(most + 1) * 1000L};
  nanosleep(&t, NULL);
}

enum { CLONE_THREAD_FLAGS = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM };

/* ---- pairs of events */

enum event { THAW, THAW_KILL, KILL_TARGET, EXIT_THREAD, EXEC, CLOSE_OWNER, CLOSE_PASSED, KILL_OWNER, EVENTS };
static const char *const event_names[EVENTS] = {"thaw",        "thaw-kill",   "kill-target",  "exit-thread",
                                                "exec",        "close-owner", "close-passed", "kill-owner"};

// What the processes of a race tell each other; not in the target's private memory.
struct race {
  volatile int exit_thread, exec, close_owner, close_passed, thaw, thaw_kill, started, own_closed, born;
  volatile long executed;
};
static struct race *race;

static void *mortal(void *arg) {
  intptr_t i = (intptr_t)arg;
  for (;;) {
    sh->ticks[i]++;
    if (i == 2 && race->exit_thread) return NULL;
    if (i == 3 && race->exec) {
      char *argv[] = {(char *)(uintptr_t) "race", (char *)(uintptr_t) "--pause", NULL};
      execv("/proc/self/exe", argv);
    }
    if (i & 1) usleep(200);
  }
}
static void mortal_target(void) {
  pthread_t t;
  for (intptr_t i = 1; i < THREADS; i++) pthread_create(&t, NULL, mortal, (void *)i);
  sh->ready = 1;
  mortal((void *)0);
}

static pid_t victim;
static void *closer(void *arg) {
  struct session *s = arg;
  while (!race->close_owner) sched_yield();
  close(s->dev);
  race->own_closed = 1;
  return NULL;
}

// Holds a copy of the descriptor and is not the owner.
static void holder(void *arg) {
  int dev = *(int *)arg;
  while (!race->close_passed) {
    struct cr_thaw t = {.flags = race->thaw_kill ? CR_THAW_KILL : 0};
    if (!race->thaw && !race->thaw_kill) {
      usleep(50);
      continue;
    }
    race->thaw = race->thaw_kill = 0;
    ioctl(dev, CR_IOC_THAW, &t);
  }
  close(dev);
  for (;;) pause();
}

// Does everything that a session is for, again and again.
static void owner(void *arg) {
  struct session s;
  struct cr_thread list[64];
  pthread_t t;
  (void)arg;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (session_open(&s, victim)) _exit(1);
  if (process(holder, &s.dev) < 0 || pthread_create(&t, NULL, closer, &s)) _exit(1);
  race->started = 1;
  for (unsigned round = 0;; round++) {
    if (session_freeze(&s, 1000, 0) < 0) {
      if (race->own_closed) pause();
      sched_yield();
      continue;
    }
    if (!session_arena(&s, 0) && s.calls) {
      struct cr_snapshot snap = {.flags = CR_SNAP_PAGES};
      session_call(&s, victim, SYS_getpid, 0);
      session_ioctl(&s, CR_IOC_SNAPSHOT, &snap);
      long born = 0;
      if (round % 3 == 1 && (race->born = 1))
        born = session_call(&s, victim, SYS_clone, CLONE_THREAD_FLAGS, s.arena.data_addr + s.arena.data_size, 0, 0, 0, 0);
      int n = session_threads(&s, list, 64);
      for (int i = 0; i < n && i < 64; i++) session_call(&s, list[i].tid, SYS_sched_yield, 0);
      if (born > 0) session_call(&s, (pid_t)born, SYS_exit, 0);
      struct timespec *ts = (struct timespec *)(void *)(s.data + 4096);
      *ts = (struct timespec){0, 2000000};
      if (round % 2) session_call(&s, victim, SYS_nanosleep, s.arena.data_addr + 4096, 0);
    }
    if (round % 4) session_thaw(&s, 0);
  }
}

static void cause(enum event e, pid_t own) {
  switch (e) {
    case THAW:
      race->thaw = 1;
      break;
    case THAW_KILL:
      race->thaw_kill = 1;
      break;
    case KILL_TARGET:
      kill(victim, SIGKILL);
      break;
    case EXIT_THREAD:
      race->exit_thread = 1;
      break;
    case EXEC:
      race->exec = 1;
      break;
    case CLOSE_OWNER:
      race->close_owner = 1;
      break;
    case CLOSE_PASSED:
      race->close_passed = 1;
      break;
    default:
      kill(own, SIGKILL);
  }
}

static bool race_started(void *arg) {
  (void)arg;
  return race->started;
}
static bool race_target_lives(void) {
  // a thread that was made and had its session taken away has nowhere to run on; an exec leaves a process that only sleeps: not stuck in the kernel is all there is to ask
  if (!race->exec) return (one_ticks(0) && one_ticks(1)) || (race->born && !alive(victim));
  for (int i = 0; i < 500; i++, sleep_ms(10)) {
    char state = task_state(victim);
    if (state == 'S' || state == 'R' || state == 'Z' || !state) return true;
  }
  return false;
}

static void run_race(enum event a, enum event b) {
  memset((void *)race, 0, sizeof *race);
  victim = target(mortal_target);
  pid_t own = process(owner, NULL);
  need(soon(race_started, NULL, 10), "%s, %s: the owner does not start", event_names[a], event_names[b]);
  random_us(6000);
  cause(a, own);
  random_us(below(2) ? 300 : 3000);
  cause(b, own);
  random_us(3000);
  kill(own, SIGKILL);
  need(ends(own, 10, NULL), "%s, %s: the owner outlives SIGKILL: %s", event_names[a], event_names[b], threads_of(own));
  race->close_passed = 1;
  bool killed = a == KILL_TARGET || b == KILL_TARGET || a == THAW_KILL || b == THAW_KILL;
  if (!killed)
    need(race_target_lives(), "%s, %s: the target does not run on: %s", event_names[a], event_names[b],
         threads_of(victim));
  kill(victim, SIGKILL);
  need(ends(victim, 10, NULL), "%s, %s: the target outlives SIGKILL: %s", event_names[a], event_names[b],
       threads_of(victim));
}

static void pairs_of(enum event first) {
  race = shared_memory(sizeof *race);
  for (int i = 0; i < 5; i++)
    for (enum event b = 0; b < EVENTS; b++) run_race(first, b);
}
#define PAIRS(name, event) \
  static void name(void) { pairs_of(event); }
PAIRS(pairs_thaw, THAW)
PAIRS(pairs_thaw_kill, THAW_KILL)
PAIRS(pairs_kill_target, KILL_TARGET)
PAIRS(pairs_exit_thread, EXIT_THREAD)
PAIRS(pairs_exec, EXEC)
PAIRS(pairs_close_owner, CLOSE_OWNER)
PAIRS(pairs_close_passed, CLOSE_PASSED)
PAIRS(pairs_kill_owner, KILL_OWNER)

/* ---- descriptors that are passed on */

static int sockets[2];
static volatile long *in_call;

static void passed_requester(void *arg) {
  bool exec = arg != NULL;
  struct session s = {.dev = receive_fd(sockets[1]), .mem = -1};
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
  *in_call = 1;
  session_run(&s, victim, 1, 0, 20000, NULL);
  for (;;) pause();
}

static void pass(bool exec) {
  in_call = shared_memory(PAGE);
  for (int i = 0; i < 12; i++) {
    *in_call = 0;
    need(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    victim = target(ticking);
    pid_t requester = process(passed_requester, exec ? &sockets : NULL);
    int dev = open(CR_DEVICE, O_RDWR);
    need(dev >= 0 && !send_fd(sockets[0], dev), "pass the descriptor");
    close(dev);
    for (int k = 0; k < 2000 && !*in_call; k++) sleep_ms(1);
    need(*in_call, "the requester does not come to its call");
    sleep_ms(below(40));
    kill(requester, SIGKILL);
    need(ends(requester, 10, NULL), "the requester outlives SIGKILL");
    close(sockets[0]);
    close(sockets[1]);
    if (!exec) expect(runs_on(), "nobody has the session any more, and its target does not run on");
    if (exec) sleep_ms(100);
    kill(victim, SIGKILL);
    need(ends(victim, 10, NULL), "the target outlives SIGKILL: state %c", task_state(victim));
  }
}
static void passed_sleep(void) { pass(false); }
static void passed_exec(void) { pass(true); }

// The owner goes while another process holds the descriptor: thawed, and of use to the other.
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

/* ---- the arena's data, touched while it is made */

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
  int64_t end = now_ms() + 15000;
  int n = 0;
  for (; n < 1500 && now_ms() < end; n++) {
    struct session s;
    need(!session_open(&s, victim) && session_freeze(&s, 5000, 0) == THREADS, "session %d", n);
    char *at = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, s.dev, 0);
    need(at != MAP_FAILED, "the data cannot be mapped before the arena is made: errno %d", errno);
    touched = at;
    random_us(100);
    struct cr_arena arena = {0};
    int r = session_ioctl(&s, CR_IOC_ARENA, &arena);
    need(!r, "arena: %d", r);
    for (int i = 0; i < 10000 && touched; i++) sched_yield();
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

/* ---- attach to what is just exiting */

// Looking for the target goes on past it through all younger processes: there are many.
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
  int64_t end = now_ms() + 18000;
  int n = 0, came = 0;
  signal(SIGCHLD, SIG_IGN);  // they leave no zombie
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

/* ---- threads that come to the gate while the session ends */

static struct session gate;
static volatile int gate_go;
static void *clones(void *arg) {
  (void)arg;
  session_run(&gate, victim, 100, 0, 1 + below(5), NULL);
  return NULL;
}
static void gate_race(void) {
  int64_t end = now_ms() + 15000;
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
static int unload(void) {  // references go with the tasks that drop them
  for (int i = 0; i < 500; i++, sleep_ms(10))
    if (!quietly("rmmod cr")) return 0;
  return -1;
}
static void unloading(void) {
  if (file_number("/sys/module/cr/refcnt", "") < 0) skip("the module is not loadable");
  for (int i = 0; i < 25; i++) {
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
      {"thaw", pairs_thaw},
      {"thaw_kill", pairs_thaw_kill},
      {"kill_target", pairs_kill_target},
      {"exit_thread", pairs_exit_thread},
      {"exec", pairs_exec},
      {"close_owner", pairs_close_owner},
      {"close_passed", pairs_close_passed},
      {"kill_owner", pairs_kill_owner},
      {"passed_sleep", passed_sleep},
      {"passed_exec", passed_exec},
      {"passed_owner_dies", passed_owner_dies},
      {"arena_touched", arena_touched},
      {"attach_exiting", attach_exiting},
      {"gate_race", gate_race},
      {"unloading", unloading, 60},
  };
  if (argc == 2 && !strcmp(argv[1], "--pause"))
    for (;;) pause();
  return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
