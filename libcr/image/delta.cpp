// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/delta.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "image/base_table.h"
#include "image/file_place.h"
#include "image/headers.h"
#include "image/whole.h"

namespace reprise {

using namespace image;

namespace {

bool same_file(const std::string& one, const std::string& other) {
  struct stat a {}, b {};
  return ::stat(one.c_str(), &a) == 0 && ::stat(other.c_str(), &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

constexpr std::uint64_t kMostRoom = 2;    // bytes that all bases take, for each that all pages of the process do
constexpr std::uint64_t kLeastPart = 16;  // a file of which a smaller part is needed is not worth its room

/**
 * @return the files that have @p runs and are to be needed further. Files of which the smallest parts are needed are left
 * out while those parts are not worth the room (kLeastPart), or all files take too much (kMostRoom). If they are too many then,
 * half as many remain as there may be, so that it takes a while until next time: those of which most is needed
 */
std::set<std::uint32_t> files_to_need(const Image& from, std::uint64_t own, const std::vector<PageRun>& runs) {
  struct Needed {
    std::uint32_t file;
    std::uint64_t needed, size;
  };
  std::map<std::uint32_t, std::uint64_t> bytes;
  std::uint64_t needed = 0, room = 0;
  for (const PageRun& run : runs) bytes[run.file] += run.len, needed += run.len;
  std::vector<Needed> all;
  for (const auto& [file, len] : bytes) all.push_back({file, len, from.bytes_of_file(file)}), room += all.back().size;
  std::sort(all.begin(), all.end(), [](const Needed& one, const Needed& other) {
    return static_cast<double>(one.needed) / static_cast<double>(one.size) > static_cast<double>(other.needed) / static_cast<double>(other.size);
  });
  for (; !all.empty() && (room > kMostRoom * (own + needed) || all.back().needed * kLeastPart < all.back().size); all.pop_back())
    room -= all.back().size;
  std::sort(all.begin(), all.end(), [](const Needed& one, const Needed& other) { return one.needed > other.needed; });
  if (all.size() > kMaxBases) all.resize(kMaxBases / 2);
  std::set<std::uint32_t> files;
  for (const Needed& one : all) files.insert(one.file);
  return files;
}

}  // namespace

std::string name_for_delta(const Image& from, const std::string& path) {
  const FilePlace place = from.place();
  const std::string to = std::filesystem::path(path).parent_path().string();
  if (place.name.empty() || !same_file(place.directory, to.empty() ? "." : to))
    throw Error(Failure::usage, EXDEV,
                path + " cannot be a delta of " + from.name() + ": both must be in one directory, by which the one finds the other");
  const auto keep = [&](const std::string& name) {
    if (same_file(place.directory + "/" + name, path))
      throw Error(Failure::usage, EEXIST, path + " has pages that the delta image would need: give that another name");
  };
  keep(place.name);
  for (const Base& base : from.bases()) keep(base.name());
  return place.name;
}

Referred refer_to(Process& process, const Image& from, const std::string& name, std::uint64_t own,
                  std::span<const cr_range> ranges) {
  std::vector<PageRun> runs;
  for (const cr_page_run& range : split_at_mappings(from.name(), process, ranges))
    for (const PageRun& run : from.runs_in({range.addr, range.len})) runs.push_back(run);
  const std::set<std::uint32_t> files = files_to_need(from, own, runs);

  std::map<std::uint32_t, std::uint32_t> index;  // of a base in `made`, by the file of `from`
  Process made;
  std::vector<cr_range> rest;
  std::uint64_t after = 0;
  for (const PageRun& run : runs) {
    if (!files.contains(run.file)) {
      rest.push_back({run.addr, run.len});
      continue;
    }
    const auto [found, is_new] = index.try_emplace(run.file, static_cast<std::uint32_t>(index.size()));
    if (is_new) {
      Base& base = *made.add_bases();
      base.set_name(run.file == 0 ? name : from.bases()[run.file - 1].name());
      base.set_checksum(run.file == 0 ? from.checksum() : from.bases()[run.file - 1].checksum());
    }
    add_base_run(made, after, {run.addr, run.len, found->second, from.page_number(run)});
    after = run.addr + run.len;
  }
  if (made.base_runs_size() / kBaseRunNumbers > kMaxBaseRuns) return {{ranges.begin(), ranges.end()}, true};
  process.mutable_bases()->Swap(made.mutable_bases());
  process.mutable_base_runs()->Swap(made.mutable_base_runs());
  return {std::move(rest), false};
}

std::vector<std::string> deltas_of(const FilePlace& place) {
  std::vector<std::string> out;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(place.directory, none)) {
    if (!entry.is_regular_file(none)) continue;
    try {
      const Image image = Image::open(entry.path().string());
      if (std::any_of(image.bases().begin(), image.bases().end(), [&](const Base& base) { return base.name() == place.name; }))
        out.push_back(entry.path().filename().string());
    } catch (const Error&) {
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

void write_whole(const Image& image, ImageWriter& writer, const Image::Progress& progress) {
  constexpr std::uint64_t kMost = 64ULL << 20;  // bytes at once: where the file system copies, it takes a while
  const std::vector<PageRun> all = all_runs(image);
  std::uint64_t done = 0, total = image.blob_bytes();
  for (const PageRun& run : all) total += run.len;
  const auto advance = [&](std::uint64_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  };
  writer.begin(image.process(), image.threads(), page_ranges(all));
  for (PageRun run : all)
    while (run.len) {
      const std::uint64_t part = std::min(run.len, kMost);
      writer.take_run(image, {run.addr, part, run.offset, run.file});
      run.addr += part, run.offset += part, run.len -= part;
      advance(part);
    }
  std::vector<char> buffer(16 * kBlobBlock);
  for (std::uint64_t at = 0; at < image.blob_bytes();) {
    const std::uint64_t part = std::min<std::uint64_t>(buffer.size(), image.blob_bytes() - at);
    image.read_blob(at, buffer.data(), part);
    writer.write_blob(at, buffer.data(), part);
    at += part;
    advance(part);
  }
}

}  // namespace reprise
