/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What crd tells the ranks of its node: waves, to be calm, and peers that have failed. And how a hold ends. */
#include "wave/orders.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/channel.h"
#include "endpoint/connect.h"
#include "endpoint/events.h"
#include "endpoint/lanes.h"
#include "endpoint/table.h"
#include "wave/peers.h"
#include "wave/stay.h"
#include "wave/wait.h"

void crtcp_wave_over(uint32_t wave)
{
  if (wave > crtcp.wave) crtcp.wave = wave;
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep)) {
    if (!ep->shut || ep->mark_wave > crtcp.wave) continue;
    ep->shut = false;
    if (!crtcp.hold) crtcp_watch_endpoint(ep);
  }
  crtcp.reconsider = true;
}

void crtcp_release(void)
{
  crtcp.holding = false;
  crtcp_let_go();
  crtcp.reconsider = true;
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep)) {
    ep->mark_due = 0; /* of a wave that was given up; a mark that was begun is completed before the next message */
    if (ep->state == CRTCP_CONNECTED) crtcp_watch_endpoint(ep);
    if (ep->state == CRTCP_IDLE && !opal_list_is_empty(&ep->queue)) {
      /* a thread that progresses will connect */
      ep->retry_ns = 1;
      crtcp_alarm(1);
    }
    if (ep->retry_ns) crtcp_alarm(ep->retry_ns);
    if (ep->deadline_ns) crtcp_alarm(ep->deadline_ns);
  }
}

static void gone(const struct cr_rank_gone *message)
{
  uint32_t jobid;

  if (crtcp_jobid_of((const char *) (message + 1), message->head.length - sizeof *message, &jobid))
    crtcp_gone(jobid, message->peer);
}

bool crtcp_takes_part(uint32_t jobid)
{
  if (!crtcp_foreign(jobid)) return true;
  for (size_t i = 0; i < crtcp.channel->partner_count; i++)
    if (crtcp.channel->partners[i] == jobid) return true;
  return false;
}

static void copied(const struct cr_rank_kept_copied *message)
{
  struct crtcp_channel *channel = crtcp.channel;

  channel->copied = message->id;
  channel->copied_status = message->status;
  snprintf(channel->copied_why, sizeof channel->copied_why, "%.*s", (int) (message->head.length - sizeof *message),
           (const char *) (message + 1));
}

void crtcp_order(const struct cr_rank_message *message, int fd)
{
  const struct cr_rank_wave *wave = (const struct cr_rank_wave *) message;
  const struct cr_rank_calm *calm = (const struct cr_rank_calm *) message;
  struct crtcp_channel *channel = crtcp.channel;

  if (message->type == CR_RANK_LANES && fd >= 0)
    crtcp_lanes_map(fd);
  else if (fd >= 0)
    close(fd);
  if (message->type == CR_RANK_CALM && message->length >= sizeof *calm) crtcp.calm = calm->on;
  if (message->type == CR_RANK_GONE && message->length >= sizeof(struct cr_rank_gone)) gone((const struct cr_rank_gone *) message);
  crtcp_stay_order(message);
  if (message->type == CR_RANK_KEPT_COPIED && message->length >= sizeof(struct cr_rank_kept_copied))
    copied((const struct cr_rank_kept_copied *) message);
  if (message->length < sizeof *wave) return;
  if (message->type == CR_RANK_PREPARE) {
    if (!crtcp_jobids_of((const char *) (wave + 1), message->length - sizeof *wave, &channel->partners, &channel->partner_count)) return;
    channel->prepared = wave->wave;
    channel->timeout_ms = wave->timeout_ms;
  } else if (message->type == CR_RANK_PINNED) {
    channel->pinned = wave->wave;
    channel->no_pin = !wave->wave;
    channel->back = false;
  } else if (message->type == CR_RANK_ABORT) {
    if (wave->wave > channel->aborted) channel->aborted = wave->wave;
    if (channel->prepared <= wave->wave) channel->prepared = 0;
    crtcp_unsaved(wave->wave);
  }
}

/* Of libreprise_node.so, which answers for MPI_Comm_split_type(). */
void crtcp_tell_node(uint32_t node)
{
  int *there = dlsym(RTLD_DEFAULT, "reprise_node");

  if (there) *there = (int) node;
}

/* An ABORT may be of a wave that this rank never took part in: it opens the connections that peers' marks have shut. */
void crtcp_read_orders(void)
{
  static _Alignas(8) char buffer[CR_RANK_MAX]; /* protected by the lock */
  int fd;

  while (crtcp_channel_receive(buffer, &fd) > 0) {
    crtcp_order((struct cr_rank_message *) buffer, fd);
  }
  if (crtcp.channel->aborted > crtcp.wave) crtcp_wave_over(crtcp.channel->aborted);
  crtcp_stay();
}
