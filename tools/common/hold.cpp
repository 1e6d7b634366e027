// SPDX-License-Identifier: GPL-2.0-only
#include "hold.h"

#include <cerrno>
#include <cstdio>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "report.h"

namespace reprise::tool {

void add_hold(CLI::App& app, bool& wanted, const std::string& what) {
  app.add_flag("--hold", wanted,
               "get " + what + " ready, report that, and continue after a line on standard input; end of file cancels");
}

Hold hold_until_line(const Common& common, const sigset_t* mask) {
  return [&common, mask, told = false](unsigned ms) mutable {
    if (!std::exchange(told, true)) {
      if (common.json) {
        std::printf("%s\n", held_json(common.name).c_str());
        std::fflush(stdout);
      } else if (!common.quiet) {
        std::fprintf(stderr, "%s: ready: write a line to standard input to continue\n", common.name.c_str());
      }
    }
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const timespec limit{ms / 1000, ms % 1000 * 1'000'000L};
    const int ready = ::ppoll(&input, 1, &limit, mask);
    if (ready == 0 || (ready < 0 && errno == EINTR)) return false;
    // Read byte by byte: the input after the line belongs to other programs.
    char byte = 0;
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return false;
    if (got < 0) throw Error(Failure::refused, errno, "cancelled: cannot read standard input: " + error_text(errno));
    if (got == 0) throw Error(Failure::refused, ECANCELED, "cancelled: standard input ended before a line came");
    return byte == '\n';
  };
}

}  // namespace reprise::tool
