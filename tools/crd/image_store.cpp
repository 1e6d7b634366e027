// SPDX-License-Identifier: GPL-2.0-only
#include "crd/image_store.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <set>

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "crd/images/manifest.h"
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

/** @return false where the file system has no hard links, or no more of that file */
bool link(const fs::path& file, const fs::path& name) {
  std::error_code error;
  fs::create_hard_link(file, name, error);
  if (error) spdlog::debug("{} cannot be another name of {}: {}", name.string(), file.string(), error.message());
  return !error;
}

/** Give what images of @p rank need in @p from the same names in @p to. */
bool link_bases(const fs::path& from, const fs::path& to, std::uint32_t rank) {
  for (const auto& entry : fs::directory_iterator(from))
    if (const std::string name = entry.path().filename(); job::base_wave(name, rank) && !link(entry.path(), to / name))
      return false;
  return true;
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
      try {
        const Manifest manifest = read_manifest(job::manifest_path(entry.path()));
        image.set_bytes(manifest.bytes);
        image.set_checksum(manifest.checksum);
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
  std::set<ino_t> seen;
  const auto count = [&](const fs::path& path) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(path, error)) {
      struct stat st;
      if (::lstat(entry.path().c_str(), &st) == 0 && S_ISREG(st.st_mode) && seen.insert(st.st_ino).second)
        bytes += static_cast<std::uint64_t>(st.st_size);
    }
  };
  each_wave(directory, [&](const fs::path& path, std::uint32_t, bool) { count(path); });
  count(job::kept_directory(directory));
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

std::string room_for(const std::string& directory, std::uint64_t bytes, std::uint64_t limit, const std::string& what) {
  const std::uint64_t used = used_bytes(directory), free = free_bytes(directory), reserve = reserve_bytes(directory);
  if (limit && used + std::max<std::uint64_t>(bytes, 1) > limit)
    return fmt::format("the images would take more than the {} bytes that are allowed in {}", limit, directory);
  if (bytes + reserve > free)
    return fmt::format("no space: {} has {} bytes left, and {} needs some {}; {} bytes are left to other users", directory, free, what,
                       bytes, reserve);
  return "";
}

std::map<std::uint32_t, Parent> parents(const std::string& directory, std::uint32_t wave,
                                        const std::map<std::uint32_t, std::uint32_t>& newest, unsigned most) {
  std::map<std::uint32_t, Parent> out;
  const fs::path to = job::wave_part_directory(directory, wave);
  for (const auto& [rank, old] : newest) {
    const std::string path = job::image_path(directory, old, rank);
    try {
      const unsigned generations = read_manifest(job::manifest_path(path)).generations + 1;
      if (generations > most || !fs::is_regular_file(path)) continue;
      const fs::path own = to / job::base_name(rank, old);
      const bool delta = link(path, own) && link_bases(fs::path(path).parent_path(), to, rank);
      out[rank] = {delta ? own.string() : path, delta, generations};
    } catch (const std::exception& error) {
      spdlog::info("rank {} is saved whole: {}", rank, error.what());
    }
  }
  return out;
}

bool is_about_parent(const std::string& message, const Parent& parent, std::uint32_t rank) {
  return message.find(parent.path) != std::string::npos || message.find("/" + job::base_prefix(rank)) != std::string::npos;
}

void drop_parents(const std::string& image, std::uint32_t rank, const std::vector<std::string>& needed) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(image).parent_path(), error)) {
    const std::string name = entry.path().filename();
    std::error_code gone;
    if (job::base_wave(name, rank) && std::find(needed.begin(), needed.end(), name) == needed.end()) fs::remove(entry.path(), gone);
  }
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

std::string open_wave(const std::string& directory, std::uint32_t wave) {
  try {
    std::error_code error;
    fs::create_directories(fs::path(directory).parent_path(), error);
    job::make_private_directory(directory);
    job::make_private_directory(job::wave_directory(directory, wave));
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
