// SPDX-License-Identifier: GPL-2.0-only
// Requests that must be refused with a message that names the reason, and with the target unharmed.
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static volatile int value;
static char *area;

static void plain_setup(void) {
  area = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  fill(area, MB, 1);
}
static char *shown, *marked;
static void file_setup(void) {
  int fd = MUST(open(path("shown"), O_RDWR | O_CREAT, 0600));
  plain_setup();
  MUST(ftruncate(fd, 4096));
  shown = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  strcpy(shown, "as it was");
  marked = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(marked, 'M', 4096);
}
static const char *plain_ok(void) { return value ? no("the value is %d", value) : filled(area, MB, 1); }
static void plain_change(void) { value = 1; }
static struct worker helper;
static void threads_setup(void) {
  plain_setup();
  worker_start(&helper);
}
static void thread_ends(void) { worker_end(&helper); }
static const char *thread_lives(void) { return thread_exists(helper.tid) ? plain_ok() : no("the thread has ended"); }

/* ---- targets with state that cannot be saved; each setup sets `value` if the kernel does not allow that state */

static int special;
static void io_uring_setup_(void) {
  static char params[120];
  plain_setup();
  special = (int)syscall(SYS_io_uring_setup, 8, params);
  if (special < 0) value = 1;
}
static void seccomp_setup(void) {
  static struct sock_filter allow[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  static struct sock_fprog program = {1, allow};
  plain_setup();
  MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) value = 1;
}
static void aio_setup(void) {
  static aio_context_t context;
  plain_setup();
  if (syscall(SYS_io_setup, 4, &context)) value = 1;
}
static void userfaultfd_setup(void) {
  plain_setup();
  special = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
  struct uffdio_api api = {.api = UFFD_API};
  if (special < 0 || ioctl(special, UFFDIO_API, &api)) value = 1;
  char *watched = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct uffdio_register r = {.range = {(uintptr_t)watched, MB}, .mode = UFFDIO_REGISTER_MODE_MISSING};
  if (!value && ioctl(special, UFFDIO_REGISTER, &r)) value = 1;
}
static void hugetlb_setup(void) {
  plain_setup();
  char *huge = mmap(NULL, 2 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (huge == MAP_FAILED) value = 1;
}
static int share(void *arg) {
  (void)arg;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (true) pause();
  return 0;
}
static void shared_mm_setup(void) {
  static char stack[65536];
  plain_setup();
  if (clone(share, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL) < 0) value = 1;
}

static void leave_child(void) {
  if (MUST(fork()) == 0)
    while (true) pause();
}

static const struct special {
  const char *name, *word;  // word: must be in the refusal (any case)
  void (*setup)(void);
  int codes;                // correct exit codes, as bits
} specials[] = {
    {"io_uring", "io_uring", io_uring_setup_, 1 << 3},
    {"seccomp", "seccomp", seccomp_setup, 1 << 3},
    {"AIO", "aio", aio_setup, 1 << 3},
    {"userfaultfd", "userfaultfd", userfaultfd_setup, 1 << 3},
    {"hugetlb", "huge", hugetlb_setup, 1 << 3},
    {"address space shared with another process", "shared", shared_mm_setup, 1 << 3},
};

static const struct scenario scenarios[] = {
    {.name = "plain", .flags = NO_PAUSE | NO_RESTART, .setup = plain_setup, .check = plain_ok, .mutate = plain_change},
    {.name = "with a file", .flags = NO_PAUSE | NO_RESTART, .setup = file_setup, .check = plain_ok, .mutate = plain_change},
    {.name = "with a child", .flags = NO_PAUSE | NO_RESTART, .setup = plain_setup, .check = plain_ok,
     .mutate = leave_child},
    {.name = "plain, of a user", .flags = NO_PAUSE | NO_RESTART | AS_USER, .setup = plain_setup, .check = plain_ok,
     .mutate = plain_change},
    {.name = "with a thread", .flags = NO_PAUSE | NO_RESTART, .setup = threads_setup, .check = thread_lives,
     .mutate = thread_ends},
    {.name = "with a thread, of a user", .flags = NO_PAUSE | NO_RESTART | AS_USER, .setup = threads_setup,
     .check = thread_lives, .mutate = thread_ends},
#define SPECIAL(text, function) \
  {.name = text, .flags = NO_PAUSE | NO_RESTART, .setup = function, .check = plain_ok, .mutate = plain_change}
    SPECIAL("io_uring", io_uring_setup_),
    SPECIAL("seccomp", seccomp_setup),
    SPECIAL("AIO", aio_setup),
    SPECIAL("userfaultfd", userfaultfd_setup),
    SPECIAL("hugetlb", hugetlb_setup),
    SPECIAL("address space shared with another process", shared_mm_setup),
    {},
};
static const struct scenario *find(const char *name) {
  return scenario_named(scenarios, name);
}

static struct target t;
static struct run r;

enum { REFUSED = 1 << 3, TEMPORARY = 1 << 4, PERMANENT = 1 << 5, USAGE = 1 << 2, FINE = 1 };

static bool says(const char *word) { return !word || strcasestr(r.err, word) || strcasestr(r.out, word); }

// The last command must have ended with one of the codes and printed the word.
static void expect(const char *what, int codes, const char *word) {
  bool right = r.code >= 0 && codes >> r.code & 1;
  tap(right && says(word), what, "%s%s%s", why_not(&r), right ? ", without a word of " : "", right ? word : "");
}
static void expect_unharmed(const char *what) {
  char text[160];
  const char *why = target_alive(&t) ? target_op(&t, OP_CHECK) : "it has ended";
  snprintf(text, sizeof text, "%s: the target is unharmed", what);
  tap(!why, text, "%s", why);
}
static bool good_image(void) {
  if (target_checkpoint(&t, &r) == 0) return true;
  tap(false, "checkpoint", "%s", why_not(&r));
  return false;
}

static void put(const char *file, const char *text) {
  int fd = open(file, O_WRONLY);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) note("cannot write %s", file);
  close(fd);
}
static void specials_refused(void) {
  put("/proc/sys/vm/nr_hugepages", "4");
  for (size_t i = 0; i < ARRAY_SIZE(specials); i++) {
    if (!target_start(&t, find(specials[i].name))) continue;
    if (target_op(&t, OP_CHECK)) {
      tap_skip(specials[i].name, "this kernel does not let it");
    } else {
      target_checkpoint(&t, &r);
      expect(specials[i].name, specials[i].codes, specials[i].word);
      struct stat st;
      if (!stat(t.image, &st)) tap(false, specials[i].name, "an image was left behind");
      expect_unharmed(specials[i].name);
    }
    target_end(&t);
  }
  put("/proc/sys/vm/nr_hugepages", "0");
}

