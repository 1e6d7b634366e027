// SPDX-License-Identifier: GPL-2.0-only
// Hundreds of checkpoints and pauses at random moments on a process that verifies
// its memory, registers, pipes, files and threads all the time.
//   stress [-v] [-c CYCLES] [-s SEED]
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "harness.h"
#include "registers.h"

enum { PAGE = 4096, JOBS = 8 };
static volatile uint64_t turns[JOBS];
static char wrong[512];  // the first error
static _Atomic int is_wrong;

static void report(const char *who, const char *why) {
  if (is_wrong++) return;
  snprintf(wrong, sizeof wrong, "%s: %s", who, why);
}

static uint64_t next(uint64_t *x) {
  *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
  return *x;
}

/* ---- memory: every page has a known content at every time */

static void *memory_job(void *arg) {
  enum { PAGES = 256 };
  static uint32_t made[PAGES];
  uint64_t x = 88172645463325252ULL;
  char *area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < PAGES; i++) fill(area + i * PAGE, PAGE, made[i] = 1);
  for (;; turns[0]++) {
    int i = (int)(next(&x) % PAGES);
    const char *why = filled(area + i * PAGE, PAGE, made[i]);
    if (why) report("memory", why);
    if (next(&x) % 3 == 0) fill(area + i * PAGE, PAGE, ++made[i]);
  }
  return arg;
}

/* ---- mappings that are created, changed and removed */

static int fault_file;
static void show_maps(const char *what, const char *from, size_t bytes) {  // prints the mappings around the area
  char line[300];
  dprintf(fault_file, "%s of %p-%p: errno %d\n", what, (const void *)from, (const void *)(from + bytes), errno);
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps)) {
    unsigned long start, end;
    if (sscanf(line, "%lx-%lx", &start, &end) == 2 && end >= (unsigned long)from - PAGE &&
        start <= (unsigned long)from + bytes + PAGE)
      dprintf(fault_file, "%s", line);
  }
  if (maps) fclose(maps);
}

static void *mapping_job(void *arg) {
  uint64_t x = 1234567891234567ULL;
  for (;; turns[1]++) {
    size_t bytes = (1 + next(&x) % 64) * PAGE;
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
      report("mappings", "mmap failed");
      continue;
    }
    memset(at, 0x5a, bytes);
    mprotect(at, bytes, PROT_READ);
    if (at[bytes - 1] != 0x5a || at[0] != 0x5a) report("mappings", "content differs");
    mprotect(at, bytes, PROT_READ | PROT_WRITE);
    char *to = mremap(at, bytes, bytes * 2, MREMAP_MAYMOVE);
    if (to == MAP_FAILED) {
      show_maps("mremap", at, bytes);
      report("mappings", "mremap failed");
      munmap(at, bytes);
      continue;
    }
    if (to[bytes - 1] != 0x5a || to[bytes] != 0) report("mappings", "differs after mremap");
    madvise(to, PAGE, MADV_DONTNEED);
    if (to[0] || (bytes > PAGE && to[PAGE] != 0x5a)) report("mappings", "differs after MADV_DONTNEED");
    munmap(to, bytes * 2);
    char *block = malloc(50000);
    memset(block, 1, 50000);
    free(block);
    sleep_ms(1);
  }
  return arg;
}

/* ---- registers */

static struct registers regs[2];
static void *register_job(void *arg) {
  uint64_t seed[2] = {1, 101};
  registers_start(&regs[0], false, 1);
  registers_start(&regs[1], true, 101);
  for (;; turns[2]++) {
    for (int i = 0; i < 2; i++) {
      const char *why = registers_check(&regs[i], seed[i]);
      if (why) report("registers", why);
      registers_next(&regs[i]);
      seed[i]++;
    }
    sleep_ms(3);
  }
  return arg;
}

/* ---- two threads and two pipes: numbers arrive in order, none is lost */

static int there[2], back[2];
static void *echo_job(void *arg) {
  for (;;) {
    uint64_t number;
    ssize_t n = read(there[0], &number, sizeof number);
    if (n != sizeof number || write(back[1], &number, sizeof number) != sizeof number)
      report("echo", no("read gives %zd, errno %d", n, errno));
  }
  return arg;
}
static void *pipe_job(void *arg) {
  pthread_t t;
  pthread_create(&t, NULL, echo_job, NULL);
  for (uint64_t number = 1;; number++, turns[3]++) {
    uint64_t got = 0;
    if (write(there[1], &number, sizeof number) != sizeof number) report("pipe", no("write: errno %d", errno));
    struct pollfd p = {back[0], POLLIN, 0};
    int ready = poll(&p, 1, 60000);
    if (ready != 1) report("pipe", no("poll gives %d, errno %d", ready, errno));
    if (read(back[0], &got, sizeof got) != sizeof got || got != number)
      report("pipe", no("%lu came back instead of %lu", got, number));
    if (number % 16 == 0) sleep_ms(1);
  }
  return arg;
}

