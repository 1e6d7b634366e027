// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Relays messages between the PMIx servers of the node and crrun. */
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
  /** A recovery takes only spawned processes back: what they take part in is counted from 0 again, and open requests of theirs are void. */
  void others_went_back();
  /** Whether one of the job's own ranks waits for something from other processes. */
  bool waits() const;
  /** Send the open requests again, to a new crrun. */
  void resend();
  /** A message from a PMIx server. */
  void take(Side side, const FromPmix& message);
  /** A message from crrun. @return false when the relay does not handle its kind */
  bool take(const job::Down& message);

 private:
  /** Identifies a collective among concurrent ones: its group's name, if any, and its members. */
  using Members = std::pair<std::string, std::vector<std::uint32_t>>;
  using Part = std::pair<Side, Members>;  ///< of the clients of a server, in collectives of these members
  /** A request, and the PMIx server's number of it. */
  struct Open {
    Side side = Side::own;
    std::uint64_t id = 0;
    job::Up up;
  };
  std::uint64_t ask(Side side, std::uint64_t id);
  void send(const job::Up& up);
  /** Pass the end of a collective on. */
  void finish(const job::FenceDone& done);
  void tell_modex();

  Node& node_;
  std::map<Part, std::uint32_t> counts_;  ///< number of collectives begun
  std::map<std::pair<Part, std::uint32_t>, Open> fences_;  ///< open ones
  std::map<Part, job::Up> finished_;  ///< this daemon's part of the last complete one: another daemon may not know yet
                                      ///< that it is complete
  std::map<std::uint64_t, Open> questions_;  ///< by a number of the relay's own: numbers of a later server do not collide
                                             ///< with it
  std::uint64_t last_ = 0;
  bool modex_told_ = false;  ///< crrun has the data that the ranks have put
};

}  // namespace reprise::crd
