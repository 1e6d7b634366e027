/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sending: at once if the connection is idle, otherwise through the queue. */
#include "message/message.h"

#include <errno.h>
#include <string.h>

#include "base/counters.h"
#include "endpoint/connect.h"
#include "endpoint/events.h"
#include "endpoint/lanes.h"
#include "endpoint/table.h"
#include "message/ob1.h"
#include "wire/wire.h"
#include "opal/datatype/opal_convertor.h"

/* Set up the fragment's vectors for a message that starts from its first byte; for a put, for its current chunk. */
static void arm(crtcp_fragment_t *f)
{
  f->at = f->vec;
  f->vec[0] = (struct iovec) {&f->header, sizeof f->header};
  if (f->header.kind == CRTCP_PUT) {
    f->vec[1] = (struct iovec) {f->put_from - f->header.length, f->header.length};
    f->vecs = 2;
    return;
  }
  f->vecs = 1;
  for (size_t i = 0; i < f->base.des_segment_count; i++)
    f->vec[f->vecs++] = (struct iovec) {f->segments[i].seg_addr.pval, f->segments[i].seg_len};
}

static void next_chunk(crtcp_fragment_t *f)
{
  const uint32_t length = f->put_left < CRTCP_PUT_CHUNK ? f->put_left : CRTCP_PUT_CHUNK;

  f->header = (struct crtcp_header) {.kind = CRTCP_PUT, .length = length, .value = f->put_to};
  f->put_from += length;
  f->put_to += length;
  f->put_left -= length;
  arm(f);
}

static void advance(crtcp_fragment_t *f, size_t n)
{
  while (f->vecs && n >= f->at->iov_len) {
    n -= f->at->iov_len;
    f->at++;
    f->vecs--;
  }
  if (n) {
    f->at->iov_base = (char *) f->at->iov_base + n;
    f->at->iov_len -= n;
  }
}

/* Write the rest of the message. @return 1: complete; 0: the socket is full; -1: the connection broke */
static int write_message(crtcp_endpoint_t *ep, crtcp_fragment_t *f)
{
  while (f->vecs) {
    const ssize_t n = ep->out->write(ep, f->at, f->vecs);

    if (n < 0) return errno == EAGAIN ? 0 : -1;
    crtcp_counters.moved++;
    advance(f, n);
  }
  ep->sent++;
  return 1;
}

static int write_fragment(crtcp_endpoint_t *ep, crtcp_fragment_t *f)
{
  for (;;) {
    const int r = write_message(ep, f);

    if (r <= 0) return r;
    if (!f->put_left) return 1;
    next_chunk(f);
  }
}

/* The fragment that is being written, or is next. On a new connection it starts from its beginning. */
static crtcp_fragment_t *first(crtcp_endpoint_t *ep)
{
  crtcp_fragment_t *f = (crtcp_fragment_t *) opal_list_get_first(&ep->queue);

  if (ep->rewind) arm(f);
  ep->rewind = false;
  return f;
}

static bool untouched(const crtcp_fragment_t *f)
{
  return f->at == f->vec && f->at->iov_len == sizeof f->header;
}

static void finished(crtcp_endpoint_t *ep)
{
  opal_list_append(&crtcp.finished, opal_list_remove_first(&ep->queue));
}

static int write_current(crtcp_endpoint_t *ep)
{
  crtcp_fragment_t *f;
  int r;

  if (opal_list_is_empty(&ep->queue)) return 1;
  f = first(ep);
  if (untouched(f)) return 1;
  r = write_message(ep, f);
  if (r <= 0) return r;
  if (f->put_left)
    next_chunk(f);
  else
    finished(ep);
  return 1;
}

/* Write the rest of a partly written mark. @return as crtcp_write_marks() */
static int finish_mark(crtcp_endpoint_t *ep)
{
  while (ep->mark_left) {
    const struct iovec rest = {(char *) (&ep->mark + 1) - ep->mark_left, ep->mark_left};
    const ssize_t n = ep->out->write(ep, &rest, 1);

    if (n < 0) return errno == EAGAIN ? 0 : -1;
    ep->mark_left -= n;
    if (!ep->mark_left && ep->mark.kind == CRTCP_LANE) ep->out = &crtcp_lane;
  }
  return 1;
}

/* Between two messages: go on in the lane, if the peer reads its lanes. @return as crtcp_write_marks() */
static int offer_lane(crtcp_endpoint_t *ep)
{
  if (ep->out == &crtcp_lane || !crtcp.lanes) return 1;
  if (ep->met != crtcp.lanes_id) {
    ep->met = crtcp.lanes_id;
    crtcp_lanes_join(ep);
  }
  if (!ep->line || !__atomic_load_n(&ep->line->mapped, __ATOMIC_ACQUIRE)) return 1;
  ep->mark = (struct crtcp_header) {.kind = CRTCP_LANE, .lanes = crtcp.lanes_id, .value = crtcp_lane_begin_writing(ep)};
  ep->mark_left = sizeof ep->mark;
  return finish_mark(ep);
}

