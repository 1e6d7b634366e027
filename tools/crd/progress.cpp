// SPDX-License-Identifier: GPL-2.0-only
#include "crd/progress.h"

#include <algorithm>

namespace reprise::crd {

Progress::Doing Progress::doing(std::uint32_t number, const RankSample& now, std::uint64_t ms) const {
  const auto found = before_.find(number);
  if (found == before_.end() || !now.begun) return Doing::works;
  const RankSample& then = found->second;
  if (now.moved != then.moved || now.output != then.output) return Doing::works;
  // The CPU time of a descendant that has ended is gone.
  if (now.cpu_ns < then.cpu_ns || now.waited_ns < then.waited_ns) return Doing::works;
  const std::uint64_t used = now.cpu_ns - then.cpu_ns, waited = now.waited_ns - then.waited_ns;
  if (used > waited && static_cast<double>(used - waited) > kWorks * 1e6 * static_cast<double>(ms)) return Doing::works;
  return waited ? Doing::waits : Doing::sleeps;
}

void Progress::look(const std::map<std::uint32_t, RankSample>& ranks, std::uint64_t now_ms, bool excused) {
  const std::uint64_t ms = now_ms - looked_ms_.value_or(now_ms);
  bool works = ranks.empty(), stopped = false;
  waiting_.clear();
  asleep_.clear();
  for (const auto& [number, sample] : ranks) {
    stopped |= sample.stopped;
    switch (doing(number, sample, ms)) {
      case Doing::works: works = true; break;
      case Doing::waits: waiting_.push_back(number); break;
      case Doing::sleeps: asleep_.push_back(number); break;
    }
  }
  before_ = ranks;
  looked_ms_ = now_ms;
  // In a wave the rank's own threads write and read, so this may not be the program's progress either.
  if (excused) return;
  if (works) {
    progressed_ms_ = now_ms;
    stood_ms_ = 0;
  } else if (!stopped) {
    stood_ms_ += ms;
  }
}

void Progress::forget(std::uint64_t now_ms) {
  *this = {};
  progressed_ms_ = now_ms;
}

void Progress::fill(job::Standing& out, std::uint64_t now_ms) const {
  out.set_ranks(static_cast<std::uint32_t>(before_.size()));
  out.set_idle_ms(now_ms - progressed_ms_);
  out.set_stood_ms(stood_ms_);
  if (!stood_ms_) return;
  out.set_waiting(static_cast<std::uint32_t>(waiting_.size()));
  out.set_asleep(static_cast<std::uint32_t>(asleep_.size()));
  for (std::size_t i = 0; i < std::min(kNamed, waiting_.size()); ++i) out.add_first_waiting(waiting_[i]);
  for (std::size_t i = 0; i < std::min(kNamed, asleep_.size()); ++i) out.add_first_asleep(asleep_[i]);
}

}  // namespace reprise::crd
