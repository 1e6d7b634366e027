// SPDX-License-Identifier: LGPL-2.1-or-later
// Start processes of this executable as boosters.
#pragma once

#include <mpi.h>

#include <optional>
#include <string>

namespace croff {

struct Places {
  int hosts, per_host;
  bool named;  // on the hosts of CROFF_HOSTS, if there are any
};

/** Collective over the masters. Only the first one's `lifeline` counts.
 *  @return the intercommunicator, with errors returned; MPI_COMM_NULL if it failed here. `why` says what MPI said */
MPI_Comm spawn(MPI_Comm masters, const Places &places, const std::string &lifeline, std::string &why);

/** How this process was started: the lifeline of its masters, if it is a booster. */
std::optional<std::string> booster_lifeline();

}  // namespace croff
