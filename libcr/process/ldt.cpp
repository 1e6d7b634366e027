// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/ldt.h"

#include <asm/ldt.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace reprise {
namespace {

constexpr std::uint64_t kRead = 0, kWrite = 0x11;  // functions of modify_ldt; 1 would be the old write mode

/** modify_ldt returns its result as a zero-extended 32-bit number: sign-extend it. */
std::int64_t result_of(std::int64_t result) { return static_cast<std::int32_t>(result); }

std::string read_ldt(Remote& remote, std::uint32_t entries) {
  const std::size_t bytes = std::size_t{entries} * LDT_ENTRY_SIZE;
  if (!bytes) return {};
  std::uint64_t at;
  const auto* read = static_cast<const char*>(remote.argument(bytes, at));
  const std::int64_t got = result_of(remote.call(0, SYS_modify_ldt, kRead, at, bytes));
  if (got < 0)
    throw Error(Failure::permanent, static_cast<int>(-got), "its local descriptor table cannot be read: " + error_text(got));
  return {read, bytes};
}

/** Convert a segment descriptor (Intel SDM vol. 3, 3.4.5) to modify_ldt's struct. An all-zero entry is not present. */
user_desc wanted(std::uint32_t index, std::uint64_t entry) {
  user_desc desc{};
  const auto bits = [entry](unsigned from, unsigned count) {
    return static_cast<unsigned>(entry >> from & ((1ULL << count) - 1));
  };
  desc.entry_number = index;
  desc.limit = bits(0, 16) | bits(48, 4) << 16;
  desc.base_addr = bits(16, 24) | bits(56, 8) << 24;
  desc.read_exec_only = !bits(41, 1);
  desc.contents = bits(42, 2) & 3;
  desc.seg_not_present = !bits(47, 1);
  desc.useable = bits(52, 1) & 1;
  desc.seg_32bit = bits(54, 1) & 1;
  desc.limit_in_pages = bits(55, 1) & 1;
  return desc;
}

std::uint64_t entry_at(const std::string& table, std::uint32_t index) {
  std::uint64_t entry = 0;
  if ((index + 1) * sizeof entry <= table.size()) std::memcpy(&entry, table.data() + index * sizeof entry, sizeof entry);
  return entry;
}

}  // namespace

void collect_ldt(const cr_process& data, LazyRemote& remote, Process& process) {
  if (data.ldt_entries) process.mutable_env()->set_ldt(read_ldt(*remote, data.ldt_entries));
}

void restore_ldt(Session& session, Remote& remote, const Process& image) {
  const std::string& saved = image.env().ldt();
  const std::uint32_t live_entries = session.process().ldt_entries;
  if (saved.empty() && !live_entries) return;
  const std::string live = read_ldt(remote, live_entries);
  const auto entries = static_cast<std::uint32_t>(std::max(saved.size(), live.size()) / LDT_ENTRY_SIZE);
  for (std::uint32_t index = 0; index < entries; ++index) {
    const std::uint64_t entry = entry_at(saved, index);
    if (entry == entry_at(live, index)) continue;
    const user_desc desc = wanted(index, entry);
    const std::uint64_t at = remote.argument_of(desc);
    if (const std::int64_t got = result_of(remote.call(0, SYS_modify_ldt, kWrite, at, sizeof desc)); got < 0)
      throw Error(Failure::permanent, static_cast<int>(-got),
                  "entry " + std::to_string(index) + " of its local descriptor table: " + error_text(got));
  }
}

}  // namespace reprise
