// SPDX-License-Identifier: GPL-2.0-only
#include "crd/images/offered.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/kept_name.h"
#include "base/unique_fd.h"
#include "crd/images/copying.h"
#include "crd/images/parity_files.h"
#include "job/files.h"
#include "job/names.h"

namespace reprise::crd {
namespace {

class Text : public Offered {
 public:
  Text(const std::string& path, std::uint64_t most) {
    if (std::filesystem::file_size(path) > most) throw std::runtime_error(path + " is too large for what it should be");
    text_ = job::read_file(path);
  }
  std::uint64_t size() const override { return text_.size(); }
  void read(std::uint64_t offset, char* buffer, std::size_t len) const override { std::memcpy(buffer, text_.data() + offset, len); }

 private:
  std::string text_;
};

class Whole : public Offered {
 public:
  explicit Whole(const std::string& path) : image_(Image::open(path)), whole_(image_) {
    if (!is_of(whole_, read_manifest(job::manifest_path(path))))
      throw std::runtime_error(path + " is damaged: it is not the image that its manifest describes");
  }
  std::uint64_t size() const override { return whole_.file_size(); }
  void read(std::uint64_t offset, char* buffer, std::size_t len) const override { whole_.read(offset, buffer, len); }

 private:
  Image image_;
  WholeImage whole_;
};

/** A file as it is: who reads it verifies it, since its name and checksum are in what refers to it. */
class Plain : public Offered {
 public:
  explicit Plain(const std::string& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
    struct stat st {};
    if (!fd_ || ::fstat(fd_.get(), &st) != 0 || !S_ISREG(st.st_mode))
      throw std::runtime_error(std::system_error(fd_ ? EINVAL : errno, std::generic_category(), "cannot open " + path).what());
    size_ = static_cast<std::uint64_t>(st.st_size);
  }
  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t offset, char* buffer, std::size_t len) const override {
    if (read_piece(fd_.get(), offset, {buffer, len}, path_) != len) throw std::runtime_error(path_ + " is shorter than it was");
  }

 private:
  const std::string path_;
  const UniqueFd fd_;
  std::uint64_t size_ = 0;
};

}  // namespace

std::unique_ptr<Offered> open_offered(const std::string& directory, const ImageRequest& request) {
  const std::string image = job::image_path(directory, request.wave(), request.rank());
  switch (request.what()) {
    case ImageRequest::MANIFEST:
      return std::make_unique<Text>(job::manifest_path(image), kMostManifest);
    case ImageRequest::IMAGE:
      return std::make_unique<Whole>(image);
    case ImageRequest::PARITY_SET:
      return std::make_unique<Text>(job::parity_set_path(directory, request.wave()), kMostParitySet);
    case ImageRequest::PARITY:
      return open_parity(directory, request.wave());
    case ImageRequest::FILE:
      if (!request.base()) return std::make_unique<Plain>(image);
      return std::make_unique<Plain>(job::wave_directory(directory, request.wave()) + "/" + job::base_name(request.rank(), request.base()));
    case ImageRequest::KEPT:
      if (!valid_kept_name(request.name())) throw std::runtime_error("kept memory has no such name");
      return std::make_unique<Plain>(job::kept_copy_path(directory, request.rank(), request.version(), request.name()));
    default:
      throw std::runtime_error("this daemon does not know what it is asked for: all daemons of a job must be of the same version");
  }
}

}  // namespace reprise::crd
