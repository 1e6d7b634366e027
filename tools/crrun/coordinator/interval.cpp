// SPDX-License-Identifier: GPL-2.0-only
#include "interval.h"

#include <algorithm>
#include <cmath>

namespace reprise::job {

namespace {
constexpr std::uint64_t kLatest = 4;  ///< a mean is mostly that of so many values
constexpr std::uint64_t kPatienceMs = 600'000, kPatienceTimes = 4;
/** Longer than any job. With it no sum of times overflows. */
constexpr double kMostS = 366 * 86'400.0;

/** Take a further value into a mean. @param count of values, with this one */
void average(std::uint64_t& mean, std::uint64_t count, std::uint64_t value) {
  const double weight = 1.0 / static_cast<double>(std::clamp<std::uint64_t>(count, 1, kLatest));
  const double last = std::min(static_cast<double>(value), 1e18), before = std::min(static_cast<double>(mean), 1e18);
  mean = static_cast<std::uint64_t>(std::llround(before + (last - before) * weight));
}

double seconds(std::uint64_t ms) { return std::min(static_cast<double>(ms) / 1e3, kMostS); }
}  // namespace

const char* name(IntervalLimit limit) {
  switch (limit) {
    case IntervalLimit::first: return "first";
    case IntervalLimit::optimum: return "optimum";
    case IntervalLimit::shortest: return "shortest";
    case IntervalLimit::longest: return "longest";
    case IntervalLimit::staging: return "staging";
    case IntervalLimit::share: return "share";
  }
  return "?";
}

nlohmann::json to_json(const IntervalChoice& choice) {
  return {{"interval_ms", choice.interval_ms},
          {"limit", name(choice.limit)},
          {"cost_s", choice.cost},
          {"usable_after_s", choice.usable_after},
          {"recovery_s", choice.recovery},
          {"mtbf_s", choice.mtbf},
          {"mtbf_given", choice.mtbf_given},
          {"failures", choice.failures},
          {"optimum_s", choice.optimum},
          {"share", choice.share},
          {"loss", choice.loss}};
}

double best_interval(double cost, double mtbf) {
  if (cost >= 2 * mtbf) return mtbf + cost;
  // Daly's formula is for the time between a checkpoint's end and the begin of the next.
  const double root = std::sqrt(cost / (2 * mtbf));
  return std::sqrt(2 * cost * mtbf) * (1 + root / 3 + root * root / 9);
}

void Interval::count_time(Now now) {
  if (!counted_ms_) return;
  if (now.ms > *counted_ms_) learned_.node_ms += (now.ms - *counted_ms_) * nodes_;
  counted_ms_ = now.ms;
}

void Interval::running(std::uint32_t nodes, Now now) {
  count_time(now);
  nodes_ = std::max(1u, nodes);
  counted_ms_ = now.ms;
  failed_ms_.reset();
}

void Interval::failed(std::uint64_t silence_ms, Now now) {
  if (!counted_ms_) return;
  stopped(now);
  ++learned_.failures;
  failed_ms_ = now.ms - std::min(now.ms, silence_ms);
}

void Interval::stopped(Now now) {
  count_time(now);
  counted_ms_.reset();
}

void Interval::recovered(Now now) {
  if (failed_ms_ && now.ms >= *failed_ms_) average(learned_.recovery_ms, ++learned_.recoveries, now.ms - *failed_ms_);
  failed_ms_.reset();
}

void Interval::wave(std::uint64_t cost_ns, Now begun, Now now) {
  count_time(now);
  learned_.last_cost_us = cost_ns / 1000;
  average(learned_.cost_us, ++learned_.waves, learned_.last_cost_us);
  average(learned_.whole_ms, learned_.waves, now.ms - std::min(now.ms, begun.ms));
}

void Interval::staged(std::uint64_t committed_unix_ns, Now now) {
  // The time of day may have been set back.
  if (now.unix_ns < committed_unix_ns) return;
  average(learned_.staging_ms, ++learned_.staged, (now.unix_ns - committed_unix_ns) / 1'000'000);
}

IntervalChoice Interval::choose() const {
  IntervalChoice out;
  out.share = share_;
  out.failures = learned_.failures;
  out.mtbf_given = node_mtbf_ms_ != 0;
  const double node_s = out.mtbf_given ? static_cast<double>(node_mtbf_ms_) / 1e3
                                       : (kPriorFailures * kPriorNodeMtbfS + static_cast<double>(learned_.node_ms) / 1e3) /
                                             (kPriorFailures + static_cast<double>(learned_.failures));
  out.mtbf = node_s / nodes_;
  if (!learned_.waves) {
    out.interval_ms = kFirstMs;
    return out;
  }
  out.cost = seconds(learned_.cost_us / 1000) + static_cast<double>(learned_.cost_us % 1000) / 1e6;
  out.usable_after = seconds(learned_.whole_ms) + (learned_.staged ? seconds(learned_.staging_ms) : 0);
  out.recovery = seconds(learned_.recovery_ms);
  out.optimum = best_interval(out.cost, out.mtbf);
  double interval = out.optimum;
  const auto at_least = [&](double least, IntervalLimit limit) {
    if (interval >= least) return;
    interval = least;
    out.limit = limit;
  };
  out.limit = IntervalLimit::optimum;
  at_least(seconds(kShortestMs), IntervalLimit::shortest);
  if (interval > seconds(kLongestMs)) interval = seconds(kLongestMs), out.limit = IntervalLimit::longest;
  if (learned_.staged) at_least(out.usable_after, IntervalLimit::staging);
  // Each wave is followed by as much time as it needs to be no more than its share, however much more it cost than others.
  at_least(std::max(out.cost, static_cast<double>(learned_.last_cost_us) / 1e6) / share_, IntervalLimit::share);
  interval = std::min(interval, kMostS);
  out.interval_ms = static_cast<std::uint64_t>(std::llround(interval * 1e3));
  out.loss = std::min(1.0, out.cost / interval + (interval / 2 + out.usable_after + out.recovery + out.cost) / out.mtbf);
  return out;
}

std::uint64_t Interval::patience_ms() const {
  return std::max(kPatienceMs, kPatienceTimes * static_cast<std::uint64_t>(1e3 * (seconds(learned_.whole_ms) + seconds(learned_.staging_ms))));
}

}  // namespace reprise::job