int crtcp_write_marks(crtcp_endpoint_t *ep)
{
  int r = finish_mark(ep); /* of an earlier wave that was given up */

  if (r <= 0 || !ep->mark_due) return r;
  r = write_current(ep);
  if (r <= 0) return r;
  ep->mark = (struct crtcp_header) {.kind = CRTCP_MARK, .value = ep->mark_due};
  ep->mark_left = sizeof ep->mark;
  ep->mark_due = 0;
  return finish_mark(ep);
}

bool crtcp_write_queue(crtcp_endpoint_t *ep)
{
  int r = finish_mark(ep);

  while (r > 0 && !opal_list_is_empty(&ep->queue)) {
    crtcp_fragment_t *f = first(ep);

    if (untouched(f)) r = offer_lane(ep);
    if (r > 0) r = write_fragment(ep, f);
    if (r > 0) finished(ep);
  }
  if (r < 0) {
    crtcp_lost(ep, errno, "writing");
    return false;
  }
  crtcp_watch_endpoint(ep);
  return true;
}

/* The caller holds the lock, which this function drops. @return as btl_send */
static int submit(crtcp_endpoint_t *ep, crtcp_fragment_t *f)
{
  int r = 0, error = 0;

  f->endpoint = ep;
  f->status = OPAL_SUCCESS;
  if (ep->state == CRTCP_CONNECTED && !atomic_load_explicit(&crtcp.hold, memory_order_relaxed) &&
      opal_list_is_empty(&ep->queue) && !ep->mark_left) {
    r = offer_lane(ep);
    if (r > 0) r = write_fragment(ep, f);
    if (r > 0) {
      crtcp_unlock(&crtcp.lock);
      crtcp_fragment_finish(f);
      return 1;
    }
    error = errno;
  } else if (ep->state == CRTCP_FAILED) {
    crtcp_unlock(&crtcp.lock);
    return OPAL_ERR_UNREACH;
  }
  f->base.des_flags |= MCA_BTL_DES_SEND_ALWAYS_CALLBACK;
  crtcp_ob1_note(f);
  opal_list_append(&ep->queue, (opal_list_item_t *) f);
  if (r < 0)
    crtcp_lost(ep, error, "writing");
  else if (ep->state == CRTCP_IDLE && !crtcp.hold)
    crtcp_connect(ep);
  else if (ep->state == CRTCP_CONNECTED && !crtcp.hold)
    crtcp_watch_endpoint(ep);
  crtcp_unlock(&crtcp.lock);
  return OPAL_SUCCESS;
}

/* ob1 goes on with what is left of a message that it has given up, before the message to another peer whose request it is now.
 * Take it, and report that none of its data was delivered, as it would count for the other message. */
static int swallow(crtcp_fragment_t *f)
{
  f->segments[0].seg_len = f->reserve;
  f->base.des_segment_count = 1;
  f->status = OPAL_SUCCESS;
  crtcp_fragment_finish(f);
  return 1;
}

int crtcp_send(mca_btl_base_module_t *btl, crtcp_endpoint_t *ep, mca_btl_base_descriptor_t *descriptor,
               mca_btl_base_tag_t tag)
{
  crtcp_fragment_t *f = (crtcp_fragment_t *) descriptor;
  size_t length = 0;

  (void) btl;
  for (size_t i = 0; i < f->base.des_segment_count; i++) length += f->segments[i].seg_len;
  f->header = (struct crtcp_header) {.kind = CRTCP_SEND, .tag = tag, .length = length};
  f->put_left = 0;
  f->endpoint = ep;
  if (crtcp_ob1_is_left(f)) return swallow(f);
  arm(f);
  crtcp_lock(&crtcp.lock);
  return submit(ep, f);
}

/* Queue a short message of which the socket took only a part. Copies the whole message, so that crtcp_rewind() works. */
static bool keep_rest(crtcp_endpoint_t *ep, const struct crtcp_header *header, void *first, size_t first_length,
                      const void *second, size_t second_length, uint32_t flags, size_t written)
{
  crtcp_fragment_t *f = (crtcp_fragment_t *) crtcp_alloc(crtcp.module, ep, MCA_BTL_NO_ORDER,
                                                         first_length + second_length, flags);

  if (!f) return false;
  memcpy(f + 1, first, first_length);
  if (second_length) memcpy((char *) (f + 1) + first_length, second, second_length);
  f->header = *header;
  f->endpoint = ep;
  f->status = OPAL_SUCCESS;
  f->base.des_flags = MCA_BTL_DES_FLAGS_BTL_OWNERSHIP;
  f->base.des_cbfunc = NULL;
  arm(f);
  advance(f, written);
  opal_list_append(&ep->queue, (opal_list_item_t *) f);
  return true;
}

