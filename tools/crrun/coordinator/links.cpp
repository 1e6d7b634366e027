// SPDX-License-Identifier: GPL-2.0-only
#include "links.h"

#include <algorithm>
#include <cerrno>

#include "job/lost_links.h"

namespace reprise::job {

namespace {
constexpr std::uint64_t kWaitMs = 1000, kWaitMostMs = 30'000;
constexpr std::uint64_t kTellMs = 60'000;
}  // namespace

LinkMeaning Links::lost(const LinkLost& message, const std::string& what, Now now) {
  if (message.error() == EMFILE || message.error() == ENFILE) return LinkMeaning::no_room;
  if (message.error() != ENODATA) {
    const auto reached = [&](const Unreached& one) { return now.ms > one.last_ms + kReachedMs; };
    // Not with each report: thousands can come at once.
    if (now.ms > swept_ms_ + kReachedMs) {
      std::erase_if(unreached_, [&](const auto& one) { return reached(one.second); });
      swept_ms_ = now.ms;
    }
    Unreached& one = unreached_.try_emplace({message.rank(), message.peer()}, Unreached{now.ms, now.ms, false}).first->second;
    if (reached(one)) one = {now.ms, now.ms, false};
    one.last_ms = now.ms;
    if (now.ms < one.first_ms + kTellMs || std::exchange(one.told, true)) return LinkMeaning::retry;
    return LinkMeaning::unreachable;
  }
  what_ = what;
  if (due_ms_) return LinkMeaning::recover;
  if (recoveries_ >= max_recoveries_) return LinkMeaning::give_up;
  due_ms_ = now.ms + (recoveries_ ? std::min(kWaitMostMs, kWaitMs << (recoveries_ - 1)) : 0);
  ++recoveries_;
  return LinkMeaning::recover;
}

void Links::recovering() { due_ms_.reset(); }

}  // namespace reprise::job
