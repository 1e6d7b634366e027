// SPDX-License-Identifier: LGPL-2.1-or-later
// Who takes which rank of the resilient communicator after a loss. Pure logic: each process computes it from the same table.
#pragma once

#include <vector>

namespace fnx {

inline constexpr int kSpare = -1;  // in place of a rank
inline constexpr int kNew = -2;    // just spawned: it takes any rank

/** A living process, as it tells the others about itself. */
struct Identity {
  int slot = kSpare;  // rank in the resilient communicator before the loss, kSpare, or kNew
  int number = -1;    // rank in the communicator that Fenix_Init was given; -1 for spawned processes
};

/** What all that are no newcomers know of the time before the loss. */
struct Past {
  int size = 0;             // of the resilient communicator
  std::vector<int> spares;  // their numbers, ascending
};

struct Plan {
  std::vector<int> slots;  // for each living process its rank, or kSpare
  int size = 0;            // of the resilient communicator
  std::vector<int> lost;   // ranks that have failed, ascending, then the numbers of spares that have failed
  bool depleted = false;   // it has become smaller
  Past past() const;       // what the next plan needs to know
  std::vector<int> spares;  // numbers of the spares that are left
};

/** Number of ranks that no living process can take. */
int missing(const std::vector<Identity> &living, const Past &past);

/**
 * Survivors keep their ranks. The lowest lost rank gets the spare with the lowest number, and so on; then come spawned processes.
 * If they are too few, the ranks that stay empty are closed up, and survivors above them move down.
 */
Plan arrange(const std::vector<Identity> &living, const Past &past);

}  // namespace fnx
