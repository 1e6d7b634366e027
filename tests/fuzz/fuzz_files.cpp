// SPDX-License-Identifier: GPL-2.0-only
// The files and arguments that crrun, crjob and crd read; the first byte selects the kind. Each is accepted, or refused
// by an exception with a text. Accepted input can be written and read again.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include <google/protobuf/stubs/logging.h>

#include "base/unique_fd.h"
#include "crd/images/manifest.h"
#include "crrun/coordinator/state.h"
#include "crrun/hosts.h"
#include "crrun/options.h"
#include "crrun/recorder.h"
#include "crrun/settings_json.h"
#include "image_sample.h"
#include "job/job_file.h"
#include "job/names.h"

using namespace reprise;

namespace {

void need(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

/** @return whether @p use accepted the input */
bool taken(const std::function<void()>& use) {
  try {
    use();
    return true;
  } catch (const std::exception& error) {
    need(*error.what(), "a refusal says nothing");
    return false;
  }
}

const std::string& directory() {
  static const test::TempDir it;
  static const std::string path = it.path("job");
  std::filesystem::create_directories(path);
  return path;
}

void manifest(const std::string& text) {
  const UniqueFd fd(::memfd_create("manifest", MFD_CLOEXEC));
  if (::write(fd.get(), text.data(), text.size()) < 0) return;
  crd::Manifest read;
  if (!taken([&] { read = crd::read_manifest("/proc/self/fd/" + std::to_string(fd.get())); })) return;
  for (const auto& [number, stream] : read.pipes) need(number >= 0 && stream <= 2, "a manifest's pipe is none");
  for (const auto& [stream, offset] : read.streams) need(stream <= 2, "a manifest's stream is none");
  crd::manifest_text(read);
}

void job_file(const std::string& text) {
  test::write_file(directory() + "/job.json", text);
  job::JobFile read;
  if (!taken([&] { read = job::JobFile::read(directory()); })) return;
  need(job::valid_job_id(read.spec.id()), "a job's id is none");
  need(read.nodes.size() <= 1'000'000 && read.spec.ranks() <= 10'000'000, "a job is too large");
  job::Settings settings;
  taken([&] { job::settings_from_json(settings, read.settings); });
  read.write();
  job::JobFile::read(directory());
}

void state(const std::string& text) {
  test::write_file(directory() + "/state.json", text);
  test::write_file(directory() + "/state.log", text);
  job::State read;
  if (!taken([&] { read = job::newest_state(directory(), "cr-fuzz", 4).state; })) return;
  const nlohmann::json again = job::to_json(read);
  need(job::to_json(job::state_from_json(again, 4)) == again, "a state is not read as it was written");
}

void hosts(const std::string& text) {
  taken([&] {
    const auto all = job::parse_hosts(text);
    for (const job::Host& host : all) need(!host.name.empty() && host.name[0] != '-', "a host's name is an option");
    for (const job::Node& node : job::make_nodes(all, {})) need(node.slots() > 0, "a node without slots");
  });
  taken([&] { job::parse_hostfile(text, "hosts"); });
  taken([&] { need(job::parse_slurm_counts(text).size() <= 1'000'000, "more nodes than Slurm has"); });
}

void words(const std::string& text) {
  taken([&] { job::milliseconds(text, "--timeout"); });
  taken([&] { job::byte_count(text, "--local-limit"); });
  job::node_of_connection(text);
  if (job::valid_job_id(text)) need(text.find('/') == std::string::npos && text != "." && text != "..", "an id leads elsewhere");
  job::manifest_path(text);
  // Each line is one argument.
  std::vector<std::string> list{"crrun"};
  for (std::size_t at = 0; at <= text.size() && list.size() < 64;) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    list.push_back(text.substr(at, end - at).c_str());
    at = end + 1;
  }
  std::vector<char*> argv;
  for (std::string& word : list) argv.push_back(word.data());
  CLI::App app;
  job::Options options;
  job::add_options(app, options);
  taken([&] {
    std::vector<std::string> before = job::split_command_line(app, static_cast<int>(argv.size()), argv.data(), options.program);
    need(before.size() + options.program.size() <= list.size(), "words are made up");
    std::reverse(before.begin(), before.end());
    app.parse(before);
    options.hostfile.clear();  // no files of this machine
    job::Settings settings;
    job::change_settings(settings, options);
    for (const std::string& one : options.hosts) job::parse_hosts(one);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer quiet;
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (*data % 5) {
    case 0: manifest(rest); break;
    case 1: job_file(rest); break;
    case 2: state(rest); break;
    case 3: hosts(rest); break;
    default: words(rest); break;
  }
  return 0;
}
