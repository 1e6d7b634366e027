/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief How bytes get from one rank to another: over their TCP connection, or through a lane in the memory that the
 * node's ranks share. Each direction of a connection uses a wire of its own. The caller holds crtcp.lock. */
#ifndef CRTCP_WIRE_H
#define CRTCP_WIRE_H 1

#include "base/crtcp.h"
#include "rank_lanes.h"

struct crtcp_wire {
  /** Write bytes, in order. A message that fits into half of a lane is written whole or not at all.
   * @return their number, which may be less than asked for; -1 with errno: EAGAIN: there is no room now */
  ssize_t (*write)(crtcp_endpoint_t *ep, const struct iovec *vec, int count);
  /** Read bytes: first as many as `first` takes, then more, which are lent at *lent.
   * @param scratch where lent bytes can be put @return number of both; 0: end of file; -1 with errno: EAGAIN: none now */
  ssize_t (*read)(crtcp_endpoint_t *ep, const struct iovec *first, const struct iovec *scratch, const uint8_t **lent);
  /** The reader is done with so many of the lent bytes; it gets the others again at the next read. NULL: lent bytes come
   * once, and are in scratch. */
  void (*took)(crtcp_endpoint_t *ep, size_t bytes);
};

extern const struct crtcp_wire crtcp_tcp, crtcp_lane;

/** The place of the own position in the ring. */
static inline uint8_t *crtcp_lane_place(const struct crtcp_lane_end *end)
{
  return end->data + (end->at & (end->bytes - 1));
}

/** The size of the record at the own position. */
static inline uint64_t *crtcp_lane_record(const struct crtcp_lane_end *end)
{
  return (uint64_t *) crtcp_lane_place(end);
}

/** Can the lane be read now? Bytes behind a mark stay in it. */
static inline bool crtcp_lane_ready(const crtcp_endpoint_t *ep)
{
  const struct crtcp_lane_end *end = &ep->in_lane;

  return ep->in == &crtcp_lane && end->shared && !ep->shut &&
         (end->left || __atomic_load_n(crtcp_lane_record(end), __ATOMIC_ACQUIRE));
}

/** Look at the next record, or the rest of one. @return NULL: there is none, or its bytes are not in a row */
const uint8_t *crtcp_lane_peek(crtcp_endpoint_t *ep, size_t *bytes);
/** Prepare the own end of a lane for a new stream of bytes. @return its first position */
uint64_t crtcp_lane_begin_writing(crtcp_endpoint_t *ep);
/** Read from this position on; what is before it is of an earlier connection. */
void crtcp_lane_begin_reading(crtcp_endpoint_t *ep, uint64_t position);
/** Tell the writer, which may wait for the room, how far this end has read. */
void crtcp_lane_tell(crtcp_endpoint_t *ep);

#endif
