// SPDX-License-Identifier: GPL-2.0-only
/*
 * Leases: a target is parked when its daemon does not renew the lease, for whatever
 * reason, and continues when the daemon is back.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cases.h"

static struct session s;
static pid_t pid;

static uint64_t boot_ns(void) {
  struct timespec ts;
  clock_gettime(CLOCK_BOOTTIME, &ts);
  return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

// Returns 0; 1 if the previous lease had expired; -errno.
static int lease_for(int64_t ms, uint32_t flags) {
  struct cr_lease l = {.until_ns = boot_ns() + (uint64_t)(ms * 1000000), .flags = flags};
  int r = session_ioctl(&s, CR_IOC_LEASE, &l);
  return r ? r : (int)l.expired;
}
static int lease_end(void) {
  struct cr_lease l = {0};
  int r = session_ioctl(&s, CR_IOC_LEASE, &l);
  return r ? r : (int)l.expired;
}

static void attached(void) {
  pid = target(ticking);
  int r = session_open(&s, pid);
  need(!r, "attach: %d", r);
}

static bool still(void *arg) {
  (void)arg;
  return stands_still();
}
static void parks(const char *when) { need(soon(still, NULL, 10), "the target does not stand still %s", when); }
static void goes_on(const char *when) { need(runs_on(), "the target does not run on %s", when); }

static void runs_out(void) {
  attached();
  for (int i = 0; i < 5; i++) {
    int r = lease_for(100, 0);
    need(r == (i > 0), "a lease: %d", r);
    goes_on("when the lease is renewed");
    parks("after its lease has run out");
  }
  int r = lease_end();
  expect(r == 1, "the end of the lease: %d", r);
  goes_on("after the lease is ended");
  sleep_ms(300);
  goes_on("without a lease");
}

static void renewed(void) {
  attached();
  for (int i = 0; i < 40; i++) {
    int r = lease_for(2000, 0);
    need(!r, "renewal %d: %d", i, r);
    sleep_ms(50);
    expect(one_ticks(0), "the target stands still under a lease");
  }
  need(!lease_end(), "the end of the lease");
  sleep_ms(2500);
  goes_on("after a lease that was ended");
}

static void refused(void) {
  attached();
  expect(lease_for(25LL * 3600 * 1000, 0) == -EINVAL, "a lease of 25 hours");
  expect(lease_for(100, 2) == -EINVAL, "unknown flags");
  struct session none = {.dev = open(CR_DEVICE, O_RDWR | O_CLOEXEC), .mem = -1};
  struct cr_lease l = {.until_ns = boot_ns() + 1000000000};
  expect(session_ioctl(&none, CR_IOC_LEASE, &l) == -ENOTCONN, "a lease without a target");
  session_close(&none);
  need(!lease_for(1, 0), "a lease");
  parks("after its lease has run out");
  // Threads that a lease has parked were not checked as by a freeze, so they cannot be saved.
  int r = session_freeze(&s, 1000, 0);
  expect(r == -EBUSY && s.why.reason == CR_WHY_LEASE, "freeze: %d, reason %u", r, s.why.reason);
  struct cr_thread t[8];
  r = session_threads(&s, t, 8);
  expect(r == -ENOTCONN, "threads: %d", r);
  need(lease_end() == 1, "the end of the lease");
  need(session_freeze(&s, 5000, 0) == THREADS && !session_thaw(&s, 0), "freeze afterwards");
  goes_on("after that");
}

// A daemon that stops running, as on a hung file system.
static void daemon_holds(void *arg) {
  (void)arg;
  if (session_open(&s, pid)) _exit(1);
  for (;;) {
    lease_for(400, 0);
    sh->ready = 2;
    sleep_ms(50);
  }
}
static bool held(void *arg) {
  (void)arg;
  return sh->ready == 2;
}
static void daemon_stops(void) {
  pid = target(ticking);
  pid_t daemon = process(daemon_holds, NULL);
  need(soon(held, NULL, 5), "the daemon does not get its lease");
  goes_on("under a lease");
  kill(daemon, SIGSTOP);
  parks("while its daemon is stopped");
  sleep_ms(500);
  need(stands_still(), "the target runs while its daemon is stopped");
  kill(daemon, SIGCONT);
  goes_on("when its daemon is back");
  kill(daemon, SIGKILL);
  ends(daemon, 5, NULL);
  goes_on("after its daemon's death");
}

static void closed(void) {
  attached();
  need(!lease_for(1, 0), "a lease");
  parks("after its lease has run out");
  session_close(&s);
  goes_on("after the session is closed");
}

static void is_killed(const char *by) {
  int status = 0;
  bool ended = ends(pid, 10, &status);
  expect(ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s: %s, wait status %#x", by,
         ended ? "ended" : "lives on", status);
}

static void closed_kill(void) {
  attached();
  need(!lease_for(60000, CR_LEASE_KILL), "a lease");
  need(!lease_end(), "the end of the lease");
  session_close(&s);
  goes_on("after a lease that was ended");
  need(!session_open(&s, pid) && !lease_for(60000, CR_LEASE_KILL), "a second lease");
  session_close(&s);
  is_killed("the close of a session whose lease runs");
  attached();
  need(!lease_for(1, CR_LEASE_KILL), "a third lease");
  parks("after its lease has run out");
  session_close(&s);
  is_killed("the close of a session whose lease has run out");
}

static bool ticks_again(void *arg) {
  (void)arg;
  return one_ticks(0);
}
// A target that is frozen when the lease expires stays frozen.
static void while_frozen(void) {
  attached();
  need(session_freeze(&s, 5000, 400) == THREADS, "freeze");
  need(!lease_for(100, 0), "a lease");
  sleep_ms(1500);
  need(stands_still(), "the target was thawed for its session's silence, without a lease");
  need(lease_for(60000, 0) == 1, "renewal");
  need(soon(ticks_again, NULL, 5), "the target is not thawed for its session's silence");
  goes_on("after that");
  need(!lease_end(), "the end of the lease");
}

// A daemon that continues after the lease has expired thaws its target: the target must stay parked by the lease.
static void thawed_too_late(void) {
  attached();
  need(session_freeze(&s, 5000, 0) == THREADS && !lease_for(50, 0), "freeze and lease");
  sleep_ms(300);
  int r = session_thaw(&s, 0);
  expect(!r, "thaw: %d", r);
  need(stands_still(), "the target runs on after its lease has run out");
  r = session_freeze(&s, 1000, 0);
  expect(r == -EBUSY && s.why.reason == CR_WHY_LEASE, "freeze: %d, reason %u", r, s.why.reason);
  need(lease_for(60000, 0) == 1, "renewal");
  goes_on("when the lease is renewed");
  need(!lease_end(), "the end of the lease");
}

// The lease expires while the session makes other calls.
static void races_freeze(void) {
  attached();
  for (int i = 0; i < 60; i++) {
    int r = lease_for(rand() % 8 + 1, 0);
    need(r >= 0, "a lease: %d", r);
    for (int k = 0; k < 5; k++) {
      r = session_freeze(&s, 2000, 0);
      need(r == THREADS || r == -EBUSY || r == -ENOTCONN, "freeze: %d", r);
      r = session_thaw(&s, 0);
      need(!r || r == -ENOTCONN, "thaw: %d", r);
    }
  }
  need(lease_end() >= 0, "the end of the lease");
  session_thaw(&s, 0);
  goes_on("after all");
}

int main(int argc, char **argv) {
  static const struct tcase cases[] = {
      {"runs_out", runs_out, 0},
      {"renewed", renewed, 0},
      {"refused", refused, 0},
      {"daemon_stops", daemon_stops, 0},
      {"closed", closed, 0},
      {"closed_kill", closed_kill, 0},
      {"while_frozen", while_frozen, 0},
      {"thawed_too_late", thawed_too_late, 0},
      {"races_freeze", races_freeze, 60},
  };
  return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
