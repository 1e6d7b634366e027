// SPDX-License-Identifier: GPL-2.0-only
#include "crd/manifest.h"

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <xxhash.h>

#include "base/unique_fd.h"
#include "job/files.h"

namespace reprise::crd {

std::string manifest_text(const Manifest& manifest) {
  nlohmann::ordered_json json{{"wave", manifest.wave}, {"rank", manifest.rank}, {"pid", manifest.pid}, {"bytes", manifest.bytes}};
  json["checksum"] = fmt::format("{:016x}", manifest.checksum);
  for (const auto& [stream, offset] : manifest.streams) json["streams"][std::to_string(stream)] = offset;
  for (const auto& [fd, stream] : manifest.pipes) json["pipes"][std::to_string(fd)] = stream;
  json["pmix_fd"] = manifest.pmix_fd;
  json["files"] = manifest.files;
  return json.dump() + "\n";
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
    for (const auto& [stream, offset] : streams.items())
      manifest.streams[static_cast<std::uint32_t>(std::stoul(stream))] = offset;
    for (const auto& [fd, stream] : pipes.items()) manifest.pipes[std::stoi(fd)] = stream;
    manifest.pmix_fd = json.at("pmix_fd");
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

int find_connection(std::int32_t pid, std::uint16_t port) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::set<std::string> inodes;
  for (const char* table : {"/net/tcp", "/net/tcp6"}) {
    std::ifstream file(process + table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      // sl local rem st tx:rx tr:when retrnsmt uid timeout inode
      std::istringstream words(line);
      std::string slot, local, remote, state, skip, inode;
      words >> slot >> local >> remote >> state >> skip >> skip >> skip >> skip >> skip >> inode;
      const std::size_t colon = remote.rfind(':');
      if (colon == std::string::npos || state != "01") continue;
      if (std::strtoul(remote.c_str() + colon + 1, nullptr, 16) == port) inodes.insert("socket:[" + inode + "]");
    }
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(process + "/fd", error)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone && inodes.count(target)) return std::stoi(entry.path().filename());
  }
  return -1;
}

}  // namespace reprise::crd
