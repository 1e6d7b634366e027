// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Name of the shared memory through which a program that uses libcr and its helper process communicate. */

namespace reprise {

/**
 * Name of the memfd. A rollback rewrites its content although another process, the helper, maps it too: the program
 * and its helper rely on that.
 */
inline constexpr char kChannelName[] = "reprise-request";

}  // namespace reprise
