/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The first half of a wave: the callback thread drains all connections. */
#include "wave/quiesce.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/channel.h"
#include "endpoint/connect.h"
#include "endpoint/lanes.h"
#include "endpoint/table.h"
#include "message/message.h"
#include "wave/orders.h"
#include "wave/pmix_state.h"
#include "wave/wait.h"
#include "wire/wire.h"

enum { TURNS = 1000 };

bool crtcp_refuse(struct crtcp_outcome *out, enum cr_rank_prepared_state state, const char *format, unsigned rank)
{
  out->state = state;
  snprintf(out->why, sizeof out->why, format, rank);
  return false;
}

/* The messages of a broken connection may be lost. In images the sender would be behind them and the receiver before them: after
 * a rollback nobody would send them, and nobody would connect and find out. */
static bool whole(struct crtcp_outcome *out, const crtcp_endpoint_t *ep)
{
  return !ep->broken || crtcp_refuse(out, CR_RANK_AGAIN, "the connection to rank %u is broken", ep->name.vpid);
}

static bool all_whole(struct crtcp_outcome *out)
{
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep))
    if (!whole(out, ep)) return false;
  return true;
}

/* Prepare all endpoints: send marks on connected ones, and close connections that this rank has only begun. */
static bool settle(struct crtcp_outcome *out, uint32_t wave)
{
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep)) {
    ep->done = false;
    if (!crtcp_takes_part(ep->name.jobid)) {
      /* Its process has ended: all that run take part. So it sends no mark, and is not connected again. */
      crtcp_close_endpoint(ep);
      ep->retry_ns = 0;
      ep->broken = false;
      continue;
    }
    switch (ep->state) {
    case CRTCP_CONNECTED:
      ep->mark_due = wave;
      if (crtcp_take_over(ep) < 0)
        return crtcp_refuse(out, CR_RANK_AGAIN, "the connection to rank %u broke", ep->name.vpid);
      break;
    case CRTCP_CONNECTING:
    case CRTCP_ASKED: crtcp_attempt_ended(ep); break;
    default: break;
    }
    if (ep->state != CRTCP_ANSWERED && !whole(out, ep)) return false;
  }
  return true;
}

/* Open MPI still looks at a message in a lane: the memory cannot be unmapped. Upcalls take microseconds. */
static bool upcall_ends(struct crtcp_outcome *out, uint64_t deadline)
{
  while (crtcp.upcall) {
    if (crtcp_now() >= deadline) return crtcp_refuse(out, CR_RANK_AGAIN, "Open MPI is still handling a message", 0);
    crtcp_unlock(&crtcp.lock);
    usleep(50);
    crtcp_lock(&crtcp.lock);
  }
  return true;
}

static bool marking(const crtcp_endpoint_t *ep)
{
  return ep->mark_due || ep->mark_left;
}

/* What the end of the drain waits for: all bytes up to the peer's mark, and the own mark. Of a lane the socket tells only
 * that the peer wakes this rank, or is gone. */
static uint32_t awaited(const crtcp_endpoint_t *ep)
{
  uint32_t events;

  if (ep->state == CRTCP_ANSWERED) return EPOLLIN;
  if (ep->state != CRTCP_CONNECTED || (ep->shut && !marking(ep))) return 0;
  events = (ep->shut ? 0 : EPOLLIN) | (marking(ep) && ep->out == &crtcp_tcp ? EPOLLOUT : 0);
  return events ? events : EPOLLRDHUP;
}

static bool serve(crtcp_endpoint_t *ep, uint32_t events, uint8_t *scratch, uint32_t wave)
{
  const bool was_connected = ep->state == CRTCP_CONNECTED;

  if (ep->state == CRTCP_ANSWERED && events) {
    crtcp_handshake_event(ep, events);
    if (ep->state == CRTCP_CONNECTED) ep->mark_due = wave;
    return true;
  }
  if (!was_connected) return true;
  if (((events & EPOLLOUT) && crtcp_write_marks(ep) < 0) || (ep->shut && (events & EPOLLRDHUP))) {
    crtcp_lost(ep, errno, "writing a mark");
    return false;
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !ep->shut && crtcp_socket_event(ep, scratch) < 0) return false;
  return true;
}

/* Serve the connections that have events, and decide what each waits for from now on. */
static bool serve_all(struct crtcp_outcome *out, uint32_t wave, uint8_t *scratch, struct crtcp_wait *set)
{
  for (int i = 0; i < set->count; i++) {
    crtcp_endpoint_t *ep = set->events[i].data.ptr;

    if (!ep)
      crtcp_read_orders();
    else if (!serve(ep, set->events[i].events, scratch, wave))
      return crtcp_refuse(out, CR_RANK_AGAIN, "the connection to rank %u broke", ep->name.vpid);
    else if (!crtcp_wait_for(set, ep, awaited(ep)))
      return crtcp_refuse(out, CR_RANK_UNABLE, "no memory", 0);
  }
  return true;
}

