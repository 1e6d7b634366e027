// SPDX-License-Identifier: GPL-2.0-only
// Files that have grown since the checkpoint: kept and reported, or truncated with
// --rewind-files.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

enum { BEFORE = 10000, MORE = 7777 };
static int log_fd, data_fd, seen_fd;

static void write_pattern(int fd, int from, int bytes) {
  char text[1000];
  for (int at = from; at < from + bytes;) {
    int n = from + bytes - at < (int)sizeof text ? from + bytes - at : (int)sizeof text;
    for (int i = 0; i < n; i++) text[i] = (char)('a' + (at + i) % 26);
    ssize_t done = MUST(write(fd, text, n));
    at += (int)done;
  }
}
static const char *pattern(const char *name, int bytes) {
  char text[BEFORE + MORE + 1];
  int fd = open(path(name), O_RDONLY);
  ssize_t n = read(fd, text, sizeof text);
  close(fd);
  if (n != bytes) return no("%s has %zd bytes instead of %d", name, n, bytes);
  for (int i = 0; i < bytes; i++)
    if (text[i] != 'a' + i % 26) return no("%s differs at %d", name, i);
  return NULL;
}
static void grow_setup(void) {
  log_fd = MUST(open(path("log"), O_WRONLY | O_CREAT | O_APPEND, 0600));
  data_fd = MUST(open(path("data"), O_RDWR | O_CREAT, 0600));
  write_pattern(log_fd, 0, BEFORE);
  write_pattern(data_fd, 0, BEFORE);
  seen_fd = MUST(open(path("data"), O_RDONLY));  // a reader of the same file
  MUST(lseek(data_fd, 100, SEEK_SET));
}
static void grow(void) {
  write_pattern(log_fd, BEFORE, MORE);
  MUST(lseek(data_fd, 0, SEEK_END));
  write_pattern(data_fd, BEFORE, MORE);
}
static void grow_and_close(void) {
  grow();
  close(log_fd);
  close(data_fd);
}
static const char *positions(void) {
  off_t at = lseek(data_fd, 0, SEEK_CUR);
  return at != 100 ? no("position is %ld instead of 100", (long)at) : NULL;
}
static const char *rewound(void) {
  part("log", pattern("log", BEFORE));
  part("data", pattern("data", BEFORE));
  part("position", positions());
  return parts();
}
static const char *go_on(void) {  // the program writes the same data again
  write_pattern(log_fd, BEFORE, MORE);
  MUST(lseek(data_fd, 0, SEEK_END));
  write_pattern(data_fd, BEFORE, MORE);
  part("log", pattern("log", BEFORE + MORE));
  part("data", pattern("data", BEFORE + MORE));
  return parts();
}

static const struct scenario scenarios[] = {
    {.name = "--rewind-files", .setup = grow_setup, .check = rewound, .mutate = grow, .pause_args = {"--rewind-files"},
     .restart_args = {"--rewind-files"}},
    {.name = "--rewind-files, closed since", .setup = grow_setup, .check = rewound, .mutate = grow_and_close,
     .pause_args = {"--rewind-files"}, .restart_args = {"--rewind-files"}},
    {.name = "--rewind-files, then written again", .setup = grow_setup, .check = rewound, .mutate = grow,
     .finish = go_on, .flags = FINISH_LAST | NO_RESTART, .pause_args = {"--rewind-files"}},
    {.name = "positions", .setup = grow_setup, .check = positions, .mutate = grow},
    {},
};

static struct target t;
static struct run r;

static void expect_kept(const char *how, int code) {
  char what[128];
  const char *why = code ? why_not(&r) : pattern("log", BEFORE + MORE);
  if (!why) why = pattern("data", BEFORE + MORE);
  snprintf(what, sizeof what, "grown files are kept by a %s", how);
  tap(!why, what, "%s", why ? why : "");
  snprintf(what, sizeof what, "and reported by a %s", how);
  bool log = strstr(r.err, path("log")) || strstr(r.out, path("log"));
  bool data = strstr(r.err, path("data")) || strstr(r.out, path("data"));
  tap(log && data, what, "log %d, data %d: %s", log, data, why_not(&r));
}

static void kept(void) {
  if (!target_start(&t, &scenarios[3])) return;
  if (target_checkpoint(&t, &r)) {
    tap(false, "grown files", "%s", why_not(&r));
  } else {
    target_op(&t, OP_MUTATE);
    expect_kept("pause", target_pause(&t, &r));
    target_kill(&t);
    expect_kept("restart", target_restart(&t, &r));
  }
  target_end(&t);
}

// A file that is shorter than it was: its bytes are lost, which must be reported.
static void shrunk(void) {
  if (!target_start(&t, &scenarios[3])) return;
  if (target_checkpoint(&t, &r)) {
    tap(false, "a file that shrank", "%s", why_not(&r));
  } else {
    if (truncate(path("data"), 50)) die("truncate: errno %d", errno);
    int code = target_pause(&t, &r);
    bool said = strstr(r.err, path("data")) || strstr(r.out, path("data"));
    tap((code == 0 || code == 3) && said && target_alive(&t), "a file that shrank is named", "%s", why_not(&r));
  }
  target_end(&t);
}

// Another file under the old name: a restart must not treat it as the old one.
static void replaced(void) {
  if (!target_start(&t, &scenarios[3])) return;
  if (target_checkpoint(&t, &r)) {
    tap(false, "a file that was replaced", "%s", why_not(&r));
  } else {
    char kept_name[192];
    snprintf(kept_name, sizeof kept_name, "%s", path("data.old"));
    if (rename(path("data"), kept_name)) die("rename: errno %d", errno);
    int fd = open(path("data"), O_WRONLY | O_CREAT, 0600);
    dprintf(fd, "another file\n");
    close(fd);
    const char *why = target_pause(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
    tap(!why, "a file that was replaced: a pause keeps the old one", "%s", why);
    target_kill(&t);
    int code = target_restart(&t, &r);
    bool said = strstr(r.err, path("data")) || strstr(r.out, path("data"));
    tap(said, "a file that was replaced is named by a restart", "%s", why_not(&r));
    if (code && code != 3) tap(false, "and it is a refusal if anything", "%s", why_not(&r));
  }
  target_end(&t);
}

static void gone(void) {
  if (!target_start(&t, &scenarios[3])) return;
  if (target_checkpoint(&t, &r)) {
    tap(false, "a file that is gone", "%s", why_not(&r));
  } else {
    target_kill(&t);
    unlink(path("data"));
    int code = target_restart(&t, &r);
    tap(code == 3 && strstr(r.err, path("data")), "a file that is gone is named by a restart's refusal", "%s",
        why_not(&r));
  }
  target_end(&t);
}

static const struct test tests[] = {
    {"kept", kept}, {"shrunk", shrunk}, {"replaced", replaced}, {"gone", gone}, {}};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
