/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Receiving: messages are parsed in the read buffer, and only incomplete ones are copied. */
#include "message/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/counters.h"
#include "endpoint/connect.h"
#include "endpoint/events.h"
#include "endpoint/lanes.h"
#include "endpoint/table.h"
#include "wire/wire.h"

enum { STOP = -2, BROKEN = -1 };

static bool keep_letter(crtcp_endpoint_t *ep, uint8_t tag, const uint8_t *bytes, uint32_t length)
{
  struct crtcp_letter *letter = malloc(sizeof *letter + length);

  if (!letter) return false;
  OBJ_CONSTRUCT(&letter->super, opal_list_item_t);
  letter->endpoint = ep;
  letter->tag = tag;
  letter->length = length;
  memcpy(letter->bytes, bytes, length);
  opal_list_append(&crtcp.inbox, &letter->super);
  return true;
}

/* Give a message to Open MPI, without the lock. @return false if another thread has become the reader meanwhile */
static bool upcall(crtcp_endpoint_t *ep, uint8_t tag, const uint8_t *bytes, uint32_t length)
{
  const mca_btl_active_message_callback_t *who = mca_btl_base_active_message_trigger + tag;
  const mca_btl_base_segment_t segment = {.seg_addr.pval = (void *) bytes, .seg_len = length};
  const mca_btl_base_receive_descriptor_t message = {
      .endpoint = ep, .des_segments = &segment, .des_segment_count = 1, .tag = tag, .cbdata = who->cbdata};
  const uint32_t reader = ep->reader;

  crtcp.upcall = ep->lent > 0;
  crtcp_unlock(&crtcp.lock);
  who->cbfunc(crtcp.module, &message);
  crtcp_lock(&crtcp.lock);
  crtcp.upcall = false;
  return ep->reader == reader;
}

/* The peer goes on in its lane. What comes over TCP from now on only wakes this rank. The memory may be unmapped just now,
 * since a wave, but it is the one in which this rank has said that it reads lanes. */
static int change_wire(crtcp_endpoint_t *ep, const struct crtcp_header *header)
{
  if ((crtcp.lanes && !crtcp_lanes_join(ep)) || header->lanes != (uint16_t) crtcp.lanes_id || ep->in == &crtcp_lane) return BROKEN;
  ep->in = &crtcp_lane;
  crtcp_lane_begin_reading(ep, header->value);
  ep->rest_length = 0;
  return STOP;
}

/* Handle a complete message. @return 1: delivered; 0: not for Open MPI; STOP: do not parse on; BROKEN */
static int deliver(crtcp_endpoint_t *ep, const struct crtcp_header *header, const uint8_t *bytes)
{
  switch (header->kind) {
  case CRTCP_SEND:
    ep->received++;
    if (crtcp.holding) return keep_letter(ep, header->tag, bytes, header->length) ? 1 : BROKEN;
    return upcall(ep, header->tag, bytes, header->length) ? 1 : STOP;
  case CRTCP_MARK:
    ep->mark_wave = header->value;
    if (ep->mark_wave <= crtcp.wave) return 0; /* of a wave that has ended */
    ep->shut = true;
    return STOP;
  case CRTCP_FIN:
    crtcp_goodbye(ep);
    crtcp_close_endpoint(ep);
    return STOP;
  case CRTCP_LANE: return change_wire(ep, header);
  default:
    return BROKEN;
  }
}

static bool part_add(crtcp_endpoint_t *ep, size_t room, size_t bytes)
{
  if (ep->part_room < room) {
    uint8_t *larger = realloc(ep->part, room);

    if (!larger) return false;
    ep->part = larger;
    ep->part_room = room;
  }
  memcpy(ep->part + ep->part_length, ep->rest, bytes);
  ep->part_length += bytes;
  ep->rest += bytes;
  ep->rest_length -= bytes;
  return true;
}

static void begin_put(crtcp_endpoint_t *ep, const struct crtcp_header *header)
{
  ep->put_to = (uint8_t *) (uintptr_t) header->value;
  ep->put_left = header->length;
}

static size_t smaller(size_t a, size_t b)
{
  return a < b ? a : b;
}

