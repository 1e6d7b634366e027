// SPDX-License-Identifier: LGPL-2.1-or-later
#include "restore/options.h"

namespace reprise {

std::string RestoreOptions::relocated(const std::string& path) const {
  for (const auto& [from, to] : relocate) {
    if (path.compare(0, from.size(), from) != 0) continue;
    // Match whole components only: /var/a must not match /var/ab.
    if (path.size() != from.size() && !from.empty() && from.back() != '/' && path[from.size()] != '/') continue;
    return to + path.substr(from.size());
  }
  return path;
}

}  // namespace reprise
