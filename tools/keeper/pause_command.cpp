// SPDX-License-Identifier: GPL-2.0-only
#include "pause_command.h"

#include <cerrno>
#include <cstdio>
#include <limits>

#include "base/error.h"
#include "base/request_flags.h"
#include "hold.h"
#include "libcr.h"
#include "process/scope.h"
#include "report.h"

namespace reprise::snapshots {
namespace {

constexpr char kImageIs[] = "--image-is";

}  // namespace

void declare(CLI::App& app, PauseCommand& command) {
  app.add_option("PID", command.options.pid, "process to roll back")
      ->required()
      ->check(CLI::Range(1, std::numeric_limits<int>::max()).description(""))
      ->type_name("");
  app.add_option("IMAGE,-f,--file", command.options.image,
                 "image to roll it back to (default: context.PID in the current directory); -: standard input")
      ->type_name("IMAGE");
  app.add_flag("!--no-tracking", command.options.use_tracking, "restore every page, not only those tracked as changed");
  app.add_flag("--keep", command.keep, "keep the state in memory too, so that later pauses to this image read nothing");
  app.add_option(kImageIs, command.image_is_)->group("");
  app.add_option("--keep-pipe", command.keep_pipes_,
                 "where the image has descriptor N as a pipe to another process, which is gone, keep the pipe that the process has there "
                 "now; may be given again")
      ->type_name("N")
      ->allow_extra_args(false)
      ->check(CLI::NonNegativeNumber.description(""))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  tool::add_restore_options(app, command.options.restore);
  tool::add_hold(app, command.hold, "all");
  command.signal.add(app, "once it is rolled back");
  command.common.add(app, tool::kTargetTimeout);
}

void PauseCommand::complete() {
  if (options.image.empty()) options.image = context_name(options.pid);
  image = ImageFile::parse(image_is_);
  options.restore.keep_pipes.insert(keep_pipes_.begin(), keep_pipes_.end());
  options.signal = signal.signal();
  options.request_flags = api::pack_request(options.signal, CR_SCOPE_PROC, options.pid);
  options.timeout_ms = options.agent_timeout_ms = common.timeout_ms();
  if (keep && (hold || options.signal != 0))
    throw Error(Failure::usage, EINVAL, "--keep goes neither with --hold nor with a signal: pause once with --keep before");
  if (keep && options.image == tool::kStandard)
    throw Error(Failure::usage, EINVAL, "--keep needs a file, by which the state is found again: standard input is none");
}

std::vector<std::string> words_for_keeper(int argc, char** argv, const ImageFile& image) {
  std::vector<std::string> words{kPauseCommand, kImageIs, image.text()};
  words.insert(words.end(), argv + 1, argv + argc);
  return words;
}

void print_pause(const tool::Common& common, const Report& report) {
  tool::print(common, report,
              "rolled back to " + report.image + " (" + tool::age(report) + "): " + tool::counted(report.threads, "thread") +
                  ", " + tool::grouped(report.pages_restored) + " of " + tool::counted(report.pages, "page") +
                  ", stood still " + tool::duration(report.frozen_ns),
              stdout);
}

}  // namespace reprise::snapshots
