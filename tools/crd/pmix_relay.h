// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Relays messages between the PMIx server of the node and crrun. */
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "crd/node.h"

namespace reprise::crd {

class PmixRelay {
 public:
  explicit PmixRelay(Node& node) : node_(node) {}
  /** A recovery or a launch began: collectives are counted from 0 again, and open ones are void. */
  void reset();
  /** A recovery takes spawned processes back, but none of this node: their collectives are counted from 0 again. */
  void others_went_back();
  /** Whether a client waits for something from other nodes. */
  bool waits() const { return !fences_.empty() || !questions_.empty(); }
  /** Send the open requests again, to a new crrun. */
  void resend();
  /** A message from the PMIx server. */
  void take(const FromPmix& message);
  /** A message from crrun. @return false when the relay does not handle its kind */
  bool take(const job::Down& message);

 private:
  /** Identifies a collective among concurrent ones: its group's name, if any, and its members. */
  using Members = std::pair<std::string, std::vector<std::uint32_t>>;
  Node& node_;
  std::map<Members, std::uint32_t> counts_;                              ///< number of collectives begun
  /** A request, and the PMIx server's number of it. */
  struct Open {
    std::uint64_t id = 0;
    job::Up up;
  };
  std::uint64_t ask(std::uint64_t id);
  void send(const job::Up& up);

  std::map<std::pair<Members, std::uint32_t>, Open> fences_;  ///< open ones
  std::map<Members, job::Up> finished_;  ///< this daemon's part of the last complete one: another daemon may not know yet
                                         ///< that it is complete
  std::map<std::uint64_t, Open> questions_;  ///< by a number of the relay's own: numbers of a later server do not collide
                                             ///< with it
  std::uint64_t last_ = 0;
  bool modex_told_ = false;  ///< crrun has the data that the ranks have put
};

}  // namespace reprise::crd
