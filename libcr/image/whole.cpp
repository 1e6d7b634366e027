// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/whole.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "image/headers.h"
#include "image/missing.h"
#include "image/notes.h"
#include "image/read_exactly.h"
#include "image/tail.h"

namespace reprise {

using namespace image;

std::vector<PageRun> all_runs(const Image& image) {
  std::vector<PageRun> all = image.runs();
  all.insert(all.end(), image.debug_runs().begin(), image.debug_runs().end());
  std::sort(all.begin(), all.end(), [](const PageRun& one, const PageRun& other) { return one.addr < other.addr; });
  return all;
}

std::vector<cr_range> page_ranges(std::span<const PageRun> runs) {
  std::vector<cr_range> ranges;
  for (const PageRun& run : runs) {
    if (!ranges.empty() && ranges.back().addr + ranges.back().len == run.addr)
      ranges.back().len += run.len;
    else
      ranges.push_back({run.addr, run.len});
  }
  return ranges;
}

WholeImage::WholeImage(const Image& image)
    : image_(image), file_size_(image.file_size()), checksum_(image.checksum()), blob_offset_(image.blob_offset()) {
  if (image.bases().empty()) {
    for (const PageRun& run : all_runs(image)) runs_.push_back({run, run.offset});
    std::sort(runs_.begin(), runs_.end(), [](const Run& one, const Run& other) { return one.offset < other.offset; });
    return;
  }
  std::vector<const ThreadRegs*> regs;
  for (const ThreadRegs& one : image.threads()) regs.push_back(&one);
  const std::vector<PageRun> all = all_runs(image);
  std::vector<cr_page_run> segments = split_at_mappings(image.name(), image.process(), page_ranges(all));
  head_ = build_headers(kTreeFormat, image.process(), build_notes(image.process(), regs), segments, image.blob_bytes());

  std::vector<std::uint64_t> hashes;
  std::uint64_t offset = head_.size();
  for (const PageRun& run : all) {
    const std::span<const std::uint64_t> some = image.checksums(run);
    hashes.insert(hashes.end(), some.begin(), some.end());
    runs_.push_back({run, offset});
    offset += run.len;
  }
  blob_offset_ = offset;
  const TailLayout tail(kTreeFormat, hashes.size(), image.blob_bytes());
  file_size_ = blob_offset_ + image.blob_bytes() + tail.size;
  const Seal seal{kTreeFormat,  kPage,      head_.size(), blob_offset_ - head_.size(), blob_offset_, image.blob_bytes(),
                  kBlobBlock,   file_size_, 0};
  tail_ = build_tail(head_, seal, hashes, image.blob_checksums());
  std::memcpy(&checksum_, tail_.data() + tail_.size() - sizeof checksum_, sizeof checksum_);
}

void WholeImage::read_file(const Image* base, const Image::Part& use) const {
  if (image_.bases().empty()) return image_.read_file(base, use);
  std::vector<char> buffer;
  use(0, head_);
  for (const Run& run : runs_) {
    const std::span<const std::uint64_t> hashes = image_.checksums(run.pages);
    each_missing(
        run.pages.len, kPage, [&](std::uint64_t at) { return base && base->has_page_at(run.offset + at, hashes[at / kPage]); },
        [&](std::uint64_t at, std::uint64_t end) {
          buffer.resize(end - at);
          image_.read_run({run.pages.addr + at, end - at, run.pages.offset + at, run.pages.file}, buffer.data());
          use(run.offset + at, buffer);
        });
  }
  const std::uint64_t blob = image_.blob_bytes();
  const std::vector<std::uint64_t>& hashes = image_.blob_checksums();
  each_missing(
      blob, kBlobBlock,
      [&](std::uint64_t at) {
        return base && base->has_block_at(blob_offset_ + at, std::min(kBlobBlock, blob - at), hashes[at / kBlobBlock]);
      },
      [&](std::uint64_t at, std::uint64_t end) {
        buffer.resize(end - at);
        image_.read_blob(at, buffer.data(), buffer.size());
        use(blob_offset_ + at, buffer);
      });
  use(blob_offset_ + blob, tail_);
}

void WholeImage::read(std::uint64_t offset, char* buf, std::size_t len) const {
  while (len > 0) {
    const std::size_t got = read_some(offset, buf, len);
    offset += got;
    buf += got;
    len -= got;
  }
}

std::size_t WholeImage::read_some(std::uint64_t offset, char* buf, std::size_t len) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), offset, [](std::uint64_t at, const Run& run) { return at < run.offset; });
  if (after != runs_.begin() && offset - std::prev(after)->offset < std::prev(after)->pages.len)
    return read_pages(*std::prev(after), offset, buf, len);
  const std::uint64_t blob_end = blob_offset_ + image_.blob_bytes();
  const bool blob = blob_offset_ <= offset && offset < blob_end;
  const std::uint64_t end = blob ? blob_end : after != runs_.end() ? after->offset : offset < blob_offset_ ? blob_offset_ : file_size_;
  len = std::min<std::uint64_t>(len, end - offset);
  if (blob)
    image_.read_blob(offset - blob_offset_, buf, len);
  else if (image_.bases().empty())
    read_exactly(image_.fd(), image_.name(), offset, buf, len);
  else if (offset < head_.size())
    std::memcpy(buf, head_.data() + offset, len);
  else
    std::memcpy(buf, tail_.data() + (offset - blob_end), len);
  return len;
}

std::size_t WholeImage::read_pages(const Run& run, std::uint64_t offset, char* buf, std::size_t len) const {
  const std::uint64_t from = offset - run.offset, to = std::min<std::uint64_t>(from + len, run.pages.len);
  const std::uint64_t first = from / kPage * kPage, last = (to + kPage - 1) / kPage * kPage;
  const PageRun pages{run.pages.addr + first, last - first, run.pages.offset + first, run.pages.file};
  if (first == from && last == to) {
    image_.read_run(pages, buf);
  } else {
    std::vector<char> whole(last - first);
    image_.read_run(pages, whole.data());
    std::memcpy(buf, whole.data() + (from - first), to - from);
  }
  return to - from;
}

}  // namespace reprise
