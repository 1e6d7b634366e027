// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/hand_over.h"

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "libcr.h"

namespace reprise {

void hand_over(int socket, std::vector<KeptFile> files, std::vector<std::string>& warnings) {
  std::sort(files.begin(), files.end(), [](const KeptFile& a, const KeptFile& b) { return a.name < b.name; });
  std::size_t sent = 0;
  for (auto at = files.begin(); at != files.end();) {
    const auto next = std::find_if_not(at, files.end(), [&](const KeptFile& one) { return one.name == at->name; });
    std::string why;
    if (next - at > 1)
      why = "the process has " + std::to_string(next - at) + " of that name";
    else if (sent == CR_MAX_RSTRT_KEPT)
      why = "a restart takes " + std::to_string(CR_MAX_RSTRT_KEPT) + " at most";
    else if (!send_kept(socket, *at))
      why = error_text(errno);
    else
      ++sent;
    if (!why.empty()) warnings.push_back("kept memory " + at->name + " was not handed over: " + why);
    at = next;
  }
}

}  // namespace reprise
