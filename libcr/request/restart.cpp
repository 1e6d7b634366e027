// SPDX-License-Identifier: LGPL-2.1-or-later
#include <utility>

#include "request/child.h"
#include "request/image_source.h"
#include "request/requests.h"
#include "request/restart_parts.h"
#include "request/stopwatch.h"

namespace reprise {

Report restart(const RestartOptions& options) {
  Report report;
  const std::uint64_t begin = Stopwatch::now();
  OpenedImage opened = open_for_restart(options, report);
  Process& process = opened.process;
  Stopwatch watch;
  MappingFiles files = MappingFiles::for_restart(process, opened.restore);
  report.open_ns += watch.lap();

  enter(Stage::child);
  BlankChild child(process, options, report);
  Verification verification(opened.image, options.progress);
  if (!opened.restore.restore_pid) warn_of_new_ids(process, report);
  Session session = child.attach();
  take_over(session, process, options, opened.restore, report);
  RollbackSource source = source_from(opened.image);
  source.files = std::move(files);
  // The next stages change files that other processes use too: wait for the verification first.
  source.hold = [&] {
    verification.finish(report);
    hold_for_caller(options.hold, report);
  };
  Rollback rollback(session, process, opened.image.threads(), opened.restore, RestoreMode::restart, std::move(source));
  rollback.run(report);
  LastSteps last(session, rollback, process, options, report);
  last.tell();
  last.let_go();
  last.finish();
  child.release({child.pid()});
  report_whole(opened.image, begin, report);
  return report;
}

}  // namespace reprise
