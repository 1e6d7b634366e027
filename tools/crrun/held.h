// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Effects that wait until the state before them is on disk: nobody may learn of a commit that crrun itself could
 * forget. Everything else goes on meanwhile, so that a slow disk delays waves and recoveries and stops no rank.
 */
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "crrun/coordinator/effects.h"

namespace reprise::job {

class Held {
 public:
  struct Entry {
    Effect effect;
    std::vector<NodeIndex> living;  ///< receivers of a message to all, when it was sent
  };
  /** Whether an effect can be seen by others and so depends on the states before it. Answers to heartbeats do not. */
  static bool depends(const Effect& effect);

  /** State @p number is being saved: what depends and follows waits for it. */
  void saving(std::uint64_t number) { newest_ = number; }
  /** State @p number is on disk, and with it all earlier ones. */
  void saved(std::uint64_t number);
  /** Give the state up: nothing waits any more. */
  void give_up() { saved(newest_); }
  /** Take an effect that depends. next() returns it when it need not wait. */
  void put(Entry entry);
  /** @return the next effect that need not wait any more, in the order of put() */
  std::optional<Entry> next();
  bool empty() const { return waiting_.empty(); }

 private:
  struct Waiting {
    std::uint64_t state;
    Entry entry;
  };
  std::deque<Waiting> waiting_;
  std::uint64_t newest_ = 0, saved_ = 0;
};

}  // namespace reprise::job