/* Read and write the lanes. @return whether any is still to be waited for; the result in *good */
static bool serve_lanes(struct crtcp_outcome *out, uint8_t *scratch, struct crtcp_wait *set, bool *good)
{
  bool left = false;

  for (int i = 0; i < crtcp.neighbour_count && *good; i++) {
    crtcp_endpoint_t *ep = crtcp.neighbours[i];

    if (ep->state != CRTCP_CONNECTED) continue;
    if ((marking(ep) && ep->out == &crtcp_lane && crtcp_write_marks(ep) < 0) ||
        (crtcp_lane_ready(ep) && crtcp_read(ep, scratch) < 0))
      *good = crtcp_refuse(out, CR_RANK_AGAIN, "the connection to rank %u broke", ep->name.vpid);
    else if (!crtcp_wait_for(set, ep, awaited(ep)))
      *good = crtcp_refuse(out, CR_RANK_UNABLE, "no memory", 0);
    left |= ep->in == &crtcp_lane && !ep->shut;
    left |= ep->out == &crtcp_lane && marking(ep);
  }
  return left;
}

/* How long to wait for the sockets. While lanes are awaited, look at these soon; after many turns, when woken. */
static int wait_ms(uint64_t now, uint64_t deadline, bool lanes, unsigned turn)
{
  if (now >= deadline) return 0;
  if (!lanes) return (deadline - now) / 1000000 + 1;
  return turn < TURNS || !crtcp_lanes_sleep() ? 0 : 1;
}

/* Read and write until every connection is empty. */
static bool drain(struct crtcp_outcome *out, uint32_t wave, uint64_t deadline, uint8_t *scratch, struct crtcp_wait *set)
{
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep))
    if (!crtcp_wait_for(set, ep, awaited(ep))) return crtcp_refuse(out, CR_RANK_UNABLE, "no memory", 0);
  for (unsigned turn = 0;; turn++) {
    const uint64_t now = crtcp_now();
    bool good = true, lanes = serve_lanes(out, scratch, set, &good);

    if (!good) return false;

    if (crtcp.channel->aborted >= wave) return crtcp_refuse(out, CR_RANK_AGAIN, "the wave was given up", 0);
    if (!set->open) return true;
    if (crtcp_channel_fd() < 0) return crtcp_refuse(out, CR_RANK_UNABLE, "the daemon has closed the connection", 0);
    if (now >= deadline) {
      for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep))
        if (awaited(ep)) return crtcp_refuse(out, CR_RANK_AGAIN, "rank %u has not sent its mark in time", ep->name.vpid);
    }
    crtcp_wait(set, wait_ms(now, deadline, lanes, turn));
    crtcp_lanes_awake();
    if (!serve_all(out, wave, scratch, set)) return false;
  }
}

bool crtcp_quiesce(struct crtcp_outcome *out, uint32_t wave)
{
  const uint32_t timeout = crtcp.channel->timeout_ms ? crtcp.channel->timeout_ms : 30000;
  const uint64_t deadline = out->begin_ns + timeout * 1000000ull;
  struct crtcp_wait set = {.epoll = -1};
  uint8_t *scratch;
  const char *why = crtcp_outside_of_mpi();
  bool good;

  /* There the rank changes state of the PMIx server, which a rollback cannot undo. */
  if (why) return crtcp_refuse(out, CR_RANK_AGAIN, why, 0);
  scratch = malloc(CRTCP_SCRATCH);
  if (!scratch) return crtcp_refuse(out, CR_RANK_UNABLE, "no memory", 0);
  good = upcall_ends(out, deadline) && settle(out, wave) &&
         (crtcp_wait_begin(&set) || crtcp_refuse(out, CR_RANK_AGAIN, "no descriptor is left to wait for the connections", 0)) &&
         drain(out, wave, deadline, scratch, &set) && all_whole(out);
  crtcp_wait_end(&set);
  free(scratch);
  if (!good) return false;
  switch (crtcp_pmix_look(&why)) {
  case CRTCP_PMIX_IDLE: break;
  case CRTCP_PMIX_BUSY: return crtcp_refuse(out, CR_RANK_AGAIN, why, 0);
  case CRTCP_PMIX_UNKNOWN: return crtcp_refuse(out, CR_RANK_UNABLE, why, 0);
  }
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep))
    out->connections += ep->state == CRTCP_CONNECTED;
  out->quiesce_ns = crtcp_now() - out->begin_ns;
  return true;
}
