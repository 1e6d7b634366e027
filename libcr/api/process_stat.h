// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file What identifies a process beyond its pid. */
#include <sys/types.h>

#include <cstdint>

namespace reprise::api {

/** @return when @p pid was started, in clock ticks since boot; 0 when it does not run (any more) */
std::uint64_t start_time_of(pid_t pid);

}  // namespace reprise::api
