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
  session.origin(report.image, options.requester);
  enter(Stage::freeze);
  report.freeze_ns = session.freeze(options.timeout_ms).ns;
  if (!process.lineage().empty()) session.set_lineage(process.lineage());
  {
    Remote remote(session);
    BlankChild::prepare(remote, process, opened.restore);
  }
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
  report.pages = opened.image.page_count();
  report.bytes = opened.image.file_size();
  report.total_ns = Stopwatch::now() - begin - report.held_ns;
  return report;
}

}  // namespace reprise