/* Complete the message in `part` with bytes of `rest`. @return as deliver(); 0 also if `rest` has too few bytes */
static int complete_part(crtcp_endpoint_t *ep)
{
  struct crtcp_header header;
  uint8_t *part;
  int r;

  if (ep->part_length < sizeof header) {
    if (!part_add(ep, 4096, smaller(sizeof header - ep->part_length, ep->rest_length))) return BROKEN;
    if (ep->part_length < sizeof header) return 0;
  }
  memcpy(&header, ep->part, sizeof header);
  if (header.kind < CRTCP_SEND || header.kind > CRTCP_LANE) return BROKEN;
  if (header.kind == CRTCP_PUT) {
    ep->part_length = 0;
    begin_put(ep, &header);
    return 0;
  }
  if (!part_add(ep, sizeof header + header.length,
                smaller(sizeof header + header.length - ep->part_length, ep->rest_length)))
    return BROKEN;
  if (ep->part_length < sizeof header + header.length) return 0;
  /* Detach the buffer: during the upcall another thread may use ep->part. */
  part = ep->part;
  ep->part = NULL;
  ep->part_length = ep->part_room = 0;
  r = deliver(ep, &header, part + sizeof header);
  free(part);
  return r;
}

/* Handle the next message in `rest`. @return as deliver() */
static int next_message(crtcp_endpoint_t *ep)
{
  struct crtcp_header header;
  const uint8_t *bytes;

  if (ep->rest_length < sizeof header) return part_add(ep, 4096, ep->rest_length) ? 0 : BROKEN;
  memcpy(&header, ep->rest, sizeof header);
  if (header.kind == CRTCP_PUT) {
    ep->rest += sizeof header;
    ep->rest_length -= sizeof header;
    begin_put(ep, &header);
    return 0;
  }
  if (header.kind < CRTCP_SEND || header.kind > CRTCP_LANE) return BROKEN;
  if (ep->rest_length - sizeof header < header.length)
    return part_add(ep, sizeof header + header.length, ep->rest_length) ? 0 : BROKEN;
  bytes = ep->rest + sizeof header;
  ep->rest += sizeof header + header.length;
  ep->rest_length -= sizeof header + header.length;
  return deliver(ep, &header, bytes);
}

static void put_progress(crtcp_endpoint_t *ep, size_t n)
{
  ep->put_to += n;
  ep->put_left -= n;
  if (!ep->put_left) ep->received++;
}

/* Parse all of `rest`. @return number of messages for Open MPI; STOP: the remaining bytes must wait, or another thread
 * is the reader; BROKEN */
static int parse(crtcp_endpoint_t *ep)
{
  int count = 0;

  while (ep->rest_length) {
    int r;

    if (ep->put_left) {
      const size_t n = smaller(ep->put_left, ep->rest_length);

      memcpy(ep->put_to, ep->rest, n);
      ep->rest += n;
      ep->rest_length -= n;
      put_progress(ep, n);
      count++;
      continue;
    }
    r = ep->part_length ? complete_part(ep) : next_message(ep);
    if (r < 0) return r;
    count += r;
  }
  return count;
}

/* Copy the remaining bytes out of the scratch buffer, which will be reused. */
static bool keep_rest(crtcp_endpoint_t *ep)
{
  uint8_t *copy;

  if (!ep->rest_length) return true;
  copy = malloc(ep->rest_length);
  if (!copy) return false;
  memcpy(copy, ep->rest, ep->rest_length);
  free(ep->owned);
  ep->owned = copy;
  ep->rest = copy;
  return true;
}

/* Finish a parse(): handle errors and keep remaining bytes, so that the scratch buffer can be reused. */
static int settle(crtcp_endpoint_t *ep, int r, uint32_t reader)
{
  if (ep->reader != reader) return 1; /* taken over, or closed */
  if (ep->lent) {
    ep->in->took(ep, ep->lent - ep->rest_length);
    ep->rest_length = ep->lent = 0;
  }
  if (r == BROKEN || (ep->rest_length && !keep_rest(ep))) {
    crtcp_lost(ep, EPROTO, "reading a message");
    return -1;
  }
  if (!ep->rest_length) {
    free(ep->owned);
    ep->owned = NULL;
    ep->rest = NULL;
  }
  if (ep->shut) crtcp_watch_endpoint(ep);
  return r == STOP ? 1 : r;
}

