// SPDX-License-Identifier: GPL-2.0-only
// cr_snapshot: states of live processes in memory, as a tree to jump in.
#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "exchange.h"
#include "keeper.h"
#include "options.h"
#include "place.h"

using namespace reprise;
using namespace reprise::snapshots;

namespace {

UniqueFd keeper_of(const Options& options) {
  if (UniqueFd keeper = connect_to_keeper(options.pid)) return keeper;
  if (options.verb != Verb::take)
    throw Error(Failure::refused, ENOENT,
                "process " + std::to_string(options.pid) + " has no snapshots of yours: cr_snapshot take " +
                    std::to_string(options.pid) + " takes one");
  const StartLock lock;
  if (UniqueFd keeper = connect_to_keeper(options.pid)) return keeper;
  start_keeper(options.pid, listen_as_keeper(options.pid));
  return connect_to_keeper(options.pid);
}

/** @return the exit status; -1: the keeper has ended before it could do it */
int ask(const UniqueFd& keeper, const std::vector<std::string>& words) {
  return keeper && send_request(keeper.get(), words) ? receive_status(keeper.get()) : -1;
}

int list_all(const std::vector<std::string>& words) {
  int status = 0;
  for (const pid_t pid : processes_with_keepers()) {
    const UniqueFd keeper = connect_to_keeper(pid);
    if (const int one = ask(keeper, words); one > 0) status = one;
    if (keeper) continue;
    const StartLock lock;  // it was killed
    if (!connect_to_keeper(pid)) remove_socket(pid);
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Save states of a live process in memory, and roll it back or forward to any of them, in place, as often as "
               "needed. The snapshots stay until they are dropped or the process ends.",
               "cr_snapshot"};
  Options options;
  declare(app, options);
  return tool::run(app, options.common, argc, argv, [&] {
    const std::vector<std::string> words(argv, argv + argc);
    if (options.verb == Verb::drop && options.drop.empty() && !options.all)
      throw Error(Failure::usage, EINVAL, "say which snapshots to drop, or --all");
    if (options.verb == Verb::list && !options.pid) return list_all(words);
    // It may have ended with its last snapshot between being found and being asked.
    for (int attempt = 0; attempt < 3; ++attempt)
      if (const int status = ask(keeper_of(options), words); status >= 0) return status;
    throw Error(Failure::permanent, ECONNRESET,
                "the keeper of the snapshots of process " + std::to_string(options.pid) + " has ended: is the process still there?");
  });
}
