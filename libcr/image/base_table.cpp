// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/base_table.h"

namespace reprise::image {

void add_base_run(Process& process, std::uint64_t after, const BaseRun& run) {
  process.add_base_runs((run.addr - after) / kPage);
  process.add_base_runs(run.len / kPage);
  process.add_base_runs(run.base);
  process.add_base_runs(run.first_page);
}

std::optional<std::vector<BaseRun>> read_base_runs(const Process& process) {
  constexpr std::uint64_t kMost = kTaskSize / kPage;
  if (process.base_runs_size() % kBaseRunNumbers || process.base_runs_size() / kBaseRunNumbers > kMaxBaseRuns) return {};
  std::vector<BaseRun> out;
  out.reserve(static_cast<std::size_t>(process.base_runs_size() / kBaseRunNumbers));
  std::uint64_t page = 0;
  for (int i = 0; i < process.base_runs_size(); i += kBaseRunNumbers) {
    const std::uint64_t gap = process.base_runs(i), pages = process.base_runs(i + 1), base = process.base_runs(i + 2);
    if (gap > kMost - page || pages == 0 || pages > kMost - page - gap) return {};
    if (base >= static_cast<std::uint64_t>(process.bases_size())) return {};
    page += gap;
    out.push_back({page * kPage, pages * kPage, static_cast<std::uint32_t>(base), process.base_runs(i + 3)});
    page += pages;
  }
  return out;
}

}  // namespace reprise::image
