// SPDX-License-Identifier: GPL-2.0-only
#include "snapshot_options.h"

#include <limits>

namespace reprise::snapshots {
namespace {

CLI::App& verb(CLI::App& app, Options& options, Verb which, const char* name, const char* text) {
  CLI::App& sub = *app.add_subcommand(name, text);
  tool::set_up(sub);
  sub.set_version_flag();
  sub.fallthrough();
  sub.callback([&options, which] { options.verb = which; });
  return sub;
}

CLI::Option& pid(CLI::App& sub, Options& options) {
  return *sub.add_option("PID", options.pid, "the process")
              ->check(CLI::Range(1, std::numeric_limits<int>::max()).description(""))
              ->type_name("");
}

CLI::Option& snapshot(CLI::App& sub, Options& options) {
  return *sub.add_option("SNAPSHOT", options.snapshot, "number or name of a snapshot")->type_name("");
}

}  // namespace

void declare(CLI::App& app, Options& options) {
  options.common.add(app, tool::kTargetTimeout);
  app.require_subcommand(1);

  CLI::App& take = verb(app, options, Verb::take, "take", "save the state of a process in memory, and say its number");
  pid(take, options).required();
  take.add_option("--name", options.name, "a name for it")->type_name("NAME");

  CLI::App& list = verb(app, options, Verb::list, "list", "show the snapshots as a tree; * is where the process is");
  pid(list, options);

  CLI::App& to = verb(app, options, Verb::go_to, "to", "roll the process back, or forward, to a snapshot");
  pid(to, options).required();
  snapshot(to, options).required();
  tool::add_restore_options(to, options.restore);

  CLI::App& drop = verb(app, options, Verb::drop, "drop", "forget snapshots and free their memory");
  pid(drop, options).required();
  drop.add_option("SNAPSHOT", options.drop, "numbers or names of snapshots")->type_name("");
  drop.add_flag("--all", options.all, "all of the process");

  CLI::App& save = verb(app, options, Verb::save, "save", "write a snapshot to an image, as cr_checkpoint does");
  pid(save, options).required();
  snapshot(save, options).required();
  save.add_option("IMAGE", options.image, "the image")->required()->type_name("");
  save.add_flag("!--no-clobber", options.clobber, "fail if the image exists");
  save.add_flag("!--no-sync", options.sync, "do not wait until the image is on the disk");
}

}  // namespace reprise::snapshots
