// SPDX-License-Identifier: GPL-2.0-only
#include "crd/manifest.h"

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <xxhash.h>

#include "base/unique_fd.h"
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
  for (const auto& [stream, offset] : manifest.streams) json["streams"][std::to_string(stream)] = offset;
  for (const auto& [fd, stream] : manifest.pipes) json["pipes"][std::to_string(fd)] = stream;
  if (!manifest.cpus.empty()) json["cpus"] = manifest.cpus;
  json["files"] = manifest.files;
  // Names of files need not be UTF-8. A spare would not find a file with such a name, but does not need it either.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Manifest read_manifest(const std::string& path) {
  try {
    const auto json = nlohmann::json::parse(job::read_file(path));
    Manifest manifest;
    manifest.wave = json.at("wave");
    manifest.rank = json.at("rank");
    manifest.pid = json.at("pid");
    manifest.bytes = json.at("bytes");
    manifest.checksum = std::stoull(json.at("checksum").get<std::string>(), nullptr, 16);
    const auto streams = json.value("streams", nlohmann::json::object()), pipes = json.value("pipes", nlohmann::json::object());
    for (const auto& [stream, offset] : streams.items()) manifest.streams[number(stream, kStreams)] = offset;
    for (const auto& [fd, stream] : pipes.items()) {
      if (!stream.is_number_unsigned() || stream.get<std::uint64_t>() >= kStreams) throw std::runtime_error("it has an impossible stream");
      manifest.pipes[static_cast<int>(number(fd, kDescriptors))] = stream;
    }
    manifest.cpus = json.value("cpus", std::vector<unsigned>());
    manifest.files = json.value("files", std::vector<std::string>());
    return manifest;
  } catch (const std::system_error&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error(path + " is damaged: " + error.what());
  }
}

std::uint64_t file_checksum(const std::string& path, const std::function<bool()>& keep_on) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw std::system_error(errno, std::generic_category(), "cannot open " + path);
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  std::vector<char> buffer(1 << 20);
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    const int error = got < 0 ? errno : keep_on && !keep_on() ? ECANCELED : 0;
    if (error) {
      XXH3_freeState(state);
      throw std::system_error(error, std::generic_category(), "cannot read " + path);
    }
    if (got == 0) break;
    XXH3_64bits_update(state, buffer.data(), static_cast<std::size_t>(got));
  }
  const std::uint64_t sum = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return sum;
}

}  // namespace reprise::crd
