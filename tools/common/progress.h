// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file A progress bar for operations of more than two seconds, shown on a terminal. */
#include <cstdint>
#include <functional>
#include <string>

namespace reprise {

class ProgressBar {
 public:
  /** @param wanted false: shows nothing. It also shows nothing when standard error is not a terminal. */
  ProgressBar(std::string label, bool wanted);
  /** Clears the line. */
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /** @p done of @p total bytes are done. */
  void operator()(std::uint64_t done, std::uint64_t total);
  /** A callback for a request, valid as long as the bar; empty when the bar shows nothing. */
  std::function<void(std::uint64_t, std::uint64_t)> callback();

 private:
  std::string label_;
  bool enabled_ = false, shown_ = false;
  std::uint64_t begin_ = 0, last_ = 0;
};

}  // namespace reprise
