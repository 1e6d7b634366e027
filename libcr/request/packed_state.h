// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The state of a process in little memory: who keeps a thousand states of a process needs few of them at a time, and most of
 * what they consist of are zeros and the same paths.
 */
#include <string>

#include "request/state.h"

namespace reprise {

class PackedState {
 public:
  /** Pack @p state but for shared content, and empty it. @throws Error (temporary) and changes nothing when there is no memory */
  static PackedState of(State& state);
  /** Set what of() has taken. @throws Error */
  void restore(State& state) const;
  std::size_t bytes() const { return packed_.capacity(); }

 private:
  std::string packed_;
  std::size_t size_ = 0;
};

}  // namespace reprise
