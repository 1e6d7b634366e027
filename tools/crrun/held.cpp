// SPDX-License-Identifier: GPL-2.0-only
#include "crrun/held.h"

#include <algorithm>

namespace reprise::job {

bool Held::depends(const Effect& effect) {
  if (const auto* send = std::get_if<SendDown>(&effect)) return !send->down.has_heartbeat();
  return std::holds_alternative<Reply>(effect) || std::holds_alternative<RemoveStaged>(effect) || std::holds_alternative<Finish>(effect);
}

void Held::saved(std::uint64_t number) { saved_ = std::max(saved_, number); }

void Held::put(Entry entry) { waiting_.push_back({newest_, std::move(entry)}); }

std::optional<Held::Entry> Held::next() {
  if (waiting_.empty() || waiting_.front().state > saved_) return std::nullopt;
  Entry entry = std::move(waiting_.front().entry);
  waiting_.pop_front();
  return entry;
}

}  // namespace reprise::job
