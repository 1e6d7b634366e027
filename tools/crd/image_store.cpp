// SPDX-License-Identifier: GPL-2.0-only
#include "crd/image_store.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include <sys/statvfs.h>

#include "crd/manifest.h"
#include "job/files.h"
#include "job/log.h"
#include "job/names.h"

namespace reprise::crd::image_store {
namespace {

namespace fs = std::filesystem;

/** @return the number between @p head and @p tail of @p name; -1 when the name does not have that form */
std::int64_t number_in(const std::string& name, const std::string& head, const std::string& tail) {
  if (name.size() <= head.size() + tail.size() || !name.starts_with(head) || !name.ends_with(tail)) return -1;
  const char* begin = name.data() + head.size();
  const char* end = name.data() + name.size() - tail.size();
  std::uint32_t value = 0;
  const auto [at, error] = std::from_chars(begin, end, value);
  return error == std::errc{} && at == end ? static_cast<std::int64_t>(value) : -1;
}

template <class Call>
void each_wave(const std::string& directory, Call call) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    if (const auto wave = number_in(name, "wave-", ""); wave >= 0) call(entry.path(), static_cast<std::uint32_t>(wave), true);
    if (const auto wave = number_in(name, "wave-", ".part"); wave >= 0) call(entry.path(), static_cast<std::uint32_t>(wave), false);
  }
}

/** Of the directory or, while it does not exist, of where it will be. @return zeros when it cannot be known */
struct statvfs file_system(const std::string& directory) {
  fs::path path(directory);
  struct statvfs info {};
  while (::statvfs(path.c_str(), &info) != 0) {
    if (!path.has_relative_path()) return {};
    path = path.parent_path();
  }
  return info;
}

/** Part of the file system that images leave to others, as its log files; at most kReserveMost. */
constexpr std::uint64_t kReservePart = 50, kReserveMost = 1ULL << 30;

}  // namespace

std::vector<job::StoredImage> list(const std::string& directory) {
  std::vector<job::StoredImage> images;
  each_wave(directory, [&](const fs::path& path, std::uint32_t wave, bool committed) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(path, error)) {
      const auto rank = number_in(entry.path().filename(), "rank-", ".img");
      if (rank < 0) continue;
      job::StoredImage image;
      image.set_wave(wave);
      image.set_rank(static_cast<std::uint32_t>(rank));
      image.set_committed(committed);
      std::error_code gone;
      image.set_bytes(fs::file_size(entry.path(), gone));
      try {
        image.set_checksum(read_manifest(job::manifest_path(entry.path())).checksum);
      } catch (const std::exception&) {
        continue;  // an image without its manifest is of no use
      }
      images.push_back(std::move(image));
    }
  });
  return images;
}

std::uint64_t used_bytes(const std::string& directory) {
  std::uint64_t bytes = 0;
  each_wave(directory, [&](const fs::path& path, std::uint32_t, bool) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(path, error)) {
      std::error_code gone;
      const auto size = entry.file_size(gone);
      if (!gone) bytes += size;
    }
  });
  return bytes;
}

std::uint64_t free_bytes(const std::string& directory) {
  const struct statvfs info = file_system(directory);
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

std::uint64_t reserve_bytes(const std::string& directory) {
  const struct statvfs info = file_system(directory);
  return std::min<std::uint64_t>(static_cast<std::uint64_t>(info.f_blocks) * info.f_frsize / kReservePart, kReserveMost);
}

std::map<std::uint32_t, Parent> parents(const std::string& directory, const std::map<std::uint32_t, std::uint32_t>& newest, unsigned most) {
  std::map<std::uint32_t, Parent> out;
  for (const auto& [rank, wave] : newest) {
    const std::string path = job::image_path(directory, wave, rank);
    try {
      const unsigned generations = read_manifest(job::manifest_path(path)).generations + 1;
      if (generations <= most && fs::is_regular_file(path)) out[rank] = {path, generations};
    } catch (const std::exception& error) {
      spdlog::info("rank {} is saved whole: {}", rank, error.what());
    }
  }
  return out;
}

std::string begin_wave(const std::string& directory, std::uint32_t wave) {
  try {
    const std::string part = job::wave_part_directory(directory, wave);
    std::error_code error;
    fs::create_directories(fs::path(directory).parent_path(), error);
    job::make_private_directory(directory);
    fs::remove_all(part);
    job::make_private_directory(part);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string commit_wave(const std::string& directory, std::uint32_t wave) {
  try {
    job::sync_directory(job::wave_part_directory(directory, wave));
    fs::remove_all(job::wave_directory(directory, wave));
    fs::rename(job::wave_part_directory(directory, wave), job::wave_directory(directory, wave));
    job::sync_directory(directory);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void drop_part(const std::string& directory, std::uint32_t wave) {
  std::error_code error;
  fs::remove_all(job::wave_part_directory(directory, wave), error);
  if (error) spdlog::warn("{} cannot be removed: {}", job::wave_part_directory(directory, wave), error.message());
}

void prune(const std::string& directory, const std::vector<std::uint32_t>& keep) {
  each_wave(directory, [&](const fs::path& path, std::uint32_t wave, bool committed) {
    if (!committed || std::find(keep.begin(), keep.end(), wave) != keep.end()) return;
    std::error_code error;
    fs::remove_all(path, error);
    if (error) spdlog::warn("{} cannot be removed: {}", path.string(), error.message());
  });
}

void remove_all(const std::string& directory) {
  std::error_code error;
  fs::remove_all(directory, error);
  if (error) spdlog::warn("{} cannot be removed: {}", directory, error.message());
}

}  // namespace reprise::crd::image_store
