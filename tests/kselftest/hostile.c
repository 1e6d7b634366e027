// SPDX-License-Identifier: GPL-2.0-only
/*
 * A hostile target and a hostile session: other programs during a session (exec),
 * the target's own code in the arena, forged counts.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"

enum { USER = 1000 };

/* ---- a set-user-ID program, which records in a file that it ran and whether it was disturbed */

struct evidence {
  volatile int ran, finished, disturbed;
  volatile unsigned euid;
};
static struct evidence *evidence;
static char helper[64], evidence_file[64];

static int set_uid_helper(const char *file) {
  int fd = open(file, O_RDWR);
  struct evidence *e = mmap(NULL, sizeof *e, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd < 0 || e == MAP_FAILED) return 1;
  e->euid = geteuid();
  e->ran = 1;
  for (int i = 0; i < 300; i++) {
    struct timespec ms = {0, 1000000};
    if (nanosleep(&ms, NULL)) e->disturbed = 1;
  }
  e->finished = 1;
  return 42;
}

static void install_helper(void) {
  snprintf(evidence_file, sizeof evidence_file, "/tmp/evidence-%d", getpid());
  int fd = open(evidence_file, O_RDWR | O_CREAT | O_TRUNC, 0666);
  need(fd >= 0 && !fchmod(fd, 0666) && !ftruncate(fd, PAGE), "%s: errno %d", evidence_file, errno);
  evidence = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  snprintf(helper, sizeof helper, "/tmp/helper-%d", getpid());
  char copy[400];
  snprintf(copy, sizeof copy, "cp /proc/%d/exe %s && chown 0:0 %s && chmod 4755 %s", getpid(), helper, helper, helper);
  need(!system(copy), "cannot install %s", helper);
}
static void remove_helper(void) {
  unlink(helper);
  unlink(evidence_file);
}

