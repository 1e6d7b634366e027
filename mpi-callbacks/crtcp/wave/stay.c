/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "wave/stay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/channel.h"
#include "endpoint/events.h"
#include "endpoint/table.h"
#include "wave/peers.h"

void crtcp_saved(uint32_t wave)
{
  memmove(&crtcp.saved[1], &crtcp.saved[0], sizeof crtcp.saved - sizeof crtcp.saved[0]);
  crtcp.saved[0].wave = wave;
  crtcp.saved[0].goodbyes = crtcp.goodbyes;
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep)) {
    memmove(&ep->saved[1], &ep->saved[0], sizeof ep->saved - sizeof ep->saved[0]);
    ep->saved[0].sent = ep->sent;
    ep->saved[0].received = ep->received;
  }
}

/* Drop the counts of the `count` newest images. */
static void forget_saved(size_t count)
{
  const size_t left = CRTCP_SAVED - count;

  memmove(&crtcp.saved[0], &crtcp.saved[count], left * sizeof crtcp.saved[0]);
  memset(&crtcp.saved[left], 0, count * sizeof crtcp.saved[0]);
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep))
    memmove(&ep->saved[0], &ep->saved[count], left * sizeof ep->saved[0]);
}

void crtcp_unsaved(uint32_t wave)
{
  if (crtcp.saved[0].wave == wave) forget_saved(1);
}

/* @return place of the counts of a wave; CRTCP_SAVED: they are not known */
static size_t place_of(uint32_t wave)
{
  size_t place = wave ? 0 : CRTCP_SAVED;

  while (place < CRTCP_SAVED && crtcp.saved[place].wave != wave) place++;
  return place;
}

static bool goes_back(uint32_t jobid)
{
  for (size_t i = 0; i < crtcp.channel->stay.count; i++)
    if (crtcp.channel->stay.jobids[i] == jobid) return true;
  return false;
}

/* @return whether this rank can stay; otherwise the reason is in `why` */
static bool can_stay(char *why, size_t room)
{
  const uint32_t wave = crtcp.channel->stay.wave;
  const size_t place = place_of(wave);
  const char *outside = crtcp_outside_of_mpi();

  why[0] = 0;
  if (outside)
    snprintf(why, room, "it is %s", outside);
  else if (place == CRTCP_SAVED)
    snprintf(why, room, "what it had exchanged before wave %u is not known", (unsigned) wave);
  else if (crtcp.saved[place].goodbyes != crtcp.goodbyes)
    snprintf(why, room, "it has disconnected from a spawned process since wave %u", (unsigned) wave);
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep && !why[0]; ep = crtcp_next(ep)) {
    if (!goes_back(ep->name.jobid)) continue;
    if (ep->sent != ep->saved[place].sent || ep->received != ep->saved[place].received)
      snprintf(why, room, "messages have crossed since wave %u between it and rank %u of the spawned processes", (unsigned) wave,
               (unsigned) ep->name.vpid);
    else if (ep->line || ep->state == CRTCP_FAILED)
      snprintf(why, room, "it shares memory with rank %u of the spawned processes, or has given it up", (unsigned) ep->name.vpid);
  }
  return !why[0];
}

/* The peer must see the end of the connection, also if a child of this process has the descriptor, too. */
static void shut(crtcp_endpoint_t *ep)
{
  if (ep->fd >= 0) shutdown(ep->fd, SHUT_RDWR);
  crtcp_close_endpoint(ep);
  ep->retry_ns = ep->report_ns = 0;
  ep->attempts = ep->address_next = 0;
  ep->broken = ep->gap = false;
}

static void hold(void)
{
  forget_saved(place_of(crtcp.channel->stay.wave)); /* later waves count no more */
  free(crtcp.held);
  crtcp.held = crtcp.channel->stay.jobids;
  crtcp.held_count = crtcp.channel->stay.count;
  crtcp.channel->stay.jobids = NULL;
  crtcp.channel->stay.count = 0;
  crtcp.channel->stays = crtcp.channel->stay.recovery;
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep))
    if (crtcp_is_held(ep->name.jobid)) shut(ep);
}

void crtcp_stay(void)
{
  struct cr_rank_stays answer = {.of = crtcp.channel->stay.recovery};
  char why[200];

  if (!crtcp.channel->stay.recovery || crtcp.recovering) return;
  if (crtcp.hold) {
    crtcp.reconsider = true;
    return;
  }
  answer.can = can_stay(why, sizeof why);
  if (answer.can) hold();
  crtcp.channel->stay.recovery = 0;
  crtcp_channel_send(CR_RANK_STAYS, &answer, sizeof answer, why, strlen(why));
}

static void let_go(void)
{
  free(crtcp.held);
  crtcp.held = NULL;
  crtcp.held_count = 0;
  crtcp.channel->stays = 0;
}

void crtcp_stay_not(void)
{
  let_go();
  crtcp.channel->stay.recovery = 0;
}

static void asked(const struct cr_rank_wave *message)
{
  if (!crtcp_jobids_of((const char *) (message + 1), message->head.length - sizeof *message, &crtcp.channel->stay.jobids,
                       &crtcp.channel->stay.count))
    return; /* the daemon does not wait for long */
  crtcp.channel->stay.recovery = message->head.recovery;
  crtcp.channel->stay.wave = message->wave;
}

/* What was queued meanwhile is sent by the next thread that progresses. */
static void resume(const struct cr_rank_message *message)
{
  crtcp.recovery = message->recovery;
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep)) {
    if (!crtcp_is_held(ep->name.jobid) || opal_list_is_empty(&ep->queue)) continue;
    ep->retry_ns = 1;
    crtcp_alarm(1);
  }
  let_go();
  crtcp.reconsider = true; /* peers may have been faster */
}

void crtcp_stay_order(const struct cr_rank_message *message)
{
  const bool stays = crtcp.channel->stays && crtcp.channel->stays == message->recovery;

  if (message->type == CR_RANK_STAY && message->length >= sizeof(struct cr_rank_wave)) asked((const struct cr_rank_wave *) message);
  if (stays && message->type == CR_RANK_PEERS) crtcp_peers((const char *) message, message->length);
  if (stays && message->type == CR_RANK_RESUME) resume(message);
}
