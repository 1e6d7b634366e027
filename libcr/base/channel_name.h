// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The name of the memory by which a program that uses libcr and its helper talk to each other. */

namespace reprise {

/** Of the memfd. A rollback rewrites it though the helper maps it, too: both count on that. */
inline constexpr char kChannelName[] = "reprise-request";

}  // namespace reprise
