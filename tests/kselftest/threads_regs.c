// SPDX-License-Identifier: GPL-2.0-only
// Threads and their registers.
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"
#include "registers.h"

/* ---- registers, of a looping and of a sleeping thread */

static struct registers regs[2];

static void registers_setup(void) {
  registers_start(&regs[0], false, 1);
  registers_start(&regs[1], true, 101);
}
static const char *registers_ok(void) {
  part("looping thread", registers_check(&regs[0], 1));
  part("sleeping thread", registers_check(&regs[1], 101));
  return parts();
}
static void registers_change(void) {
  registers_next(&regs[0]);
  registers_next(&regs[1]);
}

/* ---- attributes of a thread */

static struct worker w;
static char stack_a[65536], stack_b[65536];
static struct area {
  uint32_t cpu_id_start, cpu_id;
  uint64_t rseq_cs;
  uint32_t flags, pad[3];
} __attribute__((aligned(32))) rseq_a, rseq_b;
static struct robust_list_head robust_a = {{&robust_a.list}, 0, 0}, robust_b = {{&robust_b.list}, 0, 0};
static bool has_rseq;
enum { RSEQ_SIGNATURE = 0x53053053, OWN_SIGNATURE = 0x11223344 };
extern const ptrdiff_t __rseq_offset __attribute__((weak));

static int rseq(void *area, int flags, uint32_t signature) {
  return (int)syscall(SYS_rseq, area, 32, flags, signature);
}

static const char *set_attributes(void *arg) {
  bool other = arg != NULL;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, other ? SIGUSR2 : SIGUSR1);
  sigaddset(&set, SIGRTMIN + (other ? 9 : 3));
  pthread_sigmask(SIG_SETMASK, &set, NULL);
  stack_t stack = {.ss_sp = other ? stack_b : stack_a, .ss_size = sizeof stack_a};
  MUST(sigaltstack(&stack, NULL));
  MUST(prctl(PR_SET_NAME, other ? "other name" : "first name"));
  MUST(prctl(PR_SET_TIMERSLACK, other ? 70000 : 60000));
  MUST(prctl(PR_SET_PDEATHSIG, other ? SIGUSR2 : 0));
  MUST(setpriority(PRIO_PROCESS, (id_t)gettid_(), other ? 7 : 3));
  struct sched_param none = {0};
  MUST(sched_setscheduler(0, other ? SCHED_IDLE : SCHED_BATCH, &none));
  MUST(syscall(SYS_set_robust_list, other ? &robust_b : &robust_a, sizeof robust_a));
  if (has_rseq) {
    if (other) MUST(rseq(&rseq_a, 1, OWN_SIGNATURE));
    MUST(rseq(other ? &rseq_b : &rseq_a, 0, OWN_SIGNATURE));
  }
  if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(other, &cpus);
    MUST(sched_setaffinity(0, sizeof cpus, &cpus));
  }
  return NULL;
}

static const char *first_attributes(void *arg) {
  (void)arg;
  if (&__rseq_offset) has_rseq = rseq((char *)__builtin_thread_pointer() + __rseq_offset, 1, RSEQ_SIGNATURE) == 0;
  return set_attributes(NULL);
}

static void attributes_setup(void) {
  worker_start(&w);
  worker_do(&w, first_attributes, NULL);
}

