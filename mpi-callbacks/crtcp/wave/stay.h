/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file
 * @brief This rank runs on while a recovery takes other namespaces back to a wave. The caller holds crtcp.lock.
 *
 * That is consistent if nothing has crossed since the wave: the counts of messages with each process of these namespaces
 * are those of this rank's image. What has been sent or received in part does not matter. It comes again from its beginning:
 * from here because it is still queued, from there because the peer is back where it had not sent it.
 *
 *      STAY ──counts differ──> STAYS, cannot        the next recovery takes this rank back, too
 *        │
 *        └──they are equal──> STAYS, can: the connections are shut, nothing is sent ──RESUME──> as before
 */
#ifndef CRTCP_STAY_H
#define CRTCP_STAY_H 1

#include "base/crtcp.h"
#include "rank_channel.h"

void crtcp_saved(uint32_t wave); /**< the image of a wave is about to be taken: note the counts */
void crtcp_unsaved(uint32_t wave); /**< the wave was given up */
/** Handle STAY, and after its answer PEERS and RESUME; ignore all other messages. */
void crtcp_stay_order(const struct cr_rank_message *message);
void crtcp_stay(void); /**< answer a STAY that has come, unless a wave holds this rank: then it is answered at its end */
void crtcp_stay_not(void); /**< this rank was taken back itself */

#endif
