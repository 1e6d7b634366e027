/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table of peers: each is in it from its first mention until Open MPI removes it. */
#include "endpoint/table.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "endpoint/modex.h"
#include "opal/mca/pmix/pmix-internal.h"
#include "wire/wire.h"

static uint64_t key(uint32_t jobid, uint32_t vpid)
{
  return (uint64_t) jobid << 32 | vpid;
}

crtcp_endpoint_t *crtcp_find(uint32_t jobid, uint32_t vpid)
{
  void *endpoint;

  return opal_hash_table_get_value_uint64(&crtcp.by_name, key(jobid, vpid), &endpoint) == OPAL_SUCCESS ? endpoint : NULL;
}

static struct crtcp_heard *find_heard(uint32_t jobid, uint32_t vpid)
{
  opal_list_item_t *item;

  OPAL_LIST_FOREACH (item, &crtcp.heard, opal_list_item_t) {
    struct crtcp_heard *heard = (struct crtcp_heard *) ((char *) item - offsetof(struct crtcp_heard, super));

    if (heard->jobid == jobid && heard->vpid == vpid) return heard;
  }
  return NULL;
}

static void move_to(int *count, struct crtcp_address **to, struct crtcp_address *addresses, int new_count)
{
  free(*to);
  *to = addresses;
  *count = new_count;
}

/* A peer that this process has not talked to yet: PMIx would tell where it was before it moved. */
static void keep_for_later(uint32_t jobid, uint32_t vpid, uint32_t incarnation, struct crtcp_address *addresses, int count)
{
  struct crtcp_heard *heard = find_heard(jobid, vpid);

  if (!heard) {
    heard = calloc(1, sizeof *heard);
    if (!heard) {
      free(addresses);
      return;
    }
    OBJ_CONSTRUCT(&heard->super, opal_list_item_t);
    heard->jobid = jobid;
    heard->vpid = vpid;
    opal_list_append(&crtcp.heard, &heard->super);
  }
  heard->incarnation = incarnation;
  if (addresses) move_to(&heard->address_count, &heard->addresses, addresses, count);
}

void crtcp_heard(uint32_t jobid, uint32_t vpid, uint32_t incarnation, struct crtcp_address *addresses, int count)
{
  crtcp_endpoint_t *ep = crtcp_find(jobid, vpid);

  if (!ep) {
    keep_for_later(jobid, vpid, incarnation, addresses, count);
    return;
  }
  ep->incarnation = incarnation;
  if (!addresses) return;
  move_to(&ep->address_count, &ep->addresses, addresses, count);
  ep->address_next = 0;
  ep->located = true;
}

/* Give a new endpoint what crd has said of its peer. */
static void recall(crtcp_endpoint_t *endpoint)
{
  struct crtcp_heard *heard = find_heard(endpoint->name.jobid, endpoint->name.vpid);

  if (!heard) return;
  endpoint->incarnation = heard->incarnation;
  if (heard->addresses) {
    move_to(&endpoint->address_count, &endpoint->addresses, heard->addresses, heard->address_count);
    endpoint->located = true;
  }
  opal_list_remove_item(&crtcp.heard, &heard->super);
  OBJ_DESTRUCT(&heard->super);
  free(heard);
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
  endpoint->in = endpoint->out = &crtcp_tcp;
  memcpy(endpoint->cookie, crtcp.cookie, CRTCP_COOKIE); /* with crd all ranks of a job have the same */
  return endpoint;
}

bool crtcp_locate(crtcp_endpoint_t *endpoint)
{
  struct crtcp_modex *modex = NULL;
  size_t bytes = 0;
  int rc;

  if (endpoint->located) return true;
  OPAL_MODEX_RECV(rc, &crtcp.module->btl_component->btl_version, &endpoint->name, (void **) &modex, &bytes);
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

void crtcp_endpoints_bury(void)
{
  opal_list_item_t *item;

  while ((item = opal_list_remove_first(&crtcp.graveyard)))
    endpoint_free((crtcp_endpoint_t *) ((char *) item - offsetof(crtcp_endpoint_t, super)));
}

crtcp_endpoint_t *crtcp_endpoint_of(opal_proc_t *proc)
{
  crtcp_endpoint_t *endpoint, *made;

  /* A rank may move to another node, so Open MPI must not use memory that two ranks share. */
  if (crtcp_with_daemon()) proc->proc_flags = OPAL_PROC_NON_LOCAL;
  crtcp_lock(&crtcp.lock);
  endpoint = crtcp_find(proc->proc_name.jobid, proc->proc_name.vpid);
  if (endpoint) endpoint->proc = proc; /* Open MPI may have forgotten the process, and mentions it anew */
  crtcp_unlock(&crtcp.lock);
  if (endpoint) return endpoint;
  made = endpoint_make(proc);
  if (!made) return NULL;
  /* All ranks of a job with crd have this transport, and all are added in MPI_Init: a rank asks PMIx for a peer when
   * it connects to it. Of other peers Open MPI must know now whether they have it. */
  if ((!crtcp_with_daemon() || crtcp_foreign(made->name.jobid)) && !crtcp_locate(made)) {
    endpoint_free(made);
    return NULL;
  }
  crtcp_lock(&crtcp.lock);
  endpoint = crtcp_find(proc->proc_name.jobid, proc->proc_name.vpid);
  if (!endpoint && opal_hash_table_set_value_uint64(&crtcp.by_name, key(made->name.jobid, made->name.vpid), made) ==
                       OPAL_SUCCESS) {
    endpoint = made;
    recall(endpoint);
    opal_list_append(&crtcp.endpoints, &endpoint->super);
  } else {
    endpoint_free(made);
  }
  crtcp_unlock(&crtcp.lock);
  return endpoint;
}

void crtcp_endpoint_remove(crtcp_endpoint_t *endpoint)
{
  opal_hash_table_remove_value_uint64(&crtcp.by_name, key(endpoint->name.jobid, endpoint->name.vpid));
  opal_list_remove_item(&crtcp.endpoints, &endpoint->super);
  opal_list_append(&crtcp.graveyard, &endpoint->super);
}

void crtcp_endpoint_forget_receiving(crtcp_endpoint_t *ep)
{
  free(ep->owned);
  free(ep->part);
  ep->owned = ep->part = NULL;
  ep->rest = NULL;
  ep->rest_length = ep->lent = ep->part_length = ep->part_room = ep->put_left = 0;
  ep->put_to = NULL;
  ep->shut = false;
  ep->reader++;
}

void crtcp_goodbye(crtcp_endpoint_t *ep)
{
  ep->sent = ep->received = 0;
  if (crtcp_foreign(ep->name.jobid)) crtcp.goodbyes++;
}

void crtcp_close_endpoint(crtcp_endpoint_t *ep)
{
  if (ep->fd >= 0) close(ep->fd); /* also removes it from the epoll set */
  ep->fd = -1;
  ep->events = 0;
  ep->state = CRTCP_IDLE;
  ep->in = ep->out = &crtcp_tcp;
  ep->word_got = 0;
  ep->mark_left = ep->mark_due = 0;
  ep->deadline_ns = ep->asked_ns = 0;
  ep->ended = false;
  crtcp_endpoint_forget_receiving(ep);
  ep->rewind = !opal_list_is_empty(&ep->queue);
  if (!opal_list_is_empty(&crtcp.guests)) crtcp.reconsider = true;
}
