// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Whether the ranks of a node progress: samples of what they have done go in, how long they have stood still comes out.
 *
 * A rank has progressed since it was last looked at if
 *   - its transport has written or read bytes of messages,
 *   - or it has written output,
 *   - or it has worked: it has used more than a twentieth of a processor, together with its descendants, without the CPU time of threads
 *     that only waited in MPI.
 * A rank that has not called MPI_Init yet counts as progressing. The node stands still while none of its ranks progresses. What
 * keeps ranks from progressing for a while (a wave, a recovery, a signal that stops them) is no standing still, and no progress.
 */
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "job/messages.pb.h"

namespace reprise::crd {

/** What a rank has done up to a moment. */
struct RankSample {
  bool begun = true;            ///< it has called MPI_Init
  bool stopped = false;         ///< by a signal
  std::uint64_t moved = 0;      ///< struct cr_rank_counters
  std::uint64_t waited_ns = 0;  ///< struct cr_rank_counters
  std::uint64_t cpu_ns = 0;     ///< of the process and its descendants
  std::uint64_t output = 0;     ///< bytes
};

class Progress {
 public:
  /** Of a processor: a rank that uses more beside waiting works. */
  static constexpr double kWorks = 0.05;
  /** Ranks of each kind whose numbers are reported. */
  static constexpr std::size_t kNamed = 4;

  /**
   * @param ranks those that count, by number
   * @param excused something other than the ranks themselves may have kept them from progressing since the last look
   */
  void look(const std::map<std::uint32_t, RankSample>& ranks, std::uint64_t now_ms, bool excused);
  /** The ranks begin anew, or go back: nothing that was seen of them counts any more. */
  void forget(std::uint64_t now_ms);
  void fill(job::Standing& out, std::uint64_t now_ms) const;

 private:
  enum class Doing : std::uint8_t { works, waits, sleeps };
  Doing doing(std::uint32_t number, const RankSample& now, std::uint64_t ms) const;

  std::map<std::uint32_t, RankSample> before_;
  std::optional<std::uint64_t> looked_ms_;
  std::uint64_t progressed_ms_ = 0, stood_ms_ = 0;
  std::vector<std::uint32_t> waiting_, asleep_;
};

}  // namespace reprise::crd
