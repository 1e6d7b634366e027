// SPDX-License-Identifier: GPL-2.0-only
// Credentials of single threads: servers that take on their clients' ids change them by raw system calls.
#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"

enum { WORKERS = 2 };
static struct worker w[WORKERS];
static char leader_had[2048], had[WORKERS][2048];

static const char *not_root(void) { return geteuid() ? "needs root" : NULL; }

/* ---- a thread's credentials as one text */

static const char *const lines[] = {"Uid:",    "Gid:",    "Groups:", "NoNewPrivs:", "CapInh:",
                                    "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
static void describe(char *to, size_t size) {
  char status[8192];
  size_t used = 0;
  slurp("/proc/thread-self/status", status, sizeof status);
  for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
    const char *at = strstr(status, lines[i]);
    if (!at) die("no line %s in a status file", lines[i]);
    used += (size_t)snprintf(to + used, size - used, "%.*s; ", (int)strcspn(at, "\n"), at);
  }
  snprintf(to + used, size - used, "securebits %#x", prctl(PR_GET_SECUREBITS));
}
static const char *remember(void *arg) {
  describe(arg, sizeof had[0]);
  return NULL;
}
static const char *compare(void *arg) {
  char now[2048];
  describe(now, sizeof now);
  return strcmp(now, arg) ? no("has %s, had %s", now, (char *)arg) : NULL;
}
static void remember_all(void) {
  remember(leader_had);
  for (int i = 0; i < WORKERS; i++) worker_do(&w[i], remember, had[i]);
}
static const char *all_ok(void) {
  const char *why = compare(leader_had);
  if (why) return no("the leader %s", why);
  for (int i = 0; i < WORKERS; i++)
    if ((why = worker_do(&w[i], compare, had[i]))) return no("worker %d %s", i, why);
  return NULL;
}
static void start(const char *(*job)(void *)) {
  for (int i = 0; i < WORKERS; i++) worker_start(&w[i]);
  const char *why = worker_do(&w[0], job, NULL);
  if (why) die("%s", why);
  remember_all();
}
static void by_worker(const char *(*job)(void *)) {
  const char *why = worker_do(&w[0], job, NULL);
  if (why) die("%s", why);
}
static volatile int dummy;
static void dummy_change(void) { dummy = 1; }
static const char *all_and_memory_ok(void) { return dummy ? no("memory has changed") : all_ok(); }

