// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Parse /proc/PID/timers and compare it with the POSIX timers of an image. */
#include <string>
#include <vector>

#include <sys/types.h>

#include "image/state.pb.h"

namespace reprise {

/** Parse the text of /proc/PID/timers, which has everything but the times. */
std::vector<Timers::Posix> parse_timers(const std::string& text);

struct TimerPlan {
  std::vector<int> remove;                   ///< identifiers that the image lacks or has with other attributes
  std::vector<const Timers::Posix*> create;  ///< sorted by identifier
  std::vector<const Timers::Posix*> set;     ///< timers to set: all of the image
};

/** @param live  the target's timers now */
TimerPlan plan_timers(const Timers& image, const std::vector<Timers::Posix>& live);

}  // namespace reprise
