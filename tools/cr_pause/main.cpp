// SPDX-License-Identifier: GPL-2.0-only
// cr_pause: roll a live process back to an image of it, in place.
#include <cstdio>
#include <limits>

#include "base/request_flags.h"
#include "command.h"
#include "hold.h"
#include "libcr.h"
#include "progress.h"
#include "report.h"
#include "request/requests.h"

using namespace reprise;

int main(int argc, char** argv) {
  CLI::App app{"Roll a live process back, in place, to an image of it. It keeps its pid, its threads and its open "
               "sockets.",
               "cr_pause"};
  tool::Common common("cr_pause");
  tool::SignalOptions signal;
  PauseOptions options;
  bool hold = false;
  app.add_option("PID", options.pid, "process to roll back")
      ->required()
      ->check(CLI::Range(1, std::numeric_limits<int>::max()).description(""))
      ->type_name("");
  app.add_option("IMAGE,-f,--file", options.image,
                 "image to roll it back to (default: context.PID in the current directory); -: standard input")
      ->type_name("IMAGE");
  app.add_flag("!--no-tracking", options.use_tracking, "restore every page, not only those tracked as changed");
  tool::add_restore_options(app, options.restore);
  tool::add_hold(app, hold, "all");
  signal.add(app, "once it is rolled back");
  common.add(app, tool::kTargetTimeout);

  return tool::run(app, common, argc, argv, [&] {
    if (options.image.empty()) options.image = "context." + std::to_string(options.pid);
    options.image_fd = tool::image_from_input(options.image, hold);
    options.signal = signal.signal();
    options.request_flags = api::pack_request(options.signal, CR_SCOPE_PROC, options.pid);
    options.timeout_ms = options.agent_timeout_ms = common.timeout_ms();
    if (hold) options.hold = tool::hold_until_line(common);
    Report report;
    {
      ProgressBar bar("checking", !common.json && !common.quiet);
      options.progress = bar.callback();
      report = pause(options);
    }
    tool::print(common, report,
                "rolled back to " + report.image + " (" + tool::age(report) + "): " + tool::counted(report.threads, "thread") +
                    ", " + tool::grouped(report.pages_restored) + " of " + tool::counted(report.pages, "page") +
                    ", stood still " + tool::duration(report.frozen_ns),
                stdout);
    return 0;
  });
}
