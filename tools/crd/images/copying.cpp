// SPDX-License-Identifier: GPL-2.0-only
#include "crd/images/copying.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>

#include <unistd.h>

#include "job/files.h"
#include "job/names.h"

namespace reprise::crd {

void stop_if_told(const CopyLimits& limits, const std::string& what) {
  if (limits.keep_on && !limits.keep_on()) throw std::system_error(ECANCELED, std::generic_category(), what);
}

void Pace::spent(std::uint64_t bytes, const std::function<bool()>& keep_on) {
  if (rate_ == 0) return;
  done_ += bytes;
  const auto due = begin_ + std::chrono::duration<double>(static_cast<double>(done_) / static_cast<double>(rate_));
  while (std::chrono::steady_clock::now() < due && (!keep_on || keep_on()))
    std::this_thread::sleep_for(std::min<std::chrono::duration<double>>(due - std::chrono::steady_clock::now(), std::chrono::milliseconds(200)));
}

std::size_t read_piece(int fd, std::uint64_t at, std::span<char> buffer, const std::string& path) {
  std::size_t got = 0;
  while (got < buffer.size()) {
    const ssize_t n = ::pread(fd, buffer.data() + got, buffer.size() - got, static_cast<off_t>(at + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) job::throw_errno("cannot read " + path);
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  return got;
}

void write_piece(int fd, std::uint64_t at, const char* data, std::size_t size, const std::string& path) {
  while (size > 0) {
    const ssize_t n = ::pwrite(fd, data, size, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) job::throw_errno("cannot write " + path);
    data += n;
    at += static_cast<std::uint64_t>(n);
    size -= static_cast<std::size_t>(n);
  }
}

void describe(const Image& image, Manifest& manifest) {
  const WholeImage whole(image);
  manifest.bytes = whole.file_size();
  manifest.checksum = whole.checksum();
  manifest.delta = image.bases().empty() ? 0 : image.file_size();
  manifest.bases.clear();
  for (const Base& base : image.bases())
    if (const auto wave = job::base_wave(base.name(), manifest.rank)) manifest.bases.push_back(*wave);
}

bool is_of(const WholeImage& image, const Manifest& manifest) {
  return image.file_size() == manifest.bytes && image.checksum() == manifest.checksum;
}

bool is_of(const Image& image, const Manifest& manifest) {
  return image.bases().empty() && image.file_size() == manifest.bytes && image.checksum() == manifest.checksum;
}

bool complete(const std::string& to, const Manifest& manifest) {
  try {
    const Manifest there = read_manifest(job::manifest_path(to));
    if (there.bytes != manifest.bytes || there.checksum != manifest.checksum) return false;
    const Image copy = Image::open(to);
    if (!is_of(WholeImage(copy), manifest)) return false;
    copy.verify_all(1);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace reprise::crd
