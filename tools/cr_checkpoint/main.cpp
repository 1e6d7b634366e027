// SPDX-License-Identifier: GPL-2.0-only
// cr_checkpoint: save a running process.
#include <cstdio>
#include <limits>

#include "base/request_flags.h"
#include "command.h"
#include "libcr.h"
#include "progress.h"
#include "report.h"
#include "request/requests.h"

using namespace reprise;

int main(int argc, char** argv) {
  CLI::App app{"Save a running process to an image, from which cr_pause can roll it back and cr_restart make it anew.",
               "cr_checkpoint"};
  tool::Common common("cr_checkpoint");
  tool::SignalOptions signal;
  CheckpointOptions options;
  app.add_option("PID", options.pid, "process to save")
      ->required()
      ->check(CLI::Range(1, std::numeric_limits<int>::max()).description(""))
      ->type_name("");
  app.add_option("IMAGE,-f,--file", options.image, "file to save it to (default: context.PID in this directory)")
      ->type_name("IMAGE");
  app.add_flag("--clobber,!--no-clobber", options.clobber, "replace an existing image (default), or do not");
  app.add_flag("--sync,!--no-sync", options.sync, "have the image on disk before it gets its name (default), or do not");
  app.add_flag("--track,!--no-track", options.track,
               "note from now on which pages the program changes, so that cr_pause is fast (default), or do not");
  app.add_flag("--split-huge", options.split_huge,
               "note changes by the page where memory is mapped by huge pages, too, by mapping it by small ones: after "
               "small changes cr_pause is much faster, the program may be a little slower");
  app.add_option("--deleted-limit", options.deleted_limit,
                 "save at most so many bytes of deleted files that are open, 512M say (default: 1G); 0: save none of them, "
                 "a pause needs none while they are open")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("SIZE");
  signal.add(app, "once it is saved");
  common.add(app, tool::kTargetTimeout);

  return tool::run(app, common, argc, argv, [&] {
    options.signal = signal.signal();
    options.request_flags = api::pack_request(options.signal, CR_SCOPE_PROC, options.pid);
    options.timeout_ms = options.agent_timeout_ms = common.timeout_ms();
    Report report;
    {
      ProgressBar bar("saving", !common.json && !common.quiet);
      options.progress = bar.callback();
      report = checkpoint(options);
    }
    tool::print(common, report,
                "saved to " + report.image + ": " + tool::counted(report.threads, "thread") + ", " +
                    tool::counted(report.pages, "page") + ", " + tool::bytes(report.bytes) + " in " +
                    tool::duration(report.total_ns) + ", stood still " + tool::duration(report.frozen_ns),
                stdout);
    return 0;
  });
}
