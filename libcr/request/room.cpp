// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/room.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "base/proc_dir.h"

namespace reprise {
namespace {

std::uint64_t kilobytes(const std::string& text, const std::string& key) {
  return std::strtoull(proc_field(text, key).c_str(), nullptr, 10);
}

}  // namespace

std::string room_problem(const std::string& status, const std::string& meminfo) {
  const std::uint64_t swapped = kilobytes(status, "VmSwap:"), available = kilobytes(meminfo, "MemAvailable:");
  if (swapped <= available) return {};
  return std::to_string(swapped / 1024) + " MB of its memory are swapped out and have to be brought back, but only " +
         std::to_string(available / 1024) + " MB of memory are available: end or move other programs";
}

void check_room(pid_t pid) {
  const auto status = ProcDir(pid).try_read("status"), meminfo = ProcDir("/proc").try_read("meminfo");
  if (!status || !meminfo) return;
  if (const std::string problem = room_problem(*status, *meminfo); !problem.empty())
    throw Error(Failure::temporary, ENOMEM, "process " + std::to_string(pid) + ": " + problem);
}

}  // namespace reprise
