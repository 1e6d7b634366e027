// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file A bar for what takes longer than two seconds, when somebody watches. */
#include <cstdint>
#include <functional>
#include <string>

namespace reprise {

class ProgressBar {
 public:
  /** @p wanted false: shows nothing. Neither does it when standard error is not a terminal. */
  ProgressBar(std::string label, bool wanted);
  /** Clears the line. */
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /** So much is done. */
  void operator()(std::uint64_t done, std::uint64_t total);
  /** For a request, valid as long as the bar; empty when nothing would be shown. */
  std::function<void(std::uint64_t, std::uint64_t)> callback();

 private:
  std::string label_;
  bool enabled_ = false, shown_ = false;
  std::uint64_t begin_ = 0, last_ = 0;
};

}  // namespace reprise
