// SPDX-License-Identifier: GPL-2.0-only
// Kept memory (cr_kept_alloc()): a rollback leaves it as it is, an image does not hold it, and a restart makes it empty or
// takes what it is given.
#include <errno.h>
#include <fcntl.h>
#include <libcr.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

enum { PAGE = 4096, SIZE = 8 * MB };

// ---------------------------------------------------------------- the target

struct kept {
  _Atomic uint32_t asked, answered;  // a child copies `asked` to `answered`
  uint32_t rounds, orphan;  // orphan: the child goes on without its parent
  char text[PAGE - 16];
  char rest[SIZE - PAGE];
};

static char mine[64];
static struct kept *kept;  // where the checkpoint has it
static int fd = -1;
static pid_t child;
static unsigned flags;

static void allocate(size_t size) {
  void *at;
  fd = cr_kept_alloc("log", size, flags, &at);
  if (fd < 0) die("cr_kept_alloc: %s", cr_last_error());
  kept = at;
}
static void begin(void) {
  strcpy(mine, "at the checkpoint");
  allocate(SIZE);
  strcpy(kept->text, "at the checkpoint");
  fill(kept->rest, sizeof kept->rest, 1);
}
static void begin_copied(void) {
  flags = CR_KEPT_COPIED;
  begin();
}
static void begin_mapped(void) {
  begin();
  close(fd);
}
static void begin_two(void) {
  begin();
  MUST(ftruncate(MUST(memfd_create("reprise.keep.log", MFD_CLOEXEC | MFD_ALLOW_SEALING)), PAGE));
}
static void begin_open(void) {
  begin();
  MUST(munmap(kept, SIZE));
}
static void change(void) {
  strcpy(mine, "later");
  strcpy(kept->text, "later");
  fill(kept->rest, sizeof kept->rest, 2);
}
static void change_open(void) {
  strcpy(mine, "later");
  if (cr_kept_attach("log", -1, (void **)&kept, NULL)) die("cr_kept_attach: %s", cr_last_error());
  change();
}
static void free_it(void) {
  strcpy(mine, "later");
  if (cr_kept_free("log")) die("cr_kept_free: %s", cr_last_error());
  close(fd);
}
static void allocate_again(void) {
  free_it();
  allocate(SIZE);
  change();
}
static void allocate_less(void) {
  free_it();
  allocate(SIZE / 2);
  strcpy(kept->text, "later");
}

static const char *is(const char *what, const char *have, const char *want) {
  return strcmp(have, want) ? no("%s is \"%.40s\"", what, have) : NULL;
}
static const char *is_found(size_t want) {
  void *at;
  size_t size;
  if (cr_kept_attach("log", -1, &at, &size)) return no("cr_kept_attach: %s", cr_last_error());
  return at == kept && size == want ? NULL : no("it is found at %p with %zu bytes", at, size);
}
static const char *private_as_before(void) { return is("private memory", mine, "at the checkpoint"); }
// After a rollback: the private memory of the checkpoint, and the kept memory of the moment before the rollback.
static const char *stayed(void) {
  const char *why = private_as_before();
  if (!why) why = is("kept memory", kept->text, "later");
  if (!why) why = filled(kept->rest, sizeof kept->rest, 2);
  return why ? why : is_found(SIZE);
}
static const char *emptied(void) {
  const char *why = private_as_before();
  if (!why) why = is_found(SIZE);
  for (size_t i = 0; !why && i < SIZE; i++)
    if (((char *)kept)[i]) why = no("byte %zu is not 0", i);
  return why;
}
// After a restart: as the image has it.
static const char *as_saved(void) {
  const char *why = private_as_before();
  if (!why) why = is("kept memory", kept->text, "at the checkpoint");
  if (!why) why = filled(kept->rest, sizeof kept->rest, 1);
  return why ? why : is_found(SIZE);
}
static const char *stayed_open(void) {
  const char *why = private_as_before();
  if (why) return why;
  void *at;
  if (fd < 0 || cr_kept_attach("log", fd, &at, NULL)) return no("cr_kept_attach: %s", cr_last_error());
  kept = at;
  why = stayed();
  MUST(munmap(kept, SIZE));
  return why;
}
static const char *less(void) {
  const char *why = is("private memory", mine, "later");
  if (!why) why = is("kept memory", kept->text, "later");
  return why ? why : is_found(SIZE / 2);
}

