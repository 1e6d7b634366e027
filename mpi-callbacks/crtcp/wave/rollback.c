/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* After a pause or a restart the memory is that of the image, but the connections are not. This code assumes nothing
 * about the state of descriptors. */
#include "wave/rollback.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "base/channel.h"
#include "base/counters.h"
#include "endpoint/connect.h"
#include "endpoint/events.h"
#include "endpoint/guarded.h"
#include "endpoint/guests.h"
#include "endpoint/lanes.h"
#include "endpoint/table.h"
#include "wave/orders.h"
#include "wave/peers.h"
#include "wave/pmix_state.h"
#include "wave/stay.h"
#include "wave/wait.h"
#include "opal/runtime/opal_progress.h"

enum { CHUNK = 65536, LOST_STEP_MS = 100 };

struct rollback {
  bool restarted;
  bool pmix_stale; /**< the PMIx connection has carried data since the image, or is not established */
  bool pmix_fresh; /**< the PMIx connection was replaced: its server does not know this rank's values */
  uint8_t nonce[CRTCP_NONCE];
  struct cr_rank_resumed resumed;
};

/* Stop all traffic. Drop bytes that were read after a mark: their sender was rolled back to before it sent them. */
static void make_still(const struct rollback *back)
{
  crtcp_close_guests();
  crtcp_lanes_forget();
  crtcp.turn++;
  crtcp.alarm_ns = 0;
  crtcp.reconsider = crtcp.calm = false;
  crtcp_stay_not();
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep)) {
    if (back->restarted || ep->state != CRTCP_CONNECTED) crtcp_close_endpoint(ep);
    crtcp_endpoint_forget_receiving(ep);
    ep->retry_ns = ep->deadline_ns = 0;
    ep->attempts = ep->address_next = 0;
    ep->report_ns = 0;
    ep->gap = ep->broken = ep->moved = false;
  }
}

static bool report(const struct rollback *back)
{
  struct cr_rank_restored message = {.wave = crtcp.wave,
                                     .pid = getpid(),
                                     .restarted = back->restarted,
                                     .pmix_stale = back->pmix_stale};
  char *text = NULL;
  size_t bytes = 0;
  const int count = crtcp_local_addresses(crtcp.port4, crtcp.port6, &text, &bytes);
  bool sent;

  message.addresses = count > 0 ? count : 0;
  sent = crtcp_channel_send(CR_RANK_RESTORED, &message, sizeof message, text, bytes);
  free(text);
  if (sent) crtcp_tell_counters();
  return sent;
}

/* ---------------------------------------------------------------------------- messages from the daemon */

static void pmix(struct rollback *back, int fd)
{
  struct cr_rank_message done;

  if (crtcp_pmix_install(fd)) {
    crtcp_channel_log("the new connection to the PMIx server could not be put in its place");
    return;
  }
  back->pmix_stale = false;
  back->pmix_fresh = true;
  crtcp_channel_send(CR_RANK_PMIX_DONE, &done, sizeof done, NULL, 0);
}

/* Set whether ranks share processors now. The memory of the image has the setting of the time of the checkpoint. */
static void crowd(uint32_t spin)
{
  const bool crowded = spin > 0;

  if (crowded && !crtcp.crowded) {
    crtcp.spin_before = crtcp.spin;
    crtcp.yield_before = opal_progress_set_yield_when_idle(true);
  }
  if (crowded) crtcp.spin = spin < INT32_MAX ? (int) spin : INT32_MAX;
  if (!crowded && crtcp.crowded) {
    crtcp.spin = crtcp.spin_before;
    opal_progress_set_yield_when_idle(crtcp.yield_before);
  }
  crtcp.crowded = crowded;
}

static bool resume(struct rollback *back, const char *buffer, size_t bytes)
{
  const struct cr_rank_resume *message = (const struct cr_rank_resume *) buffer;

  if (bytes < sizeof *message) return false;
  memcpy(back->nonce, message->nonce, sizeof back->nonce);
  crtcp.recovery = crtcp.back = message->head.recovery;
  if (back->restarted) crtcp.incarnation = crtcp.recovery;
  crtcp_tell_node(message->node);
  crtcp.channel->pinned = message->pinned;
  crtcp.channel->back = true;
  crtcp.channel->lost = message->lost;
  crowd(message->spin);
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep)) {
    if (!ep->moved || ep->fd < 0) continue;
    crtcp_close_endpoint(ep);
    back->resumed.closed++;
  }
  return true;
}

/* Wait until the daemon says that all ranks are restored. There is no timeout: the daemon decides. If it ends, the loop
 * connects to its successor. */
static void await_resume(struct rollback *back)
{
  static _Alignas(8) char buffer[CR_RANK_MAX];
  bool reported = false;

  for (;;) {
    struct pollfd channel;
    ssize_t n;
    int fd;

    if (crtcp_channel_fd() < 0) reported = false;
    if (!reported) reported = crtcp_channel_connect() == 0 && report(back);
    if (!reported) {
      crtcp_unlock(&crtcp.lock);
      usleep(LOST_STEP_MS * 1000);
      crtcp_lock(&crtcp.lock);
      continue;
    }
    channel = (struct pollfd) {.fd = crtcp_channel_fd(), .events = POLLIN};
    crtcp_unlock(&crtcp.lock);
    poll(&channel, 1, 1000);
    crtcp_lock(&crtcp.lock);
    while ((n = crtcp_channel_receive(buffer, &fd)) > 0) {
      const struct cr_rank_message *head = (struct cr_rank_message *) buffer;

      if (head->type == CR_RANK_PMIX && fd >= 0) {
        pmix(back, fd);
        continue;
      }
      if (head->type == CR_RANK_LANES && fd >= 0) {
        crtcp_lanes_map(fd);
        continue;
      }
      if (fd >= 0) close(fd);
      if (head->type == CR_RANK_PEERS) crtcp_peers(buffer, n);
      if (head->type == CR_RANK_MOVED) crtcp_moved(buffer, n);
      if (head->type == CR_RANK_RESUME && resume(back, buffer, n)) return;
    }
  }
}

