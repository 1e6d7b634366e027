// SPDX-License-Identifier: LGPL-2.1-or-later
// Boosters die with their masters, and when the masters wish it.
//
// MPI can neither end a process that computes nor tell it of anything. So each booster has a TCP connection to the first
// master, and a thread that waits for its end. Nobody accepts the connections: the kernel holds them in the queue of the
// listening socket, and resets them when the master closes it or dies. This is what the daemon does in the paper (psid).
#pragma once

#include <string>

namespace croff {

/** The master's end. */
class Lifeline {
 public:
  explicit Lifeline(int boosters);
  ~Lifeline() { cut(); }
  Lifeline(const Lifeline &) = delete;
  Lifeline &operator=(const Lifeline &) = delete;
  /** Addresses and port, for the boosters' arguments. */
  const std::string &where() const { return where_; }
  /** All boosters die. */
  void cut();

 private:
  int socket_ = -1;
  std::string where_;
};

/** The booster's end: from now on this process is killed when the lifeline is cut. @return false: it cannot be reached */
bool hold_lifeline(const std::string &where);
/** This process ends in order. */
void let_go_of_lifeline();

}  // namespace croff
