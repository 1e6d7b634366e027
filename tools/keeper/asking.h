// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file How a command asks the keeper of a process's snapshots. */
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/unique_fd.h"

namespace reprise::snapshots {

/** @return a connection to the keeper of @p pid, which is started if need be. Throws Error. */
UniqueFd connect_or_start(pid_t pid);

/** Send the words of a command. @return its exit status, or kNotKept; -1: the keeper has ended before it could do it */
int ask(const UniqueFd& keeper, const std::vector<std::string>& words);

/**
 * As ask(), and again if the keeper has ended with its last snapshot between being found and being asked. Throws Error.
 * @param connect  connects to the keeper of @p pid
 */
int ask_persistently(pid_t pid, const std::vector<std::string>& words, const std::function<UniqueFd()>& connect);

}  // namespace reprise::snapshots
