// SPDX-License-Identifier: GPL-2.0-only
#include "links.h"

#include <algorithm>
#include <cerrno>

namespace reprise::job {

namespace {
constexpr std::uint64_t kWaitMs = 1000, kWaitMostMs = 30'000;
}  // namespace

LinkMeaning Links::lost(const LinkLost& message, const std::string& what, Now now) {
  if (message.error() == EMFILE || message.error() == ENFILE) return LinkMeaning::no_room;
  if (message.error() != ENODATA) return LinkMeaning::retry;
  what_ = what;
  if (due_ms_) return LinkMeaning::recover;
  if (recoveries_ >= max_recoveries_) return LinkMeaning::give_up;
  due_ms_ = now.ms + (recoveries_ ? std::min(kWaitMostMs, kWaitMs << (recoveries_ - 1)) : 0);
  ++recoveries_;
  return LinkMeaning::recover;
}

void Links::recovering() { due_ms_.reset(); }

}  // namespace reprise::job
