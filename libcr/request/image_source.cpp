// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/image_source.h"

#include <algorithm>
#include <cerrno>
#include <memory>

#include <fcntl.h>

#include "base/error.h"
#include "base/text.h"

namespace reprise {

RollbackSource source_from(const Image& image) {
  RollbackSource source;
  source.pages.file = &image;
  source.pages.id = image.id();
  source.blob = [&image](std::uint64_t offset, void* buf, std::size_t len) { image.read_blob(offset, buf, len); };
  source.read_page = [&image](std::uint64_t addr, char(&page)[4096]) {
    if (!image.has_page(addr)) return false;
    image.read_pages(addr, page, sizeof page);
    return true;
  };
  return source;
}

Image open_image(const std::string& path, int fd) {
  if (fd < 0) return Image::open(path);
  UniqueFd own(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!own) throw Error(Failure::usage, errno, path + ": its descriptor cannot be used: " + error_text(errno));
  return Image::open(std::move(own), path);
}

void verify_shared(const Image& image) {
  constexpr std::uint64_t chunk = 1 << 20;
  std::unique_ptr<char[]> buffer;
  for (std::uint64_t at = 0; at < image.blob_bytes(); at += chunk) {
    if (!buffer) buffer = std::make_unique<char[]>(chunk);
    image.read_blob(at, buffer.get(), std::min(chunk, image.blob_bytes() - at));
  }
}

}  // namespace reprise
