// SPDX-License-Identifier: GPL-2.0-only
#include "crd/beside.h"

namespace reprise::crd {

namespace {

std::string listed(const std::map<std::string, std::uint32_t>& slots) {
  std::string out;
  for (const auto& [host, count] : slots) out += (out.empty() ? "" : ",") + host + ":" + std::to_string(count);
  return out;
}

}  // namespace

Variables variables_beside(const job::JobSpec& job, const std::vector<job::Node>& nodes,
                           const std::map<std::uint32_t, std::uint32_t>& placement, const std::string& crrun) {
  std::map<std::uint32_t, std::uint32_t> used;
  for (const auto& [rank, node] : placement) ++used[node];
  std::map<std::string, std::uint32_t> all, open, spares;
  for (const job::Node& node : nodes) {
    if (node.spare()) {
      spares[node.host()] = node.slots();
      continue;
    }
    all[node.host()] = node.slots();
    if (used[node.index()] < node.slots()) open[node.host()] = node.slots() - used[node.index()];
  }
  // The job's longest silence; crrun sends two thirds of it, see change_settings() in crrun/options.cpp.
  std::vector<std::string> words{crrun, "--oversubscribe", "--detect", std::to_string(job.lost_after_ms() * 3 / 2) + "ms",
                                 "--local", job.local_directory()};
  if (!spares.empty()) words.insert(words.end(), {"--spares", listed(spares)});
  if (!job.shared_directory().empty()) words.insert(words.end(), {"--shared", job.shared_directory()});
  for (const std::string& one : job.crtcp_interfaces()) words.insert(words.end(), {"--interface", one});
  // By name: others can read the words of a command.
  for (const job::EnvironmentVariable& one : job.environment()) words.insert(words.end(), {"-x", one.name()});
  std::string command;
  for (const std::string& word : words) command += (command.empty() ? "" : "\n") + word;
  return {{"REPRISE_CRRUN", command}, {"REPRISE_HOSTS", listed(open.empty() ? all : open)}};
}

}  // namespace reprise::crd
