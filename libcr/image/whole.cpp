// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/whole.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "image/headers.h"
#include "image/missing.h"
#include "image/notes.h"
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

WholeImage::WholeImage(const Image& image) : image_(image), file_size_(image.file_size()), checksum_(image.checksum()) {
  if (image.bases().empty()) return;
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

}  // namespace reprise