static void drop(void) {
  if (setresgid(USER, USER, USER) || setresuid(USER, USER, USER)) abort();
  prctl(PR_SET_DUMPABLE, 1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* ---- a target of an unprivileged user, frozen by the same user */

static void user_target(void) {
  int ends_[2];
  drop();
  if (pipe(ends_)) abort();
  sh->value[0] = ends_[0], sh->value[1] = ends_[1];
  sh->value[2] = memfd_create("code", 0);
  ticking();
}

static struct session s;
static pid_t pid;

static void user_session(void) {
  s = (struct session){.dev = open(CR_DEVICE, O_RDWR | O_CLOEXEC), .mem = -1};
  need(s.dev >= 0, "%s: errno %d", CR_DEVICE, errno);
  pid = target(user_target);
  drop();
  int r = session_attach(&s, pid);
  need(!r, "attach: %d", r);
  r = session_freeze(&s, 5000, 0);
  need(r == THREADS, "freeze: %d", r);
  r = session_arena(&s, 0);
  need(!r, "arena: %d", r);
}

// Arguments of calls in memory, in the second half of the arena's data.
enum { TEXT = 128 * 1024 };
static char *text(void) { return s.data + TEXT; }
static uint64_t text_there(void) { return s.arena.data_addr + TEXT; }

static struct cr_call exec_helper(unsigned flags) {
  uint64_t *argv = (uint64_t *)(void *)(text() + 512);
  strcpy(text(), helper);
  strcpy(text() + 128, "--set-uid-helper");
  strcpy(text() + 256, evidence_file);
  argv[0] = text_there(), argv[1] = text_there() + 128, argv[2] = text_there() + 256, argv[3] = 0;
  return (struct cr_call){SYS_execve, flags, {text_there(), text_there() + 512, text_there() + 512 + 24}, 0};
}

// True from the exec on, even while the program is parked before its first instruction: the process is root's then.
static bool helper_runs(void *arg) {
  struct stat st;
  char name[64];
  (void)arg;
  snprintf(name, sizeof name, "/proc/%d", pid);
  return evidence->ran || (!stat(name, &st) && st.st_uid == 0);
}
static bool helper_finished(void *arg) {
  (void)arg;
  return evidence->finished;
}

// The set-user-ID program runs: the session must have no access to it.
static void is_left_alone(void) {
  struct user_regs_struct u;
  struct cr_regs g = {.tid = pid, .type = NT_PRSTATUS, .buf = (uintptr_t)&u, .len = sizeof u};
  struct cr_get_file file = {.kind = CR_FILE_FD, .which = 1};
  struct cr_arena again = {0};
  struct cr_run run;
  int status = 0;
  note("the set-uid program was executed and %s", evidence->ran ? "runs" : "is parked");
  for (int i = 0; i < 10 && !evidence->finished; i++) {
    expect(session_ioctl(&s, CR_IOC_GET_REGS, &g) < 0, "registers of a set-uid program");
    expect(session_ioctl(&s, CR_IOC_SET_REGS, &g) < 0, "registers set in a set-uid program");
    expect(session_ioctl(&s, CR_IOC_GET_FILE, &file) < 0, "a file of a set-uid program");
    expect(session_ioctl(&s, CR_IOC_ARENA, &again) < 0, "an arena in a set-uid program");
    expect(session_run(&s, pid, 1, 0, 10, &run) < 0, "a call by a set-uid program");
    sleep_ms(10);
  }
  expect(soon(helper_finished, NULL, 5), "the set-uid program is parked as long as the session exists");
  expect(!evidence->disturbed, "the set-uid program was disturbed");
  expect(ends(pid, 10, &status) && WIFEXITED(status) && WEXITSTATUS(status) == 42,
         "the set-uid program ends by wait status %#x", status);
}

static void goes_on(void) {
  int r = session_thaw(&s, 0);
  expect(!r && runs_on(), "the program does not run on after the thaw (%d)", r);
}

/* ---- exec */

struct how {
  unsigned flags, timeout_ms, thaw;
  bool child;
};

static void exec_by_call(struct how how) {
  struct cr_run r;
  install_helper();
  user_session();
  if (how.child) {
    long child = session_call(&s, pid, SYS_clone, CLONE_VM | SIGCHLD, 0, 0, 0, 0, 0);
    expect(child == -EPERM, "clone of a process that shares the memory: %ld", child);
    int waited = (int)session_call(&s, pid, SYS_getpid, 0);
    expect(waited == pid, "a call after that: %d", waited);
  }
  s.calls[0] = exec_helper(0);
  int e = session_run(&s, pid, 1, how.flags, how.timeout_ms, &r);
  expect(!e && r.done == 1 && r.ret == -EPERM, "execve: ioctl %d, done %u, result %lld", e, r.done, r.ret);
  if (e || r.ret != -EPERM) soon(helper_runs, NULL, 2);
  bool ran = helper_runs(NULL);
  expect(!ran, "execve was made");
  if (ran && how.thaw) session_thaw(&s, how.thaw);
  if (ran)
    is_left_alone();
  else
    goes_on();
  remove_helper();
}

static void exec_plain(void) { exec_by_call((struct how){0, 300, 0, false}); }
static void exec_short(void) { exec_by_call((struct how){0, 1, 0, false}); }
static void exec_block(void) { exec_by_call((struct how){CR_RUN_BLOCK, 300, 0, false}); }
static void exec_child(void) { exec_by_call((struct how){0, 300, 0, true}); }
static void exec_thaw_kill(void) { exec_by_call((struct how){0, 1, CR_THAW_KILL, false}); }

// An earlier call of the batch writes execve over a later one.
static void exec_written(void) {
  struct cr_run r;
  install_helper();
  user_session();
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/fd/%ld", pid, sh->value[1]);
  int fd = open(name, O_WRONLY);
  struct cr_call exec = exec_helper(0);
  need(fd >= 0 && write(fd, &exec, sizeof exec) == sizeof exec, "%s: errno %d", name, errno);
  s.calls[0] = (struct cr_call){.nr = SYS_read, .arg = {(uint64_t)sh->value[0], s.arena.data_addr + 64, 64}};
  s.calls[1] = (struct cr_call){.nr = SYS_getpid};
  int e = session_run(&s, pid, 2, 0, 300, &r);
  note("ioctl %d, done %u, results %lld, %lld", e, r.done, s.calls[0].ret, s.calls[1].ret);
  if (e || s.calls[1].ret != -EPERM) soon(helper_runs, NULL, 1);
  bool ran = helper_runs(NULL);
  expect(!ran, "execve was made");
  if (ran)
    is_left_alone();
  else
    goes_on();
  remove_helper();
}

// The owner changes the calls while the target makes them.
static volatile int flipping;
static void *flip(void *arg) {
  (void)arg;
  while (flipping)
    for (int i = 0; i < 1000 && flipping; i++) {
      *(volatile unsigned *)&s.calls[i].nr = SYS_execve;
      *(volatile unsigned *)&s.calls[i].nr = SYS_getpid;
    }
  return NULL;
}
static void exec_flipped(void) {
  pthread_t t;
  struct cr_run r;
  install_helper();
  user_session();
  for (int i = 0; i < 1000; i++) {
    s.calls[i] = exec_helper(0);
    s.calls[i].nr = SYS_getpid;
  }
  flipping = 1;
  need(!pthread_create(&t, NULL, flip, NULL), "pthread_create");
  int64_t end = now_ms() + 4000;
  for (int e = 0; !e && now_ms() < end;) e = session_run(&s, pid, 1000, 0, 300, &r);
  flipping = 0;
  pthread_join(t, NULL);
  soon(helper_runs, NULL, 1);
  bool ran = helper_runs(NULL);
  expect(!ran, "execve was made");
  if (ran)
    is_left_alone();
  else
    goes_on();
  remove_helper();
}

// The target's own code in place of the arena's. The target may run any code, but no set-user-ID
// program may be affected.
static unsigned put(unsigned char *code, unsigned at, const void *bytes, unsigned n) {
  memcpy(code + at, bytes, n);
  return at + n;
}
static unsigned put_constant(unsigned char *code, unsigned at, unsigned char rex, unsigned char op, uint64_t value) {
  unsigned char head[2] = {rex, op};
  at = put(code, at, head, 2);
  return put(code, at, &value, 8);
}
#define PUT(code, at, ...) put(code, at, (const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__}))

static long replace_code(const unsigned char *code, struct cr_run *r) {
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/fd/%ld", pid, sh->value[2]);
  int fd = open(name, O_RDWR);
  need(fd >= 0 && pwrite(fd, code, PAGE, 0) == (ssize_t)PAGE, "%s: errno %d", name, errno);
  close(fd);
  s.calls[0] = (struct cr_call){.nr = SYS_mmap, .arg = {session_code(&s), PAGE, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED,
                                                     (uint64_t)sh->value[2], 0}};
  s.calls[0].ret = -1;
  s.calls[1] = (struct cr_call){.nr = SYS_getpid};
  return session_run(&s, pid, 2, 0, 500, r);
}

static void exec_own_code(void) {
  unsigned char code[PAGE];
  struct cr_run r;
  install_helper();
  user_session();
  struct cr_call exec = exec_helper(0);
  memset(code, 0x90, sizeof code);
  unsigned at = 2048;
  at = put_constant(code, at, 0x48, 0xbf, exec.arg[0]);  // rdi
  at = put_constant(code, at, 0x48, 0xbe, exec.arg[1]);  // rsi
  at = put_constant(code, at, 0x48, 0xba, exec.arg[2]);  // rdx
  at = PUT(code, at, 0xb8, 59, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xfe);
  int e = (int)replace_code(code, &r);
  note("ioctl %d, done %u, result of mmap %lld", e, r.done, s.calls[0].ret);
  soon(helper_runs, NULL, 1);
  if (helper_runs(NULL))
    is_left_alone();
  else
    session_close(&s);
  remove_helper();
}

/* ---- calls that a batch may not make */

static void refused_calls(void) {
  static const struct {
    const char *name;
    unsigned nr;
    uint64_t arg[6];
  } refused[] = {
      {"fork", SYS_fork, {0}},
      {"clone", SYS_clone, {SIGCHLD}},
      {"clone with CLONE_VM", SYS_clone, {CLONE_VM | SIGCHLD}},
      {"clone with CLONE_VFORK", SYS_clone, {CLONE_VM | CLONE_VFORK | SIGCHLD}},
      {"clone of a thread with CLONE_VFORK", SYS_clone, {CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_VFORK}},
      {"vfork", SYS_vfork, {0}},
      {"rt_sigreturn", SYS_rt_sigreturn, {0}},
      {"execve", SYS_execve, {0}},
      {"execveat", SYS_execveat, {0}},
  };
  struct cr_run r;
  pid = target(ticking);
  need(!session_open(&s, pid), "attach");
  for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
    need(session_freeze(&s, 5000, 0) == THREADS && !session_arena(&s, 0), "freeze before %s", refused[i].name);
    s.calls[0] = (struct cr_call){.nr = refused[i].nr};
    memcpy(s.calls[0].arg, refused[i].arg, sizeof refused[i].arg);
    s.calls[1] = (struct cr_call){.nr = SYS_getpid};
    int e = session_run(&s, pid, 2, 0, 1000, &r);
    expect(!e && r.done == 2 && s.calls[0].ret == -EPERM && s.calls[1].ret == pid,
           "%s, then getpid: ioctl %d, done %u, results %lld, %lld", refused[i].name, e, r.done, s.calls[0].ret,
           s.calls[1].ret);
    s.calls[0].flags = CR_CALL_STOP;
    e = session_run(&s, pid, 2, 0, 1000, &r);
    expect(!e && r.done == 1 && r.ret == -EPERM, "%s with CR_CALL_STOP: ioctl %d, done %u, result %lld",
           refused[i].name, e, r.done, r.ret);
    e = session_thaw(&s, 0);
    need(!e && runs_on(), "the program does not run on after %s (%d)", refused[i].name, e);
  }
  // clone3: its flags are in memory
  need(session_freeze(&s, 5000, 0) == THREADS && !session_arena(&s, 0), "freeze");
  uint64_t *args = (uint64_t *)(void *)text();
  memset(args, 0, 88);
  args[0] = CLONE_VM;
  args[4] = SIGCHLD;
  long got = session_call(&s, pid, SYS_clone3, text_there(), 88, 0, 0, 0, 0);
  expect(got < 0 && got > SESSION_ENDED, "clone3 of a process: %ld", got);
  args[0] = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_VFORK;
  args[4] = 0;
  got = session_call(&s, pid, SYS_clone3, text_there(), 88, 0, 0, 0, 0);
  expect(got == -EPERM, "clone3 of a thread with CLONE_VFORK: %ld", got);
  got = session_call(&s, pid, SYS_getpid, 0);
  expect(got == pid, "getpid after that: %ld", got);
  goes_on();
}

/* ---- the arena's mappings */

enum { ELSEWHERE = 0x123450000 };
struct trick {
  const char *name;
  struct {
    unsigned nr;
    uint64_t arg[6];  // CODE, GATE, DATA and LAST, plus a small number, stand for pages of the arena
  } call[3];
  bool elsewhere;  // the page of code may have moved to ELSEWHERE
};
#define CODE 0xc0de00000000ULL
#define GATE 0x6a7e00000000ULL
#define DATA 0xda7a00000000ULL
#define LAST 0x1a5700000000ULL
#define RWX (PROT_READ | PROT_WRITE | PROT_EXEC)
#define FIXED (MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED)

static uint64_t place(uint64_t arg) {
  switch (arg & ~0xfffULL) {
    case CODE:
      return session_code(&s);
    case GATE:
      return s.arena.data_addr - PAGE;
    case DATA:
      return s.arena.data_addr;
    case LAST:
      return s.arena.data_addr + s.arena.data_size - PAGE;
  }
  return arg;
}

static const struct trick tricks[] = {
    {"mprotect", {{SYS_mprotect, {CODE, PAGE, RWX}}}, false},
    {"mprotect, without exec", {{SYS_mprotect, {CODE, PAGE, PROT_READ | PROT_WRITE}}}, false},
    {"mprotect to nothing", {{SYS_mprotect, {CODE, PAGE, PROT_NONE}}}, false},
    {"mprotect to execute only", {{SYS_mprotect, {CODE, PAGE, PROT_EXEC}}}, false},
    {"mprotect of code and gate", {{SYS_mprotect, {CODE, 2 * PAGE, RWX}}}, false},
    {"mprotect of the gate", {{SYS_mprotect, {GATE, PAGE, RWX}}}, false},
    {"pkey_mprotect", {{SYS_pkey_mprotect, {CODE, PAGE, RWX, (uint64_t)-1}}}, false},
    {"pkey_mprotect, key 0", {{SYS_pkey_mprotect, {CODE, PAGE, RWX, 0}}}, false},
    {"mremap that copies",
     {{SYS_mremap, {CODE, 0, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, ELSEWHERE}}, {SYS_mprotect, {ELSEWHERE, PAGE, RWX}}},
     true},
    {"mremap",
     {{SYS_mremap, {CODE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, ELSEWHERE}}, {SYS_mprotect, {ELSEWHERE, PAGE, RWX}}},
     true},
    {"mremap that grows",
     {{SYS_mremap, {DATA, PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, ELSEWHERE}},
      {SYS_mprotect, {ELSEWHERE, PAGE, RWX}}},
     true},
    {"munmap of the last page", {{SYS_munmap, {LAST, PAGE}}, {SYS_mprotect, {CODE, PAGE, RWX}}}, false},
    {"munmap of the gate", {{SYS_munmap, {GATE, PAGE}}}, false},
    {"munmap of the code", {{SYS_munmap, {CODE, PAGE}}}, false},
    {"MAP_FIXED over the last page", {{SYS_mmap, {LAST, PAGE, RWX, FIXED, (uint64_t)-1, 0}}}, false},
    {"MAP_FIXED over the gate", {{SYS_mmap, {GATE, PAGE, RWX, FIXED, (uint64_t)-1, 0}}}, false},
    {"madvise", {{SYS_madvise, {CODE, PAGE, MADV_DONTNEED}}, {SYS_madvise, {CODE, PAGE, MADV_REMOVE}}}, false},
    {"remap_file_pages", {{SYS_remap_file_pages, {CODE, PAGE, 0, 0, 0}}}, false},
};

static void arena_target(void) {
  int p[2];
  if (pipe(p)) abort();
  sh->value[0] = p[0], sh->value[1] = p[1];
  ticking();
}

static bool same_code(struct session *other, const unsigned char *before) {
  unsigned char now[PAGE];
  return pread(other->mem, now, PAGE, (off_t)session_code(other)) == (ssize_t)PAGE && !memcmp(before, now, PAGE);
}

static void play(const struct trick *trick, struct session *other) {
  unsigned char code[PAGE];
  struct cr_run r;
  unsigned n = 0;
  pid = target(arena_target);
  need(!session_open(&s, pid) && session_freeze(&s, 5000, 0) == THREADS && !session_arena(&s, 0), "%s: session",
       trick->name);
  need(pread(other->mem, code, PAGE, (off_t)session_code(other)) == (ssize_t)PAGE,
       "the page of code cannot be read");
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/fd/%ld", pid, sh->value[1]);
  int fd = open(name, O_WRONLY);
  need(fd >= 0 && write(fd, "evil evil evil evil ", 20) == 20, "pipe: errno %d", errno);
  close(fd);
  for (; n < 3 && trick->call[n].nr; n++) {
    s.calls[n] = (struct cr_call){.nr = trick->call[n].nr};
    for (int i = 0; i < 6; i++) s.calls[n].arg[i] = place(trick->call[n].arg[i]);
  }
  // if the page is writable now, this changes bytes that are not executed
  unsigned here = n;
  s.calls[n++] = (struct cr_call){.nr = SYS_read, .ret = 1,
                                  .arg = {(uint64_t)sh->value[0], session_code(&s) + PAGE - 10, 10}};
  if (trick->elsewhere)
    s.calls[n++] = (struct cr_call){.nr = SYS_read, .ret = 1, .arg = {(uint64_t)sh->value[0], ELSEWHERE + PAGE - 10, 10}};
  int e = session_run(&s, pid, n, 0, 500, &r);
  note("%s: ioctl %d, done %u, results %lld, %lld, %lld", trick->name, e, r.done, s.calls[0].ret, s.calls[1].ret,
       s.calls[2].ret);
  expect(s.calls[here].ret != 10, "%s: the page of code was written", trick->name);
  expect(same_code(other, code), "%s: another session's page of code has changed", trick->name);
  if (r.done >= n && trick->elsewhere && trick->call[0].arg[0] == CODE)
    expect(s.calls[here + 1].ret != 10, "%s: the page of code was written elsewhere", trick->name);
  // through the session's /proc/PID/mem, which can write to read-only private mappings
  if (pwrite(s.mem, "evil", 4, (off_t)(session_code(&s) + PAGE - 4)) == 4) note("%s: its own copy changed", trick->name);
  expect(same_code(other, code), "%s: /proc/PID/mem changed another session's page of code", trick->name);
  long got = session_call(other, other->pid, SYS_getpid, 0);
  need(got == other->pid, "%s: a call in another session: %ld", trick->name, got);
  bool refused = true;
  for (unsigned i = 0; i < here; i++) refused &= s.calls[i].ret < 0;
  e = session_thaw(&s, 0);
  if (refused) expect(!e && runs_on(), "%s: the program does not run on (%d)", trick->name, e);
  session_close(&s);
  kill(pid, SIGKILL);
  expect(ends(pid, 10, NULL), "%s: the target outlives SIGKILL", trick->name);
}

static void arena_mappings(void) {
  static struct session other;
  pid_t bystander = target(ticking);
  need(!session_open(&other, bystander) && session_freeze(&other, 5000, 0) == THREADS && !session_arena(&other, 0),
       "the other session");
  for (size_t i = 0; i < ARRAY_SIZE(tricks); i++) play(&tricks[i], &other);
  expect(!session_thaw(&other, 0) && one_ticks(0), "the bystander does not run on");
  session_close(&other);
}

// The owner can map the arena's data, but not the pages that only the target has.
static void arena_owner(void) {
  pid = target(ticking);
  need(!session_open(&s, pid) && session_freeze(&s, 5000, 0) == THREADS && !session_arena(&s, 0), "session");
  size_t size = s.arena.data_size;
  expect(mmap(NULL, PAGE, RWX, MAP_SHARED, s.dev, 0) == MAP_FAILED, "mapped with exec");
  expect(mmap(NULL, size + PAGE, PROT_READ, MAP_SHARED, s.dev, 0) == MAP_FAILED, "mapped beyond its end");
  for (uint64_t page = 1; page < 1ULL << 40; page *= 2) {
    char *at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, s.dev, (off_t)(page * PAGE));
    if (page < size / PAGE) continue;
    expect(at == MAP_FAILED, "page %llu can be mapped", (unsigned long long)page);
  }
  expect(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, s.dev, 0) == MAP_FAILED, "mapped privately");
  expect(mprotect(s.data, size, RWX), "made executable afterwards");
  expect(session_call(&s, pid, SYS_getpid, 0) == pid, "a call");
  goes_on();
}

