// SPDX-License-Identifier: GPL-2.0-only
#include "crrun/slurm_step.h"

#include <cstdlib>

#include "crrun/shell.h"

namespace reprise::job {

namespace {
/** What salloc and sbatch tell srun of the job's tasks: srun would give the daemon, and so all ranks, no more than that. */
constexpr const char* kOfATask[] = {
    "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_TRES_PER_TASK",    "SLURM_CPUS_PER_GPU",
    "SLURM_MEM_PER_CPU",   "SLURM_MEM_PER_GPU",  "SLURM_THREADS_PER_CORE", "SLURM_EXACT"};
}  // namespace

std::vector<std::string> step_command(const std::vector<std::string>& hosts, const std::string& script) {
  const std::string count = std::to_string(hosts.size());
  std::vector<std::string> words;
  std::string list, restored;
  for (const char* name : kOfATask) {
    const char* const value = std::getenv(name);
    if (!value) continue;
    if (words.empty()) words.emplace_back("env");
    words.insert(words.end(), {"-u", name});
    restored += "export " + std::string(name) + "=" + shell_word(value) + "; ";
  }
  for (const std::string& host : hosts) list += (list.empty() ? "" : ",") + host;
  // A node or daemon that is lost must not end the others.
  words.insert(words.end(), {"srun", "--nodes=" + count, "--ntasks=" + count, "--ntasks-per-node=1", "--overlap", "--mem=0",
                             "--mpi=none", "--cpu-bind=none", "--export=ALL", "--quiet", "--no-kill", "--kill-on-bad-exit=0",
                             "--wait=0", "-w", list, "sh", "-c", restored + script});
  return words;
}

}  // namespace reprise::job
