// SPDX-License-Identifier: GPL-2.0-only
// CR_IOC_ROLLBACK by a thread of the target itself, by a descriptor of the session that it was given: it goes on behind the
// call with the memory of the snapshot, alone or with other threads, and never waits for who waits for it.
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cases.h"

enum { PAGES = 300, OTHERS = 3, ALL = OTHERS + 1 };

/* What both processes see, and no rollback changes. */
static struct plan {
  struct cr_rollback request;
  struct cr_range scope;
  struct cr_thread_regs threads[ALL];
  struct user_regs_struct general[ALL];
  char extended[ALL][CR_MAX_REGSET];
  struct cr_rollback second;  // a copy for another thread
  volatile long done, busy, interrupted, other, errors, last_error;
} *plan;

static volatile uint64_t *words;
static int ends_of[2];  // of a socket: the session comes through it
static int own = -1;    // the target's descriptor of the session
static void (*rounds)(void);
static bool with_others;

// ---------------------------------------------------------------- the target

static volatile uint64_t *word(int page) { return words + page * PAGE / sizeof *words; }

static void write_all(void) {
  for (int i = 0; i < PAGES; i++) *word(i) += 1000;
}

/* What is not as at the snapshot. */
static void look_at_pages(void) {
  for (int i = 0; i < PAGES; i++) sh->wrong |= *word(i) != (uint64_t)i;
}

static long roll_back_by(struct cr_rollback *request) {
  const long r = ioctl(own, CR_IOC_ROLLBACK, request) ? -errno : 0;
  if (!r && request->result == CR_ROLLBACK_DONE)
    plan->done++;
  else if (r == -EBUSY)
    plan->busy++;
  else if (r == -EINTR)
    plan->interrupted++;
  else if (!r)
    plan->other++;
  else
    plan->last_error = r, plan->errors++;
  return r;
}

static long roll_back(void) { return roll_back_by(&plan->request); }

/* Counts in memory that is rolled back and in a register, and compares them. */
static void *counting(void *number) {
  const long i = (long)number;
  sh->ticks[i] = 1;
  asm volatile(
      "mov (%0), %%r12\n"
      "1: cmp %%r12, (%0)\n"
      "jne 2f\n"
      "inc %%r12\n"
      "mov %%r12, (%0)\n"
      "incq (%1)\n"
      "jmp 1b\n"
      "2: orq $2, (%2)\n"
      "jmp 1b\n"
      :
      : "r"(word(i) + 1), "r"(&sh->ticks[i]), "r"(&sh->wrong)
      : "r12", "memory", "cc");
  return NULL;
}

static void body(void) {
  pthread_t thread;
  words = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (words == MAP_FAILED) _exit(1);
  for (int i = 0; i < PAGES; i++) *word(i) = (uint64_t)i;
  for (long i = 1; with_others && i <= OTHERS; i++)
    if (pthread_create(&thread, NULL, counting, (void *)i)) _exit(1);
  for (long i = 1; with_others && i <= OTHERS; i++)
    while (!sh->ticks[i]) usleep(500);
  own = receive_fd(ends_of[1]);
  if (own < 0) _exit(1);
  sh->at[0] = (void *)words;
  sh->ready = 2;
  while (!sh->go) usleep(500);
  rounds();
  sh->value[0] = 1;
  for (;;) pause();
}

// ---------------------------------------------------------------- its snapshot

static struct session s;
static pid_t pid;

static void save_registers(const struct cr_thread *thread, int n) {
  struct cr_regs regs = {.tid = thread->tid, .type = NT_PRSTATUS, .buf = (uintptr_t)&plan->general[n], .len = sizeof plan->general[n]};
  need(!session_ioctl(&s, CR_IOC_GET_REGS, &regs), "general registers: errno %d", errno);
  plan->threads[n] = (struct cr_thread_regs){.tid = thread->tid, .sigmask = thread->sigmask, .general = (uintptr_t)&plan->general[n]};
  regs = (struct cr_regs){.tid = thread->tid, .type = NT_X86_XSTATE, .buf = (uintptr_t)plan->extended[n], .len = sizeof plan->extended[n]};
  need(!session_ioctl(&s, CR_IOC_GET_REGS, &regs), "extended registers: errno %d", errno);
  plan->threads[n].extended = (uintptr_t)plan->extended[n];
  plan->threads[n].extended_len = regs.len;
  if ((long)plan->general[n].orig_rax >= 0 && (long)plan->general[n].rax == -516) plan->threads[n].flags = CR_REGS_RESTART;
  if (regs.len > plan->request.threads.room) plan->request.threads.room = (unsigned)regs.len;
}

