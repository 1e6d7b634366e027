/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The progress function of Open MPI: events of all descriptors, and upcalls that the callback thread has left over. */
#include "btl/btl.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/counters.h"
#include "endpoint/clock.h"
#include "endpoint/connect.h"
#include "endpoint/events.h"
#include "endpoint/guests.h"
#include "endpoint/lanes.h"
#include "message/message.h"
#include "message/ob1.h"
#include "wave/orders.h"
#include "wave/stay.h"
#include "wave/wait.h"
#include "wire/wire.h"

enum { EVENTS = 64, CALM_POLLS = 64, CALM_MS = 8, SOMETIMES = 128, OFTEN = 4096, LOOKS = 1024, NAPS = 16, UNHEARD_MS = 100 };

/* The latest call of crtcp_progress() that found an event of a socket that did more than to wake this rank. Protected by the
 * lock. */
static unsigned socket_turn;

static int endpoint_event(crtcp_endpoint_t *ep, uint32_t events)
{
  if (ep->state != CRTCP_CONNECTED) {
    crtcp_handshake_event(ep, events);
    return 1;
  }
  if ((events & EPOLLOUT) && !crtcp_write_queue(ep)) return 1;
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) return crtcp_socket_event(ep, crtcp.scratch) > 0;
  return 0;
}

static int event(const struct epoll_event *e)
{
  switch (*(enum crtcp_watch *) e->data.ptr) {
  case CRTCP_WATCH_ENDPOINT: return endpoint_event(e->data.ptr, e->events);
  case CRTCP_WATCH_LISTEN:
    crtcp_accept_event(e->data.ptr == &crtcp.watch_listener4 ? crtcp.listener4 : crtcp.listener6);
    return 1;
  case CRTCP_WATCH_GUEST: crtcp_guest_event(e->data.ptr); return 1;
  case CRTCP_WATCH_CHANNEL: crtcp_read_orders(); return 1;
  }
  return 0;
}

/* Does the event only wake this rank? The messages of such a peer come in its lane. */
static bool only_wakes(const struct epoll_event *e)
{
  const crtcp_endpoint_t *ep = e->data.ptr;

  return *(enum crtcp_watch *) e->data.ptr == CRTCP_WATCH_ENDPOINT && ep->state == CRTCP_CONNECTED &&
         ep->in == &crtcp_lane && e->events == EPOLLIN;
}

/* Messages in lanes, and room in them for those that wait. The loop's condition is looked at after each message: it may
 * have been given to Open MPI without the lock. */
static int lanes(void)
{
  int count = 0;

  for (int i = 0; i < crtcp.neighbour_count && !crtcp.hold && opal_list_is_empty(&crtcp.inbox); i++) {
    crtcp_endpoint_t *ep = crtcp.neighbours[i];

    if (ep->out == &crtcp_lane && !opal_list_is_empty(&ep->queue)) crtcp_write_queue(ep);
    if (crtcp_lane_ready(ep)) count += crtcp_read(ep, crtcp.scratch) > 0;
  }
  return count;
}

/* With lanes the sockets are looked at now and then only, unless messages come over them, too. */
static bool sockets_are_due(unsigned turns)
{
  return !crtcp.neighbour_count || turns % SOMETIMES == 0 || turns - socket_turn < OFTEN;
}

static int call_back(void)
{
  opal_list_item_t *item;
  int count = 0;

  while (!crtcp.hold && (item = opal_list_remove_first(&crtcp.finished))) {
    crtcp_fragment_t *fragment = (crtcp_fragment_t *) item;
    const enum crtcp_hearing hears = crtcp_ob1_hears(fragment);

    if (hears == CRTCP_HEARS_LATER) {
      opal_list_append(&crtcp.unheard, item);
      crtcp_alarm(crtcp_now() + UNHEARD_MS * (uint64_t) MILLISECOND);
      continue;
    }
    if (hears == CRTCP_HEARS_NEVER) fragment->base.des_cbfunc = NULL;
    crtcp_unlock(&crtcp.lock);
    crtcp_fragment_finish(fragment);
    crtcp_lock(&crtcp.lock);
    count++;
  }
  return count;
}

static int read_inbox(void)
{
  opal_list_item_t *item;
  int count = 0;

  while (!crtcp.hold && (item = opal_list_remove_first(&crtcp.inbox))) {
    struct crtcp_letter *letter = (struct crtcp_letter *) item;
    const mca_btl_active_message_callback_t *who = mca_btl_base_active_message_trigger + letter->tag;
    const mca_btl_base_segment_t segment = {.seg_addr.pval = letter->bytes, .seg_len = letter->length};
    const mca_btl_base_receive_descriptor_t message = {.endpoint = letter->endpoint,
                                                       .des_segments = &segment,
                                                       .des_segment_count = 1,
                                                       .tag = letter->tag,
                                                       .cbdata = who->cbdata};
    crtcp_unlock(&crtcp.lock);
    who->cbfunc(crtcp.module, &message);
    free(letter);
    crtcp_lock(&crtcp.lock);
    count++;
  }
  return count;
}

