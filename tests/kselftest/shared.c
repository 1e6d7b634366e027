// SPDX-License-Identifier: GPL-2.0-only
// Memory that other live processes share with the target: rewritten only with --shared-memory=restore.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

enum { PAGE = 4096, SIZE = 16 * PAGE, RW = PROT_READ | PROT_WRITE };

// ---------------------------------------------------------------- the target, and the process that shares with it

struct shared {
  _Atomic uint32_t asked, answered;  // the other process copies `asked` to `answered`
  char text[SIZE - 8];
};

static struct shared *shared;
static char mine[64];
static pid_t other = -1;
static int memfd = -1;

static _Noreturn void answer_all(pid_t parent) {
  while (getppid() == parent) {
    if (shared) shared->answered = shared->asked;
    sleep_ms(1);
  }
  _exit(0);
}

static void fork_other(void) {
  pid_t parent = getpid();
  other = MUST(fork());
  if (!other) answer_all(parent);
}

static void begin(void) {
  strcpy(mine, "at the checkpoint");
  strcpy(shared->text, "at the checkpoint");
}

static struct shared *map_shared(int fd, int flags) {
  return MUST(mmap(NULL, SIZE, RW, MAP_SHARED | flags, fd, 0));
}

static void anonymous(void) {
  shared = map_shared(-1, MAP_ANONYMOUS);
  begin();
  fork_other();
}

static void mapped_memfd(void) {
  memfd = MUST(memfd_create("shared", MFD_CLOEXEC));
  MUST(ftruncate(memfd, SIZE));
  shared = map_shared(memfd, 0);
  begin();
  fork_other();
}

static void mapped_file(void) {
  int fd = MUST(open(path("file"), O_RDWR | O_CREAT, 0600));
  MUST(ftruncate(fd, SIZE));
  shared = map_shared(fd, 0);
  close(fd);
  begin();
  fork_other();
}

static void sysv(void) {
  int id = MUST(shmget(IPC_PRIVATE, SIZE, 0600));
  shared = MUST(shmat(id, NULL, 0));
  MUST(shmctl(id, IPC_RMID, NULL));
  begin();
  fork_other();
}

// The other process has the memfd open, but does not map it.
static void open_memfd(void) {
  memfd = MUST(memfd_create("shared", MFD_CLOEXEC));
  MUST(ftruncate(memfd, SIZE));
  shared = map_shared(memfd, 0);
  MUST(madvise(shared, SIZE, MADV_DONTFORK));
  begin();
  pid_t parent = getpid();
  other = MUST(fork());
  if (other) return;
  shared = NULL;
  answer_all(parent);
}

static void change(void) {
  strcpy(mine, "later");
  strcpy(shared->text, "later");
}

static const char *is(const char *what, const char *have, const char *want) {
  return strcmp(have, want) ? no("%s is \"%.40s\"", what, have) : NULL;
}
static const char *as_before(void) {
  const char *why = is("private memory", mine, "at the checkpoint");
  return why ? why : is("shared memory", shared->text, "at the checkpoint");
}
static const char *as_changed(void) {
  const char *why = is("private memory", mine, "later");
  return why ? why : is("shared memory", shared->text, "later");
}
// The state that --shared-memory=keep leaves: old private memory, new shared memory.
static const char *kept(void) {
  const char *why = is("private memory", mine, "at the checkpoint");
  return why ? why : is("shared memory", shared->text, "later");
}

static bool has_answered(void *arg) {
  (void)arg;
  return shared->answered == shared->asked;
}
// Checks that both processes still share the memory; then ends the other process.
static const char *finish(void) {
  shared->asked++;
  const bool same = memfd >= 0 || soon(has_answered, NULL, 10000);
  kill(other, SIGKILL);
  waitpid(other, NULL, 0);
  return same ? NULL : no("the other process does not share the memory any more");
}

// The target can only read the memory that another process writes, so a pause must not restore it.
static void read_only(void) {
  int fd = MUST(open(path("file"), O_RDWR | O_CREAT, 0600));
  MUST(ftruncate(fd, SIZE));
  struct shared *writable = map_shared(fd, 0);
  close(fd);
  fd = MUST(open(path("file"), O_RDONLY));
  shared = MUST(mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0));
  close(fd);
  strcpy(mine, "at the checkpoint");
  pid_t parent = getpid();
  other = MUST(fork());
  if (!other) {
    for (uint32_t i = 0; getppid() == parent; i++) {
      writable->answered = i;
      sleep_ms(1);
    }
    _exit(0);
  }
  munmap(writable, SIZE);
}
static const char *private_as_before(void) { return is("private memory", mine, "at the checkpoint"); }
static void change_private(void) { strcpy(mine, "later"); }