static void arguments(void) {
  static const char *const tools[] = {"cr_checkpoint", "cr_pause", "cr_restart", "cr_info"};
  for (size_t i = 0; i < ARRAY_SIZE(tools); i++) {
    char what[64];
    snprintf(what, sizeof what, "%s without arguments", tools[i]);
    runl(&r, tools[i], NULL);
    expect(what, USAGE, NULL);
    snprintf(what, sizeof what, "%s with an unknown option", tools[i]);
    runl(&r, tools[i], "--no-such-option", "1", "/tmp/x", NULL);
    expect(what, USAGE, NULL);
    snprintf(what, sizeof what, "%s --help", tools[i]);
    runl(&r, tools[i], "--help", NULL);
    expect(what, FINE, tools[i]);
    snprintf(what, sizeof what, "%s --version", tools[i]);
    runl(&r, tools[i], "--version", NULL);
    expect(what, FINE, NULL);
  }
  runl(&r, "cr_checkpoint", "abc", "/tmp/x", NULL);
  expect("cr_checkpoint of a pid that is no number", USAGE, NULL);
  runl(&r, "cr_restart", "--detach", "/tmp/no such image", NULL);
  expect("an image that does not exist", REFUSED | PERMANENT | USAGE, "no such image");
}

static void wrong_processes(void) {
  pid_t dead = fork();
  if (!dead) _exit(0);
  waitpid(dead, NULL, 0);
  runl(&r, "cr_checkpoint", pid_text(dead), "/tmp/image.dead", NULL);
  expect("a dead pid", REFUSED | PERMANENT, pid_text(dead));
  runl(&r, "cr_checkpoint", "1", "/tmp/image.init", NULL);
  expect("pid 1", REFUSED, "1");
  runl(&r, "cr_checkpoint", "2", "/tmp/image.kthread", NULL);
  expect("a kernel thread", REFUSED, "2");
  runl(&r, "sh", "-c", "exec cr_checkpoint $$ /tmp/image.self", NULL);
  expect("its own process", REFUSED, NULL);
  pid_t zombie = fork();
  if (!zombie) _exit(0);
  sleep_ms(50);
  runl(&r, "cr_checkpoint", pid_text(zombie), "/tmp/image.zombie", NULL);
  expect("a zombie", REFUSED | PERMANENT, pid_text(zombie));
  waitpid(zombie, NULL, 0);
  tap(access("/tmp/image.dead", F_OK) && access("/tmp/image.init", F_OK) && access("/tmp/image.kthread", F_OK) &&
          access("/tmp/image.self", F_OK) && access("/tmp/image.zombie", F_OK),
      "and none of them left an image", " ");
}

