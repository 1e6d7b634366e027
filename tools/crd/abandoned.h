// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The end of a daemon that no crrun needs any more: the job ended while the daemon was stopped or cut off, or no crrun
 * has attached for long.
 */
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <asio/steady_timer.hpp>

#include "crd/link.h"

namespace reprise::crd {

class Abandoned {
 public:
  /** @param end called once, with the reason; the daemon must end its ranks and itself */
  Abandoned(Node& node, const Link& link, std::function<void(const std::string& why)> end);

 private:
  void wait();
  void look();
  void ask();
  bool ranks_run() const;
  std::chrono::nanoseconds limit() const;

  Node& node_;
  const Link& link_;
  std::function<void(const std::string&)> end_;
  asio::steady_timer timer_;
  std::chrono::milliseconds pause_;
  LeaseClock::time_point begun_ = LeaseClock::now();
  std::optional<LeaseClock::time_point> idle_since_;  ///< no crrun answers, and no rank runs
  struct Answer;
  std::shared_ptr<Answer> answer_;  ///< of the thread that looks into JOBDIR; nullptr: none does
};

}  // namespace reprise::crd
