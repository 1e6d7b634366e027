// SPDX-License-Identifier: GPL-2.0-only
#include "crd/abandoned.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "job/epoch.h"
#include "job/log.h"

namespace reprise::crd {

using namespace std::chrono_literals;

namespace {
/** Between two looks: longer and longer while no crrun answers, so that thousands of daemons do not burden JOBDIR. */
constexpr std::chrono::milliseconds kFirstPause = 1s, kLongestPause = 60s;
/** For a daemon that crrun has never welcomed: it has no ranks. */
constexpr auto kNeverWelcomed = 10min;
constexpr auto kDefaultLimit = 24h;
}  // namespace

/** A thread that hangs on JOBDIR's file system for ever is left behind; it then owns this. */
struct Abandoned::Answer {
  enum { none, runs, ended };
  std::atomic<int> what = none;
};

Abandoned::Abandoned(Node& node, const Link& link, std::function<void(const std::string& why)> end)
    : node_(node), link_(link), end_(std::move(end)), timer_(node.loop), pause_(kFirstPause) {
  wait();
}

void Abandoned::wait() {
  timer_.expires_after(pause_);
  timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    look();
    if (end_) wait();
  });
}

bool Abandoned::ranks_run() const {
  return !link_.fenced() && std::any_of(node_.ranks.begin(), node_.ranks.end(), [](const auto& rank) { return rank.second->alive(); });
}

std::chrono::nanoseconds Abandoned::limit() const {
  if (!node_.welcomed) return kNeverWelcomed;
  return node_.job.abandon_ms() ? std::chrono::milliseconds(node_.job.abandon_ms()) : std::chrono::nanoseconds(kDefaultLimit);
}

void Abandoned::look() {
  const auto now = LeaseClock::now();
  if (now - std::max(begun_, link_.answered()) < 2 * link_.longest_lease()) {
    pause_ = kFirstPause;
    idle_since_.reset();
    return;
  }
  pause_ = std::min(2 * pause_, kLongestPause);
  // Ranks that run need no crrun until they have ended. Then their output waits for one.
  if (ranks_run())
    idle_since_.reset();
  else if (!idle_since_)
    idle_since_ = now;
  std::string why;
  if (answer_ && answer_->what == Answer::ended) why = "the job has ended, says " + node_.job_directory();
  if (idle_since_ && now - *idle_since_ >= limit())
    why = fmt::format("no crrun has come back for {} s", std::chrono::duration_cast<std::chrono::seconds>(limit()).count());
  if (!why.empty()) return std::exchange(end_, nullptr)(why);
  if (answer_ && answer_->what != Answer::none) answer_.reset();
  if (!answer_) ask();
}

/** Shared storage may hang: ask in a thread that nobody waits for. */
void Abandoned::ask() {
  if (node_.job_directory().empty()) return;
  answer_ = std::make_shared<Answer>();
  std::thread([answer = answer_, directory = node_.job_directory()] {
    answer->what = job::Epoch(directory).ended() ? Answer::ended : Answer::runs;
  }).detach();
}

}  // namespace reprise::crd
