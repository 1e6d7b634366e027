// SPDX-License-Identifier: GPL-2.0-only
#include "asking.h"

#include <cerrno>

#include "base/error.h"
#include "exchange.h"
#include "keeper.h"
#include "place.h"

namespace reprise::snapshots {
namespace {

constexpr int kAttempts = 3;

}  // namespace

UniqueFd connect_or_start(pid_t pid) {
  if (UniqueFd keeper = connect_to_keeper(pid)) return keeper;
  const StartLock lock;
  if (UniqueFd keeper = connect_to_keeper(pid)) return keeper;
  start_keeper(pid, listen_as_keeper(pid));
  return connect_to_keeper(pid);
}

int ask(const UniqueFd& keeper, const std::vector<std::string>& words) {
  return keeper && send_request(keeper.get(), words) ? receive_status(keeper.get()) : -1;
}

int ask_persistently(pid_t pid, const std::vector<std::string>& words, const std::function<UniqueFd()>& connect) {
  for (int attempt = 0; attempt < kAttempts; ++attempt)
    if (const int status = ask(connect(), words); status != -1) return status;
  throw Error(Failure::permanent, ECONNRESET,
              "the keeper of the snapshots of process " + std::to_string(pid) + " has ended: is the process still there?");
}

}  // namespace reprise::snapshots