/* ---- a file that is read from its start to its end: position and count agree */

static int file;
static void *file_job(void *arg) {
  static char block[512];
  for (off_t at = 0;; turns[4]++) {
    off_t is = lseek(file, 0, SEEK_CUR);
    if (is != at) report("file", no("position is %ld instead of %ld", (long)is, (long)at));
    ssize_t n = read(file, block, sizeof block);
    for (ssize_t i = 0; i < n; i += 4)
      if (*(uint32_t *)(block + i) != (uint32_t)(at + i)) {
        report("file", no("content differs at %ld", (long)(at + i)));
        break;
      }
    at += n > 0 ? n : 0;
    if (n <= 0) at = lseek(file, 0, SEEK_SET);
    sleep_ms(1);
  }
  return arg;
}

/* ---- threads that start and end */

static void *short_life(void *arg) {
  uint64_t x = (uint64_t)arg;
  char room[2000];
  memset(room, (int)x, sizeof room);
  sleep_ms((int)(x % 3));
  for (size_t i = 0; i < sizeof room; i++)
    if (room[i] != (char)x) report("short thread", "its stack differs");
  return (void *)(x * 3);
}
static void *thread_job(void *arg) {
  for (uint64_t n = 1;; n++, turns[5]++) {
    pthread_t t[3];
    for (uint64_t i = 0; i < 3; i++)
      if (pthread_create(&t[i], NULL, short_life, (void *)(n + i))) report("threads", "pthread_create failed");
    for (uint64_t i = 0; i < 3; i++) {
      void *result = NULL;
      pthread_join(t[i], &result);
      if (result != (void *)((n + i) * 3)) report("threads", no("thread %lu gave %p", i, result));
    }
    sleep_ms(5);
  }
  return arg;
}

/* ---- locks */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static volatile uint64_t made_, used;
static void *maker_job(void *arg) {
  for (;; turns[6]++) {
    pthread_mutex_lock(&lock);
    made_++;
    pthread_cond_signal(&changed);
    if (made_ - used > 1000000) report("locks", "the counters differ by too much");
    pthread_mutex_unlock(&lock);
    if (made_ % 8 == 0) sleep_ms(1);
  }
  return arg;
}
static void *user_job(void *arg) {
  for (;; turns[7]++) {
    pthread_mutex_lock(&lock);
    while (made_ == used) pthread_cond_wait(&changed, &lock);
    used++;
    if (used > made_) report("locks", no("%lu used, %lu made", used, made_));
    pthread_mutex_unlock(&lock);
  }
  return arg;
}

/* ---- a timer's signals: two counters that never differ outside the handler */

static volatile uint64_t rung_a, rung_b;
static void ring(int signal_) {
  (void)signal_;
  rung_a++;
  if (rung_a != rung_b + 1) report("signals", "the handler's counters differ");
  rung_b++;
}

/* ---- report of a fault; written without libc, because fs may not be libc's */

static char *put_number(char *at, const char *name, uint64_t value) {
  while (*name) *at++ = *name++;
  for (int shift = 60; shift >= 0; shift -= 4) *at++ = "0123456789abcdef"[value >> shift & 15];
  return at;
}
static long raw_call(long nr, uint64_t a, uint64_t b, uint64_t c) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return result;
}
__attribute__((optimize("no-stack-protector"))) static void fault(int signal_, siginfo_t *info, void *context) {
  const greg_t *regs_ = ((ucontext_t *)context)->uc_mcontext.gregs;
  char text[400], *at = text;
  at = put_number(at, "signal ", (uint64_t)signal_);
  at = put_number(at, " code ", (uint64_t)info->si_code);
  at = put_number(at, " address ", (uint64_t)info->si_addr);
  at = put_number(at, " rip ", (uint64_t)regs_[REG_RIP]);
  at = put_number(at, " rsp ", (uint64_t)regs_[REG_RSP]);
  at = put_number(at, " rax ", (uint64_t)regs_[REG_RAX]);
  at = put_number(at, " tid ", (uint64_t)raw_call(SYS_gettid, 0, 0, 0));
  at = put_number(at, " setup ", (uint64_t)fault);
  *at++ = '\n';
  raw_call(SYS_write, (uint64_t)fault_file, (uint64_t)text, (uint64_t)(at - text));
  raw_call(SYS_exit_group, 101, 0, 0);
}

