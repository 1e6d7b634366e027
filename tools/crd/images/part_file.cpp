// SPDX-License-Identifier: GPL-2.0-only
#include "crd/images/part_file.h"

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "crd/images/copying.h"
#include "job/files.h"
#include "job/names.h"

namespace reprise::crd {
namespace {

namespace fs = std::filesystem;

/** Two may write the same file: one for a recovery, the other has not noticed yet that it is to stop. */
std::string part_of(const std::string& path) {
  static std::atomic<unsigned> count{0};
  const fs::path whole(path);
  return (whole.parent_path() / ("." + whole.filename().string() + "." + std::to_string(++count) + ".part")).string();
}

}  // namespace

PartFile::PartFile(std::string to)
    : to_(std::move(to)), part_(part_of(to_)), fd_(::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600)) {
  if (!fd_) job::throw_errno("cannot create " + part_);
}

PartFile::~PartFile() {
  if (fd_) ::unlink(part_.c_str());
}

void PartFile::write(std::uint64_t offset, std::span<const char> content) {
  write_piece(fd_.get(), offset, content.data(), content.size(), part_);
}

void PartFile::take_name(bool lasting) {
  if (lasting && ::fsync(fd_.get()) != 0) job::throw_errno("cannot sync " + part_);
  if (::rename(part_.c_str(), to_.c_str()) != 0) job::throw_errno("cannot rename " + part_);
  fd_.reset();
  if (lasting) job::sync_directory(fs::path(to_).parent_path());
}

void finish_image(PartFile& image, Manifest manifest) {
  const Image written = Image::open(image.path());
  if (!is_of(written, manifest)) throw std::runtime_error("what came for " + image.to() + " is not the image that its manifest describes");
  written.verify_all(1);
  manifest.stands_alone();
  // The manifest first: an image without it would be of no use.
  job::write_atomically(job::manifest_path(image.to()), manifest_text(manifest));
  image.take_name();
}

}  // namespace reprise::crd
