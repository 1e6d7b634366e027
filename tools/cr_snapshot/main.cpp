// SPDX-License-Identifier: GPL-2.0-only
// cr_snapshot: states of live processes in memory, as a tree to jump in.
#include <cerrno>
#include <cstdio>

#include "asking.h"
#include "base/error.h"
#include "exchange.h"
#include "keeper.h"
#include "place.h"
#include "snapshot_options.h"

using namespace reprise;
using namespace reprise::snapshots;

namespace {

UniqueFd keeper_of(const Options& options) {
  if (options.verb == Verb::take) return connect_or_start(options.pid);
  if (UniqueFd keeper = connect_to_keeper(options.pid)) return keeper;
  throw Error(Failure::refused, ENOENT,
              "process " + std::to_string(options.pid) + " has no snapshots of yours: cr_snapshot take " +
                  std::to_string(options.pid) + " takes one");
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
    std::vector<std::string> words(argv, argv + argc);
    words.front() = options.common.name;
    if (options.verb == Verb::drop && options.drop.empty() && !options.all)
      throw Error(Failure::usage, EINVAL, "say which snapshots to drop, or --all");
    if (options.verb == Verb::list && !options.pid) return list_all(words);
    return ask_persistently(options.pid, words, [&] { return keeper_of(options); });
  });
}
