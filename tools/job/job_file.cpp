// SPDX-License-Identifier: GPL-2.0-only
#include "job/job_file.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "job/files.h"
#include "job/message_json.h"
#include "job/names.h"

namespace reprise::job {

namespace fs = std::filesystem;

namespace {

constexpr int kVersion = 2;
constexpr std::uint32_t kMostRanks = 10'000'000;

/** The id becomes part of paths that are created and removed; ranks and nodes index tables. */
void check(const JobFile& file) {
  if (!valid_job_id(file.spec.id())) throw std::runtime_error("its job id is not valid");
  if (file.spec.ranks() == 0 || file.spec.ranks() > kMostRanks) throw std::runtime_error("its rank count is out of range");
  if (!valid_job_id(file.run_secret)) throw std::runtime_error("the name of its directory on the nodes is not valid");
  if (file.spec.argv().empty()) throw std::runtime_error("its job has no program");
  for (std::size_t i = 0; i < file.nodes.size(); ++i)
    if (file.nodes[i].index() != i) throw std::runtime_error("its nodes are out of order");
}

}  // namespace

void JobFile::write() const {
  nlohmann::json list = nlohmann::json::array();
  for (const Node& node : nodes) list.push_back(message_json(node));
  const nlohmann::json json = {{"version", kVersion},
                               {"spec", message_json(spec)},
                               {"nodes", list},
                               {"host", host},
                               {"boot", boot},
                               {"pid", pid},
                               {"port", port},
                               {"addresses", addresses},
                               {"server", {{"public", server.public_key}, {"secret", server.secret_key}}},
                               {"client", {{"public", client.public_key}, {"secret", client.secret_key}}},
                               {"run_secret", run_secret},
                               {"settings", settings}};
  write_atomically(directory + "/job.json", json.dump(1) + "\n", 0600);
}

JobFile JobFile::read(const std::string& directory) {
  JobFile out;
  const std::string path = fs::absolute(directory).lexically_normal().string() + "/job.json";
  try {
    const nlohmann::json json = nlohmann::json::parse(read_file(path));
    if (json.at("version") != kVersion) throw std::runtime_error("it was written by another version of reprise");
    out.spec = message_from<JobSpec>(json.at("spec"));
    for (const auto& node : json.at("nodes")) out.nodes.push_back(message_from<Node>(node));
    out.directory = fs::path(path).parent_path().string();
    out.host = json.at("host");
    out.boot = json.value("boot", "");
    out.pid = json.at("pid");
    out.port = json.at("port");
    out.addresses = json.at("addresses").get<std::vector<std::string>>();
    out.server = {json.at("server").at("public"), json.at("server").at("secret")};
    out.client = {json.at("client").at("public"), json.at("client").at("secret")};
    out.run_secret = json.at("run_secret");
    out.settings = json.at("settings");
    check(out);
  } catch (const std::system_error& error) {
    throw std::runtime_error(error.what());
  } catch (const std::exception& error) {
    throw std::runtime_error(path + " cannot be used: " + error.what());
  }
  return out;
}

std::string registry_directory() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state && *state == '/') return std::string(state) + "/reprise/jobs";
  return std::string(home && *home == '/' ? home : "/var/tmp/reprise-" + std::to_string(::getuid())) +
         "/.local/state/reprise/jobs";
}

void write_registry(const RegisteredJob& job) {
  make_private_directory(registry_directory());
  const nlohmann::json json = {{"id", job.id},       {"directory", job.directory},
                               {"host", job.host},   {"program", job.program},
                               {"pid", job.pid},     {"begun_unix_ns", job.begun_unix_ns},
                               {"ended", job.ended}, {"exit_code", job.exit_code}};
  write_atomically(registry_directory() + "/" + job.id + ".json", json.dump() + "\n", 0600);
}

std::uint64_t remove_job_directory(const std::string& directory) {
  std::uint64_t bytes = 0;
  std::vector<fs::path> ours;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (name == "job.json" || name == "state.json" || name == "state.log" || name == "timeline.jsonl" || name == "owner" || name.starts_with("wave-"))
      ours.push_back(entry.path());
  }
  // job.json is the last to go: what is interrupted can be begun again.
  std::stable_partition(ours.begin(), ours.end(), [](const fs::path& path) { return path.filename() != "job.json"; });
  for (const fs::path& path : ours) {
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) bytes += fs::file_size(path, ignored);
    for (const auto& entry : fs::recursive_directory_iterator(path, ignored))
      if (std::error_code gone; entry.is_regular_file(gone)) bytes += entry.file_size(gone);
    fs::remove_all(path);
  }
  std::error_code others;
  fs::remove(directory, others);
  return bytes;
}

void forget_job(const std::string& id) {
  std::error_code ignored;
  fs::remove(registry_directory() + "/" + id + ".json", ignored);
}

std::vector<RegisteredJob> registered_jobs() {
  std::vector<RegisteredJob> out;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(registry_directory(), ignored)) {
    if (entry.path().extension() != ".json") continue;
    try {
      const nlohmann::json json = nlohmann::json::parse(read_file(entry.path().string()));
      out.push_back({json.at("id"), json.at("directory"), json.at("host"), json.at("program"), json.at("pid"),
                     json.at("begun_unix_ns"), json.at("ended"), json.at("exit_code")});
    } catch (const std::exception&) {
    }
  }
  std::sort(out.begin(), out.end(),
            [](const RegisteredJob& a, const RegisteredJob& b) { return a.begun_unix_ns > b.begun_unix_ns; });
  return out;
}

std::string find_job(const std::string& name) {
  if (name.find('/') != std::string::npos || fs::exists(fs::path(name) / "job.json")) {
    if (!fs::exists(fs::path(name) / "job.json")) throw std::runtime_error(name + " is not a job directory: no job.json");
    return fs::absolute(name).lexically_normal().string();
  }
  std::vector<RegisteredJob> found;
  for (const RegisteredJob& job : registered_jobs()) {
    if (job.id == name) return job.directory;
    const std::string& id = job.id;
    if (id.compare(0, name.size(), name) == 0 || (id.size() > 3 && id.compare(3, name.size(), name) == 0))
      found.push_back(job);
  }
  if (found.size() == 1) return found[0].directory;
  if (found.empty()) throw std::runtime_error("there is no job " + name + "; `crjob list` shows those there are");
  std::string names;
  for (const RegisteredJob& job : found) names += " " + job.id;
  throw std::runtime_error(name + " is ambiguous: it matches" + names);
}

}  // namespace reprise::job
