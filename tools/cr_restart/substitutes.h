// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The option --fd N=…: replacements of descriptors. */
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "request/options.h"
#include "restore/options.h"

namespace reprise::tool {

/** Opens the files and sockets of --fd N=PATH, and keeps them open until the restart is done. */
class Substitutes {
 public:
  /**
   * @param arguments  arguments N=M or N=PATH
   * @param restore    receives the replacements in its member substitute
   * Throws Error (usage, refused) naming the argument.
   */
  Substitutes(const std::vector<std::string>& arguments, RestoreOptions& restore);

 private:
  std::vector<UniqueFd> opened_;
};

}  // namespace reprise::tool
