// SPDX-License-Identifier: GPL-2.0-only
#include "progress.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include <sys/ioctl.h>
#include <unistd.h>

namespace reprise {
namespace {

constexpr std::uint64_t kPatience = 2000000000;  // ns before the bar is shown
constexpr std::uint64_t kInterval = 100000000;   // ns between two updates

std::uint64_t now_ns() {
  timespec ts{};
  ::clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<std::uint64_t>(ts.tv_sec) * 1000000000 + static_cast<std::uint64_t>(ts.tv_nsec);
}

std::size_t columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

ProgressBar::ProgressBar(std::string label, bool wanted)
    : label_(std::move(label)), enabled_(wanted && ::isatty(STDERR_FILENO)), begin_(now_ns()) {}

ProgressBar::~ProgressBar() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

std::function<void(std::uint64_t, std::uint64_t)> ProgressBar::callback() {
  if (!enabled_) return {};
  return [this](std::uint64_t done, std::uint64_t total) { (*this)(done, total); };
}

void ProgressBar::operator()(std::uint64_t done, std::uint64_t total) {
  if (!enabled_ || total == 0) return;
  const std::uint64_t now = now_ns();
  if (now - begin_ < kPatience || now - last_ < kInterval) return;
  last_ = now;
  shown_ = true;
  const double part = static_cast<double>(std::min(done, total)) / static_cast<double>(total);
  char tail[64];
  std::snprintf(tail, sizeof tail, " %.0f of %.0f MB", static_cast<double>(done) / 1e6, static_cast<double>(total) / 1e6);
  const std::size_t taken = label_.size() + std::char_traits<char>::length(tail) + 5;
  const std::size_t width = columns() > taken ? columns() - taken : 0;
  const auto filled = static_cast<std::size_t>(part * static_cast<double>(width));
  std::fprintf(stderr, "\r%s [%s%s]%s\033[K", label_.c_str(), std::string(filled, '#').c_str(),
               std::string(width - filled, '.').c_str(), tail);
  std::fflush(stderr);
}

}  // namespace reprise
