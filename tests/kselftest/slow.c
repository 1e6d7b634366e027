// SPDX-License-Identifier: GPL-2.0-only
// Slow files, and an image that is written to while it is read. Needs a build with CR_FAULT (-DREPRISE_FAULTS=ON).
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

enum { PAGE = 4096, RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS };
static char *area;

static char *map(size_t bytes) { return MUST(mmap(NULL, bytes, RW, ANON, -1, 0)); }

static void plain(void) {
  area = map(MB);
  memset(area, 'b', MB);  // before
}
static const char *plain_ok(void) {
  for (size_t i = 0; i < MB; i++)
    if (area[i] != 'b') return no("%c at %zu", area[i], i);
  return NULL;
}
static void plain_change(void) { memset(area, 'l', MB); }  // later

static const struct scenario scenarios[] = {
  {"plain", .flags = NO_PAUSE | NO_RESTART, .setup = plain, .check = plain_ok, .mutate = plain_change},
  {},
};

// ---------------------------------------------------------------- tests of their own

static struct target t;
static struct run r;

// A slow command still sends heartbeats to the module; a stopped command does not.
static const char *slowly(const char *stage, const char *command) {
  char fault[64];
  snprintf(fault, sizeof fault, "CR_FAULT=%s:sleep=7000", stage);
  return runl(&r, "env", "CR_SILENCE_MS=3000", fault, command, pid_text(t.pid), t.image, NULL) ? why_not(&r) : NULL;
}
static void slow_files(void) {
  if (runl(&r, "env", "CR_FAULT=open", "cr_restart", "/nonexistent", NULL), !strstr(r.err, "CR_FAULT")) {
    tap_skip("slow files", "the commands were built without CR_FAULT (-DREPRISE_FAULTS=ON)");
    return;
  }
  const char *why = target_saved(&t, &r, scenario_named(scenarios, "plain"));
  if (!why) why = slowly("collect", "cr_checkpoint");
  if (!why) why = target_op(&t, OP_CHECK);
  tap_why("a checkpoint that reads for longer than the module's patience", why);
  if (!why) why = target_op(&t, OP_MUTATE);
  if (!why) why = slowly("shared", "cr_pause");
  if (!why) why = target_op(&t, OP_CHECK);
  tap_why("a pause that writes for longer", why);
  pid_t pid = MUST(fork());
  if (!pid) {
    MUST(setenv("CR_SILENCE_MS", "3000", 1));
    MUST(setenv("CR_FAULT", "shared:sleep=60000", 1));
    execlp("cr_pause", "cr_pause", pid_text(t.pid), t.image, NULL);
    _exit(127);
  }
  sleep_ms(1500);
  kill(pid, SIGSTOP);
  bool killed = false;
  for (int i = 0; i < 300 && !killed; i++, sleep_ms(100)) killed = !target_alive(&t);
  tap(killed, "a pause that is stopped half way ends the process", "it still stands");
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  target_end(&t);
}

// A pause must refuse an image that is written to while it is read, but accept one that is only renamed.
static pid_t pause_with_a_rest(void) {
  pid_t pid = MUST(fork());
  if (!pid) {
    MUST(setenv("CR_FAULT", "commit:sleep=5000", 1));
    int null = open("/dev/null", O_WRONLY);
    dup2(null, 2);
    execlp("cr_pause", "cr_pause", "--quiet", pid_text(t.pid), t.image, NULL);
    _exit(127);
  }
  sleep_ms(2500);
  return pid;
}
static int ended(pid_t pid) {
  int status;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
static const char *spoil_image(void) {
  static char page[PAGE], have[PAGE];
  memset(page, 'b', sizeof page);
  int fd = MUST(open(t.image, O_RDWR | O_CLOEXEC));
  const char *why = no("the page is not in the image");
  for (off_t at = 0; pread(fd, have, sizeof have, at) == sizeof have; at += PAGE) {
    if (memcmp(have, page, sizeof page)) continue;
    have[100] ^= 1;
    why = pwrite(fd, have, sizeof have, at) == sizeof have ? NULL : no("the image cannot be written");
    break;
  }
  close(fd);
  return why;
}
static void image_written_to(void) {
  if (runl(&r, "env", "CR_FAULT=open", "cr_restart", "/nonexistent", NULL), !strstr(r.err, "CR_FAULT")) {
    tap_skip("images that are written to", "the commands were built without CR_FAULT (-DREPRISE_FAULTS=ON)");
    return;
  }
  const char *why = target_saved(&t, &r, scenario_named(scenarios, "plain"));
  if (!why) why = target_op(&t, OP_MUTATE);
  pid_t pid = pause_with_a_rest();
  char other[160];
  snprintf(other, sizeof other, "%s.other", t.image);
  MUST(rename(t.image, other));
  int code = ended(pid);
  if (!why && code) why = no("exit %d", code);
  if (!why) why = target_op(&t, OP_CHECK);
  tap_why("an image that gets another name while it is read", why);
  MUST(rename(other, t.image));
  if (!why) why = target_op(&t, OP_MUTATE);
  pid = pause_with_a_rest();
  const char *unable = spoil_image();
  code = ended(pid);
  if (!why) why = unable;
  for (int i = 0; i < 100 && target_alive(&t); i++) sleep_ms(100);  // it may be exiting
  if (!why && (code != 5 || target_alive(&t))) why = no("exit %d, or the process runs on", code);
  tap_why("an image that is written to while it is read", why);
  target_end(&t);
}

static const struct test tests[] = {
  {"slow files", slow_files}, {"image written to", image_written_to},
  {},
};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
