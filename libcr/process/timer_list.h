// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file POSIX timers as /proc/PID/timers lists them, and what to do about them. */
#include <string>
#include <vector>

#include <sys/types.h>

#include "image/state.pb.h"

namespace reprise {

/** All but the times. */
std::vector<Timers::Posix> parse_timers(const std::string& text);

struct TimerPlan {
  std::vector<int> remove;                   ///< identifiers that the image does not have, or has otherwise
  std::vector<const Timers::Posix*> create;  ///< by identifier
  std::vector<const Timers::Posix*> set;     ///< whose time has to be set: all of the image, freshly made ones too
};

/** @param live  the target's timers now */
TimerPlan plan_timers(const Timers& image, const std::vector<Timers::Posix>& live);

}  // namespace reprise
