/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The wire between ranks of one node: a ring of bytes in shared memory, see rank_lanes.h. */
#include "wire/wire.h"

#include <errno.h>
#include <string.h>


/* The peer may begin with the first bytes while the last are still copied. */
enum { PIECE = 16 << 10 };

static size_t smaller(size_t a, size_t b)
{
  return a < b ? a : b;
}

/* Wake the peer if it sleeps. Ranks sleep only while they share processors or are calm, which holds for all of a node, and
 * for a few milliseconds at most: so a peer that falls asleep just now is no reason for a fence at other times. */
static void wake(crtcp_endpoint_t *ep)
{
  if (crtcp.spin > 0 || crtcp.calm) __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (__atomic_load_n(&ep->line->asleep, __ATOMIC_RELAXED) && __atomic_exchange_n(&ep->line->asleep, 0, __ATOMIC_ACQ_REL))
    (void) !send(ep->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ------------------------------------------------------------------------------------------- writing */

static size_t room(struct crtcp_lane_end *end, size_t wanted)
{
  if (end->bytes - (end->at - end->other) < wanted) end->other = __atomic_load_n(&end->shared->head, __ATOMIC_ACQUIRE);
  return end->bytes - (end->at - end->other);
}

static void put(struct crtcp_lane_end *end, const uint8_t *from, size_t bytes)
{
  const size_t place = end->at & (end->bytes - 1), before_end = smaller(bytes, end->bytes - place);

  memcpy(end->data + place, from, before_end);
  if (bytes > before_end) memcpy(end->data, from + before_end, bytes - before_end);
  end->at += bytes;
}

static ssize_t lane_write(crtcp_endpoint_t *ep, const struct iovec *vec, int count)
{
  struct crtcp_lane_end *end = &ep->out_lane;
  size_t total = 0, free, left;

  errno = EAGAIN;
  if (!end->shared) return -1; /* a wave has just ended, and crd has not handed out the memory again */
  for (int i = 0; i < count; i++) total += vec[i].iov_len;
  free = room(end, total);
  if (free > end->bytes) {
    errno = EPROTO;
    return -1;
  }
  if (free < total && (total <= end->bytes / 2 || free < end->bytes / 4)) {
    __atomic_store_n(&end->shared->waiting, 1, __ATOMIC_RELAXED);
    return -1;
  }
  left = smaller(free, total);
  total = left;
  for (int i = 0; i < count && left; i++) {
    const uint8_t *from = vec[i].iov_base;
    size_t bytes = smaller(vec[i].iov_len, left);

    left -= bytes;
    for (; bytes > PIECE; bytes -= PIECE, from += PIECE) {
      put(end, from, PIECE);
      __atomic_store_n(&end->shared->tail, end->at, __ATOMIC_RELEASE);
    }
    if (bytes) put(end, from, bytes);
  }
  __atomic_store_n(&end->shared->tail, end->at, __ATOMIC_RELEASE);
  wake(ep);
  return total;
}

/* ------------------------------------------------------------------------------------------- reading */

static void advance(crtcp_endpoint_t *ep, size_t bytes)
{
  struct crtcp_lane_end *end = &ep->in_lane;

  end->at += bytes;
  __atomic_store_n(&end->shared->head, end->at, __ATOMIC_RELEASE);
  if (!__atomic_load_n(&end->shared->waiting, __ATOMIC_RELAXED)) return;
  __atomic_store_n(&end->shared->waiting, 0, __ATOMIC_RELAXED);
  wake(ep);
}

static ssize_t lane_read(crtcp_endpoint_t *ep, const struct iovec *first, const struct iovec *scratch, const uint8_t **lent)
{
  struct crtcp_lane_end *end = &ep->in_lane;
  size_t there, copied = 0, place;

  (void) scratch;
  errno = EAGAIN;
  if (!end->shared) return -1;
  there = __atomic_load_n(&end->shared->tail, __ATOMIC_ACQUIRE) - end->at;
  if (!there) return -1;
  if (there > end->bytes) {
    errno = EPROTO;
    return -1;
  }
  while (copied < first->iov_len && there) {
    size_t bytes = smaller(smaller(first->iov_len - copied, there), PIECE);

    place = end->at & (end->bytes - 1);
    bytes = smaller(bytes, end->bytes - place);
    memcpy((uint8_t *) first->iov_base + copied, end->data + place, bytes);
    advance(ep, bytes);
    copied += bytes;
    there -= bytes;
  }
  place = end->at & (end->bytes - 1);
  *lent = end->data + place;
  return copied + smaller(there, end->bytes - place);
}

static void lane_took(crtcp_endpoint_t *ep, size_t bytes)
{
  if (bytes && ep->in_lane.shared) advance(ep, bytes);
}

const struct crtcp_wire crtcp_lane = {.write = lane_write, .read = lane_read, .took = lane_took};

/* ------------------------------------------------------------------------------------------- beginning */

uint64_t crtcp_lane_begin_writing(crtcp_endpoint_t *ep)
{
  struct crtcp_lane_end *end = &ep->out_lane;

  end->at = __atomic_load_n(&end->shared->tail, __ATOMIC_RELAXED);
  end->other = __atomic_load_n(&end->shared->head, __ATOMIC_ACQUIRE);
  return end->at;
}

void crtcp_lane_begin_reading(crtcp_endpoint_t *ep, uint64_t position)
{
  ep->in_lane.at = position;
  if (ep->in_lane.shared) advance(ep, 0);
}
