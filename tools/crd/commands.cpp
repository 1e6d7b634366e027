// SPDX-License-Identifier: GPL-2.0-only
#include "crd/commands.h"

#include <filesystem>
#include <map>

namespace reprise::crd {
namespace {

std::string find_command(const std::string& name) {
  std::error_code error;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / name;
  return !error && std::filesystem::exists(beside, error) ? beside.string() : name;
}

/** Searched for once, when the daemon starts: later the file system that they are on may not answer. */
struct Commands {
  std::map<std::string, std::string> paths;
  Commands() {
    for (const char* const name : {"cr_checkpoint", "cr_pause", "cr_restart", "crrun"}) paths[name] = find_command(name);
  }
} const commands;

}  // namespace

const std::string& command_path(const std::string& name) { return commands.paths.at(name); }

}  // namespace reprise::crd
