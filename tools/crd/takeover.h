// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Allow one daemon of a job per node: a new daemon takes over from an older one. */
#include <string>

#include "base/unique_fd.h"

namespace reprise::crd {

/**
 * End the daemon that holds @p run_directory, and its ranks, and remove the files that they have left there. The
 * directory is created if it is missing. Waits some seconds for the processes to end; throws std::runtime_error when they
 * do not.
 * @return a descriptor that holds the directory for this process as long as it is open
 */
UniqueFd take_over(const std::string& run_directory);

}  // namespace reprise::crd
