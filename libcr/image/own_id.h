// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The id of a thread of an image in the process's own pid namespace. */
#include <sys/types.h>

#include "image/state.pb.h"

namespace reprise {

inline pid_t own_id(const Thread& thread) { return thread.own_tid() ? thread.own_tid() : thread.tid(); }

}  // namespace reprise