static void nothing(void) { strcpy(mine, "at the checkpoint"); }
static void allocate_first(void) {
  begin();
  strcpy(mine, "later");
}
static const char *is_nowhere(void) {
  void *at;
  const char *why = private_as_before();
  if (why) return why;
  if (!cr_kept_attach("log", -1, &at, NULL) || errno != ENOENT) return no("it is still there: errno %d", errno);
  return cr_kept_fd("log") < 0 && errno == ENOENT ? NULL : no("its descriptor is still there");
}

static void with_child(void) {
  begin();
  pid_t parent = getpid();
  child = MUST(fork());
  if (child) return;
  while (getppid() == parent || kept->orphan) {
    kept->answered = kept->asked;
    sleep_ms(1);
  }
  _exit(0);
}
static bool has_answered(void *arg) {
  (void)arg;
  return kept->answered == kept->asked;
}
static const char *both_share(void) {
  kept->asked++;
  const bool same = soon(has_answered, NULL, 10000);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  return same ? NULL : no("the child does not share the memory any more");
}

// After a rollback of the target by itself, cr_snapshot_take() returns again.
static const char *roll_itself_back(void) {
  cr_snapshot_t snapshot;
  uint32_t local = 0;
  int round = cr_snapshot_take(0, 0, &snapshot);
  if (round < 0) return no("cr_snapshot_take: %s", cr_last_error());
  if (local++ != 0) return no("the rollback has kept private memory");
  if (kept->rounds++ != (uint32_t)round) return no("round %u in kept memory, %d by the library", kept->rounds - 1, round);
  if (round < 10) {
    cr_snapshot_rollback(snapshot);
    return no("cr_snapshot_rollback: %s", cr_last_error());
  }
  cr_snapshot_drop(snapshot);
  return NULL;
}

#define CASE(name, ...) {name, .flags = NO_PAUSE | NO_RESTART, __VA_ARGS__}
static const struct scenario scenarios[] = {
  CASE("kept", .setup = begin, .check = stayed, .mutate = change, .changed = emptied),
  CASE("copied", .setup = begin_copied, .check = stayed, .mutate = change, .changed = as_saved),
  CASE("copied, freed", .setup = begin_copied, .check = as_saved, .mutate = free_it),
  CASE("only mapped", .setup = begin_mapped, .check = stayed, .mutate = change, .changed = emptied),
  CASE("only open", .setup = begin_open, .check = stayed_open, .mutate = change_open),
  CASE("freed", .setup = begin, .check = emptied, .mutate = free_it),
  CASE("new", .setup = nothing, .check = is_nowhere, .mutate = allocate_first),
  CASE("another", .setup = begin, .check = stayed, .mutate = allocate_again),
  CASE("less", .setup = begin, .check = stayed, .mutate = allocate_less, .changed = less),
  CASE("with a child", .setup = with_child, .check = stayed, .mutate = change, .finish = both_share),
  CASE("two of a name", .setup = begin_two, .check = private_as_before),
  CASE("by itself", .setup = begin, .check = stayed, .mutate = change, .finish = roll_itself_back),
  {},
};

// ---------------------------------------------------------------- the tests

static struct target t;
static struct run r;

