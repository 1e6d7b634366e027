// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The options --fd N=… and --kept-memory NAME=…: replacements of descriptors, and kept memory. */
#include <cstddef>
#include <functional>
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

/** Opens or makes the memory of --kept-memory NAME=PATH, and keeps it open until the restart is done. */
class KeptMemory {
 public:
  /**
   * @param arguments  arguments NAME=M or NAME=PATH
   * @param copied     whether memory of that name is to be made so that images have its content (CR_KEPT_COPIED)
   * @param memory     receives the memory, as RestoreOptions::kept_memory
   * Throws Error (usage, refused) naming the argument.
   */
  KeptMemory(const std::vector<std::string>& arguments, const std::function<bool(const std::string& name)>& copied,
             std::map<std::string, int>& memory);

 private:
  std::vector<UniqueFd> opened_;
};

}  // namespace reprise::tool
