// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The requests of libpmix to its host, in the PMIx server process. Every request goes to crd with a number; the
 * answer goes to the requester. libpmix calls from a thread of its own.
 */
#include <pmix.h>
#include <pmix_server.h>

#include "crd/pmix_messages.pb.h"
#include "crd/pmix_names.h"

namespace reprise::crd {

/**
 * @return the functions for PMIx_server_init(); requests are written to @p fd. Once per process; @p names must stay alive
 */
pmix_server_module_t* pmix_upcalls(int fd, const PmixNames& names);

/** Handle an answer. Answers without a request are ignored. */
void answer_fence(const PmixFenceDone& answer);
void answer_modex(const PmixModexReply& answer);
void answer_lookup(const PmixLookupReply& answer);
void answer_spawn(const PmixSpawnReply& answer);

/** Send a message to crd; from any thread. */
void tell_crd(const FromPmix& message);

}  // namespace reprise::crd