static void say(const char *what, const char *why) { tap_why(what, why); }
static const char *saved(const char *name) { return target_saved(&t, &r, scenario_named(scenarios, name)); }
static const char *pause_and(enum op op) { return target_pause(&t, &r) ? why_not(&r) : target_op(&t, op); }
static const char *restart_and(enum op op) { return target_restart(&t, &r) ? why_not(&r) : target_op(&t, op); }
static const char *rolls_back(void) {
  const char *why = target_op(&t, OP_MUTATE);
  return why ? why : pause_and(OP_CHECK);
}
// A restart that is given memory.
static const char *restart_with(const char *memory, enum op op) {
  if (runl(&r, "cr_restart", "--detach", "--kept-memory", memory, t.image, NULL)) return why_not(&r);
  target_adopt(&t);
  return target_op(&t, op);
}
static const char *refuses(const char *memory, const char *because) {
  if (runl(&r, "cr_restart", "--detach", "--kept-memory", memory, t.image, NULL) != (strstr(because, "has no kept") ? 2 : 3))
    return no("%s is not refused: %s", memory, why_not(&r));
  return strstr(r.err, because) ? NULL : no("it does not say \"%s\": %s", because, why_not(&r));
}
// A descriptor of ours for the memory of the target, or -1.
static int hold(void) {
  char name[64], is[128] = "";
  for (int number = 3; number < 64; number++) {
    snprintf(name, sizeof name, "/proc/%d/fd/%d", t.pid, number);
    if (readlink(name, is, sizeof is - 1) > 0 && strstr(is, "/memfd:reprise.keep") == is) return open(name, O_RDWR | O_CLOEXEC);
    memset(is, 0, sizeof is);
  }
  return -1;
}
static const char *held_path(const char *name, int number) {
  static char text[96];
  snprintf(text, sizeof text, "%s=/proc/%d/fd/%d", name, getpid(), number);
  return text;
}

static void in_image(void) {
  const char *why = saved("kept");
  struct stat st;
  if (!why && stat(t.image, &st)) why = no("no image: errno %d", errno);
  if (!why && st.st_size > (off_t)SIZE / 2) why = no("the image has %ld bytes", (long)st.st_size);
  say("an image does not hold its content", why);
  why = runl(&r, "cr_info", "--mappings", t.image, NULL) ? why_not(&r) : NULL;
  if (!why && !strstr(r.out, "kept memory log, 8")) why = no("not in: %.2000s", r.out);
  if (!why && runl(&r, "cr_info", "--descriptors", t.image, NULL)) why = why_not(&r);
  if (!why && !strstr(r.out, "kept memory log, 8")) why = no("not in: %.2000s", r.out);
  say("cr_info names it", why);
  target_end(&t);
}

