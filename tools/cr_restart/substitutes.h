// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The option --fd N=…: replacements of descriptors. */
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace reprise::tool {

/** Opens the files and sockets of --fd N=PATH, and keeps them open until the restart is done. */
class Substitutes {
 public:
  /**
   * @param arguments   arguments N=M or N=PATH
   * @param copy        number of the copy whose descriptors they are, which is put for %n in PATH; 0: there are no copies
   * @param substitute  receives the replacements
   * Throws Error (usage, refused) naming the argument.
   */
  Substitutes(const std::vector<std::string>& arguments, std::size_t copy, std::map<int, int>& substitute);

 private:
  std::vector<UniqueFd> opened_;
};

}  // namespace reprise::tool
