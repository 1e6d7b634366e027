/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The BTL functions of Open MPI that do not send: peers, and memory for messages. */
#include "crtcp.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opal/class/opal_bitmap.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/runtime/opal_progress.h"

#include "modex.h"

OBJ_CLASS_INSTANCE(crtcp_fragment_t, mca_btl_base_descriptor_t, NULL, NULL);

int crtcp_fragment_init(opal_free_list_item_t *item, void *list)
{
  crtcp_fragment_t *fragment = (crtcp_fragment_t *) item;

  fragment->list = list;
  fragment->size = fragment->list == &crtcp.eager  ? crtcp_module.btl_eager_limit
                   : fragment->list == &crtcp.full ? crtcp_module.btl_max_send_size
                                                   : 0;
  return OPAL_SUCCESS;
}

static crtcp_fragment_t *fragment_get(size_t size)
{
  crtcp_fragment_t *fragment = NULL;

  if (size <= crtcp_module.btl_eager_limit)
    fragment = (crtcp_fragment_t *) opal_free_list_get(&crtcp.eager);
  else if (size <= crtcp_module.btl_max_send_size)
    fragment = (crtcp_fragment_t *) opal_free_list_get(&crtcp.full);
  if (!fragment) return NULL;
  fragment->base.des_segments = fragment->segments;
  fragment->base.des_segment_count = 1;
  fragment->base.order = MCA_BTL_NO_ORDER;
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

static int release(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor)
{
  crtcp_fragment_t *fragment = (crtcp_fragment_t *) descriptor;

  (void) btl;
  opal_free_list_return(fragment->list, (opal_free_list_item_t *) fragment);
  return OPAL_SUCCESS;
}

void crtcp_fragment_finish(crtcp_fragment_t *fragment)
{
  const bool ours = fragment->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP;

  if ((fragment->base.des_flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK) && fragment->base.des_cbfunc)
    fragment->base.des_cbfunc(&crtcp_module, fragment->endpoint, &fragment->base, fragment->status);
  if (ours) release(&crtcp_module, &fragment->base);
}

/* A fragment with `reserve` bytes for the caller's header and as much data as fits. Contiguous data is not copied. */
static mca_btl_base_descriptor_t *prepare_src(mca_btl_base_module_t *btl, crtcp_endpoint_t *endpoint,
                                              struct opal_convertor_t *convertor, uint8_t order, size_t reserve,
                                              size_t *size, uint32_t flags)
{
  const bool small = *size + reserve <= btl->btl_eager_limit;
  crtcp_fragment_t *fragment = fragment_get(small ? 0 : btl->btl_max_send_size);
  uint32_t count = 1;
  size_t room = *size;
  struct iovec vec = {.iov_base = NULL};

  (void) endpoint;
  (void) order;
  if (!fragment) return NULL;
  fragment->base.des_flags = flags;
  fragment->segments[0].seg_len = reserve;
  if (opal_convertor_need_buffers(convertor)) {
    if (room + reserve > fragment->size) room = fragment->size - reserve;
    vec.iov_base = (char *) (fragment + 1) + reserve;
  } else if (room > UINT32_MAX - 65536) {
    room = UINT32_MAX - 65536; /* the length field of the header has 32 bits */
  }
  vec.iov_len = room;
  if (opal_convertor_pack(convertor, &vec, &count, &room) < 0) {
    release(btl, &fragment->base);
    return NULL;
  }
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

/* --------------------------------------------------------------------------------------------- peers */

static uint64_t key(uint32_t jobid, uint32_t vpid)
{
  return (uint64_t) jobid << 32 | vpid;
}

crtcp_endpoint_t *crtcp_find(uint32_t jobid, uint32_t vpid)
{
  void *endpoint;

  return opal_hash_table_get_value_uint64(&crtcp.by_name, key(jobid, vpid), &endpoint) == OPAL_SUCCESS ? endpoint : NULL;
}

static crtcp_endpoint_t *endpoint_make(opal_proc_t *proc)
{
  crtcp_endpoint_t *endpoint = calloc(1, sizeof *endpoint);

  if (!endpoint) return NULL;
  endpoint->watch = CRTCP_WATCH_ENDPOINT;
  OBJ_CONSTRUCT(&endpoint->super, opal_list_item_t);
  OBJ_CONSTRUCT(&endpoint->queue, opal_list_t);
  endpoint->proc = proc;
  endpoint->name = proc->proc_name;
  endpoint->fd = -1;
  memcpy(endpoint->cookie, crtcp.cookie, CRTCP_COOKIE); /* with crd all ranks of a job have the same */
  return endpoint;
}

bool crtcp_locate(crtcp_endpoint_t *endpoint)
{
  struct crtcp_modex *modex = NULL;
  size_t bytes = 0;
  int rc;

  if (endpoint->located) return true;
  OPAL_MODEX_RECV(rc, &crtcp.super.btl_version, &endpoint->name, (void **) &modex, &bytes);
  if (rc == OPAL_SUCCESS && modex && bytes >= sizeof *modex && modex->version == CRTCP_MODEX) {
    memcpy(endpoint->cookie, modex->cookie, CRTCP_COOKIE);
    endpoint->address_count = crtcp_parse_addresses((const char *) (modex + 1), bytes - sizeof *modex, modex->count,
                                                    &endpoint->addresses);
    endpoint->located = true;
  }
  free(modex);
  return endpoint->located;
}

static void endpoint_free(crtcp_endpoint_t *endpoint)
{
  crtcp_endpoint_forget_receiving(endpoint);
  free(endpoint->addresses);
  OBJ_DESTRUCT(&endpoint->queue);
  OBJ_DESTRUCT(&endpoint->super);
  free(endpoint);
}

static void bury(void)
{
  opal_list_item_t *item;

  while ((item = opal_list_remove_first(&crtcp.graveyard)))
    endpoint_free((crtcp_endpoint_t *) ((char *) item - offsetof(crtcp_endpoint_t, super)));
}

static int add_procs(mca_btl_base_module_t *btl, size_t count, opal_proc_t **procs, crtcp_endpoint_t **endpoints,
                     opal_bitmap_t *reachable)
{
  (void) btl;
  for (size_t i = 0; i < count; i++) {
    crtcp_endpoint_t *endpoint, *made;

    if (procs[i] == opal_proc_local_get()) continue;
    pthread_mutex_lock(&crtcp.lock);
    endpoint = crtcp_find(procs[i]->proc_name.jobid, procs[i]->proc_name.vpid);
    pthread_mutex_unlock(&crtcp.lock);
    if (!endpoint) {
      made = endpoint_make(procs[i]);
      if (!made) continue;
      /* All ranks of a job with crd have this transport, and all are added in MPI_Init: a rank asks PMIx for a peer when
       * it connects to it. Of other peers Open MPI must know now whether they have it. */
      if ((!crtcp_with_daemon() || crtcp_foreign(made->name.jobid)) && !crtcp_locate(made)) {
        endpoint_free(made);
        continue;
      }
      pthread_mutex_lock(&crtcp.lock);
      endpoint = crtcp_find(procs[i]->proc_name.jobid, procs[i]->proc_name.vpid);
      if (!endpoint && opal_hash_table_set_value_uint64(&crtcp.by_name, key(made->name.jobid, made->name.vpid), made) ==
                           OPAL_SUCCESS) {
        endpoint = made;
        opal_list_append(&crtcp.endpoints, &endpoint->super);
      } else {
        endpoint_free(made);
      }
      pthread_mutex_unlock(&crtcp.lock);
      if (!endpoint) continue;
    }
    /* A rank may move to another node, so Open MPI must not use memory that two ranks share. */
    if (crtcp_with_daemon()) procs[i]->proc_flags = OPAL_PROC_NON_LOCAL;
    endpoints[i] = endpoint;
    if (reachable) opal_bitmap_set_bit(reachable, i);
  }
  return OPAL_SUCCESS;
}

crtcp_endpoint_t *crtcp_find_or_make(uint32_t jobid, uint32_t vpid)
{
  crtcp_endpoint_t *endpoint = crtcp_find(jobid, vpid);
  opal_process_name_t name = {.jobid = jobid, .vpid = vpid};
  opal_proc_t *proc;

  if (endpoint) return endpoint;
  pthread_mutex_unlock(&crtcp.lock);
  proc = opal_proc_for_name(name);
  if (proc) add_procs(&crtcp_module, 1, &proc, &endpoint, NULL);
  pthread_mutex_lock(&crtcp.lock);
  return crtcp_find(jobid, vpid);
}

/* Remove a peer, under the lock. Messages that are still queued for it fail with OPAL_ERR_UNREACH. */
static void endpoint_remove(crtcp_endpoint_t *endpoint)
{
  opal_list_item_t *item;

  crtcp_fin(endpoint);
  opal_hash_table_remove_value_uint64(&crtcp.by_name, key(endpoint->name.jobid, endpoint->name.vpid));
  opal_list_remove_item(&crtcp.endpoints, &endpoint->super);
  opal_list_append(&crtcp.graveyard, &endpoint->super);
  while ((item = opal_list_remove_first(&endpoint->queue))) {
    ((crtcp_fragment_t *) item)->status = OPAL_ERR_UNREACH;
    opal_list_append(&crtcp.finished, item);
  }
}

static int del_procs(mca_btl_base_module_t *btl, size_t count, opal_proc_t **procs, crtcp_endpoint_t **endpoints)
{
  (void) btl;
  (void) procs;
  pthread_mutex_lock(&crtcp.lock);
  for (size_t i = 0; i < count; i++)
    if (endpoints[i] && crtcp_find(endpoints[i]->name.jobid, endpoints[i]->name.vpid) == endpoints[i])
      endpoint_remove(endpoints[i]);
  pthread_mutex_unlock(&crtcp.lock);
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

  (void) btl;
  if (!crtcp.open) return OPAL_SUCCESS;
  opal_progress_unregister(crtcp_progress);
  pthread_mutex_lock(&crtcp.lock);
  /* Wait for the end of a wave. The callback and the channel stay; the callback refuses later waves. */
  while (crtcp.hold) {
    pthread_mutex_unlock(&crtcp.lock);
    crtcp_hold_wait();
    pthread_mutex_lock(&crtcp.lock);
  }
  crtcp.open = false;
  while (!opal_list_is_empty(&crtcp.endpoints)) {
    item = opal_list_get_first(&crtcp.endpoints);
    endpoint_remove((crtcp_endpoint_t *) ((char *) item - offsetof(crtcp_endpoint_t, super)));
  }
  while ((item = opal_list_remove_first(&crtcp.finished)))
    if (((crtcp_fragment_t *) item)->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP)
      release(&crtcp_module, (mca_btl_base_descriptor_t *) item);
  while ((item = opal_list_remove_first(&crtcp.inbox))) free(item);
  bury();
  crtcp_close_guests();
  if (crtcp.listener4 >= 0) close(crtcp.listener4);
  if (crtcp.listener6 >= 0) close(crtcp.listener6);
  if (crtcp.epoll >= 0) close(crtcp.epoll);
  crtcp.listener4 = crtcp.listener6 = crtcp.epoll = -1;
  pthread_mutex_unlock(&crtcp.lock);
  return OPAL_SUCCESS;
}

mca_btl_base_module_t crtcp_module = {
    .btl_component = &crtcp.super,
    .btl_add_procs = add_procs,
    .btl_del_procs = del_procs,
    .btl_finalize = finalize,
    .btl_alloc = crtcp_alloc,
    .btl_free = release,
    .btl_prepare_src = prepare_src,
    .btl_send = crtcp_send,
    .btl_sendi = crtcp_sendi,
    .btl_put = crtcp_put,
    .btl_dump = mca_btl_base_dump,
    .btl_register_error = register_error,
};
