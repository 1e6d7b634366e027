// SPDX-License-Identifier: GPL-2.0-only
#include "crd/pmix_names.h"

#include <set>

namespace reprise::crd {

void PmixNames::add(const std::string& nspace, std::uint32_t first, std::uint32_t count) {
  const std::lock_guard lock(mutex_);
  if (own_.empty()) own_ = nspace;
  ranges_[nspace] = {first, count};
}

std::optional<std::uint32_t> PmixNames::number(const pmix_proc_t& proc) const {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(proc.nspace);
  if (found == ranges_.end() || proc.rank >= found->second.count) return std::nullopt;
  return found->second.first + proc.rank;
}

pmix_proc_t PmixNames::proc(std::uint32_t number) const {
  const std::lock_guard lock(mutex_);
  pmix_proc_t proc;
  for (const auto& [nspace, range] : ranges_) {
    if (number < range.first || number - range.first >= range.count) continue;
    PMIx_Load_procid(&proc, nspace.c_str(), number - range.first);
    return proc;
  }
  PMIx_Load_procid(&proc, own_.c_str(), PMIX_RANK_UNDEF);
  return proc;
}

std::optional<std::vector<std::uint32_t>> PmixNames::members(const pmix_proc_t* procs, std::size_t count) const {
  const std::lock_guard lock(mutex_);
  std::set<std::uint32_t> all;
  if (count == 1 && own_ == procs[0].nspace && procs[0].rank == PMIX_RANK_WILDCARD) return std::vector<std::uint32_t>{};
  for (std::size_t i = 0; i < count; ++i) {
    const auto found = ranges_.find(procs[i].nspace);
    if (found == ranges_.end()) return std::nullopt;
    const Range& range = found->second;
    if (procs[i].rank == PMIX_RANK_WILDCARD) {
      for (std::uint32_t rank = 0; rank < range.count; ++rank) all.insert(range.first + rank);
    } else if (procs[i].rank < range.count) {
      all.insert(range.first + procs[i].rank);
    } else {
      return std::nullopt;
    }
  }
  return std::vector<std::uint32_t>(all.begin(), all.end());
}

}  // namespace reprise::crd
