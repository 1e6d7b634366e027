/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The BTL functions of Open MPI that do not send: peers, and memory for messages. */
#include "btl/btl.h"

#include <stdlib.h>
#include <unistd.h>

#include "endpoint/guests.h"
#include "endpoint/lanes.h"
#include "endpoint/table.h"
#include "guard/guard.h"
#include "message/message.h"
#include "opal/class/opal_bitmap.h"
#include "opal/runtime/opal_progress.h"
#include "wave/wait.h"

static int add_procs(mca_btl_base_module_t *btl, size_t count, opal_proc_t **procs, crtcp_endpoint_t **endpoints,
                     opal_bitmap_t *reachable)
{
  (void) btl;
  for (size_t i = 0; i < count; i++) {
    crtcp_endpoint_t *endpoint;

    if (procs[i] == opal_proc_local_get()) continue;
    endpoint = crtcp_endpoint_of(procs[i]);
    if (!endpoint) continue;
    endpoints[i] = endpoint;
    if (reachable) opal_bitmap_set_bit(reachable, i);
  }
  return OPAL_SUCCESS;
}

/* Messages that are still queued for the peer fail with OPAL_ERR_UNREACH. */
static void remove_peer(crtcp_endpoint_t *endpoint)
{
  opal_list_item_t *item;

  crtcp_fin(endpoint);
  crtcp_lanes_leave(endpoint);
  crtcp_endpoint_remove(endpoint);
  while ((item = opal_list_remove_first(&endpoint->queue))) {
    ((crtcp_fragment_t *) item)->status = OPAL_ERR_UNREACH;
    opal_list_append(&crtcp.finished, item);
  }
}

static int del_procs(mca_btl_base_module_t *btl, size_t count, opal_proc_t **procs, crtcp_endpoint_t **endpoints)
{
  (void) btl;
  (void) procs;
  crtcp_lock(&crtcp.lock);
  for (size_t i = 0; i < count; i++)
    if (endpoints[i] && crtcp_find(endpoints[i]->name.jobid, endpoints[i]->name.vpid) == endpoints[i])
      remove_peer(endpoints[i]);
  crtcp_unlock(&crtcp.lock);
  return OPAL_SUCCESS;
}

static int register_error(mca_btl_base_module_t *btl, mca_btl_base_module_error_cb_fn_t callback)
{
  (void) btl;
  crtcp.error_callback = callback;
  return OPAL_SUCCESS;
}

static int finalize(mca_btl_base_module_t *btl)
{
  opal_list_item_t *item;

  if (!crtcp.open) return OPAL_SUCCESS;
  opal_progress_unregister(crtcp_progress);
  crtcp_guard_stop();
  crtcp_lock(&crtcp.lock);
  /* Wait for the end of a wave. The callback and the channel stay; the callback refuses later waves. */
  while (crtcp.hold) {
    crtcp_unlock(&crtcp.lock);
    crtcp_hold_wait();
    crtcp_lock(&crtcp.lock);
  }
  crtcp.open = false;
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(NULL)) remove_peer(ep);
  opal_list_join(&crtcp.finished, opal_list_get_end(&crtcp.finished), &crtcp.unheard);
  while ((item = opal_list_remove_first(&crtcp.finished)))
    if (((crtcp_fragment_t *) item)->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP)
      crtcp_free(btl, (mca_btl_base_descriptor_t *) item);
  while ((item = opal_list_remove_first(&crtcp.inbox))) free(item);
  crtcp_lanes_unmap();
  crtcp_endpoints_bury();
  crtcp_close_guests();
  if (crtcp.listener4 >= 0) close(crtcp.listener4);
  if (crtcp.listener6 >= 0) close(crtcp.listener6);
  if (crtcp.epoll >= 0) close(crtcp.epoll);
  crtcp.listener4 = crtcp.listener6 = crtcp.epoll = -1;
  crtcp_unlock(&crtcp.lock);
  return OPAL_SUCCESS;
}

mca_btl_base_module_t crtcp_module = {
    .btl_component = &mca_btl_crtcp_component,
    .btl_add_procs = add_procs,
    .btl_del_procs = del_procs,
    .btl_finalize = finalize,
    .btl_alloc = crtcp_alloc,
    .btl_free = crtcp_free,
    .btl_prepare_src = crtcp_prepare_src,
    .btl_send = crtcp_send,
    .btl_sendi = crtcp_sendi,
    .btl_put = crtcp_put,
    .btl_dump = mca_btl_base_dump,
    .btl_register_error = register_error,
};
