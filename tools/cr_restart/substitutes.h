// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file --fd N=…: what takes the place of a descriptor. */
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "request/options.h"
#include "restore/options.h"

namespace reprise::tool {

/** Opens what is named by path, and keeps it open until the restart is done. */
class Substitutes {
 public:
  /** Throws Error (usage, refused) naming the argument. */
  Substitutes(const std::vector<std::string>& arguments, RestoreOptions& restore);

 private:
  std::vector<UniqueFd> opened_;
};

}  // namespace reprise::tool
