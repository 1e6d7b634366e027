/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief What crd says of namespaces and of their processes. The caller holds crtcp.lock. */
#ifndef CRTCP_PEERS_H
#define CRTCP_PEERS_H 1

#include "base/crtcp.h"
#include "rank_channel.h"

/** Find the number by which Open MPI knows a namespace. @param name  of so many bytes, ended by 0 @return false: it is no name */
bool crtcp_jobid_of(const char *name, size_t bytes, uint32_t *jobid);
/** The same for names one behind the other, each ended by 0. @param jobids is replaced @return false: one is no name, or no memory */
bool crtcp_jobids_of(const char *names, size_t bytes, uint32_t **jobids, size_t *count);
/** Handle PEERS: where processes of a namespace listen. */
void crtcp_peers(const char *message, size_t bytes);
/** Handle MOVED: mark the endpoints of processes that are new. */
void crtcp_moved(const char *message, size_t bytes);

#endif
