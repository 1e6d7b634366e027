/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief What crd tells the ranks of its node. The caller holds crtcp.lock. */
#ifndef CRTCP_ORDERS_H
#define CRTCP_ORDERS_H 1

#include "base/crtcp.h"
#include "rank_channel.h"

/** Handle PREPARE, ABORT, PINNED, CALM, LANES and GONE, and what concerns a rank that stays; ignore all other messages.
 * @param fd came with it, and is closed; -1: none */
void crtcp_order(const struct cr_rank_message *message, int fd);
void crtcp_read_orders(void); /**< read and handle all messages, outside of a rollback */
/** Tell the library that the ranks have preloaded on which node they are. */
void crtcp_tell_node(uint32_t node);
/** Whether the processes of a namespace take part in the wave that was announced last. */
bool crtcp_takes_part(uint32_t jobid);
/** A wave has ended, taken or not: connections that its marks have shut are read again. */
void crtcp_wave_over(uint32_t wave);
/** Allow sends and reads again, and schedule the connections that waited. */
void crtcp_release(void);

#endif
