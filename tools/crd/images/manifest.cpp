// SPDX-License-Identifier: GPL-2.0-only
#include "crd/images/manifest.h"

#include <charconv>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "job/files.h"
#include "job/log.h"

namespace reprise::crd {
namespace {

constexpr std::uint32_t kStreams = 3, kDescriptors = 1u << 30;

std::uint32_t number(const std::string& text, std::uint32_t bound) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value >= bound)
    throw std::runtime_error("\"" + text + "\" is not the number of a stream or descriptor");
  return value;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  nlohmann::ordered_json json{{"wave", manifest.wave}, {"rank", manifest.rank}, {"pid", manifest.pid}, {"bytes", manifest.bytes}};
  json["checksum"] = fmt::format("{:016x}", manifest.checksum);
  if (manifest.delta) json["delta"] = manifest.delta;
  if (!manifest.bases.empty()) json["bases"] = manifest.bases;
  if (manifest.generations) json["generations"] = manifest.generations;
  if (manifest.rewritten) json["rewritten"] = manifest.rewritten;
  for (const auto& [stream, offset] : manifest.streams) json["streams"][std::to_string(stream)] = offset;
  for (const auto& [fd, stream] : manifest.pipes) json["pipes"][std::to_string(fd)] = stream;
  if (!manifest.cpus.empty()) json["cpus"] = manifest.cpus;
  if (!manifest.kept.empty()) json["kept"] = manifest.kept;
  if (!manifest.copied.empty()) json["copied"] = manifest.copied;
  json["files"] = manifest.files;
  // Names of files need not be UTF-8. A spare would not find a file with such a name, but does not need it either.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Manifest read_manifest(const std::string& path) { return parse_manifest(job::read_file(path), path); }

Manifest parse_manifest(const std::string& text, const std::string& path) {
  try {
    const auto json = nlohmann::json::parse(text);
    Manifest manifest;
    manifest.wave = json.at("wave");
    manifest.rank = json.at("rank");
    manifest.pid = json.at("pid");
    manifest.bytes = json.at("bytes");
    manifest.checksum = std::stoull(json.at("checksum").get<std::string>(), nullptr, 16);
    manifest.delta = json.value("delta", std::uint64_t{0});
    manifest.bases = json.value("bases", std::vector<std::uint32_t>());
    manifest.generations = json.value("generations", 0u);
    manifest.rewritten = json.value("rewritten", 0u);
    const auto streams = json.value("streams", nlohmann::json::object()), pipes = json.value("pipes", nlohmann::json::object());
    for (const auto& [stream, offset] : streams.items()) manifest.streams[number(stream, kStreams)] = offset;
    for (const auto& [fd, stream] : pipes.items()) {
      if (!stream.is_number_unsigned() || stream.get<std::uint64_t>() >= kStreams) throw std::runtime_error("it has an impossible stream");
      manifest.pipes[static_cast<int>(number(fd, kDescriptors))] = stream;
    }
    manifest.cpus = json.value("cpus", std::vector<unsigned>());
    manifest.kept = json.value("kept", manifest.kept);
    manifest.copied = json.value("copied", manifest.copied);
    manifest.files = json.value("files", std::vector<std::string>());
    return manifest;
  } catch (const std::exception& error) {
    throw std::runtime_error(path + " is damaged: " + error.what());
  }
}

}  // namespace reprise::crd
