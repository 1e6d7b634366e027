// SPDX-License-Identifier: GPL-2.0-only
#include "blcr_options.h"

#include <string>

namespace reprise::tool {
namespace {

constexpr char kFiles[] = "images hold what differs from the program's files and never the files: keep them, or name others "
                          "with cr_restart --relocate";

}  // namespace

void add_blcr_options(CLI::App& app) {
  // An empty group is not shown.
  for (const char* name : {"-p,--pid,--process", "-c,--cwd", "--atomic", "--run", "--save-none", "--ptraced-error"})
    app.add_flag(name)->group("");
  const auto refuse = [&app](const std::string& name, const std::string& why) {
    app.add_flag_callback(name, [name, why] { throw CLI::ValidationError(name, why); })->group("");
  };
  for (const char* name : {"--save-exe", "--save-private", "--save-shared", "--save-all"}) refuse(name, kFiles);
  refuse("--ptraced-allow", "a traced process cannot be stopped: detach its debugger or strace first");
}

}  // namespace reprise::tool
