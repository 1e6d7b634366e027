// SPDX-License-Identifier: GPL-2.0-only
#include "cases.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
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

/* ---- results of a case */

struct verdict {
  volatile int failures, skipped, over;
  char why[300];
};
static struct verdict *verdict;
static bool verbose;

static void comment(const char *format, va_list args) {
  char text[400];
  vsnprintf(text, sizeof text, format, args);
  printf("# %s\n", text);
  fflush(stdout);
}

void note(const char *format, ...) {
  va_list args;
  if (!verbose) return;
  va_start(args, format);
  comment(format, args);
  va_end(args);
}

static void fail(const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  if (!__atomic_fetch_add(&verdict->failures, 1, __ATOMIC_SEQ_CST))
    vsnprintf(verdict->why, sizeof verdict->why, format, args);
  if (verbose && verdict->failures <= 20) comment(format, again);
  va_end(again);
}

bool expect(bool ok, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (!ok) fail(format, args);
  va_end(args);
  return ok;
}

void need(bool ok, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (!ok) {
    fail(format, args);
    verdict->over = 1;
    _exit(1);
  }
  va_end(args);
}

void skip(const char *why) {
  verdict->skipped = verdict->over = 1;
  snprintf(verdict->why, sizeof verdict->why, "%s", why);
  _exit(0);
}

/* ---- time, files of /proc */

int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

void sleep_ms(unsigned ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
  while (nanosleep(&t, &t) && errno == EINTR) {
  }
}

unsigned below(unsigned n) {
  static unsigned long state;
  if (!state) state = (unsigned long)now_ms() * 2654435761UL + (unsigned)getpid();
  state = state * 6364136223846793005UL + 1442695040888963407UL;
  return (unsigned)(state >> 33) % n;
}
void random_us(unsigned most) {
  struct timespec t = {0, below(most + 1) * 1000L};
  nanosleep(&t, NULL);
}

// A debugging kernel is slower by this factor.
static int64_t slowness(void) {
  const char *slow = getenv("REPRISE_SLOW");
  return slow && atoi(slow) > 0 ? atoi(slow) : 1;
}

bool soon(bool (*is)(void *), void *arg, int seconds) {
  int64_t end = now_ms() + seconds * 1000LL * slowness();
  while (!is(arg)) {
    if (now_ms() > end) return false;
    sleep_ms(5);
  }
  return true;
}

static size_t slurp(const char *file, char *buf, size_t size) {
  int fd = open(file, O_RDONLY | O_CLOEXEC);
  size_t n = 0;
  ssize_t r = 0;
  while (fd >= 0 && n < size - 1 && (r = read(fd, buf + n, size - 1 - n)) > 0) n += (size_t)r;
  if (fd >= 0) close(fd);
  buf[n] = 0;
  return n;
}

long file_number(const char *file, const char *key) {
  static char text[65536];
  if (!slurp(file, text, sizeof text)) return -1;
  const char *at = strstr(text, key);
  if (!at) return -1;
  at += strlen(key);
  while (*at && (*at < '0' || *at > '9')) at++;
  return atol(at);
}

char task_state(pid_t tid) {
  char name[64], text[512];
  snprintf(name, sizeof name, "/proc/%d/stat", tid);
  if (!slurp(name, text, sizeof text)) return 0;
  const char *at = strrchr(text, ')');
  return at ? at[2] : 0;
}

bool alive(pid_t pid) {
  char state = task_state(pid);
  return state && state != 'Z' && state != 'X';
}

const char *threads_of(pid_t pid) {
  static char text[400];
  char name[300], wchan[64];
  size_t n = 0;
  snprintf(name, sizeof name, "/proc/%d/task", pid);
  DIR *d = opendir(name);
  struct dirent *e;
  *text = 0;
  while (d && (e = readdir(d)) && n < sizeof text - 100) {
    if (*e->d_name == '.') continue;
    snprintf(name, sizeof name, "/proc/%d/task/%.16s/wchan", pid, e->d_name);
    slurp(name, wchan, sizeof wchan);
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%.16s %c %s", n ? ", " : "", e->d_name, task_state(atoi(e->d_name)),
                          wchan);
  }
  if (d) closedir(d);
  return text;
}

