// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/write_image.h"

#include <algorithm>

#include <sys/auxv.h>

#include "process/memory.h"

namespace reprise {
namespace {

/** @return the process's vdso mapping, which debuggers need to unwind; an empty range if it has none */
cr_range vdso_of(const Process& process) {
  for (const Mapping& mapping : process.mappings())
    if (mapping.flags() & CR_VMA_SPECIAL && mapping.name() == "[vdso]")
      return {mapping.start(), mapping.end() - mapping.start()};
  return {};
}

}  // namespace

void write_image(Session& session, ImageWriter& writer, const State& state, const Progress& progress, Report& report) {
  const std::vector<cr_range> runs = session.snapshot_runs();
  // The kernel maps the same vdso into every process: save our copy.
  const cr_range vdso = vdso_of(state.process);
  const auto* content = reinterpret_cast<const void*>(::getauxval(AT_SYSINFO_EHDR));
  std::vector<cr_range> all = runs;
  if (vdso.len && content)
    all.insert(std::upper_bound(all.begin(), all.end(), vdso, [](const auto& a, const auto& b) { return a.addr < b.addr; }),
               vdso);
  writer.begin(state.process, state.regs, all);
  if (vdso.len && content) writer.write_pages(vdso.addr, content, vdso.len);
  if (state.shared.size()) writer.write_blob(0, state.shared.data(), state.shared.size());
  write_pages(session, writer, runs, progress);
  writer.finish();
  report.bytes = writer.file_size();
}

}  // namespace reprise
