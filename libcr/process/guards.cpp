// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/guards.h"

#include <algorithm>

#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/text.h"
#include "session/checked_batch.h"

namespace reprise {
namespace {

// Newer than some C libraries' headers.
constexpr int kInstall = 102;  // MADV_GUARD_INSTALL
constexpr int kRemove = 103;   // MADV_GUARD_REMOVE
constexpr std::uint64_t kOnFault = 1;  // MLOCK_ONFAULT

CheckedBatch::Name doing(const char* what, const cr_range& range) {
  return [=] { return std::string(what) + " guard pages at " + hex(range.addr) + "-" + hex(range.addr + range.len); };
}

/** @return the image's mapping that contains @p addr. The loader has checked that there is one. */
const Mapping& mapping_at(const Process& image, std::uint64_t addr) {
  return *std::partition_point(image.mappings().begin(), image.mappings().end(),
                               [&](const Mapping& mapping) { return mapping.end() <= addr; });
}

void install(CheckedBatch& calls, const Process& image, const cr_range& range) {
  const std::uint64_t flags = mapping_at(image, range.addr).flags();
  const bool locked = flags & (CR_VMA_LOCKED | CR_VMA_LOCKONFAULT);
  // MADV_GUARD_INSTALL fails with EINVAL in locked memory, so unlock it first. mlock then locks the mapping but returns
  // an error, because it cannot fault in the guard pages.
  if (locked) calls.must({SYS_munlock, {range.addr, range.len}}, doing("unlocking for", range));
  calls.must({SYS_madvise, {range.addr, range.len, kInstall}}, doing("installing", range));
  if (locked)
    calls.may({SYS_mlock2, {range.addr, range.len, flags & CR_VMA_LOCKONFAULT ? kOnFault : 0}}, doing("locking", range));
}

}  // namespace

std::vector<cr_range> without(std::span<const cr_range> ranges, std::span<const cr_range> others) {
  std::vector<cr_range> out;
  std::size_t i = 0;
  for (const cr_range& range : ranges) {
    std::uint64_t at = range.addr;
    const std::uint64_t end = range.addr + range.len;
    while (i < others.size() && others[i].addr + others[i].len <= at) ++i;
    for (std::size_t k = i; k < others.size() && others[k].addr < end; ++k) {
      if (others[k].addr > at) out.push_back({at, others[k].addr - at});
      at = std::max<std::uint64_t>(at, others[k].addr + others[k].len);
    }
    if (at < end) out.push_back({at, end - at});
  }
  return out;
}

void collect_guards(Session& session, Process& process) {
  for (const cr_range& range : session.guards()) {
    Guard& guard = *process.add_guards();
    guard.set_start(range.addr);
    guard.set_length(range.len);
  }
}

void restore_guards(Session& session, Remote& remote, const Process& image) {
  std::vector<cr_range> wanted;
  for (const Guard& guard : image.guards()) wanted.push_back({guard.start(), guard.length()});
  const std::vector<cr_range> now = session.guards();
  CheckedBatch calls(remote);
  for (const cr_range& range : without(now, wanted))
    calls.must({SYS_madvise, {range.addr, range.len, kRemove}}, doing("removing", range));
  for (const cr_range& range : without(wanted, now)) install(calls, image, range);
  calls.run();
}

}  // namespace reprise