static void own_file_system(void) {
  MUST(mkdir(path("fs"), 0700));
  MUST(mount("none", path("fs"), "tmpfs", 0, NULL));
}
static void on_own_file_system(void) {
  own_file_system();
  int fd = MUST(open(path("fs/file"), O_RDWR | O_CREAT, 0600));
  MUST(ftruncate(fd, SIZE));
  shared = map_shared(fd, 0);
  close(fd);
  begin();
}
static void memfds_number(void) {
  memfd = MUST(memfd_create("shared", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  MUST(ftruncate(memfd, SIZE));
  shared = map_shared(memfd, 0);
  begin();
  own_file_system();
  struct stat want, have;
  MUST(fstat(memfd, &want));
  for (int i = 0; i < 100000; i++) {  // tmpfs assigns inode numbers in ascending order
    int fd = MUST(open(path("fs/file"), O_RDWR | O_CREAT, 0600));
    MUST(fstat(fd, &have));
    if (have.st_ino == want.st_ino) return;
    if (have.st_ino > want.st_ino) die("no file can have the number %lu", want.st_ino);
    close(fd);
    MUST(unlink(path("fs/file")));
  }
  die("no file gets the number %lu", want.st_ino);
}

#define KIND(name, set_up) \
  {name, .flags = NO_PAUSE | NO_RESTART, .setup = set_up, .check = as_before, .mutate = change, .changed = as_changed, .finish = finish}
#define KEPT(name, set_up) \
  {name ", kept", .flags = NO_PAUSE | NO_RESTART, .setup = set_up, .check = kept, .mutate = change, .finish = finish}

static const struct scenario scenarios[] = {
  KIND("anonymous", anonymous), KIND("a memfd", mapped_memfd), KIND("a file", mapped_file), KIND("System V", sysv),
  KIND("an open memfd", open_memfd),
  KEPT("anonymous", anonymous), KEPT("a memfd", mapped_memfd), KEPT("a file", mapped_file), KEPT("System V", sysv),
  KEPT("an open memfd", open_memfd),
  {"on its own file system", .flags = NO_PAUSE | NO_RESTART, .setup = on_own_file_system, .check = as_before, .mutate = change},
  {"a file with the memfd's number", .flags = NO_PAUSE | NO_RESTART, .setup = memfds_number, .check = as_before, .mutate = change},
  {"read only", .flags = NO_PAUSE | NO_RESTART, .setup = read_only, .check = private_as_before, .mutate = change_private},
  {},
};

// ---------------------------------------------------------------- the tests

static struct target t;
static struct run r;

static int pause_with(const char *shared_memory) {
  return shared_memory ? runl(&r, "cr_pause", "--shared-memory", shared_memory, pid_text(t.pid), t.image, NULL)
                       : runl(&r, "cr_pause", pid_text(t.pid), t.image, NULL);
}

static void say(const char *kind, const char *what, const char *why) {
  char text[128];
  snprintf(text, sizeof text, "%s: %s", kind, what);
  tap_why(text, why);
}

static const char *ok(int code, enum op op) { return code ? why_not(&r) : target_op(&t, op); }

static void refused(const char *kind) {
  const char *why = target_saved(&t, &r, scenario_named(scenarios, kind));
  if (!why) why = ok(pause_with(NULL), OP_CHECK);
  say(kind, "a pause when nothing in it has changed", why);
  why = target_op(&t, OP_MUTATE);
  if (!why && pause_with(NULL) != 3) why = no("not refused: %s", why_not(&r));
  if (!why && (!strstr(r.err, "--shared-memory") || !strstr(r.err, strcmp(kind, "an open memfd") ? "mapping " : "descriptor ")))
    why = no("the refusal does not name the memory or the option: %s", why_not(&r));
  if (!why && strcmp(kind, "an open memfd") && !strstr(r.err, "process")) why = no("it names no process: %s", why_not(&r));
  say(kind, "a pause is refused by name", why);
  if (!why) why = target_op(&t, OP_CHECK_CHANGED);
  say(kind, "nothing has changed then", why);
  why = ok(pause_with("restore"), OP_CHECK);
  if (!why) why = target_op(&t, OP_FINISH);  // and the other process ends
  say(kind, "--shared-memory=restore rewrites it", why);
  why = target_op(&t, OP_MUTATE);
  if (!why) why = ok(pause_with(NULL), OP_CHECK);
  say(kind, "a pause when nobody shares it any more", why);
  target_end(&t);
}

static void left_alone(const char *kind) {
  char name[64];
  snprintf(name, sizeof name, "%s, kept", kind);
  const char *why = target_saved(&t, &r, scenario_named(scenarios, name));
  if (!why) why = target_op(&t, OP_MUTATE);
  if (!why) why = ok(pause_with("keep"), OP_CHECK);
  if (!why && !strstr(r.err, "kept")) why = no("there is no warning: %s", r.err);
  if (!why) why = target_op(&t, OP_FINISH);
  say(kind, "--shared-memory=keep leaves it as it is", why);
  target_end(&t);
}

static void both(const char *kind) {
  refused(kind);
  left_alone(kind);
}
static void test_anonymous(void) { both("anonymous"); }
static void test_memfd(void) { both("a memfd"); }
static void test_file(void) { both("a file"); }
static void test_sysv(void) { both("System V"); }
static void test_open_memfd(void) { both("an open memfd"); }

static void test_read_only(void) {
  const char *why = target_saved(&t, &r, scenario_named(scenarios, "read only"));
  if (!why) why = target_op(&t, OP_MUTATE);
  if (!why) why = ok(pause_with(NULL), OP_CHECK);
  say("read only", "a pause leaves it to those who write it", why);
  target_end(&t);
}

// A restart writes to files that were mapped: here one that the test program maps.
static void test_restart(void) {
  const char *why = target_saved(&t, &r, scenario_named(scenarios, "a file"));
  target_kill(&t);
  while (waitpid(-1, NULL, 0) > 0) {}  // the other process, which was in the target's session
  int fd = MUST(open(path("file"), O_RDWR | O_CLOEXEC));
  struct shared *view = MUST(mmap(NULL, SIZE, RW, MAP_SHARED, fd, 0));
  strcpy(view->text, "of others");
  if (!why && runl(&r, "cr_restart", "--detach", t.image, NULL) != 3) why = no("not refused: %s", why_not(&r));
  if (!why && !strstr(r.err, "--shared-memory")) why = no("the refusal does not name the option: %s", why_not(&r));
  if (!why) why = is("the file", view->text, "of others");
  say("a file", "a restart is refused while others map it", why);
  why = runl(&r, "cr_restart", "--detach", "--shared-memory", "keep", t.image, NULL) ? why_not(&r) : NULL;
  if (!why) why = is("the file", view->text, "of others");
  if (!r.code) {
    target_adopt(&t);
    target_kill(&t);
  }
  say("a file", "a restart with --shared-memory=keep leaves it as it is", why);
  munmap(view, SIZE);
  close(fd);
  why = runl(&r, "cr_restart", "--detach", t.image, NULL) ? why_not(&r) : NULL;
  if (!why) {
    target_adopt(&t);
    why = target_op(&t, OP_CHECK);
  }
  say("a file", "a restart when nobody maps it any more", why);
  target_end(&t);
}

// Another file with the same inode number and path as the mapped file, but on another file system.
static void test_same_number(void) {
  const char *why = target_saved(&t, &r, scenario_named(scenarios, "on its own file system"));
  MUST(mount("none", path("fs"), "tmpfs", 0, NULL));
  int fd = MUST(open(path("fs/file"), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  char text[32] = "of others";
  MUST(pwrite(fd, text, sizeof text, 0));
  MUST(ftruncate(fd, SIZE));
  if (!why) why = target_op(&t, OP_MUTATE);
  if (!why) why = ok(pause_with(NULL), OP_CHECK);
  if (!why && (pread(fd, text, sizeof text, 0) != sizeof text || strcmp(text, "of others"))) why = no("the other file has changed");
  say("a file", "another one of that name and number is left alone", why);
  close(fd);
  MUST(umount2(path("fs"), MNT_DETACH));
  target_kill(&t);
  MUST(umount2(path("fs"), MNT_DETACH));
  target_end(&t);
}

static void test_same_number_as_memfd(void) {
  const char *why = target_saved(&t, &r, scenario_named(scenarios, "a file with the memfd's number"));
  if (!why) why = target_op(&t, OP_MUTATE);
  if (!why) why = ok(pause_with(NULL), OP_CHECK);
  say("a memfd", "the seals of a file that has its number are not taken for its own", why);
  target_kill(&t);
  umount2(path("fs"), MNT_DETACH);
  target_end(&t);
}

static const struct test tests[] = {
  {"anonymous", test_anonymous}, {"memfd", test_memfd}, {"file", test_file}, {"System V", test_sysv},
  {"open memfd", test_open_memfd}, {"read only", test_read_only}, {"restart", test_restart},
  {"same number", test_same_number}, {"same number as a memfd", test_same_number_as_memfd},
  {},
};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