int crtcp_sendi(mca_btl_base_module_t *btl, crtcp_endpoint_t *ep, struct opal_convertor_t *convertor, void *first,
                size_t first_length, size_t length, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                mca_btl_base_descriptor_t **descriptor)
{
  const struct crtcp_header header = {.kind = CRTCP_SEND, .tag = tag, .length = first_length + length};
  struct iovec vec[3] = {{(void *) &header, sizeof header}, {first, first_length}, {NULL, length}};
  uint32_t count = 1;
  size_t packed = length;
  ssize_t n;
  int error;

  if (length && opal_convertor_need_buffers(convertor)) goto busy;
  if (first_length + length > btl->btl_eager_limit) goto busy;
  crtcp_lock(&crtcp.lock);
  if (ep->state != CRTCP_CONNECTED || crtcp.hold || !opal_list_is_empty(&ep->queue) || ep->mark_left ||
      offer_lane(ep) <= 0) {
    crtcp_unlock(&crtcp.lock);
    goto busy;
  }
  if (length && (opal_convertor_pack(convertor, &vec[2], &count, &packed) < 0 || packed != length)) {
    crtcp_unlock(&crtcp.lock);
    return OPAL_ERROR;
  }
  n = ep->out->write(ep, vec, length ? 3 : 2);
  error = errno;
  if (n > 0) crtcp_counters.moved++;
  if (n == (ssize_t) (sizeof header + first_length + length)) {
    ep->sent++;
  } else if (!keep_rest(ep, &header, first, first_length, vec[2].iov_base, length, flags, n < 0 ? 0 : n)) {
    crtcp_lost(ep, ENOMEM, "writing");
    crtcp_unlock(&crtcp.lock);
    return OPAL_ERR_OUT_OF_RESOURCE;
  } else if (n < 0 && error != EAGAIN) {
    crtcp_lost(ep, error, "writing");
  } else {
    crtcp_watch_endpoint(ep);
  }
  crtcp_unlock(&crtcp.lock);
  return OPAL_SUCCESS;

busy:
  if (descriptor) *descriptor = crtcp_alloc(btl, ep, order, first_length + length, flags);
  return OPAL_ERR_RESOURCE_BUSY;
}

static void put_complete(mca_btl_base_module_t *btl, crtcp_endpoint_t *ep, mca_btl_base_descriptor_t *descriptor,
                         int status)
{
  crtcp_fragment_t *f = (crtcp_fragment_t *) descriptor;

  f->put_done(btl, ep, f->put_local, NULL, f->put_context, f->put_data, status);
}

int crtcp_put(mca_btl_base_module_t *btl, crtcp_endpoint_t *ep, void *from, uint64_t to,
              mca_btl_base_registration_handle_t *local, mca_btl_base_registration_handle_t *remote, size_t size,
              int flags, int order, mca_btl_base_rdma_completion_fn_t done, void *context, void *data)
{
  crtcp_fragment_t *f = (crtcp_fragment_t *) opal_free_list_get(&crtcp.user);
  int r;

  (void) btl;
  (void) local;
  (void) remote;
  (void) flags;
  (void) order;
  if (!f) return OPAL_ERR_OUT_OF_RESOURCE;
  f->base.des_segments = f->segments;
  f->base.des_segment_count = 0;
  f->base.des_flags = MCA_BTL_DES_FLAGS_BTL_OWNERSHIP | MCA_BTL_DES_SEND_ALWAYS_CALLBACK;
  f->base.des_cbfunc = put_complete;
  f->put_done = done;
  f->put_local = from;
  f->put_context = context;
  f->put_data = data;
  f->put_from = from;
  f->put_to = to;
  f->put_left = size;
  next_chunk(f);
  crtcp_lock(&crtcp.lock);
  r = submit(ep, f);
  return r > 0 ? OPAL_SUCCESS : r;
}

void crtcp_fin(crtcp_endpoint_t *ep)
{
  const struct crtcp_header fin = {.kind = CRTCP_FIN};

  /* After a part of a message or mark FIN would be read as data; the peer sees the end of file instead. */
  if (ep->state == CRTCP_CONNECTED && opal_list_is_empty(&ep->queue) && finish_mark(ep) > 0)
    (void) !ep->out->write(ep, &(struct iovec){(void *) &fin, sizeof fin}, 1);
  crtcp_goodbye(ep);
  crtcp_close_endpoint(ep);
}
