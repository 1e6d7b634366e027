/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief The channel to crd, for the other parts of the transport. Protected by crtcp.lock. */
#ifndef CRTCP_CHANNEL_H
#define CRTCP_CHANNEL_H 1

#include "base/crtcp.h"
#include "rank_channel.h"

struct crtcp_channel {
  int fd; /**< -1: the daemon has closed the connection */
  bool introduced; /**< the daemon knows whose connection this is, and reads other messages */
  char path[108];
  uint32_t prepared; /**< wave that was announced and not begun; 0: none */
  uint32_t timeout_ms; /**< of the wave `prepared` */
  uint32_t aborted; /**< the newest wave that was given up */
  bool can_checkpoint; /**< libcr is ready */
  uint32_t no_waves; /**< enum cr_rank_no_waves */
  uint32_t pinned; /**< the wave that this rank has asked for by WAVE_REQUEST; 0: it was not told of it yet */
  bool no_pin; /**< it was told that there is none */
  bool back, lost; /**< it went back to that wave, and was lost before */
  uint64_t copied; /**< the newest request COPY_KEPT that was answered */
  int32_t copied_status; /**< and how */
  char copied_why[256];
  uint32_t *partners; /**< jobids of other namespaces that take part in the wave `prepared` */
  size_t partner_count;
  struct {
    uint32_t recovery; /**< 0: none */
    uint32_t wave;
    uint32_t *jobids;
    size_t count;
  } stay; /**< the STAY that is not answered yet */
  uint32_t stays; /**< the recovery for whose RESUME this rank holds messages; 0: none */
};

/** Fill in the head of a message and send it. @return false if the daemon has closed the connection */
bool crtcp_channel_send(uint32_t type, void *message, size_t bytes, const void *more, size_t more_bytes);
/** Receive the next message into `buffer` of CR_RANK_MAX bytes, without waiting. Drops messages of an older recovery.
 * @param fd receives the descriptor that came with the message, or -1
 * @return bytes of the message; 0: there is none; -1: the daemon has closed the connection */
ssize_t crtcp_channel_receive(void *buffer, int *fd);
/** Close the connection and connect again. @return 0, or -1 with errno */
int crtcp_channel_connect(void);
/** Report to crd that there is no connection to a peer. @param error errno; ENODATA: messages were lost with it; EMFILE: no
 * descriptors are left, whoever the peer is */
void crtcp_channel_lost(uint32_t jobid, uint32_t vpid, int error, const char *why);
void crtcp_channel_log(const char *text);
int crtcp_channel_fd(void); /**< -1: there is none */

#endif
