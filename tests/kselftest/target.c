// SPDX-License-Identifier: GPL-2.0-only
// The target's side: waits for requests, and reads its own state. This code uses neither
// the heap nor stdio's buffers, so that it does not itself change the state.
#include "target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CTL_FD = 700 };
static struct control control;
static char failure[1024], folder[96];
static bool is_target;

int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

void sleep_ms(int ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
  while (nanosleep(&t, &t) && errno == EINTR) {
  }
}

const char *path(const char *name) {
  static char text[4][192];
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(text[turn], sizeof text[turn], "%s/%s", is_target ? folder : current ? current->dir : "/tmp", name);
  return text[turn];
}

const char *no(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(failure, sizeof failure, format, args);
  va_end(args);
  return failure;
}

static char failures[1024], blind[512];
static int nparts, nfailed;
static bool spoiled;

void part(const char *name, const char *why) {
  nparts++;
  if (!why) {
    if (strlen(blind) + strlen(name) + 3 < sizeof blind) strcat(strcat(blind, blind[0] ? ", " : ""), name);
  } else {
    if (!nfailed++) failures[0] = 0;
    size_t have = strlen(failures);
    snprintf(failures + have, sizeof failures - have, "%s%s: %s", have ? "; " : "", name, why);
  }
}

const char *parts(void) {
  if (!nfailed || (spoiled && nfailed < nparts)) return NULL;
  return failures;
}

static void answer(const char *why) {
  control.failed = why != NULL;
  snprintf(control.text, sizeof control.text, "%s", why ? why : spoiled ? blind : "");
  size_t at = offsetof(struct control, failed), text = offsetof(struct control, text);
  uint32_t done = CTL_DONE;
  if (pwrite(CTL_FD, &control.failed, sizeof control.failed, at) < 0 ||
      pwrite(CTL_FD, control.text, sizeof control.text, text) < 0 || pwrite(CTL_FD, &done, sizeof done, 0) < 0)
    _exit(100);
}

void die(const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (is_target)
    answer(text);
  else
    printf("Bail out! %s\n", text);
  fflush(stdout);
  _exit(99);
}

void become_user(void) {
  MUST(chown(path(""), 1000, 1000));
  MUST(chown(path("ctl"), 1000, 1000));
  MUST(setgroups(0, NULL));
  MUST(setresgid(1000, 1000, 1000));
  MUST(setresuid(1000, 1000, 1000));
}

const struct times *times(void) { return &control.times; }

void target_main(const char *name, const char *dir, const struct scenario *scenarios) {
  const struct scenario *s = scenarios;
  while (s && s->name && strcmp(s->name, name)) s++;
  if (!s || !s->name) _exit(98);
  is_target = true;
  snprintf(folder, sizeof folder, "%s", dir);
  int null = open("/dev/null", O_RDWR), ctl = open(path("ctl"), O_RDWR);
  if (dup2(ctl, CTL_FD) < 0) _exit(97);
  for (int i = 0; i < 3; i++) dup2(null, i);
  syscall(SYS_close_range, 3, CTL_FD - 1, 0);
  syscall(SYS_close_range, CTL_FD + 1, ~0U, 0);
  if (chdir(dir)) _exit(96);
  for (;;) {
    uint32_t state;
    if (pread(CTL_FD, &state, sizeof state, 0) != sizeof state || state != CTL_REQUEST) {
      sleep_ms(2);
      continue;
    }
    if (pread(CTL_FD, &control, sizeof control, 0) != sizeof control) _exit(95);
    const char *why = NULL;
    nparts = nfailed = 0;
    blind[0] = 0;
    spoiled = control.op == OP_CHECK_SPOILED;
    switch (control.op) {
      case OP_SETUP:
        if (s->setup) s->setup();
        break;
      case OP_CHECK:
      case OP_CHECK_SPOILED:
        if (s->check) why = s->check();
        break;
      case OP_MUTATE:
        if (s->mutate) s->mutate();
        break;
      case OP_CHECK_CHANGED:
        if (s->changed) why = s->changed();
        break;
      case OP_FINISH:
        if (s->finish) why = s->finish();
        break;
    }
    answer(why);
  }
}

/* ---- the target's own state */

size_t slurp(const char *file, char *buf, size_t size) {
  size_t have = 0;
  ssize_t n;
  int fd = open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return buf[0] = 0, 0;
  while (have + 1 < size && (n = read(fd, buf + have, size - 1 - have)) > 0) have += n;
  close(fd);
  buf[have] = 0;
  return have;
}

static uint64_t word(uint64_t seed, uint64_t at) {
  uint64_t x = (at + seed * 0x9e3779b97f4a7c15ULL) * 0xd6e8feb86659fd93ULL;
  return x ^ x >> 32;
}