static void setup(void) {
  static void *(*const jobs[])(void *) = {memory_job, mapping_job, register_job, pipe_job,
                                          file_job,   thread_job,  maker_job,    user_job};
  MUST(pipe(there));
  MUST(pipe(back));
  fault_file = MUST(open(path("fault"), O_WRONLY | O_CREAT | O_APPEND, 0600));
  struct sigaction on_fault = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &on_fault, NULL);
  sigaction(SIGBUS, &on_fault, NULL);
  sigaction(SIGILL, &on_fault, NULL);
  file = MUST(open(path("numbers"), O_RDWR | O_CREAT, 0600));
  for (uint32_t i = 0; i < 20000; i += 4) MUST(write(file, &i, 4));
  lseek(file, 0, SEEK_SET);
  struct sigaction action = {.sa_handler = ring, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  sigset_t set;  // only this thread handles signals: in others fs may not be libc's
  sigemptyset(&set);
  sigaddset(&set, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  for (size_t i = 0; i < JOBS; i++) {
    pthread_t t;
    if (pthread_create(&t, NULL, jobs[i], NULL)) die("pthread_create failed");
  }
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  struct itimerval often = {{0, 20000}, {0, 20000}};
  MUST(setitimer(ITIMER_REAL, &often, NULL));
}

static uint64_t before[JOBS];
static bool all_went_on(void *arg) {
  (void)arg;
  for (int i = 0; i < JOBS; i++)
    if (turns[i] == before[i]) return is_wrong;
  return true;
}
static const char *check(void) {
  for (int i = 0; i < JOBS; i++) before[i] = turns[i];
  bool on = soon(all_went_on, NULL, 30000);
  if (is_wrong) return no("%s (%d in all)", wrong, is_wrong);
  for (int i = 0; !on && i < JOBS; i++)
    if (turns[i] == before[i]) return no("job %d stands still", i);
  return NULL;
}
static void break_it(void) {  // for the self-check
  report("self-check", "broken on purpose");
}

static const struct scenario scenarios[] = {
    {.name = "stress", .setup = setup, .check = check, .mutate = break_it}, {}};

int main(int argc, char **argv) {
  if (argc == 4 && !strcmp(argv[1], "--target")) return harness_main(argc, argv, scenarios, NULL);
  static struct target t;
  static struct run r;
  int cycles = 120, opt;
  unsigned seed = 1;
  bool self_check_only = false;
  while ((opt = getopt(argc, argv, "nvc:s:")) != -1) {
    if (opt == 'c') cycles = atoi(optarg);
    else if (opt == 's') seed = (unsigned)atoi(optarg);
    else if (opt == 'n') self_check_only = true;
    else if (opt != 'v') {
      fprintf(stderr, "usage: %s [-n] [-v] [-c CYCLES] [-s SEED]\n", argv[0]);
      return 2;
    }
  }
  char *short_args[] = {argv[0], self_check_only ? "-n" : "stress", NULL};
  optind = 1;
  if (self_check_only) return harness_main(2, short_args, scenarios, NULL);

  printf("TAP version 13\n# %d cycles, seed %u\n", cycles, seed);
  harness_prepare();
  if (!target_start(&t, &scenarios[0])) return 1;
  srand(seed);
  char image[2][160], pid[16];
  snprintf(pid, sizeof pid, "%d", t.pid);
  for (int i = 0; i < 2; i++) snprintf(image[i], sizeof image[i], "%s/image.%d", t.dir, i);
  const char *why = NULL;
  int pauses = 0, checkpoints = 0, restarts = 0, cycle = 0;
  double pause_s = 0, checkpoint_s = 0;
  for (; cycle < cycles && !why; cycle++) {
    int which = rand() % 2;
    sleep_ms(rand() % 40);
    if (cycle < 2 || rand() % 4 == 0) {
      if (cycle < 2) which = cycle;
      if (runl(&r, "cr_checkpoint", "--clobber", pid, image[which], NULL)) why = why_not(&r);
      checkpoints++, checkpoint_s += r.seconds;
    } else if (rand() % 20 == 0) {
      target_kill(&t);
      if (runl(&r, "cr_restart", "--detach", image[which], NULL)) why = why_not(&r);
      else target_adopt(&t);
      restarts++;
    } else {
      if (runl(&r, "cr_pause", pid, image[which], NULL)) why = why_not(&r);
      pauses++, pause_s += r.seconds;
    }
    if (!why && cycle % 8 == 7) why = target_op(&t, OP_CHECK);
    if (!why && !target_alive(&t)) why = target_op(&t, OP_CHECK);
  }
  if (!why) why = target_op(&t, OP_CHECK);
  char said[512];
  slurp(path("fault"), said, sizeof said);
  if (said[0]) note("%s", said);
  if (why && !target_alive(&t)) note("the target has ended with wait status %#x", t.status);
  tap(!why, "a busy process survives checkpoints, pauses and restarts at random moments", "cycle %d of %d, seed %u: %s",
      cycle, cycles, seed, why);
  note("%d checkpoints of %.3f s, %d pauses of %.3f s, %d restarts", checkpoints,
       checkpoints ? checkpoint_s / checkpoints : 0, pauses, pauses ? pause_s / pauses : 0, restarts);
  target_end(&t);
  return harness_end();
}