/* ---- forged results */

// Code that reaches the gate with a forged number of remaining calls.
static unsigned at_gate(unsigned char *code, unsigned at, uint64_t left) {
  at = put_constant(code, at, 0x49, 0xbe, left);                     // r14
  at = put_constant(code, at, 0x49, 0xbd, s.arena.data_addr - PAGE);  // r13
  return PUT(code, at, 0x41, 0x8a, 0x45, 0x00, 0xeb, 0xfa);          // movb (%r13), %al; jmp
}
static const uint64_t lefts[] = {(uint64_t)-1, (uint64_t)-10, (uint64_t)-1000, 1ULL << 31, 100000};

static void honest(const char *what, int e, const struct cr_run *r, unsigned ncalls) {
  note("%s: ioctl %d, done %u, result %lld", what, e, r->done, r->ret);
  expect(e || r->done <= ncalls, "%s: %u of %u calls made, result %#llx", what, r->done, ncalls, r->ret);
}

static void count_sigreturn(void) {
  struct cr_info info;
  for (size_t i = 0; i < 2; i++) {
    struct cr_run r;
    unsigned char code[64];
    ucontext_t u;
    pid = target(ticking);
    need(!session_open(&s, pid) && session_freeze(&s, 5000, 0) == THREADS && !session_arena(&s, 0), "session");
    need(!session_ioctl(&s, CR_IOC_INFO, &info), "info");
    uint64_t after = s.arena.addr + info.arena_size;
    long at = session_call(&s, pid, SYS_mmap, after, 2 * PAGE, RWX, FIXED & ~MAP_FIXED, (uint64_t)-1, 0);
    if ((uint64_t)at != after) {  // the place is taken: use an arena elsewhere
      need(!session_arena(&s, ELSEWHERE), "arena with room behind it");
      after = s.arena.addr + info.arena_size;
      at = session_call(&s, pid, SYS_mmap, after, 2 * PAGE, RWX, FIXED, (uint64_t)-1, 0);
      need((uint64_t)at == after, "a page behind the arena: %ld", at);
    }
    unsigned n = at_gate(code, 0, lefts[i]);
    memset(&u, 0, sizeof u);
    u.uc_mcontext.gregs[REG_RIP] = (greg_t)(after + PAGE);
    u.uc_mcontext.gregs[REG_RSP] = (greg_t)(after + PAGE);
    u.uc_mcontext.gregs[REG_EFL] = 0x202;
    u.uc_mcontext.gregs[REG_CSGSFS] = 0x2bLL << 48 | 0x33;
    need(pwrite(s.mem, code, n, (off_t)(after + PAGE)) == (ssize_t)n &&
             pwrite(s.mem, &u, 512, (off_t)after) == 512,
         "write the frame");
    s.calls[0] = (struct cr_call){.nr = SYS_rt_sigreturn};
    int e = session_run(&s, pid, 1, 0, 1000, &r);
    honest("rt_sigreturn", e, &r, 1);
    expect(!e && r.ret == -EPERM, "rt_sigreturn: ioctl %d, result %lld", e, r.ret);
    session_close(&s);
    kill(pid, SIGKILL);
    expect(ends(pid, 10, NULL), "the target outlives SIGKILL");
  }
}

