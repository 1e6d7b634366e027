// SPDX-License-Identifier: LGPL-2.1-or-later
// Boosters die with their masters, and when the masters wish it.
//
// MPI can neither end a process that computes nor tell it of anything. So each booster has a TCP connection to the first
// master, and a thread that waits for its end. Nobody accepts the connections: the kernel holds them in the queue of the
// listening socket, and resets them when the master closes it or dies. This is what the daemon does in the paper (psid).
#pragma once

#include <string>

#include "tcp.h"

namespace croff {

/** The master's end. */
class Lifeline {
 public:
  explicit Lifeline(int boosters) : entrance_("the lifeline of the boosters", boosters + 16) {}
  /** For the boosters. */
  const std::string &where() const { return entrance_.where(); }
  /** All boosters die. */
  void cut() { entrance_.shut(); }

 private:
  Entrance entrance_;
};

/** What a booster does whose lifeline has ended. */
enum class Cut {
  die,        // by SIGKILL, as lost processes do
  try_again,  // it was perhaps restarted on another node: take hold again, or exit
};

/** Exit status of a booster that cannot take hold again. */
constexpr int kMasterLost = 3;

/** The booster's end: from now on this process ends when the lifeline is cut. @return false: it cannot be reached */
bool hold_lifeline(const std::string &where, Cut then);
/** This process ends in order. */
void let_go_of_lifeline();

}  // namespace croff