// Memory whose content images have.
static void copied(void) {
  const char *why = saved("copied");
  struct stat st;
  if (!why && (stat(t.image, &st) || st.st_size < (off_t)SIZE)) why = no("the image has %ld bytes", (long)st.st_size);
  say("copied: an image holds its content", why);
  for (int i = 0; !why && i < 2; i++) why = rolls_back();
  say("copied: pauses leave it as it is", why);
  int holder = hold();
  target_kill(&t);
  if (!why) why = restart_and(OP_CHECK_CHANGED);
  say("copied: a restart begins with what the image has", why);
  if (!why) why = rolls_back();
  say("copied: pauses after the restart leave it as it is", why);
  target_kill(&t);
  if (!why) why = restart_with(held_path("log", holder), OP_CHECK);
  say("copied: a restart takes memory that somebody holds as it is", why);
  target_kill(&t);
  const char *argv[] = {"cr_restart", "--detach", "--kept-memory", held_path("log", holder), "--fill-kept-memory", "log", t.image, NULL};
  if (!why && run(&r, argv)) why = why_not(&r);
  if (!why) {
    target_adopt(&t);
    why = target_op(&t, OP_CHECK_CHANGED);
  }
  char begun[32] = "";
  if (!why && (pread(holder, begun, sizeof begun - 1, offsetof(struct kept, text)) < 1 || strcmp(begun, "at the checkpoint")))
    why = no("what is held has \"%s\"", begun);
  say("copied: or fills it with what the image has", why);
  target_kill(&t);
  close(holder);
  char file[128];
  snprintf(file, sizeof file, "log=%s", path("content"));
  int out = MUST(open(path("content"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  MUST(ftruncate(out, SIZE));
  if (!why && runl(&r, "cr_restart", "--detach", "--kept-memory", file, t.image, NULL)) why = why_not(&r);
  if (!why) target_adopt(&t);
  say("copied: a restart takes the content of a file", why);
  close(out);
  target_end(&t);
  why = saved("copied, freed");
  if (!why) why = rolls_back();
  if (!why && !strstr(r.err, "was freed since the checkpoint: it is as at the checkpoint")) why = no("no warning: %s", r.err);
  say("copied: a pause makes memory again that was freed, as at the checkpoint", why);
  target_end(&t);
  why = saved("kept");
  if (!why && runl(&r, "cr_restart", "--fill-kept-memory", "log", t.image, NULL) != 2) why = no("not refused: %s", why_not(&r));
  if (!why && !strstr(r.err, "is to be filled, and is not given")) why = no("not by name: %s", r.err);
  say("memory that is not given cannot be filled", why);
  target_end(&t);
}

static void paused(const char *name) {
  char text[96];
  const char *why = saved(name);
  for (int i = 0; !why && i < 2; i++) why = rolls_back();
  snprintf(text, sizeof text, "%s: pauses leave it as it is", name);
  say(text, why);
  target_end(&t);
}
static void pauses(void) {
  paused("kept");
  paused("only mapped");
  paused("only open");
}

static void restarts(void) {
  const char *why = saved("kept");
  if (!why) why = target_op(&t, OP_MUTATE);
  target_kill(&t);
  if (!why) why = restart_and(OP_CHECK_CHANGED);
  say("a restart makes it empty", why);
  for (int i = 0; !why && i < 2; i++) why = rolls_back();
  say("pauses after the restart leave it as it is", why);
  target_end(&t);
}

static void given(void) {
  const char *why = saved("kept");
  if (!why) why = target_op(&t, OP_MUTATE);
  int holder = hold();
  if (!why && holder < 0) why = no("its descriptor is not found");
  target_kill(&t);
  if (!why) why = restart_with(held_path("log", holder), OP_CHECK);
  say("a restart takes memory that somebody holds", why);
  if (!why) why = rolls_back();
  if (!why && pwrite(holder, "seen", 5, offsetof(struct kept, text)) != 5) why = no("writing: errno %d", errno);
  if (!why && !target_op(&t, OP_CHECK)) why = no("it is not the same memory");
  say("pauses leave that as it is", why);
  if (!why && pwrite(holder, "later", 6, offsetof(struct kept, text)) != 6) why = no("writing: errno %d", errno);
  target_kill(&t);
  // A file that has the content.
  char file[128];
  snprintf(file, sizeof file, "log=%s", path("content"));
  int out = MUST(open(path("content"), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  static char all[SIZE];
  if (!why && (pread(holder, all, SIZE, 0) != SIZE || write(out, all, SIZE) != SIZE)) why = no("copying: errno %d", errno);
  if (!why) why = restart_with(file, OP_CHECK);
  say("a restart takes the content of a file", why);
  target_kill(&t);
  MUST(ftruncate(out, SIZE / 2));
  why = refuses(file, "has 4194304 bytes instead of 8388608");
  if (!why) why = refuses(held_path("other", holder), "has no kept memory named other; it has log");
  int wrong = MUST(memfd_create("reprise.keep.other", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!why) why = refuses(held_path("log", wrong), "instead of a memfd named reprise.keep.log");
  close(wrong);
  wrong = MUST(memfd_create("reprise.keep.log", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  MUST(ftruncate(wrong, SIZE));
  MUST(fcntl(wrong, F_ADD_SEALS, F_SEAL_WRITE));
  if (!why) why = refuses(held_path("log", wrong), "sealed against writing");
  say("memory of another name or size, or sealed, is refused", why);
  if (!why) why = restart_with(held_path("log", holder), OP_CHECK);
  say("a refusal has changed nothing", why);
  close(wrong);
  close(holder);
  close(out);
  target_end(&t);
}

// The one message that cr_checkpoint has sent to `socket`: its descriptor, or -1.
static int receive(int socket, char name[64]) {
  char control[CMSG_SPACE(sizeof(int))];
  struct iovec part = {name, 63};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  ssize_t n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  name[n > 0 ? n : 0] = 0;
  int number = -1;
  if (head && head->cmsg_type == SCM_RIGHTS) memcpy(&number, CMSG_DATA(head), sizeof number);
  return number;
}
static void handed_over(const char *from, const char *what) {
  int ends[2], memory = -1;
  char name[64] = "", to[16];
  const char *why = target_start(&t, scenario_named(scenarios, from)) ? NULL : "it does not start";
  MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
  MUST(fcntl(ends[0], F_SETFD, FD_CLOEXEC));
  snprintf(to, sizeof to, "%d", ends[1]);
  if (!why && runl(&r, "cr_checkpoint", "--kept-memory-to", to, pid_text(t.pid), t.image, NULL)) why = why_not(&r);
  close(ends[1]);
  if (!why && ((memory = receive(ends[0], name)) < 0 || strcmp(name, "log"))) why = no("the first message is \"%s\", %d", name, memory);
  if (!why && recv(ends[0], name, sizeof name, MSG_DONTWAIT) != 0) why = no("there is a second message");
  if (!why) why = target_op(&t, OP_MUTATE);
  target_kill(&t);
  if (!why) why = restart_with(held_path("log", memory), OP_CHECK);
  say(what, why);
  close(ends[0]);
  close(memory);
  target_end(&t);
}
static void hands_over(void) {
  handed_over("kept", "a checkpoint hands it over, and a restart takes it as it was in the end");
  handed_over("only mapped", "also when the process has closed its descriptor");
  const char *why = saved("two of a name");
  int ends[2];
  char to[16], name[64];
  MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
  snprintf(to, sizeof to, "%d", ends[1]);
  if (!why && runl(&r, "cr_checkpoint", "--kept-memory-to", to, pid_text(t.pid), t.image, NULL)) why = why_not(&r);
  if (!why && !strstr(r.err, "kept memory log was not handed over: the process has 2 of that name")) why = no("not by name: %s", r.err);
  if (!why && recv(ends[0], name, sizeof name, MSG_DONTWAIT) >= 0) why = no("it is handed over");
  close(ends[0]);
  close(ends[1]);
  say("of two of a name none is handed over", why);
  why = runl(&r, "cr_checkpoint", "--kept-memory-to", "1", pid_text(t.pid), t.image, NULL) == 2 ? NULL : why_not(&r);
  if (!why && !strstr(r.err, "no Unix socket")) why = no("not by name: %s", r.err);
  say("what is no socket is refused", why);
  target_end(&t);
}

static void one(const char *name, const char *what) {
  const char *why = saved(name);
  if (!why) why = rolls_back();
  say(what, why);
  if (!why && !strcmp(name, "freed") && !strstr(r.err, "kept memory log was freed")) why = no("no warning: %s", r.err);
  if (!strcmp(name, "freed")) say("and says so", why);
  target_end(&t);
}
static void freed(void) { one("freed", "a pause makes memory again that was freed, empty"); }
static void new(void) { one("new", "a pause takes away what is newer than the checkpoint"); }
static void another(void) { one("another", "a pause leaves memory that was freed and allocated again as it is"); }

static void less_memory(void) {
  const char *why = saved("less");
  if (!why) why = target_op(&t, OP_MUTATE);
  if (!why && target_pause(&t, &r) != 3) why = no("not refused: %s", why_not(&r));
  if (!why && !strstr(r.err, "kept memory log has 4194304 bytes now, and had 8388608")) why = no("not by name: %s", why_not(&r));
  if (!why) why = target_op(&t, OP_CHECK_CHANGED);
  say("a pause is refused when it has another size now", why);
  target_end(&t);
}

static void children(void) {
  const char *why = saved("with a child");
  for (int i = 0; !why && i < 2; i++) why = rolls_back();
  if (!why) why = target_op(&t, OP_MUTATE);
  if (!why && runl(&r, "cr_pause", "--shared-memory", "restore", pid_text(t.pid), t.image, NULL)) why = why_not(&r);
  if (!why) why = target_op(&t, OP_CHECK);
  if (!why) why = target_op(&t, OP_FINISH);
  say("a pause does not disturb a child that shares it", why);
  target_end(&t);
}

// A tree is restarted image by image: both are given the same memory.
static void trees(void) {
  char parents[160], childs[160];
  const char *why = target_start(&t, scenario_named(scenarios, "with a child")) ? NULL : "it does not start";
  if (!why && runl(&r, "cr_checkpoint", "--tree", pid_text(t.pid), t.dir, NULL)) why = why_not(&r);
  if (!why) why = target_op(&t, OP_MUTATE);
  int holder = hold();
  pid_t first = t.pid, second = 0;
  char list[96], pids[64] = "";
  snprintf(list, sizeof list, "/proc/%d/task/%d/children", first, first);
  slurp(list, pids, sizeof pids);
  second = atoi(pids);
  snprintf(parents, sizeof parents, "%s/context.%d", t.dir, first);
  snprintf(childs, sizeof childs, "%s/context.%d", t.dir, second);
  target_kill(&t);
  while (waitpid(-1, NULL, 0) > 0) {}
  struct kept *view = MUST(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, holder, 0));
  const char *memory = held_path("log", holder);
  if (!why && runl(&r, "cr_restart", "--detach", "--kept-memory", memory, parents, NULL)) why = why_not(&r);
  if (!why) {
    target_adopt(&t);
    why = target_op(&t, OP_CHECK);
  }
  say("a process of a tree gets the memory that it shared", why);
  view->asked = 7;
  view->answered = 0;
  view->orphan = 1;
  if (!why && runl(&r, "cr_restart", "--detach", "--kept-memory", memory, childs, NULL)) why = why_not(&r);
  for (int i = 0; !why && i < 500 && view->answered != 7; i++) sleep_ms(20);
  if (!why && view->answered != 7) why = no("the child does not answer in it");
  say("and so does its child", why);
  view->orphan = 0;  // it ends
  munmap(view, SIZE);
  close(holder);
  target_end(&t);
}

// The inode of the kept memory that a process has mapped, whose first byte must be `first`; ends the process.
static const char *look_at_copy(pid_t pid, char first, unsigned long *inode) {
  static char maps[65536];
  char name[64], byte = 0;
  unsigned long start = 0;
  snprintf(name, sizeof name, "/proc/%d/maps", pid);
  slurp(name, maps, sizeof maps);
  char *line = strstr(maps, "/memfd:reprise.keep.log");
  while (line && line > maps && line[-1] != '\n') line--;
  const char *why = NULL;
  if (!line || sscanf(line, "%lx-%*s %*s %*s %*s %lu", &start, inode) != 2) why = no("copy %d has not mapped it", pid);
  snprintf(name, sizeof name, "/proc/%d/mem", pid);
  int memory = open(name, O_RDONLY | O_CLOEXEC);
  if (!why && (pread(memory, &byte, 1, (off_t)(start + offsetof(struct kept, text))) != 1 || byte != first))
    why = no("copy %d has \"%c\" in it", pid, byte);
  close(memory);
  kill(pid, SIGKILL);
  return why;
}
static const char *copies_with(const char *memory, char first, bool shared) {
  const char *argv[] = {"cr_restart", "--detach", "--json", "--copies", "2", t.image, memory ? "--kept-memory" : NULL, memory, NULL};
  unsigned long inodes[2] = {0, 0};
  const char *why = run(&r, argv) ? why_not(&r) : NULL;
  char *at = r.out;
  for (int i = 0; !why && i < 2; i++) {
    at = strstr(at, "\"pid\":");
    why = at ? look_at_copy(atoi(at + 6), first, &inodes[i]) : no("no pids: %.300s", r.out);
    if (at) at += 6;
  }
  if (!why && (inodes[0] == inodes[1]) != shared) why = no(shared ? "they have different memory" : "both have the same memory");
  return why;
}
static void copies(void) {
  const char *why = saved("kept");
  int holder = hold();
  target_kill(&t);
  if (!why) why = copies_with(NULL, 0, false);
  say("each copy has memory of its own, empty", why);
  if (!why) why = copies_with(held_path("log", holder), 'a', true);
  say("all copies share memory that they are given", why);
  close(holder);
  target_end(&t);
}

static void increments(void) {
  char delta[160], stream[700];
  struct stat st;
  const char *why = saved("kept");
  snprintf(delta, sizeof delta, "%s/delta", t.dir);
  if (!why) why = target_op(&t, OP_MUTATE);
  if (!why && runl(&r, "cr_checkpoint", "--parent", t.image, "--delta", pid_text(t.pid), delta, NULL)) why = why_not(&r);
  if (!why && (stat(delta, &st) || st.st_size > (off_t)SIZE / 2)) why = no("the delta image has %ld bytes", (long)st.st_size);
  if (!why && runl(&r, "cr_pause", pid_text(t.pid), t.image, NULL)) why = why_not(&r);
  if (!why) why = target_op(&t, OP_CHECK);
  say("a delta image does not hold it", why);
  snprintf(stream, sizeof stream, "cr_checkpoint %d - | cat >%s/streamed && cr_pause %d %s/streamed", t.pid, t.dir, t.pid, t.dir);
  if (!why && runl(&r, "sh", "-c", stream, NULL)) why = why_not(&r);
  if (!why) why = target_op(&t, OP_CHECK);
  say("a pause from a streamed image leaves it as it is", why);
  target_end(&t);
}

static void snapshots(void) {
  const char *why = target_start(&t, scenario_named(scenarios, "by itself")) ? target_op(&t, OP_FINISH) : "it does not start";
  say("rollbacks of oneself to a snapshot leave it as it is", why);
  target_end(&t);
  static const char *const names[] = {"kept", "only mapped", "freed", "new", "another"};
  for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
    char text[96];
    cr_snapshot_t snapshot = 0;
    why = target_start(&t, scenario_named(scenarios, names[i])) ? NULL : "it does not start";
    if (!why && cr_snapshot_take(t.pid, 0, &snapshot)) why = cr_last_error();
    for (int n = 0; !why && n < 3; n++) {
      why = target_op(&t, OP_MUTATE);
      if (!why && cr_snapshot_rollback(snapshot)) why = cr_last_error();
      if (!why) why = target_op(&t, OP_CHECK);
    }
    snprintf(text, sizeof text, "%s: rollbacks of another process to a snapshot are as pauses", names[i]);
    say(text, why);
    if (snapshot) cr_snapshot_drop(snapshot);
    target_end(&t);
  }
}

static const struct test tests[] = {
  {"image", in_image}, {"pauses", pauses}, {"restarts", restarts}, {"copied", copied}, {"given", given}, {"handed over", hands_over}, {"freed", freed}, {"new", new},
  {"another", another}, {"less", less_memory}, {"children", children}, {"trees", trees}, {"copies", copies},
  {"increments", increments}, {"snapshots", snapshots},
  {},
};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
