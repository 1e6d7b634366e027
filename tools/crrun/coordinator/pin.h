// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file A wave at the request of the program, to which all recoveries go back (Fenix_Init of libfenix, boosters of liboffload).
 *
 *      none ──all ranks have asked──> wanted ──it is committed──> pinned ──all ranks have released it──> none
 *        ^                              │                           │
 *        ├── a recovery: they ask again ┤     none <── a recovery to an earlier wave, or from the beginning
 *        └── none for 10 s: refused ────┘
 *
 * It is refused only if all ranks have said that they can do without.
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

  /** A rank asks for the wave. Asking twice is asking once. @param or_none it can do without */
  void ask(Rank rank, bool or_none, Now now);
  /** A rank needs it no more. @return whether that was the last one: no wave is pinned now */
  bool release(Rank rank);
  /** Whether all have asked, so that a wave has to be taken. */
  bool wanted() const { return !wave_ && asked_.count == asked_.by_rank.size(); }
  /** Ranks that have asked and wait. */
  std::size_t waiting() const { return asked_.count; }
  /** Whether it is time to say that there is none. */
  bool hopeless(Now now) const;
  void refuse();
  /** Whether ranks that can do without have been told so, and no recovery has been since. */
  bool refused() const { return refused_; }
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
  bool or_none_ = true, refused_ = false;
  std::uint64_t last_asked_ms_ = 0;  ///< when the last rank asked first
  WaveNumber taking_ = 0, wave_ = 0;
};

}  // namespace reprise::job
