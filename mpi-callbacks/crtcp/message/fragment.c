/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory for messages to be sent. */
#include "message/message.h"

#include "message/ob1.h"
#include "opal/datatype/opal_convertor.h"

OBJ_CLASS_INSTANCE(crtcp_fragment_t, mca_btl_base_descriptor_t, NULL, NULL);

int crtcp_fragment_init(opal_free_list_item_t *item, void *list)
{
  crtcp_fragment_t *fragment = (crtcp_fragment_t *) item;

  fragment->list = list;
  fragment->size = fragment->list == &crtcp.eager  ? crtcp.module->btl_eager_limit
                   : fragment->list == &crtcp.full ? crtcp.module->btl_max_send_size
                                                   : 0;
  return OPAL_SUCCESS;
}

static crtcp_fragment_t *fragment_get(size_t size)
{
  crtcp_fragment_t *fragment = NULL;

  if (size <= crtcp.module->btl_eager_limit)
    fragment = (crtcp_fragment_t *) opal_free_list_get(&crtcp.eager);
  else if (size <= crtcp.module->btl_max_send_size)
    fragment = (crtcp_fragment_t *) opal_free_list_get(&crtcp.full);
  if (!fragment) return NULL;
  fragment->base.des_segments = fragment->segments;
  fragment->base.des_segment_count = 1;
  fragment->base.order = MCA_BTL_NO_ORDER;
  fragment->base.des_cbdata = NULL; /* not every message of ob1 sets it */
  fragment->segments[0].seg_addr.pval = fragment + 1;
  fragment->segments[0].seg_len = size;
  fragment->put_left = 0;
  return fragment;
}

mca_btl_base_descriptor_t *crtcp_alloc(mca_btl_base_module_t *btl, crtcp_endpoint_t *endpoint, uint8_t order,
                                       size_t size, uint32_t flags)
{
  crtcp_fragment_t *fragment = fragment_get(size);

  (void) btl;
  (void) endpoint;
  (void) order;
  if (!fragment) return NULL;
  fragment->base.des_flags = flags;
  return &fragment->base;
}

int crtcp_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor)
{
  crtcp_fragment_t *fragment = (crtcp_fragment_t *) descriptor;

  (void) btl;
  opal_free_list_return(fragment->list, (opal_free_list_item_t *) fragment);
  return OPAL_SUCCESS;
}

/* On an error ob1 would take this transport from those that reach the peer. What it sends to the peer then would not fail but
 * wait, in a list that keeps the request even when MPI_Send uses it for another message. It does not find NULL. */
static mca_btl_base_module_t *caller(const crtcp_fragment_t *fragment)
{
  return fragment->status && crtcp_ob1_sends(fragment) ? NULL : crtcp.module;
}

void crtcp_fragment_finish(crtcp_fragment_t *fragment)
{
  const bool ours = fragment->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP;

  if ((fragment->base.des_flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK) && fragment->base.des_cbfunc)
    fragment->base.des_cbfunc(caller(fragment), fragment->endpoint, &fragment->base, fragment->status);
  if (ours) crtcp_free(crtcp.module, &fragment->base);
}

mca_btl_base_descriptor_t *crtcp_prepare_src(mca_btl_base_module_t *btl, crtcp_endpoint_t *endpoint,
                                              struct opal_convertor_t *convertor, uint8_t order, size_t reserve,
                                              size_t *size, uint32_t flags)
{
  const bool small = *size + reserve <= btl->btl_eager_limit;
  crtcp_fragment_t *fragment = fragment_get(small ? 0 : btl->btl_max_send_size);
  uint32_t count = 1;
  size_t room = *size;
  struct iovec vec = {.iov_base = NULL};

  (void) order;
  if (!fragment) return NULL;
  fragment->base.des_flags = flags;
  fragment->reserve = fragment->segments[0].seg_len = reserve;
  if (opal_convertor_need_buffers(convertor)) {
    if (room + reserve > fragment->size) room = fragment->size - reserve;
    vec.iov_base = (char *) (fragment + 1) + reserve;
  } else if (room > UINT32_MAX - 65536) {
    room = UINT32_MAX - 65536; /* the length field of the header has 32 bits */
  }
  vec.iov_len = room;
  if (opal_convertor_pack(convertor, &vec, &count, &room) < 0) {
    crtcp_free(btl, &fragment->base);
    return NULL;
  }
  /* ob1 looks for ever for something to pack in what is left of a message to a failed process, if it begins behind the end of
   * the next message. */
  if (!room && *size && crtcp_ob1_has_failed(endpoint)) return &fragment->base;
  if (opal_convertor_need_buffers(convertor)) {
    fragment->segments[0].seg_len += room;
  } else {
    fragment->segments[1].seg_addr.pval = vec.iov_base;
    fragment->segments[1].seg_len = room;
    fragment->base.des_segment_count = 2;
  }
  *size = room;
  return &fragment->base;
}
