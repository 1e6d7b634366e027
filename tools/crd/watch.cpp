// SPDX-License-Identifier: GPL-2.0-only
#include "crd/watch.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <utility>

#include <sys/uio.h>

#include "base/proc_stat.h"
#include "job/log.h"
#include "rank_channel.h"

namespace reprise::crd {
namespace {

/** A look that comes so many times later than it should says nothing: this daemon was itself stopped. */
constexpr std::uint64_t kLate = 3;

std::uint64_t now_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

/** @return the CPU time of a process and of all that descend from it, in ns */
std::uint64_t cpu_ns(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  std::uint64_t sum = 0;
  if (::clock_getcpuclockid(pid, &clock) == 0 && ::clock_gettime(clock, &time) == 0)
    sum = static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
  for (const pid_t child : children_of(pid)) sum += cpu_ns(child);
  return sum;
}

/** @return 0, or errno */
int read_counters(const Rank::Counters& at, cr_rank_counters& out) {
  const iovec mine{&out, sizeof out}, theirs{reinterpret_cast<void*>(at.address), sizeof out};
  const ssize_t got = ::process_vm_readv(at.pid, &mine, 1, &theirs, 1, 0);
  if (got < 0) return errno;
  return got == sizeof out && out.magic == CR_RANK_COUNTERS_MAGIC ? 0 : EPROTO;
}

}  // namespace

void Watch::begin() {
  if (looking_ || !node_.job.look_ms()) return;
  looking_ = true;
  looked_ms_ = now_ms();
  progress_.forget(looked_ms_);
  wait();
}

void Watch::forget() {
  excused_ = false;
  progress_.forget(now_ms());
}

void Watch::wait() {
  timer_.expires_after(std::chrono::milliseconds(node_.job.look_ms()));
  timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    looking_ = node_.job.look_ms() > 0;  // another crrun may have said something else
    if (!looking_) return;
    look();
    wait();
  });
}

void Watch::look() {
  std::map<std::uint32_t, RankSample> samples;
  for (const auto& [number, rank] : node_.ranks)
    if (rank->alive() && !rank->finalized) samples[number] = sample(*rank);
  const std::uint64_t now = now_ms();
  const bool late = now - looked_ms_ > kLate * node_.job.look_ms();
  looked_ms_ = now;
  progress_.look(samples, now, std::exchange(excused_, false) || late || held_());
}

RankSample Watch::sample(const Rank& rank) {
  RankSample out;
  out.begun = rank.counters.address != 0;
  for (const auto& output : rank.outputs)
    if (output) out.output += output->offset() + output->queued();
  out.cpu_ns = cpu_ns(rank.pid);
  if (const auto stat = proc_stat(rank.pid)) out.stopped = stat->state == 'T' || stat->state == 't';
  if (!out.begun) return out;
  cr_rank_counters counters{};
  if (const int error = read_counters(rank.counters, counters)) {
    // Without them a rank that waits in MPI cannot be told from one that computes.
    if (error != ESRCH && !std::exchange(told_, true))
      node_.say(job::Log::WARNING, std::string("its counters cannot be read (") + std::strerror(error) +
                                       "), so a hang of this job may remain unnoticed: allow this user to trace his processes "
                                       "(kernel.yama.ptrace_scope)",
                rank.number);
    return out;
  }
  out.moved = counters.moved;
  out.waited_ns = counters.waited_ns;
  return out;
}

void Watch::fill(job::Heartbeat& beat) const {
  if (looking_) progress_.fill(*beat.mutable_standing(), now_ms());
}

}  // namespace reprise::crd
