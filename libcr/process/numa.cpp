// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/numa.h"

#include <algorithm>
#include <cstring>

#include <sys/syscall.h>

#include "base/text.h"
#include "process/mapping_plan.h"

namespace reprise {
namespace {

// From linux/mempolicy.h.
constexpr std::uint64_t kDefault = 0;    // MPOL_DEFAULT
constexpr std::uint64_t kOfAddress = 2;  // MPOL_F_ADDR
constexpr std::size_t kMaskBytes = 128;  // 1024 nodes, the maximum of CONFIG_NODES_SHIFT

bool has_policy(const Mapping& mapping) { return mapping.flags() & CR_VMA_POLICY; }

void give(Remote& remote, std::uint64_t start, std::uint64_t end, std::uint64_t mode, const std::string& nodes,
          Report& report, const Mapping& mapping) {
  std::uint64_t mask = 0;
  if (!nodes.empty()) std::memcpy(remote.argument(nodes.size(), mask), nodes.data(), nodes.size());
  // mbind() reads maxnode - 1 bits.
  const std::size_t bits = nodes.empty() ? 0 : nodes.size() * 8 + 1;
  const std::size_t index = remote.add({SYS_mbind, {start, end - start, mode, mask, bits, 0}}, false);
  if (const std::int64_t ret = remote.run()[index]; ret < 0)
    report.warnings.push_back(mapping_name(mapping) + ": its NUMA policy is not restored: " + error_text(ret));
}

}  // namespace

void collect_numa(LazyRemote& remote, Process& process) {
  for (Mapping& mapping : *process.mutable_mappings()) {
    if (!has_policy(mapping)) continue;
    std::uint64_t at;
    auto* out = static_cast<std::uint32_t*>(remote->argument(16 + kMaskBytes, at));
    const std::uint64_t into = at + 16;
    const std::size_t index =
        remote->add({SYS_get_mempolicy, {at, into, kMaskBytes * 8, mapping.start(), kOfAddress}}, false);
    if (remote->run()[index] < 0) continue;
    mapping.set_numa_mode(*out);
    const char* mask = reinterpret_cast<const char*>(out) + 16;
    std::size_t size = kMaskBytes;
    while (size >= 8 && std::all_of(mask + size - 8, mask + size, [](char byte) { return byte == 0; })) size -= 8;
    mapping.set_numa_nodes(mask, size);
  }
}

std::vector<cr_range> with_policy(std::span<const cr_vma> vmas) {
  std::vector<cr_range> ranges;
  for (const cr_vma& vma : vmas)
    if (vma.flags & CR_VMA_POLICY) ranges.push_back({vma.start, vma.end - vma.start});
  return ranges;
}

void restore_numa(Remote& remote, std::span<const cr_range> now, const Process& image, Report& report) {
  // Older images do not save policies: current ones stay.
  const bool tells = image.layout().has_future();
  for (const Mapping& mapping : image.mappings()) {
    if (has_policy(mapping)) {
      give(remote, mapping.start(), mapping.end(), mapping.numa_mode(), mapping.numa_nodes(), report, mapping);
      continue;
    }
    if (!tells) continue;
    for (const cr_range& range : now) {
      const auto start = std::max<std::uint64_t>(range.addr, mapping.start());
      const auto end = std::min<std::uint64_t>(range.addr + range.len, mapping.end());
      if (start < end) give(remote, start, end, kDefault, {}, report, mapping);
    }
  }
}

}  // namespace reprise
