// SPDX-License-Identifier: GPL-2.0-only
#include "inject.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static const char debugfs[] = "/sys/kernel/debug";
static const char *const capabilities[] = {"failslab", "fail_page_alloc", "fail_usercopy"};

static bool put(const char *folder, const char *capability, const char *name, const char *value) {
  char path[400];
  snprintf(path, sizeof path, "%s/%s/%s", folder, capability, name);
  int fd = open(path, O_WRONLY);
  if (fd < 0) return false;
  bool ok = write(fd, value, strlen(value)) == (ssize_t)strlen(value);
  close(fd);
  return ok;
}

// kmemleak and debug_objects allocate records of their own; these allocations are not the module's.
static bool all_caches_but_those_of_checks(void) {
  DIR *d = opendir("/sys/kernel/slab");
  bool any = false;
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.' && strncmp(e->d_name, "kmemleak", 8) && strncmp(e->d_name, "debug_objects", 13))
      any |= put("/sys/kernel/slab", e->d_name, "failslab", "1");
  if (d) closedir(d);
  return any;
}

// Address range of the module's functions.
static bool module_text(unsigned long *start, unsigned long *end) {
  FILE *f = fopen("/proc/kallsyms", "r");
  char line[512], type, name[256], module[64];
  unsigned long at;
  *start = ~0UL, *end = 0;
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "%lx %c %255s [%63[^]]]", &at, &type, name, module) == 4 && !strcmp(module, "cr") &&
        (type == 't' || type == 'T') && at) {
      if (at < *start) *start = at;
      if (at > *end) *end = at;
    }
  if (f) fclose(f);
  *end += 4096;  // kallsyms does not have the length of the last function
  return *start < *end;
}

const char *inject_prepare(void) {
  if (access("/proc/self/fail-nth", W_OK)) return "the kernel has no fault injection";
  if (access("/sys/kernel/debug/failslab", F_OK) && mount("debugfs", debugfs, "debugfs", 0, NULL))
    return "debugfs cannot be mounted";
  unsigned long start, end;
  if (!module_text(&start, &end)) return "the module is not loaded";
  char from[32], to[32];
  snprintf(from, sizeof from, "%#lx", start);
  snprintf(to, sizeof to, "%#lx", end);
  for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++) {
    const char *c = capabilities[i];
    if (!put(debugfs, c, "require-start", from) || !put(debugfs, c, "require-end", to) || !put(debugfs, c, "stacktrace-depth", "32"))
      return "fault injection has no stack filter";
    put(debugfs, c, "verbose", "0");
    put(debugfs, c, "probability", "0");
    put(debugfs, c, "ignore-gfp-wait", "N");
    put(debugfs, c, "ignore-gfp-highmem", "N");
    put(debugfs, c, "min-order", "0");
  }
  if (all_caches_but_those_of_checks()) put(debugfs, "failslab", "cache-filter", "Y");
  return NULL;
}

// Kept open from arming to disarming, so that threads created meanwhile are not disarmed and counted.
static int armed[256];
static size_t narmed;

static void arm(const char *path, unsigned nth) {
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  if (narmed == sizeof armed / sizeof *armed || dprintf(fd, "%u", nth) < 0)
    close(fd);
  else
    armed[narmed++] = fd;
}

void inject_arm(pid_t pid, unsigned nth) {
  char path[300];
  if (!pid) return arm("/proc/thread-self/fail-nth", nth);
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%s/fail-nth", pid, e->d_name);
    arm(path, nth);
  }
  if (d) closedir(d);
}

bool inject_disarm(void) {
  bool hit = false;
  while (narmed) {
    int fd = armed[--narmed];
    char text[16] = "";
    if (pread(fd, text, sizeof text - 1, 0) > 0 && atoi(text) == 0) hit = true;
    dprintf(fd, "0");
    close(fd);
  }
  return hit;
}