void fill(void *at, size_t bytes, uint64_t seed) {
  uint64_t *p = at;
  for (size_t i = 0; i < bytes / 8; i++) p[i] = word(seed, (uint64_t)(p + i));
}

const char *filled(const void *at, size_t bytes, uint64_t seed) {
  const volatile uint64_t *p = at;
  for (size_t i = 0; i < bytes / 8; i++)
    if (p[i] != word(seed, (uint64_t)(p + i)))
      return no("%p (%#zx into the area): %#lx instead of %#lx", (void *)(p + i), i * 8, p[i],
                word(seed, (uint64_t)(p + i)));
  return NULL;
}

struct mapping {
  uint64_t start, end, offset, ino;
  unsigned major, minor;
  char perms[8], name[72];
};
enum { MAX_MAPPINGS = 2048 };
static struct mapping noted[MAX_MAPPINGS], seen[MAX_MAPPINGS];
static size_t nnoted;
static char maps_text[512 * 1024];

static size_t read_maps(struct mapping *m) {
  size_t n = 0;
  slurp("/proc/self/maps", maps_text, sizeof maps_text);
  char *end = maps_text;
  for (char *line = maps_text; *line && n < MAX_MAPPINGS; line = end + 1) {
    end = strchr(line, '\n');
    if (!end) break;
    *end = 0;
    struct mapping x = {0};
    int at = 0;
    if (sscanf(line, "%lx-%lx %7s %lx %x:%x %lu %n", &x.start, &x.end, x.perms, &x.offset, &x.major, &x.minor, &x.ino,
               &at) < 7)
      continue;
    snprintf(x.name, sizeof x.name, "%s", line + at);
    if (!strncmp(x.name, "/dev/zero", 9) || !strncmp(x.name, "/memfd:", 7)) x.ino = x.major = x.minor = 0;
    struct mapping *last = n ? &m[n - 1] : NULL;
    if (last && last->end == x.start && !strcmp(last->perms, x.perms) && !strcmp(last->name, x.name) &&
        last->ino == x.ino && (!x.name[0] || x.name[0] != '/' || last->offset + (last->end - last->start) == x.offset))
      last->end = x.end;
    else
      m[n++] = x;
  }
  return n;
}

void maps_note(void) { nnoted = read_maps(noted); }

const char *maps_same(void) {
  size_t n = read_maps(seen);
  for (size_t i = 0; i < n || i < nnoted; i++) {
    if (i >= nnoted) return no("mapping too many: %lx-%lx %s %s", seen[i].start, seen[i].end, seen[i].perms, seen[i].name);
    if (i >= n)
      return no("mapping missing: %lx-%lx %s %s", noted[i].start, noted[i].end, noted[i].perms, noted[i].name);
    const struct mapping *a = &noted[i], *b = &seen[i];
    if (a->start != b->start || a->end != b->end || strcmp(a->perms, b->perms) || strcmp(a->name, b->name) ||
        a->ino != b->ino || a->offset != b->offset)
      return no("mapping %lx-%lx %s %lx %s instead of %lx-%lx %s %lx %s", b->start, b->end, b->perms, b->offset, b->name,
                a->start, a->end, a->perms, a->offset, a->name);
  }
  return NULL;
}

int page_state(const void *at) {
  uint64_t entry = 0;
  int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (fd < 0) die("cannot open /proc/self/pagemap: errno %d", errno);
  if (pread(fd, &entry, 8, (uint64_t)at / 4096 * 8) != 8) entry = 0;
  close(fd);
  return entry >> 63 & 1 ? 1 : entry >> 62 & 1 ? 2 : 0;
}

long status_kb(const char *field) {
  char text[8192];
  slurp("/proc/self/status", text, sizeof text);
  char *at = strstr(text, field);
  return at ? strtol(at + strlen(field) + 1, NULL, 10) : -1;
}

bool vm_flag(const void *at, const char *flag) {
  slurp("/proc/self/smaps", maps_text, sizeof maps_text);
  bool inside = false;
  char *end;
  for (char *line = maps_text; *line; line = end + 1) {
    end = strchr(line, '\n');
    if (!end) break;
    *end = 0;
    unsigned long a, b;
    if (sscanf(line, "%lx-%lx ", &a, &b) == 2) inside = a <= (unsigned long)at && (unsigned long)at < b;
    if (inside && !strncmp(line, "VmFlags:", 8)) {
      char want[8];
      snprintf(want, sizeof want, " %s", flag);
      return strstr(line + 8, want) != NULL;
    }
  }
  return false;
}

int thread_count(void) { return (int)status_kb("Threads:"); }

bool thread_in_call(pid_t tid, long nr) {
  char name[64], text[256];
  snprintf(name, sizeof name, "/proc/self/task/%d/syscall", tid);
  slurp(name, text, sizeof text);
  return text[0] >= '0' && text[0] <= '9' && strtol(text, NULL, 10) == nr;
}