/* A peer is given up: fail its messages and report it to Open MPI, which decides what to do. */
static void tell_failures(void)
{
  opal_list_item_t *item = opal_list_get_first(&crtcp.endpoints);

  while (crtcp.failures && item != opal_list_get_end(&crtcp.endpoints)) {
    crtcp_endpoint_t *ep = (crtcp_endpoint_t *) ((char *) item - offsetof(crtcp_endpoint_t, super));
    opal_list_item_t *pending;

    item = opal_list_get_next(item);
    if (!ep->tell) continue;
    ep->tell = false;
    crtcp.failures--;
    while ((pending = opal_list_remove_first(&ep->queue))) {
      ((crtcp_fragment_t *) pending)->status = OPAL_ERR_UNREACH;
      opal_list_append(&crtcp.finished, pending);
    }
    call_back();
    if (crtcp.error_callback) {
      crtcp_unlock(&crtcp.lock);
      crtcp.error_callback(crtcp.module, 0, ep->proc, "the connection was lost");
      crtcp_lock(&crtcp.lock);
    }
    item = opal_list_get_first(&crtcp.endpoints); /* the list may have changed without the lock */
  }
}

/* After a wave: parse bytes that were read after a mark, and answer guests that had to wait. */
static int reconsider(void)
{
  opal_list_item_t *item;
  int count = 0;

  crtcp.reconsider = false;
  if (crtcp_with_daemon()) crtcp_stay();
  for (item = opal_list_get_first(&crtcp.endpoints); item != opal_list_get_end(&crtcp.endpoints);) {
    crtcp_endpoint_t *ep = (crtcp_endpoint_t *) ((char *) item - offsetof(crtcp_endpoint_t, super));

    item = opal_list_get_next(item);
    if (ep->state == CRTCP_CONNECTED && ep->rest_length && !ep->shut) {
      crtcp_parse(ep);
      count++;
      if (crtcp.hold || !opal_list_is_empty(&crtcp.inbox)) {
        crtcp.reconsider = true;
        return count;
      }
    }
  }
  for (item = opal_list_get_first(&crtcp.guests); item != opal_list_get_end(&crtcp.guests);) {
    crtcp_guest_t *guest = (crtcp_guest_t *) ((char *) item - offsetof(crtcp_guest_t, super));

    item = opal_list_get_next(item);
    if (guest->got == sizeof guest->word && !guest->gone) crtcp_guest_event(guest);
  }
  return count;
}

/* Milliseconds that a thread blocks for a network event after `quiet` polls without one; 0: it does not block */
static int patience(unsigned quiet)
{
  const bool crowded = crtcp.spin > 0 && quiet > (unsigned) crtcp.spin;

  if (crtcp.hold) return 0;
  /* Increase the time slowly: events that are not of the network, as of other threads, are seen only in between. */
  if (crtcp.calm && quiet > CALM_POLLS) return quiet - CALM_POLLS < CALM_MS ? (int) (quiet - CALM_POLLS) : CALM_MS;
  return crowded ? 1 : 0;
}

int crtcp_progress(void)
{
  struct epoll_event events[EVENTS];
  static unsigned idle, quiet; /* protected by the lock */
  uint32_t turn;
  unsigned turns;
  bool due;
  int count = 0, n = 0, wait;

  if (atomic_load_explicit(&crtcp.hold, memory_order_relaxed)) {
    crtcp_hold_wait(); /* no work is possible, so leave the processor to others */
    return 0;
  }
  if (!crtcp_trylock(&crtcp.lock)) return 0;
  if (crtcp.progressing || crtcp.hold || !crtcp.open) {
    crtcp_unlock(&crtcp.lock);
    return 0;
  }
  crtcp.progressing = true;
  if (!crtcp_lock_is_inside(&crtcp.lock)) crtcp_lock_by_stranger(&crtcp.lock);
  if (crtcp.asleep) crtcp_lanes_awake();
  if (!opal_list_is_empty(&crtcp.inbox)) count += read_inbox();
  if (crtcp.reconsider && !crtcp.hold && opal_list_is_empty(&crtcp.inbox)) count += reconsider();
  if (crtcp.neighbour_count) count += lanes();
  turn = crtcp.turn;
  turns = atomic_load_explicit(&crtcp.turns, memory_order_relaxed) + 1;
  atomic_store_explicit(&crtcp.turns, turns, memory_order_relaxed);
  due = sockets_are_due(turns);
  if (due && !crtcp.hold && opal_list_is_empty(&crtcp.inbox)) n = epoll_wait(crtcp.epoll, events, EVENTS, 0);
  for (int i = 0; i < n; i++)
    if (!only_wakes(&events[i])) socket_turn = turns;
  /* Messages that a wave left in the inbox are older than those in the sockets. */
  for (int i = 0; i < n && !crtcp.hold && crtcp.turn == turn && opal_list_is_empty(&crtcp.inbox); i++)
    count += event(&events[i]);
  if (!opal_list_is_empty(&crtcp.finished)) count += call_back();
  if (crtcp.failures && !crtcp.hold) tell_failures();
  if (due && crtcp.alarm_ns && !crtcp.hold && (n == 0 || ++idle % 64 == 0)) {
    const uint64_t now = crtcp_now();

    if (now >= crtcp.alarm_ns) {
      crtcp_clock(now);
      opal_list_join(&crtcp.finished, opal_list_get_end(&crtcp.finished), &crtcp.unheard);
    }
  }
  quiet = count || n ? 0 : quiet + 1;
  wait = patience(quiet);
  if (wait && !crtcp_lanes_sleep()) wait = 0;
  if (quiet && (wait ? quiet % NAPS : quiet % LOOKS) == 0) crtcp_waits(quiet, wait);
  crtcp.progressing = false;
  crtcp_unlock(&crtcp.lock);
  if (wait) {
    struct pollfd set = {.fd = crtcp.epoll, .events = POLLIN};

    poll(&set, 1, wait);
  }
  return count;
}
