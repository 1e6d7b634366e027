/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The guard's thread. */
#include "guard/guard.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/channel.h"
#include "endpoint/connect.h"
#include "endpoint/guarded.h"
#include "endpoint/table.h"
#include "guard/silence.h"
#include "message/message.h"
#include "wave/orders.h"
#include "wire/wire.h"

enum {
  EVENTS = 64,
  TURN_MS = 100,
  BATCH = 64, /* connections that are looked at while the lock is held */
};

static struct {
  pthread_t thread;
  bool runs; /* used only by threads that initialise and finalise MPI */
  atomic_bool stop;
  /* the following are the guard's own */
  uint8_t *scratch;
  bool left; /* connections have ended, and are still to be dealt with */
  unsigned turns; /* crtcp.turns as last seen */
  uint64_t look_ns; /* time of the next look for silence */
} guard;

static bool has_ended(const crtcp_endpoint_t *ep)
{
  struct pollfd end = {.fd = ep->fd, .events = POLLRDHUP};

  return poll(&end, 1, 0) > 0 && (end.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* Only then does no other thread read, or have a message that it has just read. */
static bool may_read(void)
{
  return crtcp.open && !crtcp.hold && !crtcp.recovering && !crtcp.progressing;
}

/* Does the end of what the peer has sent lie in memory that this rank has unmapped for a wave? crd has handed it out again since,
 * but a rank that computes has not mapped it yet. */
static bool lane_is_away(const crtcp_endpoint_t *ep)
{
  if (ep->in == &crtcp_lane && !ep->in_lane.shared) crtcp_read_orders();
  return ep->in == &crtcp_lane && !ep->in_lane.shared;
}

/* Read what has come. If the connection has ended, that closes it: with a goodbye, or as lost.
 * @param silent it has not ended, but is given up */
static void read_rest(crtcp_endpoint_t *ep, bool silent)
{
  if (lane_is_away(ep)) return;
  crtcp.holding = true;
  if (ep->rest_length && !ep->shut) crtcp_parse(ep);
  while (ep->state == CRTCP_CONNECTED && !ep->shut && crtcp_socket_event(ep, guard.scratch) > 0) {}
  if (silent && ep->state == CRTCP_CONNECTED) crtcp_lost(ep, ETIMEDOUT, "waiting for the peer's host");
  crtcp.holding = false;
}

static void deal_with_ended(void)
{
  guard.left = false;
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep)) {
    if (!ep->ended) continue;
    if (ep->state != CRTCP_CONNECTED || !has_ended(ep))
      ep->ended = false; /* another thread was faster */
    else if (may_read())
      read_rest(ep, false);
    guard.left |= ep->ended; /* also if it is shut: the rest comes after the wave */
  }
}

static void note(const struct epoll_event *event)
{
  crtcp_endpoint_t *ep = event->data.u64 == CRTCP_GUARDED_WAKE ? NULL : crtcp_guarded_find(event->data.u64);

  if (ep) ep->ended = guard.left = true;
}

/* Look for silent hosts among the next connections. @param last the one after which to go on. @return false: that was all */
static bool look_at_some(opal_process_name_t *last, bool *begun, uint64_t now)
{
  crtcp_endpoint_t *ep = *begun ? crtcp_find(last->jobid, last->vpid) : NULL;

  if ((*begun && !ep) || !may_read()) return false; /* the next look begins from the beginning */
  *begun = true;
  for (int i = 0; i < BATCH; i++) {
    ep = crtcp_next(ep);
    if (!ep) return false;
    *last = ep->name;
    if (ep->state == CRTCP_CONNECTED && crtcp_silent(ep, now)) read_rest(ep, true);
  }
  return true;
}

static void look_for_silence(uint64_t now)
{
  opal_process_name_t last;
  bool begun = false, more = true;

  while (more) {
    crtcp_lock(&crtcp.lock);
    more = look_at_some(&last, &begun, now);
    crtcp_unlock(&crtcp.lock);
  }
}

/* A recovery may wait for the answer of a rank that computes. */
static void read_orders(void)
{
  struct pollfd order = {.fd = crtcp_channel_fd(), .events = POLLIN};

  if (order.fd < 0 || poll(&order, 1, 0) <= 0) return;
  crtcp_lock(&crtcp.lock);
  if (may_read()) crtcp_read_orders();
  crtcp_unlock(&crtcp.lock);
}

/* Threads that handle events see the end of a connection themselves. */
static void arm_while_none_does(void)
{
  const unsigned turns = atomic_load_explicit(&crtcp.turns, memory_order_relaxed);
  const bool none = turns == guard.turns;

  guard.turns = turns;
  if (none) read_orders();
  if (none == crtcp.guard_armed) return; /* a rollback may change it just now: the next turn sees that */
  crtcp_lock(&crtcp.lock);
  crtcp_guarded_arm(none);
  crtcp_unlock(&crtcp.lock);
}

static void *keep_guard(void *unused)
{
  struct epoll_event events[EVENTS];

  (void) unused;
  while (!atomic_load(&guard.stop)) {
    const int n = epoll_wait(crtcp.guard_epoll, events, EVENTS, TURN_MS);
    const uint64_t now = crtcp_now();

    if (n < 0 && errno != EINTR) usleep(TURN_MS * 1000); /* a restart without descriptors: the rollback makes a new set */
    if (n == 0) arm_while_none_does();
    if (n > 0 || guard.left) {
      crtcp_lock(&crtcp.lock);
      for (int i = 0; i < n; i++) note(&events[i]);
      if (guard.left) deal_with_ended();
      crtcp_unlock(&crtcp.lock);
    }
    if (crtcp_silence_look_ms() && now >= guard.look_ns) {
      guard.look_ns = now + crtcp_silence_look_ms() * (uint64_t) MILLISECOND;
      look_for_silence(now);
    }
  }
  return NULL;
}

/* Signals are for the program's threads. */
static int start_thread(void)
{
  sigset_t all, before;
  int error;

  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  error = pthread_create(&guard.thread, NULL, keep_guard, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!error) pthread_setname_np(guard.thread, "crtcp guard");
  return error;
}

static void dismiss(void)
{
  crtcp_lock(&crtcp.lock);
  crtcp_guarded_close();
  crtcp_unlock(&crtcp.lock);
  free(guard.scratch);
  guard.scratch = NULL;
  guard.left = false;
}

void crtcp_guard_start(void)
{
  int error = ENOMEM;

  if (!crtcp.use_guard || guard.runs) return;
  guard.stop = false;
  guard.scratch = malloc(CRTCP_SCRATCH);
  if (guard.scratch) {
    crtcp_lock(&crtcp.lock);
    error = crtcp_guarded_open() ? errno : 0;
    crtcp_unlock(&crtcp.lock);
  }
  if (!error) error = start_thread();
  guard.runs = !error;
  if (!error) return;
  dismiss();
  crtcp_say("no guard watches the connections: %s", strerror(error));
}

void crtcp_guard_stop(void)
{
  if (!guard.runs) return;
  atomic_store(&guard.stop, true);
  crtcp_guarded_wake();
  pthread_join(guard.thread, NULL);
  guard.runs = false;
  dismiss();
}
