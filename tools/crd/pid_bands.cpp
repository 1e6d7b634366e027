// SPDX-License-Identifier: GPL-2.0-only
#include "crd/pid_bands.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "job/log.h"

namespace reprise::crd {
namespace {

constexpr char kLastPid[] = "/proc/sys/kernel/ns_last_pid";

int number_in(const char* path) {
  UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  char text[32] = "";
  return fd && ::read(fd.get(), text, sizeof text - 1) > 0 ? std::atoi(text) : -1;
}

/** Make the kernel allocate the next id behind @p id. @return whether that is permitted */
bool go_on_behind(int id) {
  const UniqueFd fd(::open(kLastPid, O_WRONLY | O_CLOEXEC));
  const std::string text = std::to_string(id);
  return fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

/** kThreads: threads that a process may have, their ids are behind its own. kNear: processes that a recovery may start. */
constexpr int kThreads = 256, kNear = 2048;

}  // namespace

int clear_of(int last, std::vector<pid_t> ids) {
  std::sort(ids.begin(), ids.end());
  for (const pid_t id : ids)
    if (id > last && id - last <= kNear) last = id + kThreads;
  return last;
}

void keep_clear_of(const std::vector<pid_t>& ids) {
  const int last = number_in(kLastPid), pid_max = number_in("/proc/sys/kernel/pid_max");
  const int next = clear_of(last, ids);
  if (last < 0 || next == last || next >= pid_max) return;
  if (go_on_behind(next)) spdlog::debug("process ids up to {} are left to the processes that are restarted", next);
}

PidBand pid_band(std::uint32_t node, std::uint32_t nodes, int pid_max) {
  const int begin = pid_max / 4;
  const int width = std::max(1, (pid_max - begin) / static_cast<int>(std::max(1u, nodes)));
  const int first = begin + width * static_cast<int>(node % std::max(1u, nodes));
  return {first, std::min(first + width, pid_max) - 1};
}

bool can_choose_pids() {
  const int last = number_in(kLastPid);
  // The kernel checks the capability only when the file is written.
  return last >= 0 && go_on_behind(last);
}

bool keep_to_band(std::uint32_t node, std::uint32_t nodes) {
  const int last = number_in(kLastPid), pid_max = number_in("/proc/sys/kernel/pid_max");
  if (last < 0 || pid_max < 0) return false;
  const PidBand band = pid_band(node, nodes, pid_max);
  // An id that was just freed may belong to a rank that is about to be restarted: continue after the last id, not at the
  // band's start.
  static int reached = 0;
  if (last >= band.first && last < band.last - (band.last - band.first) / 16) {
    reached = last;
    return true;
  }
  if (reached < band.first || reached + 256 >= band.last) reached = band.first;
  reached += (band.last - band.first) > 512 ? 256 : 0;  // allow for processes started between two calls
  if (!go_on_behind(reached)) return false;
  spdlog::debug("process ids come from {} to {} from now on", band.first, band.last);
  return true;
}

}  // namespace reprise::crd