static const char *look_at_attributes(void *arg) {
  (void)arg;
  sigset_t mask, want;
  sigemptyset(&want);
  sigaddset(&want, SIGUSR1);
  sigaddset(&want, SIGRTMIN + 3);
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  part("signal mask", memcmp(&mask, &want, 8) ? no("%#lx instead of %#lx", *(long *)&mask, *(long *)&want) : NULL);
  stack_t stack;
  sigaltstack(NULL, &stack);
  part("alternate stack", stack.ss_sp != stack_a || stack.ss_size != sizeof stack_a || stack.ss_flags
                              ? no("%p, %zu bytes, flags %d", stack.ss_sp, stack.ss_size, stack.ss_flags)
                              : NULL);
  char name[16];
  prctl(PR_GET_NAME, name);
  part("name", strcmp(name, "first name") ? no("%s", name) : NULL);
  part("timer slack", prctl(PR_GET_TIMERSLACK) != 60000 ? no("%d", prctl(PR_GET_TIMERSLACK)) : NULL);
  int death = -1;
  prctl(PR_GET_PDEATHSIG, &death);
  part("parent death signal", death ? no("%d", death) : NULL);
  int nice = getpriority(PRIO_PROCESS, (id_t)gettid_()), policy = sched_getscheduler(0);
  part("nice", nice != 3 ? no("%d", nice) : NULL);
  part("scheduling policy", policy != SCHED_BATCH ? no("%d", policy) : NULL);
  void *head = NULL;
  size_t size;
  syscall(SYS_get_robust_list, 0, &head, &size);
  part("robust list", head != &robust_a ? no("%p instead of %p", head, (void *)&robust_a) : NULL);
  if (has_rseq) {
    errno = 0;
    rseq(&rseq_a, 0, OWN_SIGNATURE);  // EBUSY: already registered with the same arguments
    part("rseq", errno != EBUSY ? no("registering it gives errno %d", errno) : NULL);
    sched_yield();
    if (errno == EBUSY && rseq_a.cpu_id >= (unsigned)sysconf(_SC_NPROCESSORS_CONF))
      part("cpu in rseq", no("%u", rseq_a.cpu_id));
  }
  if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    part("affinity", !CPU_ISSET(0, &cpus) || CPU_COUNT(&cpus) != 1 ? no("%d CPUs", CPU_COUNT(&cpus)) : NULL);
  }
  return parts();
}

static const char *attributes_ok(void) { return worker_do(&w, look_at_attributes, NULL); }
static void attributes_change(void) { worker_do(&w, set_attributes, (void *)1); }

/* ---- the C library's own rseq area, in which the kernel stores the CPU */

static const char *one_cpu(void) {
  return sysconf(_SC_NPROCESSORS_ONLN) < 2 ? "needs two CPUs" : NULL;
}
static const char *go_to(void *arg) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET((intptr_t)arg, &cpus);
  MUST(sched_setaffinity(0, sizeof cpus, &cpus));
  sched_yield();
  return NULL;
}
static const char *where(void *arg) {
  unsigned cpu = ~0U, area = ~0U;
  (void)arg;
  syscall(SYS_getcpu, &cpu, NULL, NULL);
  if (&__rseq_offset) area = ((struct area *)((char *)__builtin_thread_pointer() + __rseq_offset))->cpu_id;
  if (cpu != 0) return no("is on CPU %u", cpu);
  return (int)area >= 0 && area != cpu ? no("is on CPU %u, rseq has %u", cpu, area) : NULL;
}
static void rseq_setup(void) {
  worker_start(&w);
  worker_do(&w, go_to, (void *)0);
}
static const char *rseq_ok(void) { return worker_do(&w, where, NULL); }
static void rseq_change(void) { worker_do(&w, go_to, (void *)1); }

/* ---- threads created since the checkpoint are ended */

static int count_before;
static struct worker born[6];

static void born_setup(void) {
  worker_start(&w);
  count_before = thread_count();
}
static const char *born_ok(void) {
  int n = thread_count();
  return n != count_before ? no("%d threads instead of %d", n, count_before) : NULL;
}
static void born_change(void) {
  for (size_t i = 0; i < ARRAY_SIZE(born); i++) worker_start(&born[i]);
}

/* ---- threads that ended since the checkpoint are created again */

enum { CREW = 8 };
static struct worker crew[CREW];
static __thread int own_value;