/* --------------------------------------------------------------------------------- nonces to the peers */

static bool write_nonce(crtcp_endpoint_t *ep, const uint8_t *nonce)
{
  while (ep->nonce_sent < CRTCP_NONCE) {
    const ssize_t n = send(ep->fd, nonce + ep->nonce_sent, CRTCP_NONCE - ep->nonce_sent, MSG_NOSIGNAL);

    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN;
    ep->nonce_sent += n;
  }
  return true;
}

/* Read and drop all bytes up to the end of the nonce. The bytes behind it are valid messages. */
static bool discard(struct rollback *back, crtcp_endpoint_t *ep)
{
  uint8_t buffer[CRTCP_NONCE + CHUNK], *found;

  while (!ep->done) {
    size_t length;
    ssize_t n = recv(ep->fd, buffer + ep->tail_length, CHUNK, MSG_DONTWAIT);

    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) return false;
    memcpy(buffer, ep->tail, ep->tail_length);
    length = ep->tail_length + n;
    back->resumed.discarded_bytes += n;
    found = memmem(buffer, length, back->nonce, CRTCP_NONCE);
    if (found) {
      const size_t rest = buffer + length - (found + CRTCP_NONCE);

      back->resumed.discarded_bytes -= rest + CRTCP_NONCE;
      ep->done = true;
      if (!rest) return true;
      ep->owned = malloc(rest);
      if (!ep->owned) return false;
      memcpy(ep->owned, found + CRTCP_NONCE, rest);
      ep->rest = ep->owned;
      ep->rest_length = rest;
      return true;
    }
    ep->tail_length = length < sizeof ep->tail ? length : sizeof ep->tail;
    memcpy(ep->tail, buffer + length - ep->tail_length, ep->tail_length);
  }
  return true;
}

static void give_up(struct rollback *back, crtcp_endpoint_t *ep)
{
  crtcp_close_endpoint(ep);
  back->resumed.closed++;
}

static uint32_t awaited(const crtcp_endpoint_t *ep)
{
  if (ep->state != CRTCP_CONNECTED) return 0;
  return (ep->done ? 0 : EPOLLIN) | (ep->nonce_sent < CRTCP_NONCE ? EPOLLOUT : 0);
}

static void wait_on(struct rollback *back, struct crtcp_wait *set, crtcp_endpoint_t *ep)
{
  if (crtcp_wait_for(set, ep, awaited(ep))) return;
  give_up(back, ep);
  crtcp_wait_for(set, ep, 0);
}

static void exchange_nonces(struct rollback *back)
{
  struct crtcp_wait set;
  const bool can_wait = crtcp_wait_begin(&set);

  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep)) {
    ep->done = false;
    ep->nonce_sent = ep->tail_length = 0;
    if (ep->state != CRTCP_CONNECTED) continue;
    if (!can_wait)
      give_up(back, ep);
    else
      wait_on(back, &set, ep);
  }
  while (can_wait && set.open) {
    crtcp_wait(&set, 1000);
    for (int i = 0; i < set.count; i++) {
      crtcp_endpoint_t *ep = set.events[i].data.ptr;

      if (!ep) { /* nothing that the daemon says matters here */
        epoll_ctl(set.epoll, EPOLL_CTL_DEL, crtcp_channel_fd(), NULL);
        continue;
      }
      if (ep->state == CRTCP_CONNECTED && (!write_nonce(ep, back->nonce) || !discard(back, ep))) give_up(back, ep);
      wait_on(back, &set, ep);
    }
  }
  crtcp_wait_end(&set);
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep))
    back->resumed.kept += ep->state == CRTCP_CONNECTED;
}

static void *rollback(void *argument)
{
  struct rollback *back = argument;

  crtcp_lock(&crtcp.lock);
  make_still(back);
  if (back->restarted && crtcp_listen()) crtcp_say("no port to listen on: %s", strerror(errno));
  back->pmix_stale = back->restarted ? !crtcp_pmix_alive() : !crtcp_pmix_same();
  await_resume(back);
  exchange_nonces(back);
  /* A stale connection that was not replaced is usable while it is established. With a dead one, which libpmix would
   * see closed, libpmix would end this process: do not watch it. */
  if (!back->pmix_stale || crtcp_pmix_alive()) crtcp_pmix_go_on();
  if (back->pmix_fresh) crtcp_pmix_commit();
  if (crtcp_epoll_make()) crtcp_say("no new epoll set: %s", strerror(errno));
  crtcp_guarded_again();
  crtcp.recovering = false;
  crtcp_release();
  crtcp_channel_send(CR_RANK_RESUMED, &back->resumed, sizeof back->resumed, NULL, 0);
  crtcp_unlock(&crtcp.lock);
  free(back);
  return NULL;
}

int crtcp_rollback_start(bool restarted)
{
  struct rollback *back = calloc(1, sizeof *back);
  pthread_t thread;
  pthread_attr_t attributes;
  int err;

  if (!back) return ENOMEM;
  back->restarted = restarted;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  err = pthread_create(&thread, &attributes, rollback, back);
  pthread_attr_destroy(&attributes);
  if (err)
    free(back);
  else
    crtcp.recovering = true;
  return err;
}