// The first thread can be a zombie while others still run: all threads have ended only when waitpid() returns the pid.
struct ending {
  pid_t pid;
  int status;
};
static bool has_ended(void *arg) {
  struct ending *e = arg;
  pid_t r = waitpid(e->pid, &e->status, WNOHANG);
  if (r < 0) e->status = -1;
  return r > 0 || (r < 0 && !alive(e->pid));
}

bool ends(pid_t pid, int seconds, int *status) {
  struct ending e = {.pid = pid};
  bool ended = soon(has_ended, &e, seconds);
  if (status) *status = e.status;
  return ended;
}

/* ---- processes */

struct shared *sh;

void *shared_memory(size_t bytes) {
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) abort();
  return at;
}

pid_t process(void (*body)(void *), void *arg) {
  pid_t parent = getpid(), pid = fork();
  if (pid) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  body(arg);
  _exit(0);
}

static void call_body(void *body) { ((void (*)(void))(uintptr_t)body)(); }
static bool is_ready(void *arg) {
  (void)arg;
  return sh->ready;
}

pid_t target(void (*body)(void)) {
  sh->ready = 0;
  pid_t pid = process(call_body, (void *)(uintptr_t)body);
  need(pid > 0, "fork: errno %d", errno);
  need(soon(is_ready, NULL, 20), "the target does not start");
  return pid;
}

void tick(int i) {
  for (;;) {
    sh->ticks[i]++;
    usleep(500);
  }
}
static void *tick_thread(void *arg) { tick((int)(intptr_t)arg); }

void tick_threads(int from) {
  pthread_t t;
  for (int i = from; i < THREADS; i++)
    if (pthread_create(&t, NULL, tick_thread, (void *)(intptr_t)i)) abort();
}

void ticking(void) {
  tick_threads(1);
  sh->ready = 1;
  tick(0);
}

static bool moved(void *arg) {
  const long *before = arg;
  for (int i = 0; i < THREADS; i++)
    if (before[i] >= 0 && sh->ticks[i] == before[i]) return false;
  return true;
}

bool runs_on(void) {
  long before[THREADS];
  for (int i = 0; i < THREADS; i++) before[i] = sh->ticks[i];
  return soon(moved, before, 10);
}

bool one_ticks(int which) {
  long before[THREADS];
  for (int i = 0; i < THREADS; i++) before[i] = i == which ? sh->ticks[i] : -1;
  return soon(moved, before, 10);
}

bool stands_still(void) {
  long before[THREADS], n = 0;
  for (int i = 0; i < THREADS; i++) before[i] = sh->ticks[i];
  sleep_ms(100);
  for (int i = 0; i < THREADS; i++) n += sh->ticks[i] != before[i];
  return !n;
}

