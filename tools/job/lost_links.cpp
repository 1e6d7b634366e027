// SPDX-License-Identifier: GPL-2.0-only
#include "job/lost_links.h"

#include <cerrno>

namespace reprise::job {

namespace {
/** One report is enough for crrun to suspect a node; a heartbeat of it ends that, so the next break counts again. */
constexpr std::uint64_t kEveryMs = 1000;
}  // namespace

bool LostLinks::pass(const LinkLost& lost, std::optional<std::uint32_t> peer_node, std::uint64_t now_ms) {
  // Only a recovery or the end of the job helps against these.
  if (lost.error() == ENODATA || lost.error() == EMFILE || lost.error() == ENFILE) return true;
  if (lost.recovery() > recovery_) {
    recovery_ = lost.recovery();
    about_.clear();
  }
  const auto [found, fresh] = about_.try_emplace(peer_node);
  About& about = found->second;
  if (fresh || now_ms > about.pair_ms + kReachedMs) {
    about.rank = lost.rank();
    about.peer = lost.peer();
  }
  const bool pair = about.rank == lost.rank() && about.peer == lost.peer();
  if (pair) about.pair_ms = now_ms;
  if (!pair && now_ms < about.passed_ms + kEveryMs) return false;
  about.passed_ms = now_ms;
  return true;
}

}  // namespace reprise::job
