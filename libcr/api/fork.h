// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file What becomes of the library when the program forks. */

namespace reprise::api {

/** Once per process; cheap afterwards. */
void install_fork_handlers();

}  // namespace reprise::api
