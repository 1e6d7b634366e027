// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file What libpmix asks of its host, in the PMIx server process: every question goes to crd with a number, and
 * the answer to whoever asked. libpmix calls from a thread of its own.
 */
#include <pmix.h>
#include <pmix_server.h>

#include "crd/pmix_messages.pb.h"
#include "crd/pmix_names.h"

namespace reprise::crd {

/** The functions to give to PMIx_server_init(); questions are written to @p fd. Once per process; @p names must stay. */
pmix_server_module_t* pmix_upcalls(int fd, const PmixNames& names);

/** Answers. Those to questions that nobody asked are ignored. */
void answer_fence(const PmixFenceDone& answer);
void answer_modex(const PmixModexReply& answer);
void answer_lookup(const PmixLookupReply& answer);
void answer_spawn(const PmixSpawnReply& answer);

/** Write a message to crd; from any thread. */
void tell_crd(const FromPmix& message);

}  // namespace reprise::crd
