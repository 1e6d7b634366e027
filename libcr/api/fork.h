// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Handlers for fork(). */

namespace reprise::api {

/** Register the handlers with pthread_atfork(), once per process. */
void install_fork_handlers();

}  // namespace reprise::api
