// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Hand kept memory over to a process that outlives the target and can give it to a restart (RestoreOptions::kept_memory). */
#include <string>
#include <vector>

#include "base/kept_passing.h"

namespace reprise {

/**
 * Send each of @p files over @p socket, as send_kept() does. Of two with the same name none is sent: a restart takes neither.
 * @param warnings  receives what could not be sent, and why
 */
void hand_over(int socket, std::vector<KeptFile> files, std::vector<std::string>& warnings);

}  // namespace reprise