static void owners(void) {
  if (target_start(&t, find("plain"))) {
    run_uid = 1000;
    runl(&r, "cr_checkpoint", pid_text(t.pid), "/tmp/image.user", NULL);
    expect("a user takes root's process", REFUSED, NULL);
    tap(access("/tmp/image.user", F_OK) != 0, "and gets no image of it", " ");
    run_uid = 0;
    if (good_image()) {
      struct stat st;
      stat(t.image, &st);
      tap((st.st_mode & 0077) == 0, "an image is private", "mode %o", st.st_mode);
      chmod(t.dir, 0755);
      run_uid = 1000;
      runl(&r, "cr_pause", pid_text(t.pid), t.image, NULL);
      expect("a user rolls root's process back", REFUSED, NULL);
      runl(&r, "cr_restart", "--detach", "--no-restore-pid", t.image, NULL);
      expect("a user restarts root's image", REFUSED | PERMANENT, NULL);
      chmod(t.image, 0644);
      runl(&r, "cr_pause", pid_text(t.pid), t.image, NULL);
      expect("a user rolls root's process back with a readable image", REFUSED, NULL);
      runl(&r, "cr_restart", "--detach", "--no-restore-pid", t.image, NULL);
      expect("a user restarts root's image that is readable", REFUSED, NULL);
      run_uid = 0;
    }
    expect_unharmed("wrong owner");
    target_end(&t);
  }
  if (target_start(&t, find("plain, of a user"))) {
    run_uid = 0;
    const char *why = target_checkpoint(&t, &r) ? why_not(&r) : target_op(&t, OP_MUTATE);
    if (!why && target_pause(&t, &r)) why = why_not(&r);
    if (!why) why = target_op(&t, OP_CHECK);
    tap(!why, "root takes a user's process and rolls it back", "%s", why);
    target_end(&t);
  }
  if (target_start(&t, find("plain, of a user"))) {
    const char *why = target_checkpoint(&t, &r) ? why_not(&r) : target_op(&t, OP_MUTATE);
    if (!why && target_pause(&t, &r)) why = why_not(&r);
    if (!why) why = target_op(&t, OP_CHECK);
    tap(!why, "a user takes an own process and rolls it back", "%s", why);
    pid_t old = t.pid;
    target_kill(&t);
    target_restart(&t, &r);
    expect("a user restarts with the old pid without the right to", REFUSED, "CAP_CHECKPOINT_RESTORE");
    runl(&r, "cr_restart", "--detach", "--no-restore-pid", "--json", t.image, NULL);
    expect("a user restarts with another pid", FINE, NULL);
    char *at = strstr(r.out, "\"pid\"");
    t.pid = at ? atoi(strchr(at, ':') + 1) : 0;
    t.ended = t.pid == 0;
    why = t.pid && t.pid != old && target_alive(&t) ? target_op(&t, OP_CHECK) : "there is no new process";
    tap(!why, "and that one is as it was", "%s", why);
    target_end(&t);
  }
  if (target_start(&t, find("with a thread, of a user"))) {
    if (target_checkpoint(&t, &r)) {
      tap(false, "a user's thread that ended", "%s", why_not(&r));
    } else {
      target_op(&t, OP_MUTATE);
      target_pause(&t, &r);
      expect("a user's thread that ended since", REFUSED, "CAP_CHECKPOINT_RESTORE");
      tap(target_alive(&t) && target_op(&t, OP_CHECK), "a user's thread that ended: the target goes on", " ");
    }
    target_end(&t);
  }
}