static bool is_ready(void *state) { return sh->ready == *(int *)state; }

/* Start a target that does @what with @others threads more, and take a snapshot of it. */
static void take(void (*what)(void), bool others) {
  const int count = others ? ALL : 1;
  struct cr_snapshot snapshot = {.flags = CR_SNAP_PAGES | CR_SNAP_TRACK, .id = "itself"};
  struct cr_thread list[ALL + 1];
  struct cr_digest digest;
  int all = 2;
  rounds = what;
  with_others = others;
  plan = shared_memory(sizeof *plan);
  need(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_of), "socketpair");
  pid = process((void (*)(void *))body, NULL);
  need(!session_open(&s, pid), "attach");
  need(!send_fd(ends_of[0], s.dev), "send the session");
  need(soon(is_ready, &all, 10), "the target does not begin");
  need(session_freeze(&s, 5000, 0) == count, "freeze");
  const int n = session_threads(&s, list, ALL + 1);
  need(n == count, "%d threads", n);
  for (int i = 0; i < n; i++) save_registers(&list[i], i);
  need(!session_ioctl(&s, CR_IOC_DIGEST, &digest), "digest");
  need(!session_ioctl(&s, CR_IOC_SNAPSHOT, &snapshot), "snapshot");
  need(!session_thaw(&s, 0), "thaw");
  plan->scope = (struct cr_range){(uintptr_t)sh->at[0], PAGES * PAGE};
  memcpy(plan->request.area, digest.area, sizeof digest.area);
  for (int i = 0; i < CR_AREAS; i++) need(plan->request.area[i], "area %d cannot be compared", i);
  plan->request.pages = (struct cr_restore){
      .source_fd = -1, .flags = CR_RESTORE_TRACK, .id = "itself", .scope = (uintptr_t)&plan->scope, .nscope = 1};
  plan->request.threads.threads = (uintptr_t)plan->threads;
  plan->request.threads.count = (unsigned)n;
  plan->second = plan->request;
}

static bool has_ended(void *unused) {
  (void)unused;
  return sh->value[0] != 0;
}

static void runs(int seconds) {
  sh->go = 1;
  const bool ended = soon(has_ended, NULL, seconds);
  note("%ld done, %ld busy, %ld interrupted, %ld otherwise, %ld errors (%ld)", plan->done, plan->busy, plan->interrupted, plan->other,
       plan->errors, plan->last_error);
  need(ended, "the target does not come to its end: %s", threads_of(pid));
  need(!sh->wrong, "the target has found something wrong: %ld", sh->wrong);
}

// ---------------------------------------------------------------- the cases

static void many_rounds(void) {
  for (int i = 0; i < 300; i++) {
    write_all();
    sh->wrong |= roll_back() != 0;
    look_at_pages();
  }
}

static void alone(void) {
  take(many_rounds, false);
  runs(20);
  expect(plan->done == 300, "%ld rollbacks", plan->done);
  expect(plan->request.pages.restored == PAGES, "%lu pages restored", (unsigned long)plan->request.pages.restored);
  need(session_freeze(&s, 5000, 0) == 1, "its owner cannot freeze it");
  need(!session_thaw(&s, 0), "thaw");
}

static void with_threads(void) {
  take(many_rounds, true);
  runs(25);
  expect(plan->done == 300, "%ld rollbacks", plan->done);
  for (int i = 1; i <= OTHERS; i++) expect(one_ticks(i), "thread %d does not go on", i);
}

static void with_a_mask(void) {
  sigset_t all, now;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  sh->wrong |= roll_back() != 0 || sigprocmask(SIG_SETMASK, NULL, &now) || sigismember(&now, SIGUSR1);
}

static void signal_mask(void) {
  take(with_a_mask, false);
  runs(10);
  expect(plan->done == 1, "%ld rollbacks", plan->done);
}

static void with_more(void) {
  for (int i = 0; i < 10; i++) {
    const int more = open("/dev/null", O_RDONLY);
    *word(5) = 77;
    sh->wrong |= roll_back() != 0 || *word(5) != 77 || close(more) != 0;
    sh->wrong |= roll_back() != 0 || *word(5) != 5;
  }
}

static void differs(void) {
  take(with_more, true);
  runs(20);
  expect(plan->other == 10 && plan->done == 10, "%ld differ", plan->other);
}

static void freezes_itself(void) {
  struct cr_freeze freeze = {.timeout_ms = 60000};
  sh->wrong |= ioctl(own, CR_IOC_FREEZE, &freeze) != -1 || errno != EDEADLK || freeze.why.reason != CR_WHY_SELF;
  struct cr_thaw thaw = {0};
  sh->wrong |= ioctl(own, CR_IOC_THAW, &thaw) != -1 || errno != ENOTCONN;
}

