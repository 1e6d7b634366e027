// SPDX-License-Identifier: LGPL-2.1-or-later
// The one instance of the library in this process.
#pragma once

#include <functional>

#include "croff.h"
#include "runtime/scheduler.h"

namespace croff {

/** Call `work`; turn what it throws into an error code and a text. */
int guarded(const std::function<void()> &work);

/** @throw Error(init) before croff_init() */
Scheduler &scheduler();
Engine &engine();

}  // namespace croff