#define CALL(...) \
  if (syscall(__VA_ARGS__) == -1) return no("%s: errno %d", #__VA_ARGS__, errno)

static const char *capabilities(uint64_t effective, uint64_t permitted, uint64_t inheritable) {
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  for (int i = 0; i < 2; i++) {
    data[i].effective = (uint32_t)(effective >> (32 * i));
    data[i].permitted = (uint32_t)(permitted >> (32 * i));
    data[i].inheritable = (uint32_t)(inheritable >> (32 * i));
  }
  CALL(SYS_capset, &head, data);
  return NULL;
}
static uint64_t permitted(void) {
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  MUST(syscall(SYS_capget, &head, data));
  return data[0].permitted | (uint64_t)data[1].permitted << 32;
}

/* ---- a file server that sets the effective ids of a client, and its own again */

static const char *become_client(void *arg) {
  (void)arg;
  gid_t groups[] = {1000, 1234};
  CALL(SYS_setgroups, 2, groups);
  CALL(SYS_setresgid, -1, 1000, -1);
  CALL(SYS_setresuid, -1, 1000, -1);
  return NULL;
}
static const char *become_root(void *arg) {
  (void)arg;
  CALL(SYS_setresuid, -1, 0, -1);
  CALL(SYS_setresgid, -1, 0, -1);
  CALL(SYS_setgroups, 0, NULL);
  return NULL;
}
static void client_setup(void) { start(become_client); }
static void client_change(void) { by_worker(become_root); }

/* ---- the same with fsuid and fsgid alone, without the file capabilities */

static const char *take_fs_ids(void *arg) {
  (void)arg;
  gid_t groups[] = {77};
  uint64_t files = 1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH | 1u << CAP_FOWNER |
                   1u << CAP_FSETID;
  CALL(SYS_setgroups, 1, groups);
  syscall(SYS_setfsgid, 1001);
  syscall(SYS_setfsuid, 1001);
  return capabilities(permitted() & ~files, permitted(), 0);
}
static const char *drop_fs_ids(void *arg) {
  (void)arg;
  CALL(SYS_setgroups, 0, NULL);
  syscall(SYS_setfsuid, 0);
  syscall(SYS_setfsgid, 0);
  return capabilities(permitted(), permitted(), 0);
}
static void fs_setup(void) { start(take_fs_ids); }
static void fs_change(void) { by_worker(drop_fs_ids); }

/* ---- a thread that has dropped its rights for good stays without them */

static const char *drop_all(void *arg) {
  (void)arg;
  CALL(SYS_setgroups, 0, NULL);
  CALL(SYS_setresgid, 1000, 1000, 1000);
  CALL(SYS_setresuid, 1000, 1000, 1000);
  return NULL;
}
static void dropped_setup(void) { start(drop_all); }

// Rights dropped since the checkpoint cannot be restored, so the pause is refused.
static const char *nothing(void *arg) { return arg = NULL; }
static void whole_setup(void) { start(nothing); }
static void drop_change(void) { by_worker(drop_all); }

/* ---- the thread has ended since */

static void client_ended(void) {
  worker_end(&w[0]);
  memset(had[0], 0, sizeof had[0]);
}
static const char *client_there_ok(void) { return had[0][0] ? all_ok() : no("the worker has ended"); }

/* ---- capabilities (also ambient ones), securebits, the bounding set */

static const char *take_capabilities(void *arg) {
  (void)arg;
  uint64_t some = 1u << CAP_NET_RAW | 1u << CAP_NET_ADMIN | 1u << CAP_SETPCAP | 1u << CAP_SETUID;
  CALL(SYS_prctl, PR_CAPBSET_DROP, CAP_SYS_BOOT, 0, 0, 0);
  CALL(SYS_prctl, PR_SET_SECUREBITS, SECBIT_KEEP_CAPS | SECBIT_NOROOT, 0, 0, 0);
  CALL(SYS_setresuid, 1000, 1000, 1000);
  const char *why = capabilities(some & ~(1u << CAP_SETUID), some, 1u << CAP_NET_RAW);
  if (why) return why;
  CALL(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_RAW, 0, 0);
  return NULL;
}
static const char *change_capabilities(void *arg) {
  (void)arg;
  CALL(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  CALL(SYS_prctl, PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NO_SETUID_FIXUP, 0, 0, 0);
  const char *why = capabilities(permitted(), permitted(), 0);
  if (why) return why;
  CALL(SYS_setresuid, 1001, 1001, 1001);
  return capabilities(0, permitted(), 0);
}
static void capabilities_setup(void) { start(take_capabilities); }
static void capabilities_change(void) { by_worker(change_capabilities); }

/* ---- no_new_privs: set in one thread alone; it cannot be cleared */

static const char *no_new_privs(void *arg) {
  (void)arg;
  CALL(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return NULL;
}
static void no_new_privs_setup(void) { start(no_new_privs); }

/* ---- an ordinary user's threads */

static const char *user_ids(void *arg) {
  (void)arg;
  return getuid() == 1000 ? NULL : no("user id is %u", getuid());
}
static void user_setup(void) { start(user_ids); }

static const struct scenario scenarios[] = {
    {.name = "effective ids", .setup = client_setup, .check = all_ok, .mutate = client_change, .skip = not_root},
    {.name = "ids of the file system", .setup = fs_setup, .check = all_ok, .mutate = fs_change, .skip = not_root},
    {.name = "given up for good", .setup = dropped_setup, .check = all_and_memory_ok, .mutate = dummy_change,
     .skip = not_root},
    {.name = "given up since", .flags = PAUSE_MAY_REFUSE, .setup = whole_setup, .check = all_ok, .mutate = drop_change,
     .skip = not_root},
    {.name = "of a thread that has ended", .setup = client_setup, .check = client_there_ok, .mutate = client_ended,
     .skip = not_root},
    {.name = "capabilities and securebits", .setup = capabilities_setup, .check = all_ok, .mutate = capabilities_change,
     .skip = not_root},
    {.name = "no_new_privs of a thread", .setup = no_new_privs_setup, .check = all_and_memory_ok, .mutate = dummy_change},
    {.name = "a user's threads", .flags = AS_USER | NO_RESTART, .setup = user_setup, .check = all_and_memory_ok,
     .mutate = dummy_change},
    {},
};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, NULL); }