static void freeze(void) {
  take(freezes_itself, true);
  runs(10);
}

static void *rolls_back_too(void *unused) {
  (void)unused;
  while (!sh->stop) {
    const long r = roll_back_by(&plan->second);
    if (r && r != -EBUSY && r != -EINTR) sh->wrong |= 4;
  }
  return NULL;
}

static void two_at_once(void) {
  pthread_t thread;
  // made behind the snapshot, so all differ from it: none is done
  if (pthread_create(&thread, NULL, rolls_back_too, NULL)) _exit(1);
  for (int i = 0; i < 2000; i++) {
    const long r = roll_back();
    if (r && r != -EBUSY && r != -EINTR) sh->wrong |= 8;
  }
  sh->stop = 1;
  pthread_join(thread, NULL);
}

static void two_threads(void) {
  take(two_at_once, true);
  runs(25);
  expect(plan->other > 0 && !plan->errors && !plan->done, "%ld differ", plan->other);
}

static void until_stopped(void) {
  while (!sh->stop) {
    write_all();
    const long r = roll_back();
    if (r && r != -EBUSY && r != -EINTR) sh->wrong |= 8;
    if (!r && plan->request.result == CR_ROLLBACK_DONE) look_at_pages();
  }
}

/* Its owner and another session freeze it all the time. Neither may wait for the other until a timeout. */
static void others_freeze(void) {
  struct session other;
  int frozen = 0, busy = 0;
  take(until_stopped, true);
  need(!session_open(&other, pid), "attach");
  sh->go = 1;
  const int64_t begin = now_ms();
  for (int i = 0; now_ms() < begin + 6000; i++) {
    struct session *one = i % 2 ? &other : &s;
    const int64_t since = now_ms();
    const int r = session_freeze(one, 4000, 0);
    expect(now_ms() - since < 3000, "a freeze took %ld ms: %d", (long)(now_ms() - since), r);
    if (r == -EBUSY) {
      busy++;
      continue;
    }
    need(r == ALL, "freeze: %d, reason %u", r, one->why.reason);
    frozen++;
    random_us(500);
    need(!session_thaw(one, 0), "thaw");
    random_us(i % 4 ? 2000 : 50000);  // now and then enough for a rollback on a slow kernel
  }
  sh->stop = 1;
  note("%d freezes, %d busy", frozen, busy);
  runs(10);
  expect(frozen > 10 && plan->done > 0, "%d freezes, %ld rollbacks", frozen, plan->done);
  session_close(&other);
}

static void killed(void) {
  take(until_stopped, true);
  sh->go = 1;
  random_us(800000);
  kill(pid, SIGKILL);
  expect(ends(pid, 10, NULL), "it does not end");
  expect(session_freeze(&s, 1000, 0) == -ESRCH, "an ended process is frozen");
}

/* Registers of another thread that the processor does not take: found out behind the commit. */
static void breaks(void) {
  for (int i = 1; i < 3; i++)  // what is reserved in the header of XSAVE
    memset((char *)(uintptr_t)plan->threads[i].extended + 512 + 16, 0xff, 48);
  roll_back();
  sh->value[1] = 1;
}

static void broken(void) {
  int status;
  take(breaks, true);
  sh->go = 1;
  expect(ends(pid, 10, &status) && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "it has not been killed: %x", status);
  expect(!sh->value[1], "it has run on");
}

static void without_owner(void) {
  take(until_stopped, true);
  session_close(&s);
  sh->go = 1;
  sleep_ms(500);
  sh->stop = 1;
  runs(10);
  expect(plan->done > 0, "no rollback");
}

/* A stop by a signal at the same time. */
static void stopped(void) {
  take(until_stopped, true);
  sh->go = 1;
  for (int i = 0; i < 50; i++) {
    random_us(20000);
    kill(pid, SIGSTOP);
    random_us(20000);
    kill(pid, SIGCONT);
  }
  sh->stop = 1;
  runs(20);
  expect(plan->done > 0, "no rollback");
}

static struct tcase cases[] = {
    {"alone", alone, 60},          {"threads", with_threads, 60},  {"signal_mask", signal_mask, 0}, {"differs", differs, 60},
    {"freeze", freeze, 0},         {"two_threads", two_threads, 60}, {"others_freeze", others_freeze, 60}, {"killed", killed, 60},
    {"broken", broken, 60},        {"without_owner", without_owner, 60}, {"stopped", stopped, 60},
};

int main(int argc, char **argv) { return cases_main(argc, argv, cases, ARRAY_SIZE(cases)); }
