// SPDX-License-Identifier: LGPL-2.1-or-later
#include "session/checked_batch.h"

#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace reprise {

void CheckedBatch::need(std::size_t bytes) {
  if (!queued_.empty() && !remote_.room(1, bytes)) run();
}

void CheckedBatch::add(const Remote::Call& call, Name name, bool must) {
  need(0);
  remote_.add(call, must);
  queued_.push_back({std::move(name), must});
}

std::vector<std::int64_t> CheckedBatch::run() {
  const std::vector<Entry> made = std::exchange(queued_, {});
  if (made.empty()) return {};
  std::vector<std::int64_t> results = remote_.run(tid_);
  for (std::size_t i = 0; i < made.size(); ++i) {
    // Only -4095 … -1 are errors: an address that mmap returns may be negative as a signed number.
    if (results[i] >= 0 || results[i] < -4095) continue;
    const auto text = [&] { return made[i].name() + ": " + error_text(results[i]); };
    if (made[i].must) throw Error(Failure::permanent, static_cast<int>(-results[i]), text());
    if (warnings_) warnings_->push_back(text());
  }
  return results;
}

}  // namespace reprise