static const char *note_value(void *arg) {
  own_value = (int)(intptr_t)arg;
  char name[16];
  snprintf(name, sizeof name, "crew %d", own_value);
  prctl(PR_SET_NAME, name);
  return NULL;
}
static const char *look_at_value(void *arg) {
  char name[16], want[16];
  prctl(PR_GET_NAME, name);
  snprintf(want, sizeof want, "crew %d", (int)(intptr_t)arg);
  if (own_value != (int)(intptr_t)arg) return no("thread-local variable is %d instead of %d", own_value, (int)(intptr_t)arg);
  if (strcmp(name, want)) return no("thread is called %s instead of %s", name, want);
  if (gettid_() != crew[own_value].tid) return no("tid is %d instead of %d", gettid_(), crew[own_value].tid);
  return NULL;
}
static void crew_setup(void) {
  for (int i = 0; i < CREW; i++) {
    worker_start(&crew[i]);
    worker_do(&crew[i], note_value, (void *)(intptr_t)i);
  }
  count_before = thread_count();
}
static const char *crew_ok(void) {
  for (int i = 0; i < CREW; i++) {
    if (!thread_exists(crew[i].tid)) return no("thread %d does not exist", crew[i].tid);
    const char *why = worker_do(&crew[i], look_at_value, (void *)(intptr_t)i);
    if (why) return why;
  }
  int n = thread_count();
  return n != count_before ? no("%d threads instead of %d", n, count_before) : NULL;
}
static void some_end(void) {
  for (int i = 1; i < CREW; i += 3) worker_end(&crew[i]);
}
static void some_end_some_born(void) {
  some_end();
  for (int i = 0; i < 3; i++) worker_start(&born[i]);
}
static const char *all_end(void) {
  for (int i = 0; i < CREW; i++) worker_end(&crew[i]);
  return NULL;
}

/* ---- many of them */

enum { MANY = 96 };
static struct worker many[MANY], more[MANY];

static void many_setup(void) {
  for (int i = 0; i < MANY; i++) worker_start(&many[i]);
  count_before = thread_count();
}
static const char *own_tid(void *arg) { return gettid_() == *(pid_t *)arg ? NULL : no("tid is %d instead of %d", gettid_(), *(pid_t *)arg); }
static const char *many_ok(void) {
  int n = thread_count();
  if (n != count_before) return no("%d threads instead of %d", n, count_before);
  for (int i = 0; i < MANY; i++) {
    const char *why = worker_do(&many[i], own_tid, &many[i].tid);
    if (why) return why;
  }
  return NULL;
}
static void many_change(void) {
  for (int i = 0; i < MANY; i += 2) worker_end(&many[i]);
  for (int i = 0; i < MANY / 3; i++) worker_start(&more[i]);
}

/* ---- clear_child_tid: the kernel clears the word when the thread ends */

static _Atomic int child_word, leave;
static pid_t leaver;

static void *leaving_thread(void *arg) {
  (void)arg;
  child_word = leaver = gettid_();
  syscall(SYS_set_tid_address, &child_word);
  while (!leave) syscall(SYS_futex, &leave, FUTEX_WAIT, 0, NULL, NULL, 0);
  syscall(SYS_exit, 0);
  return NULL;
}
static bool has_started(void *arg) { return *(pid_t *)arg != 0; }
static void clear_setup(void) {
  pthread_t t;
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  pthread_create(&t, &attr, leaving_thread, NULL);
  soon(has_started, &leaver, 5000);
  sleep_ms(20);
}
static const char *clear_ok(void) {
  if (!thread_exists(leaver)) return no("thread %d does not exist", leaver);
  return child_word == leaver ? NULL : no("the word is %d", child_word);
}
static const char *clear_finish(void) {
  struct timespec limit = {10, 0};
  leave = 1;
  syscall(SYS_futex, &leave, FUTEX_WAKE, 1, NULL, NULL, 0);
  for (int i = 0; i < 100 && child_word == leaver; i++)  // the kernel clears the word and wakes this futex
    if (syscall(SYS_futex, &child_word, FUTEX_WAIT, leaver, &limit, NULL, 0) && errno == ETIMEDOUT) break;
  return child_word ? no("the word was not cleared at the thread's end") : NULL;
}

/* ---- a robust mutex whose owner dies */

static pthread_mutex_t robust_mutex;
static pthread_t robust_owner;
static _Atomic int may_die, holds;

