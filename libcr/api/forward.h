// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Further processes that callbacks want in the checkpoint. */
#include <sys/types.h>

#include "libcr.h"

namespace reprise::api {

/** Some processes that a callback has named. */
struct Forward {
  cr_scope_t scope;
  pid_t target;
};

/** For the agent: a new request, nothing has been asked for. */
void forward_begin();
/** For the agent, when all callbacks are ready: save these processes. No heap. @return 0 or an errno or CR_E* code */
int forward_run();

}  // namespace reprise::api
