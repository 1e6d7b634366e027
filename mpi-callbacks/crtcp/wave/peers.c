/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What crd says of namespaces and of their processes. */
#include "wave/peers.h"

#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "endpoint/table.h"
#include "opal/mca/pmix/pmix-internal.h"

bool crtcp_jobid_of(const char *name, size_t bytes, uint32_t *jobid)
{
  pmix_nspace_t nspace = "";
  opal_jobid_t found;
  int rc;

  if (bytes == 0 || bytes > sizeof nspace) return false;
  memcpy(nspace, name, bytes);
  nspace[bytes - 1] = 0;
  OPAL_PMIX_CONVERT_NSPACE(rc, &found, nspace);
  if (rc != OPAL_SUCCESS) return false;
  *jobid = found;
  return true;
}

bool crtcp_jobids_of(const char *names, size_t bytes, uint32_t **jobids, size_t *count)
{
  size_t most = 0;

  free(*jobids);
  *jobids = NULL;
  *count = 0;
  for (size_t i = 0; i < bytes; i++) most += !names[i];
  if (!most) return true;
  *jobids = calloc(most, sizeof **jobids);
  if (!*jobids) return false;
  for (size_t at = 0; at < bytes;) {
    const char *end = memchr(names + at, 0, bytes - at);

    if (!end || !crtcp_jobid_of(names + at, end + 1 - (names + at), &(*jobids)[*count])) return false;
    ++*count;
    at = end + 1 - names;
  }
  return true;
}

static void new_addresses(uint32_t jobid, const struct cr_rank_peer *entry)
{
  struct crtcp_address *addresses = NULL;
  int count = 0;

  if (!crtcp_foreign(jobid) && entry->rank == OPAL_PROC_MY_NAME.vpid) {
    crtcp.incarnation = entry->incarnation;
    return;
  }
  if (entry->addresses)
    count = crtcp_parse_addresses((const char *) (entry + 1), entry->length - sizeof *entry, entry->addresses, &addresses);
  crtcp_heard(jobid, entry->rank, entry->incarnation, addresses, count);
}

/* The namespace of a message's ranks, whose name of so many bytes is behind the first `*at`. @return false: it is none */
static bool namespace_of(const char *buffer, size_t bytes, size_t *at, uint32_t name, uint32_t *jobid)
{
  const char *text = buffer + *at;

  *jobid = OPAL_PROC_MY_NAME.jobid;
  if (!name) return true;
  if (name % 4 || name > bytes - *at || !memchr(text, 0, name)) return false;
  *at += name;
  return crtcp_jobid_of(text, strlen(text) + 1, jobid);
}

void crtcp_peers(const char *buffer, size_t bytes)
{
  const struct cr_rank_peers *message = (const struct cr_rank_peers *) buffer;
  size_t at = sizeof *message;
  uint32_t jobid;

  if (bytes < at || !namespace_of(buffer, bytes, &at, message->nspace, &jobid)) return;
  for (uint32_t i = 0; i < message->entries && bytes - at >= sizeof(struct cr_rank_peer); i++) {
    const struct cr_rank_peer *entry = (const struct cr_rank_peer *) (buffer + at);

    if (entry->length < sizeof *entry || entry->length > bytes - at || entry->length % 4) return;
    new_addresses(jobid, entry);
    at += entry->length;
  }
}

void crtcp_moved(const char *buffer, size_t bytes)
{
  const struct cr_rank_moved *message = (const struct cr_rank_moved *) buffer;
  size_t at = sizeof *message;
  const uint32_t *ranks;
  uint32_t jobid;

  if (bytes < at || !namespace_of(buffer, bytes, &at, message->nspace, &jobid)) return;
  ranks = (const uint32_t *) (buffer + at);
  if ((bytes - at) / sizeof *ranks < message->count) return;
  for (uint32_t i = 0; i < message->count; i++) {
    crtcp_endpoint_t *ep = crtcp_find(jobid, ranks[i]);

    if (ep) ep->moved = true;
  }
}
