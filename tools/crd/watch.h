// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Looks from time to time whether the ranks of the node progress, if crrun watches for hangs (JobSpec.look_ms). */
#include <functional>

#include <asio/steady_timer.hpp>

#include "crd/node.h"
#include "crd/progress.h"

namespace reprise::crd {

class Watch {
 public:
  /** @param held whether something other than the ranks themselves keeps them from progressing now */
  Watch(Node& node, std::function<bool()> held) : node_(node), held_(std::move(held)), timer_(node.loop) {}
  /** crrun has said how often to look. */
  void begin();
  /** Something has kept the ranks from progressing for a moment. */
  void excuse() { excused_ = true; }
  /** The ranks begin anew, or go back. */
  void forget();
  /** What was seen, for crrun; nothing while nobody looks. */
  void fill(job::Heartbeat& beat) const;

 private:
  void wait();
  void look();
  RankSample sample(const Rank& rank);

  Node& node_;
  std::function<bool()> held_;
  asio::steady_timer timer_;
  Progress progress_;
  bool looking_ = false, excused_ = false, told_ = false;
  std::uint64_t looked_ms_ = 0;
};

}  // namespace reprise::crd
