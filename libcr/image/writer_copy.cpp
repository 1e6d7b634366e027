// SPDX-License-Identifier: LGPL-2.1-or-later
// Copy content from one image to another within the kernel, or share it.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/error.h"
#include "image/read_exactly.h"
#include "image/writer.h"

namespace reprise {

using namespace image;

namespace {

constexpr std::uint64_t kCopyLimit = 64ULL << 20;  // bytes of one copy_file_range
constexpr std::uint64_t kBuffer = 1ULL << 20;

/** Errors of copy_file_range(2) after which reading and writing can still do it. */
bool other_way(int err) {
  return err == EXDEV || err == EINVAL || err == ENOSYS || err == EOPNOTSUPP || err == EBADF || err == ETXTBSY;
}

}  // namespace

/**
 * Find the first whole pages at or behind @p at that are no hole: [at, upto).
 * @return false when there are none before @p end
 */
bool ImageWriter::next_data(int fd, std::uint64_t& at, std::uint64_t& upto, std::uint64_t end) {
  const std::lock_guard lock(writing_);
  upto = end;
  if (fd != data_.fd || at < data_.from || at >= data_.upto) {
    const off_t data = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
    // An image ends with data. ENXIO: it has become shorter, which reading will tell. Else the file system has no holes.
    if (data < 0) return true;
    at = std::max(at, static_cast<std::uint64_t>(data) / kPage * kPage);
    if (at >= end) return false;
    const off_t hole = ::lseek(fd, data, SEEK_HOLE);
    if (hole <= 0) return true;
    // tmpfs looks at every page up to the hole: do not ask again within this range.
    data_ = {fd, at, (static_cast<std::uint64_t>(hole) + kPage - 1) / kPage * kPage};
  }
  upto = std::min(end, data_.upto);
  return true;
}

// The file is new: holes of the other one are left as they are.
void ImageWriter::copy_data(int from, std::uint64_t at, std::uint64_t offset, std::uint64_t len) {
  const std::uint64_t end = at + len, shift = offset - at;  // may wrap around
  std::vector<char> buffer;
  for (std::uint64_t upto = 0; at < end && next_data(from, at, upto, end); at = upto) {
    while (at < upto) {
      if (buffer.empty()) {  // copying within the kernel has not failed
        auto in = static_cast<off_t>(at), out = static_cast<off_t>(at + shift);
        const std::lock_guard lock(writing_);
        const ssize_t done = ::copy_file_range(from, &in, fd_.get(), &out, std::min(upto - at, kCopyLimit), 0);
        if (done > 0) {
          at += static_cast<std::uint64_t>(done);
          continue;
        }
        if (done < 0 && errno == EINTR) continue;
        if (done < 0 && !other_way(errno)) fail("copying from the parent image failed", errno);
        buffer.resize(kBuffer);  // reading tells whether the other file has become shorter
      }
      const std::uint64_t part = std::min<std::uint64_t>(upto - at, buffer.size());
      read_exactly(from, "the parent image", at, buffer.data(), part);
      put(at + shift, buffer.data(), part);
      at += part;
    }
  }
}

}  // namespace reprise
