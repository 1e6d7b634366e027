// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/pid_namespace.h"

#include <cstdlib>
#include <string>

#include "base/error.h"

namespace reprise {

bool same_pid_namespace(pid_t pid) {
  const std::string ours = ProcDir("/proc/self").link("ns/pid"), theirs = ProcDir(pid).link("ns/pid");
  return !theirs.empty() && ours == theirs;
}

pid_t own_id(const ProcDir& tasks, pid_t tid) {
  // NSpid lists one id per nested namespace, the innermost last.
  const std::string all = proc_field(tasks.read(std::to_string(tid) + "/status"), "NSpid:");
  const std::size_t last = all.find_last_of(" \t");
  const int own = std::atoi(all.c_str() + (last == std::string::npos ? 0 : last + 1));
  if (own <= 0) throw Error(Failure::permanent, 0, "cannot understand the line NSpid: of a status file");
  return own;
}

void collect_own_ids(pid_t pid, Process& process) {
  if (same_pid_namespace(pid)) return;
  const ProcDir tasks(pid, "task");
  for (Thread& thread : *process.mutable_threads())
    if (const pid_t own = own_id(tasks, thread.tid()); own != thread.tid()) thread.set_own_tid(own);
}

}  // namespace reprise
