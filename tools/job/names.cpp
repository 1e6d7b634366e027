// SPDX-License-Identifier: GPL-2.0-only
#include "job/names.h"

#include <charconv>

namespace reprise::job {

bool valid_job_id(const std::string& id) {
  if (id.empty() || id.size() > 64) return false;
  for (const char c : id)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_'))
      return false;
  return true;
}

std::string job_directory(const std::string& shared, const std::string& id) { return shared + "/" + id; }
std::string local_directory(const std::string& local, const std::string& id) { return local + "/" + id; }
std::string run_directory(const std::string& id, const std::string& secret) { return "/tmp/reprise-" + id + "-" + secret; }

std::string wave_directory(const std::string& directory, std::uint32_t wave) {
  return directory + "/wave-" + std::to_string(wave);
}
std::string wave_part_directory(const std::string& directory, std::uint32_t wave) {
  return wave_directory(directory, wave) + ".part";
}

namespace {
std::string image_name(std::uint32_t rank) { return "/rank-" + std::to_string(rank) + ".img"; }
}  // namespace

std::string base_prefix(std::uint32_t rank) { return "rank-" + std::to_string(rank) + ".base-"; }
std::string base_name(std::uint32_t rank, std::uint32_t wave) { return base_prefix(rank) + std::to_string(wave); }
std::optional<std::uint32_t> base_wave(const std::string& name, std::uint32_t rank) {
  const std::string head = base_prefix(rank);
  if (!name.starts_with(head)) return std::nullopt;
  std::uint32_t wave = 0;
  const auto [end, error] = std::from_chars(name.data() + head.size(), name.data() + name.size(), wave);
  if (error != std::errc() || end != name.data() + name.size() || base_name(rank, wave) != name) return std::nullopt;
  return wave;
}

std::string image_path(const std::string& directory, std::uint32_t wave, std::uint32_t rank) {
  return wave_directory(directory, wave) + image_name(rank);
}
std::string parity_path(const std::string& directory, std::uint32_t wave) { return wave_directory(directory, wave) + "/parity.xor"; }

std::string parity_set_path(const std::string& directory, std::uint32_t wave) { return wave_directory(directory, wave) + "/parity.set"; }

std::string dropped_directory(const std::string& directory) { return directory + "/wave-dropped"; }
std::string dropped_image_path(const std::string& directory, std::uint32_t rank) { return dropped_directory(directory) + image_name(rank); }
std::string kept_directory(const std::string& directory) { return directory + "/kept"; }
std::string kept_copy_path(const std::string& directory, std::uint32_t rank, std::uint64_t version, const std::string& name) {
  return kept_directory(directory) + "/rank-" + std::to_string(rank) + "-" + std::to_string(version) + "-" + name;
}
std::string manifest_path(const std::string& image) {
  const std::string ending = ".img";
  const bool known = image.size() > ending.size() && image.ends_with(ending);
  return (known ? image.substr(0, image.size() - ending.size()) : image) + ".json";
}

std::string connection_name(std::uint32_t node, const std::string& instance) {
  return "node-" + std::to_string(node) + "-" + instance;
}
std::optional<std::uint32_t> node_of_connection(const std::string& name) {
  std::uint32_t node = 0;
  if (!name.starts_with("node-")) return std::nullopt;
  const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), node);
  if (error != std::errc() || end == name.data() + name.size() || *end != '-') return std::nullopt;
  return node;
}
std::string spawned_name(const std::string& id, std::uint32_t index) { return id + "@" + std::to_string(index); }

std::string rank_socket_path(const std::string& run_directory) { return run_directory + "/ranks"; }

}  // namespace reprise::job
