// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The module's device. */
#include "base/unique_fd.h"

namespace reprise {

/** Open /dev/cr: one session, or one lease. Throws Error that says how the module is loaded or access is granted. */
UniqueFd open_device();

}  // namespace reprise
