// SPDX-License-Identifier: GPL-2.0-only
// cr_pause: roll a live process back to an image of it, in place.
#include <cerrno>
#include <filesystem>

#include "asking.h"
#include "base/error.h"
#include "exchange.h"
#include "hold.h"
#include "pause_command.h"
#include "place.h"
#include "progress.h"
#include "request/requests.h"

using namespace reprise;
using namespace reprise::snapshots;

namespace {

/** @return the exit status; kNotKept: the state of the image is not kept in memory */
int pause_to_kept(const PauseCommand& command, const std::vector<std::string>& words) {
  const pid_t pid = command.options.pid;
  if (command.keep) return ask_persistently(pid, words, [pid] { return connect_or_start(pid); });
  if (command.hold || command.options.signal != 0 || !command.options.use_tracking || !may_have_keeper(pid)) return kNotKept;
  const int status = ask(connect_to_keeper(pid), words);
  return status == -1 ? kNotKept : status;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Roll a live process back, in place, to an image of it. It keeps its pid, its threads and its open "
               "sockets.",
               kPauseCommand};
  PauseCommand command;
  declare(app, command);
  return tool::run(app, command.common, argc, argv, [&] {
    command.complete();
    PauseOptions& options = command.options;
    const ImageFile image = ImageFile::of(options.image);
    if (image) {
      const int status = pause_to_kept(command, words_for_keeper(argc, argv, image));
      if (status != kNotKept) return status;
    } else if (command.keep && std::filesystem::exists(options.image)) {
      throw Error(Failure::usage, EINVAL, "--keep needs a regular file, by which the state is found again: " + options.image + " is none");
    }
    options.image_fd = tool::image_from_input(options.image, command.hold);
    if (command.hold) options.hold = tool::hold_until_line(command.common);
    Report report;
    {
      ProgressBar bar("checking", !command.common.json && !command.common.quiet);
      options.progress = bar.callback();
      report = pause(options);
    }
    print_pause(command.common, report);
    return 0;
  });
}
