// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Further processes that callbacks include in the checkpoint (cr_forward_checkpoint()). */
#include <sys/types.h>

#include "libcr.h"

namespace reprise::api {

/** Processes that a callback has named. */
struct Forward {
  cr_scope_t scope;
  pid_t target;
};

/** For the agent, at the start of a request: empty the list of forwarded requests. */
void forward_begin();
/**
 * For the agent, when all callbacks are ready: save the processes that callbacks have named, and wait for it. Does not
 * allocate from the heap.
 * @return 0 or an errno or CR_E* code
 */
int forward_run();

}  // namespace reprise::api
