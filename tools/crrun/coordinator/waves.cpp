// SPDX-License-Identifier: GPL-2.0-only
#include "waves.h"

#include <algorithm>
#include <utility>

namespace reprise::job {

const char* name(GivenUp why) {
  switch (why) {
    case GivenUp::put_off: return "put_off";
    case GivenUp::rank_ended: return "rank_ended";
    case GivenUp::spawn: return "spawn";
    case GivenUp::error: return "error";
    case GivenUp::late: return "late";
    case GivenUp::recovery: return "recovery";
    case GivenUp::job_end: return "job_end";
  }
  return "?";
}

namespace {
constexpr std::uint64_t kAgainMs = 1000, kAgainMostMs = 16'000, kSoonTries = 5;
constexpr std::uint64_t kFailureMs = 5000, kFailureMostMs = 300'000;
}  // namespace

WaveRound::WaveRound(WaveNumber wave, RecoveryNumber recovery, Roster roster, Now begun, std::uint64_t timeout_ms)
    : wave_(wave),
      recovery_(recovery),
      roster_(std::move(roster)),
      begun_(begun),
      deadline_ms_(begun.ms + timeout_ms),
      results_(roster_.size()),
      have_(roster_.size(), false) {}

void WaveRound::done(const WaveDone& message) {
  if (message.wave() != wave_) return;
  for (const RankWave& rank : message.ranks()) {
    const auto place = roster_.place(rank.rank());
    if (!place || have_[*place]) continue;
    have_[*place] = true;
    ++answered_;
    RankImage& image = results_[*place];
    image = {rank.bytes(), rank.checksum(), {0, 0, 0}, rank.begin_unix_ns(), rank.end_unix_ns(),
             rank.quiesce_ns(), rank.frozen_ns(), rank.write_ns(), rank.inherited_bytes()};
    for (const StreamPosition& position : rank.streams())
      if (position.stream() < 3) image.offsets[position.stream()] = position.offset();
    if (rank.error().empty()) continue;
    // A permanent error outweighs a temporary one.
    if (error_.empty() || (!rank.again() && !failed_))
      error_ = "rank " + std::to_string(rank.rank()) + ": " + rank.error();
    (rank.again() ? again_ : failed_) = true;
  }
}

WaveRound::Verdict WaveRound::verdict(Now now) const {
  if (failed_) return Verdict::failed;
  if (again_) return Verdict::again;
  if (answered_ == have_.size()) return Verdict::complete;
  return now.ms >= deadline_ms_ ? Verdict::late : Verdict::pending;
}

std::string WaveRound::why() const {
  if (!error_.empty()) return error_;
  std::vector<Rank> missing;
  for (std::size_t place = 0; place < have_.size(); ++place)
    if (!have_[place]) missing.push_back(roster_.number(place));
  return "no answer from " + rank_list(missing);
}

void WaveClock::running(Now now, bool soon) {
  if (soon)
    due_ms_ = now.ms;
  else if (interval_ms_)
    due_ms_ = now.ms + interval_ms_;
  else
    due_ms_.reset();
}

void WaveClock::committed(Now now) {
  failures_ = again_ = 0;
  running(now, false);
}

void WaveClock::aborted(Now now, bool again) {
  if (again) {
    const std::uint64_t tries = ++again_;
    due_ms_ = now.ms + (tries <= kSoonTries ? kAgainMs : std::min(kAgainMostMs, kAgainMs << std::min<std::uint64_t>(tries - kSoonTries, 10)));
    return;
  }
  const std::uint64_t wait = std::min(kFailureMostMs, kFailureMs << std::min<std::uint64_t>(failures_++, 10));
  due_ms_ = now.ms + (interval_ms_ ? std::min(interval_ms_, kFailureMostMs) : 0);
  due_ms_ = std::max(*due_ms_, now.ms + wait);
}

}  // namespace reprise::job
