// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Connections between ranks that their transport has reported as lost, and what follows from that. */
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "types.h"

namespace reprise::job {

enum class LinkMeaning {
  retry,     ///< the transport connects again by itself; the peer's node may be lost
  unreachable,  ///< the same, but it has not succeeded for long: the user must know; once for each time
  recover,   ///< messages were lost with the connection: a recovery is due, see Links::due()
  give_up,   ///< recoveries did not help: end the job
  no_room,   ///< the rank's process has no descriptors left: a recovery would not help, end the job
};

/**
 * Decides when a recovery repairs a connection whose messages were lost.
 *
 * The first one is due at once. Further ones wait longer and longer until a wave is committed: a network that breaks
 * every connection would otherwise keep the job from doing anything else.
 */
class Links {
 public:
  explicit Links(unsigned max_recoveries) : max_recoveries_(max_recoveries) {}

  /** @param error errno of the report: ENODATA: messages are lost; EMFILE, ENFILE: no descriptors */
  LinkMeaning lost(const LinkLost& message, const std::string& what, Now now);
  bool due(Now now) const { return due_ms_ && now.ms >= *due_ms_; }
  /** Whether a recovery will be due. */
  bool pending() const { return due_ms_.has_value(); }
  /** The newest connection that needs the recovery, for messages. */
  const std::string& what() const { return what_; }
  unsigned recoveries() const { return recoveries_; }

  /** A recovery begins, for whatever reason: it repairs all connections that were reported so far. */
  void recovering();
  /** A wave is committed: the job makes progress. */
  void committed() { recoveries_ = 0; }

 private:
  unsigned max_recoveries_;
  unsigned recoveries_ = 0;  ///< due to links, since the last committed wave
  std::optional<std::uint64_t> due_ms_;
  std::string what_;
  struct Unreached {
    std::uint64_t first_ms = 0, last_ms = 0;  ///< reports
    bool told = false;
  };
  std::map<std::pair<Rank, Rank>, Unreached> unreached_;  ///< by rank and peer
  std::uint64_t swept_ms_ = 0;  ///< when pairs that have been reached were last removed
};

}  // namespace reprise::job
