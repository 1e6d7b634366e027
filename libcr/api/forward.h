// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Further processes that callbacks want in the checkpoint. */

namespace reprise::api {

/** For the agent: a new request, nothing has been asked for. */
void forward_begin();
/** For the agent, when all callbacks are ready: save these processes. No heap. @return 0 or an errno or CR_E* code */
int forward_run();

}  // namespace reprise::api
