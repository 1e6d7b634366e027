/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief The channel to crd, for the parts of the transport that speak with it. Guarded by crtcp.lock. */
#ifndef CRTCP_CHANNEL_H
#define CRTCP_CHANNEL_H 1

#include "crtcp.h"
#include "rank_channel.h"

struct crtcp_channel {
  int fd; /**< -1: the daemon has gone */
  char path[108];
  uint32_t prepared; /**< wave that was announced and not begun; 0: none */
  uint32_t timeout_ms; /**< of it */
  uint32_t aborted; /**< the newest wave that was given up */
};

/** A message with its head filled in. @return false when the daemon has gone */
bool crtcp_channel_send(uint32_t type, void *message, size_t bytes, const void *more, size_t more_bytes);
/** The next message, into `buffer` of CR_RANK_MAX bytes, without waiting; what is of an older recovery is dropped.
 * @param fd receives a descriptor that came along, or -1
 * @return its bytes, 0 when there is none, -1 when the daemon has gone */
ssize_t crtcp_channel_receive(void *buffer, int *fd);
/** Connect anew. @return 0, or -1 with errno */
int crtcp_channel_connect(void);
/** PREPARE and ABORT; other messages are not for now. */
void crtcp_channel_note(const struct cr_rank_message *message);

#endif
