// SPDX-License-Identifier: LGPL-2.1-or-later
// A booster holds its lifeline from its first moment. In MPI_Init it waits for its master, and if that dies then, MPI tells
// nobody.
#include <signal.h>
#include <unistd.h>

#include <cstdio>

#include "boosters/lifeline.h"
#include "spawn.h"

namespace croff {
namespace {

__attribute__((constructor)) void hold() {
  const auto lifeline = booster_lifeline();
  if (!lifeline || hold_lifeline(*lifeline, Cut::die)) return;
  fprintf(stderr, "croff: a booster cannot reach its master at %s: it has ended, or TCP connections are not permitted\n",
          lifeline->c_str());
  kill(getpid(), SIGKILL);
}

}  // namespace
}  // namespace croff
