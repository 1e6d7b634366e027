// SPDX-License-Identifier: GPL-2.0-only
#include "blcr_options.h"

#include <string>

namespace reprise::tool {
namespace {

constexpr char kFiles[] = "an image holds what differs from the program's files, not the files: keep them, or name "
                          "others with cr_restart --relocate";

}  // namespace

void add_blcr_options(CLI::App& app) {
  // CLI11 does not show options of an empty group in --help.
  for (const char* name : {"-p,--pid,--process", "-c,--cwd", "--atomic", "--run", "--save-none", "--ptraced-error"})
    app.add_flag(name)->group("");
  const auto refuse = [&app](const std::string& name, const std::string& why) {
    app.add_flag_callback(name, [name, why] { throw CLI::ValidationError(name, why); })->group("");
  };
  for (const char* name : {"--save-exe", "--save-private", "--save-shared", "--save-all"}) refuse(name, kFiles);
  refuse("--ptraced-allow", "a traced process cannot be stopped: detach its debugger or strace first");
}

}  // namespace reprise::tool
