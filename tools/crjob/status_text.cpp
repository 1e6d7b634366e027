// SPDX-License-Identifier: GPL-2.0-only
#include "crjob/status_text.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/report.h"
#include "crjob/interval_text.h"

namespace reprise::job {

namespace {

std::string ago(std::uint64_t then, std::uint64_t now) { return now > then ? tool::duration(now - then) : "0 s"; }

std::string own_host() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

/** "0-3,7" */
std::string ranges(std::vector<std::uint64_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string out;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    out += (out.empty() ? "" : ",") + std::to_string(ranks[i]) + (last > i ? "-" + std::to_string(ranks[last]) : "");
    i = last + 1;
  }
  return out;
}

}  // namespace

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line += std::string(widths[i] - row[i].size() + 2, ' ');
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  return out;
}

std::string state_words(const RegisteredJob& job) {
  if (job.ended) return "ended (" + std::to_string(job.exit_code) + ")";
  if (job.host != own_host()) return "on " + job.host;
  return ::kill(job.pid, 0) == 0 || errno == EPERM ? "running" : "crrun is gone";
}

std::string list_text(const std::vector<RegisteredJob>& jobs, std::uint64_t now) {
  if (jobs.empty()) return "no jobs\n";
  std::vector<std::vector<std::string>> rows{{"JOB", "STATE", "SINCE", "PROGRAM", "DIRECTORY"}};
  for (const RegisteredJob& job : jobs)
    rows.push_back({job.id, state_words(job), ago(job.begun_unix_ns, now), job.program, job.directory});
  return table(rows);
}

std::string status_text(const nlohmann::json& s, std::uint64_t now) {
  std::string out = s.at("id").get<std::string>() + ": " + s.at("phase").get<std::string>() + " for " +
                    ago(s.at("begun_unix_ns"), now) + ", " + tool::counted(s.at("ranks").size(), "rank") + "\n ";
  for (const auto& word : s.at("argv")) out += " " + word.get<std::string>();
  out += "\n  in " + s.at("directory").get<std::string>() + "\n";
  if (s.value("tells_failures", false))
    out += "  without checkpoints: the program is told of failures (--recover ulfm)\n";
  else if (!s.at("checkpoints").get<bool>())
    out += "  without checkpoints: the module is missing on a node\n";
  else if (const std::string why = s.value("no_wave", ""); !why.empty())
    out += "  no wave: " + why + "\n";

  std::vector<std::vector<std::string>> rows{{"NODE", "STATE", "SLOTS", "RANKS", "LOAD", "IMAGES", "FREE"}};
  for (const auto& node : s.at("nodes")) {
    std::vector<std::uint64_t> ranks;
    for (const auto& rank : s.at("ranks"))
      if (rank.at("node") == node.at("host")) ranks.push_back(rank.at("rank"));
    char load[32];
    std::snprintf(load, sizeof load, "%.1f", node.at("load").get<double>());
    rows.push_back({node.at("host"), node.at("state"), std::to_string(node.at("slots").get<unsigned>()),
                    ranks.empty() ? "-" : ranges(ranks), load, tool::bytes(node.at("image_bytes")),
                    tool::bytes(node.at("free_local_bytes"))});
  }
  out += "\n" + table(rows);

  std::vector<std::vector<std::string>> odd{{"RANK", "NODE", "PID", "STATE", "RESTARTED IN"}};
  for (const auto& rank : s.at("ranks"))
    if (s.at("ranks").size() <= 32 || rank.at("state") != "running")
      odd.push_back({std::to_string(rank.at("rank").get<unsigned>()), rank.at("node"),
                     std::to_string(rank.at("pid").get<int>()), rank.at("state"),
                     rank.at("incarnation").get<unsigned>() ? "recovery " + std::to_string(rank.at("incarnation").get<unsigned>())
                                                            : "-"});
  if (odd.size() > 1) out += "\n" + table(odd);

  out += "\n";
  if (s.at("waves").empty())
    out += "no wave is committed yet\n";
  else {
    const bool redundant = s.value("redundancy", "none") != "none";
    std::vector<std::vector<std::string>> waves{{"WAVE", "AGE", "SIZE", "STAGED"}};
    if (redundant) waves[0].push_back("SAFE");
    for (const auto& wave : s.at("waves")) {
      const std::uint64_t staged = wave.at("staged_ranks");
      waves.push_back({std::to_string(wave.at("wave").get<unsigned>()), ago(wave.at("unix_ns"), now),
                       tool::bytes(wave.at("bytes")),
                       wave.at("staged").get<bool>() ? "yes"
                       : s.at("shared").get<bool>()
                           ? std::to_string(staged) + " of " + std::to_string(s.at("ranks").size()) + " ranks, " +
                                 tool::bytes(wave.at("staged_bytes"))
                           : "no --shared"});
      if (redundant)
        waves.back().push_back(wave.at("safe").get<bool>() ? "yes"
                                                           : std::to_string(wave.at("safe_ranks").get<unsigned>()) + " of " +
                                                                 std::to_string(wave.at("ranks").get<unsigned>()) + " ranks");
    }
    out += table(waves);
  }
  for (const auto& one : s.at("staging"))
    out += one.at("host").get<std::string>() + " copies: " + tool::bytes(one.at("done_bytes")) + " of " +
           tool::bytes(one.at("total_bytes")) + "\n";
  for (const auto& one : s.value("copying", nlohmann::json::array()))
    out += one.at("host").get<std::string>() + " reads images of other nodes: " + tool::bytes(one.at("done_bytes")) + " of " +
           tool::bytes(one.at("total_bytes")) + "\n";
  if (s.contains("wave_under_way"))
    out += "wave " + std::to_string(s.at("wave_under_way").at("wave").get<unsigned>()) + " is under way: " +
           std::to_string(s.at("wave_under_way").at("answered").get<unsigned>()) + " ranks are done after " +
           std::to_string(s.at("wave_under_way").at("ms").get<std::uint64_t>()) + " ms\n";
  else if (s.contains("next_wave_ms"))
    out += "the next wave begins in " + tool::duration(s.at("next_wave_ms").get<std::uint64_t>() * 1'000'000) + "\n";
  if (s.contains("hang"))
    out += "no progress for " + tool::duration(s.at("hang").at("ms").get<std::uint64_t>() * 1'000'000) + ": " +
           s.at("hang").at("words").get<std::string>() + "\n";
  if (s.contains("wave_waits_for_progress")) out += "no wave begins before ranks progress\n";
  if (s.contains("wave_interval")) out += interval_text(s.at("wave_interval")) + "\n";
  if (s.contains("last_recovery")) {
    const auto& last = s.at("last_recovery");
    out += "recovery " + std::to_string(last.at("recovery").get<unsigned>()) + " (" + last.at("cause").get<std::string>() +
           "), " + ago(last.at("detected_unix_ns"), now) + " ago: " +
           (last.value("domain", "all") == "spawned" ? "only spawned processes " : "") +
           (last.at("wave").get<unsigned>() ? "back to wave " + std::to_string(last.at("wave").get<unsigned>())
                                            : std::string("from the beginning")) +
           (last.at("done").get<bool>()
                ? "; decide " + tool::duration(last.at("decide_ns")) + ", restore " + tool::duration(last.at("restore_ns")) +
                      ", resume " + tool::duration(last.at("resume_ns"))
                : "; under way") +
           "\n";
  }
  return out;
}

}  // namespace reprise::job
