// SPDX-License-Identifier: GPL-2.0-only
// The coordinator's part of a wave that the program asks for, and to which all recoveries go back.
#include "coordinator.h"

namespace reprise::job {

void Coordinator::pin_wave(const PinWave& message, NodeIndex from, Now now) {
  if (message.recovery() != recovery_number_ || message.rank() >= ranks_.size()) return;
  if (message.progress()) {
    if (pin_.wave()) exits_.progressed();
    return;
  }
  if (phase_ == Phase::recovering) return;
  if (message.release()) {
    const WaveNumber wave = pin_.wave();
    if (!pin_.release(message.rank())) return;
    event({{"event", "wave-released"}, {"wave", wave}}, now);
    save();
    prune();
    clock_.running(now, false);
    plan_wave(now.ms, now);
    return;
  }
  if (pin_.wave()) return tell_pinned(from);  // it has asked again before it heard of it
  if (pin_.refused() && message.or_none()) return out_.send({from}).mutable_wave_end()->set_none(true);  // the same
  const bool before = pin_.wanted();
  pin_.ask(message.rank(), message.or_none(), now);
  if (before || !pin_.wanted()) return;
  if (const std::string why = no_wave_reason(); !why.empty() && !std::exchange(told_of_pin_, true))
    out_.say(Log::WARNING, "the program waits for a wave: " + why);
  clock_.request(now);
  if (!round_) wave_tick(now);
}

/** Ranks that can do without a wave have waited long enough. */
void Coordinator::give_pin_up(Now now) {
  if (!pin_.hopeless(now)) return;
  std::string why = no_wave_reason();
  if (why.empty()) why = last_wave_error_.empty() ? "all were put off" : last_wave_error_;
  pin_.refuse();
  save();
  out_.send().mutable_wave_end()->set_none(true);
  event({{"event", "wave-refused"}, {"why", why}}, now);
  out_.say(Log::WARNING, "the program goes on without the wave that it has asked for (" + why + "): after a loss it begins anew");
}

/** Tell the ranks of a node again that their wave is committed. */
void Coordinator::tell_pinned(NodeIndex node) {
  WaveEnd& message = *out_.send({node}).mutable_wave_end();
  message.set_wave(pin_.wave());
  message.set_commit(true);
  message.set_pinned(true);
}

/** Before a recovery moves ranks: which of them are lost, as the program sees it. */
void Coordinator::note_lost(const RecoveryPlan& plan) {
  for (Rank rank : plan.restart) {
    if (rank >= ranks_.size()) continue;
    const bool moves = placement_[rank] != plan.placement[rank];
    // A process that an unfinished recovery has ended was not lost by that.
    const bool died = (!ranks_[rank].alive || exits_.ended(rank)) && !restarting_.count(rank);
    if (moves || died) lost_.insert(rank);
  }
  restarting_.insert(plan.restart.begin(), plan.restart.end());
}

}  // namespace reprise::job
