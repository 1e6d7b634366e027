/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The wire between ranks of one node: a ring of records in shared memory, see rank_lanes.h. */
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
 * for a few milliseconds at most: so a peer that falls asleep just now is no reason for a fence at other times. Before this
 * rank goes on in its own lane, the peer would take the byte for a part of a message: it wakes by itself then. */
static void wake(crtcp_endpoint_t *ep)
{
  if (ep->out != &crtcp_lane) return;
  if (crtcp.spin > 0 || crtcp.calm) __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (__atomic_load_n(&ep->line->asleep, __ATOMIC_RELAXED) && __atomic_exchange_n(&ep->line->asleep, 0, __ATOMIC_ACQ_REL))
    (void) !send(ep->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ------------------------------------------------------------------------------------------- writing */

enum { SIZE = sizeof(uint64_t) };

static size_t lines(size_t bytes)
{
  return (bytes + CR_LANES_LINE - 1) / CR_LANES_LINE * CR_LANES_LINE;
}

/* Room in the ring for a record of so many bytes. */
static size_t record(size_t bytes)
{
  return lines(SIZE + bytes);
}

/* Room for that many bytes of the stream, and for the size of the record behind them, which is 0. */
static size_t records(size_t bytes)
{
  return bytes / PIECE * record(PIECE) + (bytes % PIECE ? record(bytes % PIECE) : 0) + CR_LANES_LINE;
}

static size_t room(struct crtcp_lane_end *end, size_t wanted)
{
  if (end->bytes - (end->at - end->other) < wanted) end->other = __atomic_load_n(&end->shared->head, __ATOMIC_ACQUIRE);
  return end->bytes - (end->at - end->other);
}

static void put(struct crtcp_lane_end *end, uint64_t at, const uint8_t *from, size_t bytes)
{
  const size_t place = at & (end->bytes - 1), before_end = smaller(bytes, end->bytes - place);

  memcpy(end->data + place, from, before_end);
  if (bytes > before_end) memcpy(end->data, from + before_end, bytes - before_end);
}

/* The record whose size is at this place is written: tell the reader, after it has an end of what there is. */
static void publish(struct crtcp_lane_end *end, uint64_t *size, size_t bytes)
{
  end->at += record(bytes);
  __atomic_store_n(crtcp_lane_record(end), 0, __ATOMIC_RELAXED);
  __atomic_store_n(size, bytes, __ATOMIC_RELEASE);
  __atomic_store_n(&end->shared->tail, end->at, __ATOMIC_RELAXED);
}

/* Write a record with the next `bytes` of the vectors, which are advanced. */
static void put_record(struct crtcp_lane_end *end, const struct iovec **vec, size_t *skip, size_t bytes)
{
  uint64_t *const size = crtcp_lane_record(end), at = end->at + SIZE;

  for (size_t left = bytes; left;) {
    const size_t part = smaller((*vec)->iov_len - *skip, left);

    put(end, at, (const uint8_t *) (*vec)->iov_base + *skip, part);
    at += part;
    left -= part;
    *skip += part;
    if (*skip == (*vec)->iov_len) {
      ++*vec;
      *skip = 0;
    }
  }
  publish(end, size, bytes);
}

/* A message that fits into the ring as it is, which most do. @return false: it does not, or there is no room now */
static bool put_whole(struct crtcp_lane_end *end, const struct iovec *vec, int count, size_t total)
{
  const size_t place = end->at & (end->bytes - 1), needed = record(total) + CR_LANES_LINE;
  uint64_t *const size = crtcp_lane_record(end);
  uint8_t *to = (uint8_t *) (size + 1);
  size_t free;

  if (total > smaller(PIECE, end->bytes - place - SIZE)) return false;
  free = room(end, needed);
  if (free < needed || free > end->bytes) return false;
  for (int i = 0; i < count; to += vec[i++].iov_len) memcpy(to, vec[i].iov_base, vec[i].iov_len);
  publish(end, size, total);
  return true;
}

static ssize_t lane_write(crtcp_endpoint_t *ep, const struct iovec *vec, int count)
{
  struct crtcp_lane_end *end = &ep->out_lane;
  size_t total = 0, written = 0, skip = 0, needed, free;

  errno = EAGAIN;
  if (!end->shared) return -1; /* a wave has just ended, and crd has not handed out the memory again */
  for (int i = 0; i < count; i++) total += vec[i].iov_len;
  if (put_whole(end, vec, count, total)) {
    wake(ep);
    return total;
  }
  needed = records(total);
  free = room(end, needed);
  if (free > end->bytes) {
    errno = EPROTO;
    return -1;
  }
  if (free < needed && (needed <= end->bytes / 2 || free < end->bytes / 4)) {
    __atomic_store_n(&end->shared->waiting, 1, __ATOMIC_RELAXED);
    return -1;
  }
  /* The reader's position can be within a line. */
  for (free -= free % CR_LANES_LINE; written < total && free >= 2 * CR_LANES_LINE;) {
    const size_t bytes = smaller(smaller(total - written, PIECE), free - CR_LANES_LINE - SIZE);

    put_record(end, &vec, &skip, bytes);
    free -= record(bytes);
    written += bytes;
  }
  wake(ep);
  return written;
}

/* ------------------------------------------------------------------------------------------- reading */

void crtcp_lane_tell(crtcp_endpoint_t *ep)
{
  struct crtcp_lane_end *end = &ep->in_lane;

  __atomic_store_n(&end->shared->head, end->at, __ATOMIC_RELEASE);
  if (!__atomic_load_n(&end->shared->waiting, __ATOMIC_RELAXED)) return;
  __atomic_store_n(&end->shared->waiting, 0, __ATOMIC_RELAXED);
  wake(ep);
}

static void advance(crtcp_endpoint_t *ep, size_t bytes)
{
  struct crtcp_lane_end *end = &ep->in_lane;

  end->at += bytes;
  end->left -= bytes;
  if (!end->left) end->at = lines(end->at);
  crtcp_lane_tell(ep);
}

/* Go to the next record at the end of one. @return bytes of it that are in a row; 0: none are there; -1 with errno */
static ssize_t there(struct crtcp_lane_end *end)
{
  if (!end->left) {
    end->left = __atomic_load_n(crtcp_lane_record(end), __ATOMIC_ACQUIRE);
    if (!end->left) return 0;
    if (end->left > end->bytes - SIZE) {
      errno = EPROTO;
      return -1;
    }
    end->at += SIZE;
  }
  return smaller(end->left, end->bytes - (end->at & (end->bytes - 1)));
}

static ssize_t lane_read(crtcp_endpoint_t *ep, const struct iovec *first, const struct iovec *scratch, const uint8_t **lent)
{
  struct crtcp_lane_end *end = &ep->in_lane;
  size_t copied = 0;
  ssize_t bytes;

  (void) scratch;
  errno = EAGAIN;
  if (!end->shared) return -1;
  while ((bytes = there(end)) > 0 && copied < first->iov_len) {
    bytes = smaller(bytes, first->iov_len - copied);
    memcpy((uint8_t *) first->iov_base + copied, crtcp_lane_place(end), bytes);
    advance(ep, bytes);
    copied += bytes;
  }
  if (bytes < 0 || (!bytes && !copied)) return -1;
  *lent = crtcp_lane_place(end);
  return copied + bytes;
}

const uint8_t *crtcp_lane_peek(crtcp_endpoint_t *ep, size_t *bytes)
{
  struct crtcp_lane_end *end = &ep->in_lane;
  const ssize_t in_a_row = end->shared ? there(end) : 0;

  *bytes = end->left;
  return in_a_row > 0 && (uint64_t) in_a_row == end->left ? crtcp_lane_place(end) : NULL;
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
  ep->in_lane.left = 0;
  if (ep->in_lane.shared) crtcp_lane_tell(ep);
}
