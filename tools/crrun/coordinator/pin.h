// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file A wave at the request of the program, to which all recoveries go back (Fenix_Init of libfenix, boosters of liboffload).
 *
 *      none ──all ranks have asked──> wanted ──it is committed──> pinned ──all ranks have released it──> none
 *        ^                              │                           │
 *        └── a recovery: they ask again ┘     none <── a recovery to an earlier wave, or from the beginning
 *
 * A recovery to a wave that was pinned once pins it again: the ranks are where they had asked for it.
 */
#include <cstddef>
#include <vector>

#include "store.h"
#include "types.h"

namespace reprise::job {

class Pin {
 public:
  explicit Pin(std::size_t ranks) : asked_(ranks), released_(ranks) {}

  /** A rank asks for the wave. Asking twice is asking once. */
  void ask(Rank rank) { note(asked_, rank); }
  /** A rank needs it no more. @return whether that was the last one: no wave is pinned now */
  bool release(Rank rank);
  /** Whether all have asked, so that a wave has to be taken. */
  bool wanted() const { return !wave_ && asked_.count == asked_.by_rank.size(); }
  /** Ranks that have asked and wait. */
  std::size_t waiting() const { return asked_.count; }
  /** A wave begins. */
  void begun(WaveNumber wave) { taking_ = wanted() ? wave : 0; }
  /** @return whether this wave, which is complete, is the one that was asked for */
  bool takes(WaveNumber wave) const { return taking_ && taking_ == wave; }
  /** It is committed, or was when an earlier crrun ran. */
  void pinned(WaveNumber wave);
  /** The ranks go back to this wave; nullptr: to the beginning. */
  void rolled_back(const StoredWave* wave);
  /** @return the pinned wave; 0: none is */
  WaveNumber wave() const { return wave_; }

 private:
  struct Ranks {
    explicit Ranks(std::size_t count) : by_rank(count) {}
    std::vector<bool> by_rank;
    std::size_t count = 0;
  };
  static void note(Ranks& ranks, Rank rank);
  void forget();

  Ranks asked_, released_;
  WaveNumber taking_ = 0, wave_ = 0;
};

}  // namespace reprise::job
