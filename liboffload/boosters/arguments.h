// SPDX-License-Identifier: LGPL-2.1-or-later
// How this process was started, to start boosters with it.
#pragma once

#include <string>
#include <vector>

namespace croff {

/** Words of this process's command. */
std::vector<std::string> arguments();
/** Path of its program. @throw Error(spawn) */
std::string executable();
/** The names in CROFF_HOSTS. */
std::vector<std::string> host_names();

}  // namespace croff
