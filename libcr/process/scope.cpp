// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/scope.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "base/proc_stat.h"

namespace reprise {
namespace {

struct Entry {
  pid_t pid, ppid, pgid, sid;
};

bool read_entry(pid_t pid, Entry& entry) {
  const auto stat = proc_stat(pid);
  if (!stat || stat->ended()) return false;
  entry = {pid, stat->ppid, stat->pgid, stat->sid};
  return true;
}

std::vector<pid_t> all_pids() {
  std::vector<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && end == name.data() + name.size()) pids.push_back(pid);
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

std::vector<Entry> all_entries() {
  std::vector<Entry> entries;
  const pid_t self = getpid();
  Entry entry{};
  for (pid_t pid : all_pids())
    if (pid != self && read_entry(pid, entry)) entries.push_back(entry);
  return entries;
}

std::vector<pid_t> tree(pid_t root) {
  const std::vector<Entry> entries = all_entries();
  std::vector<pid_t> found;
  const auto exists = [&](pid_t pid) {
    return std::any_of(entries.begin(), entries.end(), [pid](const Entry& entry) { return entry.pid == pid; });
  };
  if (exists(root)) found.push_back(root);
  for (std::size_t i = 0; i < found.size(); ++i)
    for (const Entry& entry : entries)
      if (entry.ppid == found[i]) found.push_back(entry.pid);
  return found;
}

}  // namespace

std::vector<pid_t> processes_in(cr_scope_t scope, pid_t id) {
  if (scope == CR_SCOPE_PROC) return {id};
  if (scope == CR_SCOPE_TREE) return tree(id);
  std::vector<pid_t> found;
  for (const Entry& entry : all_entries())
    if ((scope == CR_SCOPE_PGRP ? entry.pgid : entry.sid) == id) found.push_back(entry.pid);
  return found;
}

std::string context_name(pid_t pid) { return "context." + std::to_string(pid); }

std::string context_in(const std::string& folder, pid_t pid) {
  const std::string path = folder + "/" + context_name(pid);
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? path : "";
}

pid_t tracer_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("TracerPid:", 0) == 0) return static_cast<pid_t>(std::stol(line.substr(10)));
  return 0;
}

pid_t traced_by(pid_t pid) {
  for (const pid_t other : all_pids())
    if (tracer_of(other) == pid) return other;
  return 0;
}

}  // namespace reprise
