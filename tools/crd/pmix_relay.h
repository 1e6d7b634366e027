// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Between the PMIx server of the node and crrun. */
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
  /** A recovery began, or a launch: collectives are counted anew, and what is open is void. */
  void reset();
  /** Say again what is open: crrun may not have heard it, or is another one. */
  void resend();
  /** From the PMIx server. */
  void take(const FromPmix& message);
  /** From crrun; @return false when it is none of ours. */
  bool take(const job::Down& message);

 private:
  /** What tells a collective from those that others make: its group's name, if it is one, and its members. */
  using Members = std::pair<std::string, std::vector<std::uint32_t>>;
  Node& node_;
  std::map<Members, std::uint32_t> counts_;                              ///< collectives begun
  /** What was asked, and the PMIx server's number of it. */
  struct Open {
    std::uint64_t id = 0;
    job::Up up;
  };
  std::uint64_t ask(std::uint64_t id);
  void send(const job::Up& up);

  std::map<std::pair<Members, std::uint32_t>, Open> fences_;  ///< open ones
  std::map<Members, job::Up> finished_;  ///< our share of the last one that is complete: others may not know that it is
  std::map<std::uint64_t, Open> questions_;  ///< by our own number, which no later server's is mistaken for
  std::uint64_t last_ = 0;
  bool modex_told_ = false;  ///< what the ranks have put is known to crrun
};

}  // namespace reprise::crd