int crtcp_parse(crtcp_endpoint_t *ep)
{
  const uint32_t reader = ep->reader;
  uint8_t *old = ep->owned;
  int r;

  /* Detach `owned`: another thread must not free it during an upcall. */
  ep->owned = NULL;
  r = settle(ep, parse(ep), reader);
  free(old);
  return r;
}

int crtcp_take_over(crtcp_endpoint_t *ep)
{
  ep->reader++;
  if (ep->rest_length && !ep->owned && !keep_rest(ep)) return -1;
  return ep->shut || !ep->rest_length ? 0 : crtcp_parse(ep);
}

/* The most frequent case: a record in a lane is a message for Open MPI. @return false: it is something else, to be read */
static bool read_record(crtcp_endpoint_t *ep)
{
  struct crtcp_header header;
  size_t size;
  const uint8_t *bytes = crtcp_lane_peek(ep, &size);

  if (!bytes || size < sizeof header || crtcp.holding) return false;
  memcpy(&header, bytes, sizeof header);
  if (header.kind != CRTCP_SEND || header.length != size - sizeof header) return false;
  crtcp_counters.moved++;
  ep->received++;
  ep->lent = size;
  if (!upcall(ep, header.tag, bytes + sizeof header, header.length)) return true;
  ep->lent = 0;
  ep->in->took(ep, size);
  return true;
}

int crtcp_read(crtcp_endpoint_t *ep, uint8_t *scratch)
{
  const uint32_t reader = ep->reader;
  struct iovec first = {0}, more = {scratch, CRTCP_SCRATCH};
  bool message = false;
  ssize_t n;

  if (ep->shut) return 0;
  if (ep->in == &crtcp_lane && !ep->put_left && !ep->part_length && read_record(ep)) return 1;
  if (ep->put_left) {
    first = (struct iovec) {ep->put_to, ep->put_left};
    more.iov_len = sizeof(struct crtcp_header); /* probably the next chunk's; its data is then read in place */
  } else if (ep->part_length >= sizeof(struct crtcp_header)) {
    /* part_add() has allocated room for the whole message */
    const size_t whole = sizeof(struct crtcp_header) + ((struct crtcp_header *) ep->part)->length;

    first = (struct iovec) {ep->part + ep->part_length, whole - ep->part_length};
    message = true;
  }
  n = ep->in->read(ep, &first, &more, &ep->rest);
  if (n <= 0) {
    ep->rest = NULL;
    if (n < 0 && errno == EAGAIN) return 0;
    crtcp_lost(ep, n < 0 ? errno : 0, "reading");
    return -1;
  }
  crtcp_counters.moved++;
  if (first.iov_len) {
    const size_t direct = smaller(n, first.iov_len);

    n -= direct;
    if (message)
      ep->part_length += direct;
    else
      put_progress(ep, direct);
    message = message && direct == first.iov_len;
  }
  ep->rest_length = n;
  ep->lent = ep->in->took ? n : 0;
  if (message) {
    const int r = complete_part(ep);

    if (r < 0) return settle(ep, r, reader);
  }
  return settle(ep, parse(ep), reader) < 0 ? -1 : 1;
}

int crtcp_socket_event(crtcp_endpoint_t *ep, uint8_t *scratch)
{
  ssize_t n;

  if (ep->in != &crtcp_lane) return crtcp_read(ep, scratch);
  n = recv(ep->fd, scratch, CRTCP_SCRATCH, MSG_DONTWAIT);
  if (n > 0) return 1;
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  n = n < 0 ? errno : 0;
  while (ep->in == &crtcp_lane) { /* what the peer has written before the end */
    const int r = crtcp_read(ep, scratch);

    if (r < 0) return r;
    if (r == 0) break;
  }
  if (ep->in != &crtcp_lane || ep->shut) return 1; /* FIN has closed it, or the rest comes after the wave */
  crtcp_lost(ep, n, "reading");
  return -1;
}
