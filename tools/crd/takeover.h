// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file One daemon of a job on a node: a new one takes over from an older one. */
#include <string>

#include "base/unique_fd.h"

namespace reprise::crd {

/**
 * End the daemon that has @p run_directory, which is made if it is not there, with its ranks, and remove what they
 * have left in it. Waits for them, up to some seconds; throws std::runtime_error when they do not end.
 * @return holds the directory for this process for as long as it is open
 */
UniqueFd take_over(const std::string& run_directory);

}  // namespace reprise::crd
