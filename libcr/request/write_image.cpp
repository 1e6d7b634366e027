// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/write_image.h"

#include "process/memory.h"

namespace reprise {

void write_image(Session& session, ImageWriter& writer, const State& state, const Progress& progress, Report& report) {
  const std::vector<cr_range> runs = session.snapshot_runs();
  writer.begin(state.process, state.regs, runs);
  if (state.shared.size()) writer.write_blob(0, state.shared.data(), state.shared.size());
  write_pages(session, writer, runs, progress);
  writer.finish();
  report.bytes = writer.file_size();
}

}  // namespace reprise
