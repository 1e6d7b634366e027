/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages to failed processes, and the requests of pml/ob1 that they belong to.
 *
 * When Open MPI learns of a failure before this transport does, a call that waits completes the request with an error
 * (mca_pml_ob1_send_request_cancel), and leaves its messages to the transport. What then happens to the request:
 *  - MPI_Send uses it for its next message at once. A callback would be taken for that of the other message.
 *  - MPI_Testall and others leave it as it is until further requests are complete. In this time ob1 takes a callback for an
 *    error that nobody can be told of any more, and ends the process (send_request_pml_complete).
 *  - It is freed. Only now a callback has its due effect: ob1 can use the request again.
 * Of a long message that has failed halfway the request keeps what was still to be sent, also when it is another message's:
 * that message then begins with it.
 */
#include "message/ob1.h"

#include "ompi_config.h"

#include "endpoint/table.h"
#include "ompi/mca/bml/bml.h"
#include "ompi/mca/pml/base/pml_base_request.h"
#include "ompi/proc/proc.h"

/* pml_ob1_hdr.h, which is not installed: tags of messages whose des_cbdata is a request */
enum {
  MATCH = MCA_BTL_TAG_PML + 1,
  RNDV = MCA_BTL_TAG_PML + 2,
  RGET = MCA_BTL_TAG_PML + 3,
  FRAG = MCA_BTL_TAG_PML + 6,
  CID = MCA_BTL_TAG_PML + 10, /* before a MATCH or RNDV; alone it has no request */
};

static const mca_pml_base_request_t *request_of(const crtcp_fragment_t *f)
{
  if (f->header.kind != CRTCP_SEND || !f->base.des_cbfunc) return NULL;
  switch (f->header.tag) {
  case MATCH:
  case RNDV:
  case RGET:
  case FRAG:
  case CID: return f->base.des_cbdata;
  default: return NULL;
  }
}

bool crtcp_ob1_sends(const crtcp_fragment_t *f)
{
  return request_of(f) != NULL;
}

void crtcp_ob1_note(crtcp_fragment_t *f)
{
  const mca_pml_base_request_t *request = request_of(f);

  if (!request) return;
  f->comm = request->req_comm;
  f->sequence = request->req_sequence;
}

static bool is_to(const mca_pml_base_request_t *request, const crtcp_endpoint_t *ep)
{
  const opal_process_name_t name = request->req_proc->super.proc_name;

  return name.jobid == ep->name.jobid && name.vpid == ep->name.vpid;
}

/* Is the request still that of this message, or again a free one or another message's? */
static bool is_its(const mca_pml_base_request_t *request, const crtcp_fragment_t *f)
{
  return request->req_ompi.req_state != OMPI_REQUEST_INVALID && request->req_comm == f->comm &&
         request->req_sequence == f->sequence && is_to(request, f->endpoint);
}

/* Has ob1 begun this put? Then its context for the callback says how the peer is reached. */
static bool is_ob1s(const crtcp_fragment_t *f)
{
  const mca_bml_base_btl_t *way = f->put_context;

  return way && way->btl == crtcp.module && way->btl_endpoint == f->endpoint;
}

bool crtcp_ob1_has_failed(const crtcp_endpoint_t *ep)
{
  return !((const ompi_proc_t *) ep->proc)->proc_active;
}

bool crtcp_ob1_is_left(const crtcp_fragment_t *f)
{
  const mca_pml_base_request_t *request = f->header.tag == FRAG ? request_of(f) : NULL;

  return request && !is_to(request, f->endpoint);
}

/* Open MPI may have freed what it knows of a peer that it has removed. */
static bool is_known(const crtcp_endpoint_t *ep)
{
  return crtcp_find(ep->name.jobid, ep->name.vpid) == ep;
}

/* The request of a put is not to be seen. On an error ob1 would send the data in messages, which fail, too, and would try that
 * again in every call, even if the request has become another message's. Without a callback the request ends when it is
 * waited for, since the process has failed. */
static enum crtcp_hearing put_hears(const crtcp_fragment_t *f)
{
  const crtcp_endpoint_t *ep = f->endpoint;

  return is_ob1s(f) && (f->status || (is_known(ep) && crtcp_ob1_has_failed(ep))) ? CRTCP_HEARS_NEVER : CRTCP_HEARS;
}

enum crtcp_hearing crtcp_ob1_hears(const crtcp_fragment_t *f)
{
  const mca_pml_base_request_t *request = request_of(f);

  if (f->header.kind == CRTCP_PUT) return put_hears(f);
  if (!request) return CRTCP_HEARS;
  if (!is_its(request, f)) return CRTCP_HEARS_NEVER;
  if (request->req_free_called || !REQUEST_COMPLETE(&request->req_ompi)) return CRTCP_HEARS;
  return f->status || request->req_ompi.req_status.MPI_ERROR ? CRTCP_HEARS_LATER : CRTCP_HEARS;
}