static void count_in_own_code(size_t from, size_t upto) {
  for (size_t i = from; i < upto; i++) {
    unsigned char code[PAGE];
    struct cr_run r;
    pid = target(user_target);
    need(!session_open(&s, pid) && session_freeze(&s, 5000, 0) == THREADS && !session_arena(&s, 0), "session");
    memset(code, 0x90, sizeof code);
    at_gate(code, 2048, lefts[i]);
    int e = (int)replace_code(code, &r);
    honest("code of its own", e, &r, 2);
    if (s.calls[0].ret != -1 && s.calls[0].ret > -4096 && s.calls[0].ret < 0) note("replacing the code is refused");
    session_close(&s);
    kill(pid, SIGKILL);
    expect(ends(pid, 10, NULL), "the target outlives SIGKILL");
  }
}
static void count_own_code(void) { count_in_own_code(0, 2); }
// Counts that point elsewhere in the kernel's memory; a kernel that uses one may crash.
static void count_far(void) { count_in_own_code(2, ARRAY_SIZE(lefts)); }

int main(int argc, char **argv) {
  static const struct tcase cases[] = {
      {"exec", exec_plain},
      {"exec_short", exec_short},
      {"exec_block", exec_block},
      {"exec_child", exec_child},
      {"exec_thaw_kill", exec_thaw_kill},
      {"exec_written", exec_written},
      {"exec_flipped", exec_flipped},
      {"exec_own_code", exec_own_code},
      {"refused_calls", refused_calls},
      {"arena_mappings", arena_mappings, 60},
      {"arena_owner", arena_owner},
      {"count_sigreturn", count_sigreturn},
      {"count_own_code", count_own_code},
      {"count_far", count_far},
  };
  if (argc == 3 && !strcmp(argv[1], "--set-uid-helper")) return set_uid_helper(argv[2]);
  return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
