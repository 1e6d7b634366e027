// SPDX-License-Identifier: GPL-2.0-only
#include "job/programs.h"

namespace reprise::job {

std::uint32_t program_number(const JobSpec& job, std::uint32_t rank) {
  std::uint32_t number = 0, end = 0;
  for (const SpawnApp& app : job.apps()) {
    end += app.processes();
    if (rank < end) break;
    ++number;
  }
  return number;
}

SpawnApp program_of(const JobSpec& job, std::uint32_t rank) {
  if (const auto number = static_cast<int>(program_number(job, rank)); number < job.apps_size()) return job.apps(number);
  SpawnApp only;
  *only.mutable_argv() = job.argv();
  only.set_working_directory(job.working_directory());
  only.set_processes(job.ranks());
  return only;
}

std::vector<std::string> command_line(const JobSpec& job) {
  if (!job.apps_size()) return {job.argv().begin(), job.argv().end()};
  std::vector<std::string> out;
  for (const SpawnApp& app : job.apps()) {
    if (!out.empty()) out.emplace_back(":");
    out.insert(out.end(), app.argv().begin(), app.argv().end());
  }
  return out;
}

}  // namespace reprise::job