// Creates a process with this pid, by way of ns_last_pid.
static pid_t take_pid(pid_t pid) {
  char text[16];
  int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
  snprintf(text, sizeof text, "%d", pid - 1);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) return close(fd), -1;
  close(fd);
  pid_t child = fork();
  if (!child)
    while (true) pause();
  return child;
}
static void release(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

static void taken_ids(void) {
  if (!target_start(&t, find("plain"))) return;
  if (good_image()) {
    runl(&r, "cr_restart", "--detach", t.image, NULL);
    expect("restart while the process still lives", REFUSED | TEMPORARY, pid_text(t.pid));
    expect_unharmed("restart while it lives");
    target_kill(&t);
    pid_t other = take_pid(t.pid);
    if (other == t.pid) {
      runl(&r, "cr_restart", "--detach", t.image, NULL);
      expect("restart while another has its pid", REFUSED | TEMPORARY, pid_text(t.pid));
    } else {
      tap_skip("restart while another has its pid", "the pid could not be taken");
    }
    release(other);
  }
  target_end(&t);
  if (!target_start(&t, find("with a child"))) return;
  if (good_image()) {
    target_op(&t, OP_MUTATE);
    target_kill(&t);
    runl(&r, "cr_restart", "--detach", t.image, NULL);
    expect("restart while its session has a member", REFUSED, "still the id of the session of process");
    kill(-t.pid, SIGKILL);
    while (waitpid(-t.pid, NULL, 0) > 0) {
    }
    const char *why = target_restart(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
    tap(!why, "and it is restarted when that has ended", "%s", why);
  }
  target_end(&t);
  if (!target_start(&t, find("with a thread"))) return;
  if (good_image()) {
    char name[64];
    pid_t tid = t.pid + 1;  // its only other thread, unless another task took this id
    snprintf(name, sizeof name, "/proc/%d/task/%d", t.pid, tid);
    bool guessed = access(name, F_OK) == 0;
    target_op(&t, OP_MUTATE);
    pid_t other = guessed ? take_pid(tid) : -1;
    if (other == tid) {
      target_pause(&t, &r);
      expect("pause while another has the tid of a thread that ended", REFUSED | TEMPORARY, pid_text(tid));
      tap(target_alive(&t) && target_op(&t, OP_CHECK) != NULL, "and the target goes on", " ");
      release(other);
      const char *why = target_pause(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
      tap(!why, "and it is rolled back when the tid is free", "%s", why);
    } else {
      if (other > 0) release(other);
      tap_skip("pause while another has the tid of a thread that ended", "the tid could not be taken");
    }
  }
  target_end(&t);
}

// Processes that one parent has forked share their program and what the kernel gave it at exec.
static void siblings(void) {
  pid_t first = fork();
  if (!first)
    while (true) pause();
  char image[] = "/tmp/image.sibling", second[] = "/tmp/image.second";
  if (runl(&r, "cr_checkpoint", "--clobber", pid_text(first), image, NULL)) {
    tap(false, "checkpoint of a forked process", "%s", why_not(&r));
    return release(first);
  }
  release(first);
  sleep_ms(20);  // starts are counted in units of 10 ms
  pid_t other = take_pid(first);
  if (other == first) {
    runl(&r, "cr_pause", pid_text(other), image, NULL);
    expect("an image of a forked sibling that had the same pid", REFUSED, "was started");
    tap(!waitpid(other, NULL, WNOHANG), "an image of a forked sibling: the target lives", " ");
  } else {
    tap_skip("an image of a forked sibling that had the same pid", "the pid could not be taken");
  }
  release(other);
  unlink(image);
  // A restarted process is the one that was saved, for older images as well.
  if (!target_start(&t, find("plain"))) return;
  if (good_image()) {
    target_kill(&t);
    const char *why = target_restart(&t, &r) ? why_not(&r) : NULL;
    if (!why && runl(&r, "cr_checkpoint", pid_text(t.pid), second, NULL)) why = why_not(&r);
    target_op(&t, OP_MUTATE);
    if (!why) why = target_pause(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
    tap(!why, "a restarted process goes back to an image older than its last one", "%s", why);
    target_op(&t, OP_MUTATE);
    if (!why && runl(&r, "cr_pause", pid_text(t.pid), second, NULL)) why = why_not(&r);
    if (!why) why = target_op(&t, OP_CHECK);
    tap(!why, "and to the last one", "%s", why);
    unlink(second);
  }
  target_end(&t);
}

static void other_images(void) {
  static struct target other;
  if (!target_start(&t, find("plain"))) return;
  if (good_image() && target_start(&other, find("plain"))) {
    runl(&r, "cr_pause", pid_text(other.pid), t.image, NULL);
    expect("an image of another process of the same program", REFUSED, NULL);
    const char *why = target_op(&other, OP_CHECK);
    tap(!why, "an image of another process: the target is unharmed", "%s", why);
    target_end(&other);
  }
  pid_t sleeper = fork();
  if (!sleeper) {
    execlp("sleep", "sleep", "1000", NULL);
    _exit(127);
  }
  sleep_ms(100);
  runl(&r, "cr_pause", pid_text(sleeper), t.image, NULL);
  expect("an image of another program", REFUSED, NULL);
  tap(kill(sleeper, 0) == 0 && waitpid(sleeper, NULL, WNOHANG) == 0, "an image of another program: the target lives", " ");
  release(sleeper);
  target_end(&t);
}

static void traced_and_stopped(void) {
  if (!target_start(&t, find("plain"))) return;
  if (ptrace(PTRACE_SEIZE, t.pid, 0, 0) == 0) {
    target_checkpoint(&t, &r);
    // A tracer alone does not prevent a checkpoint; a refusal must name it.
    tap(r.code == 0 || ((r.code == 3 || r.code == 4) && says("trace")), "a traced process", "%s", why_not(&r));
    ptrace(PTRACE_INTERRUPT, t.pid, 0, 0);
    waitpid(t.pid, NULL, __WALL);
    runl(&r, "cr_checkpoint", "--timeout", "2", pid_text(t.pid), t.image, NULL);
    expect("a process that its tracer has stopped", REFUSED | TEMPORARY, "trace");
    ptrace(PTRACE_DETACH, t.pid, 0, 0);
    expect_unharmed("traced");
  }
  kill(t.pid, SIGSTOP);
  sleep_ms(100);
  runl(&r, "cr_checkpoint", "--timeout", "2", pid_text(t.pid), t.image, NULL);
  tap(r.code == 0 || ((r.code == 3 || r.code == 4) && says("stop")), "a stopped process", "%s", why_not(&r));
  char name[64], text[512];
  snprintf(name, sizeof name, "/proc/%d/stat", t.pid);
  slurp(name, text, sizeof text);
  char *state = strrchr(text, ')');
  tap(state && state[2] == 'T', "and it stays stopped", "it is in state %c", state ? state[2] : '?');
  kill(t.pid, SIGCONT);
  expect_unharmed("stopped");
  target_end(&t);
}

static void *outlive(void *arg) {
  while (true) pause();
  return arg;
}
static void odd_programs(void) {
  pid_t pid = fork();
  if (!pid) {
    pthread_t thread;
    pthread_create(&thread, NULL, outlive, NULL);
    pthread_exit(NULL);
  }
  sleep_ms(100);
  runl(&r, "cr_checkpoint", pid_text(pid), "/tmp/image.odd", NULL);
  expect("a process whose first thread has ended", REFUSED, NULL);
  tap(kill(pid, 0) == 0 && waitpid(pid, NULL, WNOHANG) == 0, "and it lives on", " ");
  release(pid);

  char program[256];
  ssize_t n = readlink("/proc/self/exe", program, sizeof program - 16);
  program[n > 0 ? n : 0] = 0;
  strcpy(strrchr(program, '/') + 1, "thirtytwo");
  pid = fork();
  if (!pid) {
    execl(program, "thirtytwo", NULL);
    _exit(127);
  }
  sleep_ms(100);
  if (waitpid(pid, NULL, WNOHANG) == pid) {
    tap_skip("a 32-bit program", "it does not run here");
  } else {
    runl(&r, "cr_checkpoint", pid_text(pid), "/tmp/image.odd", NULL);
    expect("a 32-bit program", REFUSED, "32");
    tap(kill(pid, 0) == 0 && waitpid(pid, NULL, WNOHANG) == 0, "and it lives on, too", " ");
    release(pid);
  }
  tap(access("/tmp/image.odd", F_OK) != 0, "and there is no image of them", " ");
}

static void without_module(void) {
  if (!target_start(&t, find("plain"))) return;
  if (runl(&r, "rmmod", "cr", NULL)) {
    tap(false, "the module can be unloaded", "%s", why_not(&r));
  } else {
    target_checkpoint(&t, &r);
    expect("the module is not loaded", REFUSED | TEMPORARY | PERMANENT, "module");
    expect_unharmed("module not loaded");
    if (runl(&r, "modprobe", "cr", NULL)) tap(false, "the module is loaded again", "%s", why_not(&r));
    tap(target_checkpoint(&t, &r) == 0, "and with the module again it works", "%s", why_not(&r));
  }
  target_end(&t);
}

/* ---- damaged images */

static char *image;
static off_t image_size;
static bool read_image(void) {
  struct stat st;
  int fd = open(t.image, O_RDONLY);
  if (fd < 0 || fstat(fd, &st)) return false;
  image_size = st.st_size;
  image = malloc(image_size);
  bool right = read(fd, image, image_size) == image_size;
  close(fd);
  return right;
}
static void write_image(off_t bytes) {
  int fd = open(t.image, O_WRONLY | O_TRUNC);
  if (fd < 0 || write(fd, image, bytes) != bytes) die("cannot write %s", t.image);
  close(fd);
}
// cr_info, cr_pause and cr_restart must all refuse the image. A pause with tracking does not
// read unchanged pages: for damage in them set take_all, which adds --no-tracking.
static void expect_damaged(const char *what, bool take_all) {
  char text[128];
  const char *wrong = NULL;
  static char said[2048];
  static const char *const way[] = {"cr_info", "cr_pause", "cr_restart"};
  for (int i = 0; i < 3 && !wrong; i++) {
    if (i == 0) runl(&r, "cr_info", t.image, NULL);
    if (i == 1) runl(&r, "cr_pause", take_all ? "--no-tracking" : "-q", pid_text(t.pid), t.image, NULL);
    if (i == 2) runl(&r, "cr_restart", "--detach", "--no-restore-pid", t.image, NULL);
    if (r.code < 2 || r.code == 4) wrong = way[i], snprintf(said, sizeof said, "%s", why_not(&r));
  }
  snprintf(text, sizeof text, "damaged image: %s", what);
  tap(!wrong, text, "%s: %s", wrong, said);
}
static void damaged(void) {
  if (!target_start(&t, find("plain"))) return;
  if (good_image() && read_image()) {
    char what[64];
    static const int parts_[] = {0, 1, 4, 63, 500, 990, 999};
    write_image(0);
    expect_damaged("empty", false);
    for (size_t i = 1; i < ARRAY_SIZE(parts_); i++) {
      write_image(image_size * parts_[i] / 1000);
      snprintf(what, sizeof what, "cut after %d of 1000", parts_[i]);
      expect_damaged(what, false);
    }
    write_image(image_size - 1);
    expect_damaged("its last byte missing", false);
    srand(12345);
    for (int i = 0; i < 12; i++) {
      // the first six in the headers and notes, the rest anywhere
      off_t at = i < 6 ? rand() % 4096 : (off_t)((double)rand() / RAND_MAX * (double)(image_size - 1));
      image[at] ^= (char)(1 << rand() % 8);
      write_image(image_size);
      snprintf(what, sizeof what, "bit flipped at %ld of %ld", (long)at, (long)image_size);
      expect_damaged(what, true);
      free(image);
      unlink(t.image);
      if (target_checkpoint(&t, &r) || !read_image()) die("no checkpoint: %s", why_not(&r));
    }
    memset(image, 'x', image_size);
    write_image(image_size);
    expect_damaged("no image at all", false);
    unlink(t.image);
    mkdir(t.image, 0700);
    expect_damaged("a folder", false);
    runl(&r, "cr_pause", pid_text(t.pid), "/dev/null", NULL);
    expect("/dev/null as image", REFUSED | PERMANENT | USAGE, NULL);
    runl(&r, "cr_pause", pid_text(t.pid), "/proc/self/exe", NULL);
    expect("a program as image", REFUSED | PERMANENT, NULL);
    expect_unharmed("damaged images");
  }
  target_end(&t);
}

// A restart must verify all pages before it writes to any file.
static void damaged_page(void) {
  static char wanted[4096], text[64] = "";
  if (!target_start(&t, find("with a file"))) return;
  if (good_image() && read_image()) {
    target_kill(&t);
    int fd = MUST(open(path("shown"), O_RDWR));
    MUST(pwrite(fd, "other content", 14, 0));
    memset(wanted, 'M', sizeof wanted);
    char *at = memmem(image, image_size, wanted, sizeof wanted);
    if (at) *at ^= 1;
    write_image(image_size);
    runl(&r, "cr_restart", "--detach", t.image, NULL);
    expect("a restart with a damaged page", at ? PERMANENT : 0, "damaged");
    MUST(pread(fd, text, sizeof text - 1, 0));
    tap(!strcmp(text, "other content"), "and it has written to no file", "\"%s\"", text);
    close(fd);
  }
  target_end(&t);
}

static const struct test tests[] = {{"arguments", arguments},
                                    {"wrong processes", wrong_processes},
                                    {"owners", owners},
                                    {"special targets", specials_refused},
                                    {"ids that are taken", taken_ids},
                                    {"siblings", siblings},
                                    {"images of others", other_images},
                                    {"traced and stopped", traced_and_stopped},
                                    {"odd programs", odd_programs},
                                    {"damaged images", damaged},
                                    {"a damaged page", damaged_page},
                                    {"module not loaded", without_module},
                                    {}};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