static void *own_and_die(void *arg) {
  pthread_mutex_lock(&robust_mutex);
  holds = gettid_();
  while (!may_die) syscall(SYS_futex, &may_die, FUTEX_WAIT, 0, NULL, NULL, 0);
  return arg;
}
static bool is_held(void *arg) {
  (void)arg;
  return holds != 0;
}
static void robust_setup(void) {
  pthread_mutexattr_t attr;
  pthread_mutexattr_init(&attr);
  pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&robust_mutex, &attr);
  pthread_create(&robust_owner, NULL, own_and_die, NULL);
  soon(is_held, NULL, 5000);
}
static const char *robust_ok(void) {
  if (!thread_exists(holds)) return no("its owner, thread %d, does not exist", holds);
  int got = pthread_mutex_trylock(&robust_mutex);
  return got != EBUSY ? no("locking it gives %d instead of EBUSY", got) : NULL;
}
static const char *robust_finish(void) {
  may_die = 1;
  syscall(SYS_futex, &may_die, FUTEX_WAKE, 1, NULL, NULL, 0);
  pthread_join(robust_owner, NULL);
  int got = pthread_mutex_trylock(&robust_mutex);
  return got != EOWNERDEAD ? no("locking it after its owner's death gives %d instead of EOWNERDEAD", got) : NULL;
}

/* ---- in the middle of a signal handler, on the alternate stack */

static volatile int in_handler, release_handler;
static volatile unsigned handler_turns;
static volatile bool on_altstack;

__attribute__((optimize("no-stack-protector"))) static void handler(int signal) {
  (void)signal;
  char here;
  char *volatile at = &here;
  on_altstack = at >= stack_a && at < stack_a + sizeof stack_a;
  in_handler = 1;
  while (!release_handler) {  // the thread's fs is not libc's here
    long result;
    struct timespec t = {0, 1000000};
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_nanosleep), "D"(&t), "S"(0) : "rcx", "r11", "memory");
    handler_turns++;
  }
  in_handler = 0;
}
static bool handler_runs(void *arg) {
  (void)arg;
  return in_handler;
}
static bool handler_left(void *arg) {
  (void)arg;
  return !in_handler;
}
static bool handler_turned(void *arg) { return handler_turns != *(unsigned *)arg; }
static void handler_setup(void) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR1, &action, NULL);
  regs[0].altstack = stack_a;
  registers_start(&regs[0], false, 1);
  sleep_ms(50);
  pthread_kill(regs[0].thread, SIGUSR1);
  if (!soon(handler_runs, NULL, 5000)) die("the handler does not run");
}
static const char *handler_ok(void) {
  unsigned before = handler_turns;
  if (!in_handler || !on_altstack) return no("not in the handler, or not on the alternate stack");
  return soon(handler_turned, &before, 5000) ? NULL : no("the handler stands still");
}
static const char *handler_finish(void) {
  release_handler = 1;
  if (!soon(handler_left, NULL, 5000)) return no("the handler does not end");
  return registers_check(&regs[0], 1);
}

static const struct scenario scenarios[] = {
    {.name = "registers", .setup = registers_setup, .check = registers_ok, .mutate = registers_change, .flags = MANY_FREEZES},
    {.name = "attributes", .setup = attributes_setup, .check = attributes_ok, .mutate = attributes_change},
    {.name = "rseq of the C library", .setup = rseq_setup, .check = rseq_ok, .mutate = rseq_change, .skip = one_cpu},
    {.name = "threads born since", .setup = born_setup, .check = born_ok, .mutate = born_change},
    {.name = "threads ended since", .setup = crew_setup, .check = crew_ok, .mutate = some_end},
    {.name = "threads ended and born", .setup = crew_setup, .check = crew_ok, .mutate = some_end_some_born},
    {.name = "all threads ended", .setup = crew_setup, .check = crew_ok, .finish = all_end},
    {.name = "many threads", .setup = many_setup, .check = many_ok, .mutate = many_change},
    {.name = "clear_child_tid", .setup = clear_setup, .check = clear_ok, .finish = clear_finish},
    {.name = "robust mutex", .setup = robust_setup, .check = robust_ok, .finish = robust_finish},
    {.name = "inside a signal handler", .setup = handler_setup, .check = handler_ok, .finish = handler_finish},
    {},
};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, NULL); }