int send_fd(int socket, int fd) {
  char byte = 0;
  struct iovec iov = {&byte, 1};
  union {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
  return sendmsg(socket, &m, 0) == 1 ? 0 : -1;
}

int receive_fd(int socket) {
  char byte;
  int fd;
  struct iovec iov = {&byte, 1};
  union {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  if (recvmsg(socket, &m, MSG_CMSG_CLOEXEC) != 1 || control.head.cmsg_type != SCM_RIGHTS) return -1;
  memcpy(&fd, CMSG_DATA(&control.head), sizeof fd);
  return fd;
}

/* ---- userfaultfd memory */

bool pit_open(struct pit *p, size_t size) {
  *p = (struct pit){.uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK), .size = size};
  if (p->uffd < 0) return false;
  struct uffdio_api api = {.api = UFFD_API};
  p->at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct uffdio_register reg = {{(uintptr_t)p->at, size}, UFFDIO_REGISTER_MODE_MISSING, 0};
  return p->at != MAP_FAILED && !ioctl(p->uffd, UFFDIO_API, &api) && !ioctl(p->uffd, UFFDIO_REGISTER, &reg);
}

void pit_fill(struct pit *p) {
  for (size_t i = 0; i < p->size; i += PAGE) {
    struct uffdio_zeropage zero = {.range = {(uintptr_t)p->at + i, PAGE}};
    ioctl(p->uffd, UFFDIO_ZEROPAGE, &zero);  // EEXIST where the page exists already
  }
}

void pit_close(struct pit *p) {
  close(p->uffd);
  munmap(p->at, p->size);
}

/* ---- the program */

static int number, failed;

// Children of this process. It is a subreaper, so all processes that the case has left are among them.
static unsigned children(pid_t *list, unsigned room) {
  DIR *d = opendir("/proc");
  struct dirent *e;
  unsigned n = 0;
  while (d && (e = readdir(d)) && n < room) {
    char name[300];
    pid_t pid = atoi(e->d_name);
    if (pid <= 0) continue;
    snprintf(name, sizeof name, "/proc/%d/status", pid);
    if (file_number(name, "\nPPid:") == getpid()) list[n++] = pid;
  }
  if (d) closedir(d);
  return n;
}

// Kills and reaps all processes that the case has left; `what` names one that SIGKILL does not end within ten seconds.
static void sweep(char *what, size_t size) {
  int64_t end = now_ms() + 10000 * slowness();
  pid_t list[4096];
  for (;;) {
    unsigned n = children(list, ARRAY_SIZE(list));
    if (!n) return;
    for (unsigned i = 0; i < n; i++) kill(list[i], SIGKILL);
    for (unsigned i = 0; i < n; i++) waitpid(list[i], NULL, WNOHANG);
    if (now_ms() > end) {
      char name[64], wchan[64];
      snprintf(name, sizeof name, "/proc/%d/wchan", list[0]);
      slurp(name, wchan, sizeof wchan);
      snprintf(what, size, "process %d outlives SIGKILL: state %c in %s, and %u more", list[0], task_state(list[0]),
               wchan, n - 1);
      return;
    }
    sleep_ms(2);
  }
}

static long references(void) { return file_number("/sys/module/cr/refcnt", ""); }
static long references_before;
static bool unused(void *arg) {
  (void)arg;
  return references() <= references_before;
}

static void run_case(const struct tcase *c) {
  unsigned limit = c->limit_s ? c->limit_s : 30;
  int status = 0;
  char left[200] = "";
  pid_t pid;

  memset(verdict, 0, sizeof *verdict);
  memset((void *)sh, 0, sizeof *sh);
  references_before = references();
  long taint = file_number("/proc/sys/kernel/tainted", "");
  int64_t start = now_ms();
  fflush(stdout);
  pid = fork();
  if (!pid) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    c->run();
    verdict->over = 1;
    _exit(0);
  }
  bool ended = ends(pid, (int)limit, &status);
  double seconds = (double)(now_ms() - start) / 1000;
  sweep(left, sizeof left);
  if (!ended)
    expect(false, "still running after %u s", limit);
  else if (!verdict->over)
    expect(false, "the test itself ended by wait status %#x", status);
  expect(!*left, "%s", left);
  if (references_before >= 0)
    expect(soon(unused, NULL, 10), "%ld references to the module are left", references() - references_before);
  // TAINT_WARN (512), TAINT_DIE (128)
  long now = file_number("/proc/sys/kernel/tainted", "");
  expect(!((now & ~taint) & (512 | 128)), "the kernel has logged a warning or oops");
  bool ok = !verdict->failures;
  if (ok && verdict->skipped)
    printf("ok %d - %s # SKIP %s\n", ++number, c->name, verdict->why);
  else
    printf("%sok %d - %s\n", ok ? "" : "not ", ++number, c->name);
  if (!ok) printf("# %s%s\n", verdict->why, verdict->failures > 1 ? " (and more)" : "");
  if (verbose) printf("# %.1f s\n", seconds);
  fflush(stdout);
  failed += !ok;
}

int cases_main(int argc, char **argv, const struct tcase *cases, size_t ncases) {
  const char *part = NULL;
  bool whole = false;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "-v"))
      verbose = true;
    else
      part = argv[i];
  }
  verdict = shared_memory(sizeof *verdict);
  sh = shared_memory(sizeof *sh);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (size_t i = 0; i < ncases; i++) whole |= part && !strcmp(part, cases[i].name);
  for (size_t i = 0; i < ncases; i++)
    if (!part || (whole ? !strcmp(cases[i].name, part) : !!strstr(cases[i].name, part))) run_case(&cases[i]);
  printf("1..%d\n", number);
  return !!failed;
}
