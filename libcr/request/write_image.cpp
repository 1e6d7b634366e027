// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/write_image.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include <sys/auxv.h>

#include "base/error.h"
#include "image/delta.h"
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

/** Write the vdso, of which we have @p content, and @p runs of the snapshot, by address. */
void write_in_order(Session& session, ImageWriter& writer, const std::vector<cr_range>& runs, const cr_range& vdso,
                    const void* content, const Progress& progress) {
  const auto behind = std::partition_point(runs.begin(), runs.end(), [&](const cr_range& run) { return run.addr < vdso.addr; });
  const std::span<const cr_range> first(runs.begin(), behind), last(behind, runs.end());
  write_pages(session, writer, first, progress);
  if (vdso.len && content) writer.write_pages(vdso.addr, content, vdso.len);
  const std::uint64_t done = bytes_in(first);
  Progress rest;
  if (progress) rest = [&](std::uint64_t more, std::uint64_t total) { progress(done + more, total); };
  write_pages(session, writer, last, rest);
}

/** Take @p pages of the parent. @p done bytes of the image are there already. */
void take_pages(ImageWriter& writer, const Image& parent, const std::vector<cr_range>& pages, std::uint64_t done,
                const Progress& progress) {
  constexpr std::uint64_t most = 64ULL << 20;  // at once: where the file system copies, it takes a while
  for (cr_range range : pages)
    while (range.len) {
      const std::uint64_t part = std::min<std::uint64_t>(range.len, most);
      writer.take_pages(parent, {range.addr, part});
      range.addr += part;
      range.len -= part;
      done += part;
      if (progress) progress(done, 0);
    }
}

}  // namespace

void write_image(Session& session, ImageWriter& writer, State& state, const Inheritance& from, const Progress& progress,
                 Report& report) {
  const std::vector<cr_range> runs = session.snapshot_runs();
  std::vector<cr_range> inherited;
  if (from.parent) inherited = unchanged_pages(*from.parent, state.process, session.snapshot_clean());
  report.pages_inherited = bytes_in(inherited) / image::kPage;
  report.pages += report.pages_inherited;
  if (!from.refer_as.empty()) {
    Referred referred = refer_to(state.process, *from.parent, from.refer_as, bytes_in(runs), inherited);
    inherited = std::move(referred.taken);
    if (referred.too_many_pieces)
      report.warnings.push_back("the image stands alone: as a delta it would refer to too many pieces of other files");
  }
  // The kernel maps the same vdso into every process: save our copy.
  const cr_range vdso = vdso_of(state.process);
  const auto* content = reinterpret_cast<const void*>(::getauxval(AT_SYSINFO_EHDR));
  std::vector<cr_range> all = runs;
  all.insert(all.end(), inherited.begin(), inherited.end());
  if (vdso.len && content) all.push_back(vdso);
  writer.begin(state.process, state.regs, merged(std::move(all)));
  if (state.shared.size()) writer.write_blob(0, state.shared.data(), state.shared.size());
  const std::uint64_t saved = bytes_in(runs), total = saved + bytes_in(inherited);
  Progress of_all;
  if (progress) of_all = [&](std::uint64_t done, std::uint64_t) { progress(done, total); };
  write_in_order(session, writer, runs, vdso, content, of_all);
  if (from.parent) {
    take_pages(writer, *from.parent, inherited, saved, of_all);
    if (from.parent->written())
      throw Error(Failure::temporary, EBUSY, from.parent->name() + " was changed while its pages were taken from it");
  }
  writer.finish();
  report.bytes = writer.file_size();
  for (const Base& base : state.process.bases()) report.bases.push_back(base.name());
  if (writer.compressed()) report.bytes_compressed = writer.compressed_size();
}

}  // namespace reprise
