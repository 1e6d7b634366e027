// SPDX-License-Identifier: GPL-2.0-only
#include "crd/prewarm.h"

#include <filesystem>
#include <fstream>

#include <asio/post.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "crd/images/manifest.h"
#include "job/log.h"

namespace reprise::crd {

namespace fs = std::filesystem;

namespace {
/** The ranks of a job mostly run the same program, so a few manifests name nearly all files. */
constexpr int kManifests = 4;
constexpr std::size_t kMostBytes = 1 << 30, kPiece = 1 << 20;
}  // namespace

std::vector<std::string> mapped_files(int pid) {
  std::set<std::string> files;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find('/');
    if (at != std::string::npos && !line.ends_with(" (deleted)")) files.insert(line.substr(at));
  }
  return {files.begin(), files.end()};
}

Prewarm::Prewarm() : left_(kMostBytes) {}

Prewarm::~Prewarm() {
  stop_ = true;
  thread_.join();
}

void Prewarm::begin(const std::string& wave_directory) {
  if (busy_.exchange(true)) return;
  asio::post(thread_, [this, wave_directory] {
    std::error_code error;
    const fs::path own = fs::read_symlink("/proc/self/exe", error);
    if (!error) read(own.parent_path() / "cr_restart");
    int read_manifests = 0;
    for (const auto& entry : fs::directory_iterator(wave_directory, error)) {
      if (stop_ || read_manifests == kManifests) break;
      if (entry.path().extension() != ".json") continue;
      ++read_manifests;
      try {
        for (const std::string& file : read_manifest(entry.path()).files) read(file);
      } catch (const std::exception& problem) {
        spdlog::debug("nothing is read ahead: {}", problem.what());
      }
    }
    busy_ = false;
  });
}

void Prewarm::read(const std::string& path) {
  if (stop_ || !done_.insert(path).second) return;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode) || static_cast<std::size_t>(st.st_size) > left_) return;
  left_ -= static_cast<std::size_t>(st.st_size);
  std::vector<char> piece(kPiece);
  while (!stop_ && ::read(fd.get(), piece.data(), piece.size()) > 0) {
  }
}

}  // namespace reprise::crd
