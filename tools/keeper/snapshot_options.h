// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The command line of cr_snapshot, which both the command and the keeper of a process's snapshots read. */
#include <string>
#include <vector>

#include <sys/types.h>

#include "command.h"
#include "restore/options.h"

namespace reprise::snapshots {

enum class Verb { take, list, go_to, drop, save };

struct Options {
  tool::Common common{"cr_snapshot"};
  Verb verb = Verb::list;
  pid_t pid = 0;                   ///< list: 0 for all processes
  std::string name;                ///< take
  std::string snapshot;            ///< go_to, save
  std::vector<std::string> drop;   ///< drop
  bool all = false;                ///< drop
  std::string image;               ///< save
  bool clobber = true, sync = true;  ///< save
  RestoreOptions restore;          ///< go_to
};

/** Declare all of it. @p options must outlive @p app. */
void declare(CLI::App& app, Options& options);

}  // namespace reprise::snapshots
