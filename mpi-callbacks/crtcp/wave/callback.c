/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libcr's callback: a wave from its beginning to its end, or to the rollback. */
#include "wave/callback.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/channel.h"
#include "endpoint/lanes.h"
#include "libcr.h"
#include "message/message.h"
#include "wave/orders.h"
#include "wave/pmix_state.h"
#include "wave/quiesce.h"
#include "wave/rollback.h"
#include "wave/stay.h"
#include "wave/wait.h"
#include "wire/wire.h"

enum { LANES_MS = 500, LOOK_MS = 20 };

static void prepared(const struct crtcp_outcome *out, uint32_t wave)
{
  struct cr_rank_prepared message = {
      .wave = wave, .state = out->state, .quiesce_ns = out->quiesce_ns, .connections = out->connections};

  crtcp_channel_send(CR_RANK_PREPARED, &message, sizeof message, out->why, strlen(out->why));
}

static void need_lanes(void)
{
  struct cr_rank_message message;

  crtcp_channel_send(CR_RANK_NEED_LANES, &message, sizeof message, NULL, 0);
}

/* Map the memory as soon as the daemon hands it out, and send what was queued until then: a rank that computes would do both
 * in its next call of MPI only. If the daemon takes longer, that call does so. */
static void await_lanes(void)
{
  const uint64_t end = crtcp_now() + LANES_MS * (uint64_t) MILLISECOND;

  /* Once the memory is mapped, Open MPI may look at messages in it, and an order to map another must not be read here. */
  while (crtcp.open && !crtcp.lanes && crtcp_channel_fd() >= 0 && crtcp_now() < end) {
    struct pollfd order = {.fd = crtcp_channel_fd(), .events = POLLIN};

    crtcp_unlock(&crtcp.lock);
    poll(&order, 1, LOOK_MS);
    crtcp_lock(&crtcp.lock);
    if (crtcp.open && !crtcp.lanes) crtcp_read_orders();
  }
  for (int i = 0; i < crtcp.neighbour_count; i++) {
    crtcp_endpoint_t *ep = crtcp.neighbours[i];

    if (ep->state == CRTCP_CONNECTED && ep->out == &crtcp_lane && !opal_list_is_empty(&ep->queue)) crtcp_write_queue(ep);
  }
}

static void not_asked_for(void)
{
  crtcp_let_go();
  crtcp_channel_log("a checkpoint of this rank alone was requested and refused: it would not be consistent with the "
                    "other ranks; use crjob checkpoint");
  crtcp_unlock(&crtcp.lock);
  cr_checkpoint(CR_CHECKPOINT_TEMP_FAILURE);
}

/* The rollback thread waits for the daemon, and the state of the rank is that of no wave: touch neither. */
static void refuse_while_recovering(void)
{
  crtcp_channel_log("a checkpoint of this rank was requested during a recovery and refused; repeat it when the job "
                    "continues, by crjob checkpoint");
  crtcp_unlock(&crtcp.lock);
  cr_checkpoint(CR_CHECKPOINT_TEMP_FAILURE);
}

static int callback(void *unused)
{
  struct crtcp_outcome out = {.state = CR_RANK_TAKEN, .begin_ns = crtcp_now()};
  bool had_lanes;
  uint32_t wave;
  int rc;

  (void) unused;
  crtcp.hold = 1; /* before the lock is taken, so that threads that progress release it */
  crtcp_lock(&crtcp.lock);
  if (crtcp.recovering) {
    refuse_while_recovering();
    return 0;
  }
  crtcp.hold = 1; /* again: a recovery that ended while this thread waited for the lock has set it to 0 */
  crtcp_read_orders();
  wave = crtcp.channel->prepared;
  crtcp.channel->prepared = 0;
  if (!wave) {
    not_asked_for();
    return 0;
  }
  crtcp_wave_over(wave - 1);
  crtcp.holding = true;
  if (!crtcp_quiesce(&out, wave)) {
    crtcp_wave_over(wave);
    crtcp_release();
    prepared(&out, wave);
    crtcp_stay();
    crtcp_unlock(&crtcp.lock);
    cr_checkpoint(CR_CHECKPOINT_TEMP_FAILURE);
    return 0;
  }
  crtcp.holding = false;
  crtcp.wave = wave;
  crtcp_saved(wave);
  had_lanes = crtcp.lanes;
  crtcp_lanes_unmap(); /* an image has no memory that other ranks share */
  crtcp_unlock(&crtcp.lock);

  rc = cr_checkpoint(CR_CHECKPOINT_READY);

  crtcp_lock(&crtcp.lock);
  if (rc == CR_PAUSED || rc == CR_RESTARTED) {
    rc = crtcp_rollback_start(rc == CR_RESTARTED);
    crtcp_unlock(&crtcp.lock);
    if (rc) crtcp_say("no thread could be started to go on after the rollback: %s", strerror(rc));
    return 0;
  }
  crtcp_pmix_go_on();
  if (had_lanes) need_lanes();
  if (rc < 0)
    crtcp_refuse(&out, CR_RANK_UNABLE, cr_strerror(-rc), 0);
  else if (!crtcp_pmix_same())
    crtcp_refuse(&out, CR_RANK_AGAIN, "a PMIx call was made while the process was saved", 0);
  crtcp_wave_over(wave);
  crtcp_release();
  prepared(&out, wave);
  if (had_lanes) await_lanes();
  crtcp_stay();
  crtcp_unlock(&crtcp.lock);
  return 0;
}

int crtcp_callback_register(const char **why)
{
  static char text[200];

  if (cr_init() < 0)
    snprintf(text, sizeof text, errno == ENOSYS ? "the kernel module is not loaded on this node" : "libcr: %s",
             cr_strerror(errno));
  else if (cr_register_callback(callback, NULL, CR_THREAD_CONTEXT) < 0)
    snprintf(text, sizeof text, "libcr: %s", cr_strerror(errno));
  else
    return 0;
  *why = text;
  return -1;
}
