// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/whole.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "image/headers.h"
#include "image/notes.h"
#include "image/tail.h"

namespace reprise {

using namespace image;

namespace {

constexpr std::uint64_t kPart = 1 << 20;  // a multiple of kPage and kBlobBlock

}  // namespace

std::vector<PageRun> all_runs(const Image& image) {
  std::vector<PageRun> all = image.runs();
  all.insert(all.end(), image.debug_runs().begin(), image.debug_runs().end());
  std::sort(all.begin(), all.end(), [](const PageRun& one, const PageRun& other) { return one.addr < other.addr; });
  return all;
}

std::vector<cr_range> page_ranges(const Image& image) {
  std::vector<cr_range> ranges;
  for (const PageRun& run : all_runs(image)) {
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
  std::vector<cr_page_run> segments = split_at_mappings(image.name(), image.process(), page_ranges(image));
  head_ = build_headers(kTreeFormat, image.process(), build_notes(image.process(), regs), segments, image.blob_bytes());

  std::vector<std::uint64_t> hashes;
  std::uint64_t offset = head_.size();
  for (const PageRun& run : all_runs(image)) {
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

/** Read [offset, offset + len) of the file by units, but those of which @p there(index) is true. */
template <class There, class Read>
void WholeImage::read_units(std::uint64_t offset, std::uint64_t len, std::uint64_t unit, const There& there, const Read& read,
                            const Image::Part& use) const {
  std::vector<char> buffer;
  for (std::uint64_t at = 0; at < len;) {
    if (there(at)) {
      at += unit;
      continue;
    }
    std::uint64_t end = at + unit;
    while (end < len && end - at < kPart && !there(end)) end += unit;
    end = std::min(end, len);
    buffer.resize(end - at);
    read(at, buffer.data(), buffer.size());
    use(offset + at, buffer);
    at = end;
  }
}

void WholeImage::read_file(const Image* base, const Image::Part& use) const {
  if (image_.bases().empty()) return image_.read_file(base, use);
  use(0, head_);
  for (const Run& run : runs_) {
    const std::span<const std::uint64_t> hashes = image_.checksums(run.pages);
    read_units(
        run.offset, run.pages.len, kPage,
        [&](std::uint64_t at) { return base && base->has_page_at(run.offset + at, hashes[at / kPage]); },
        [&](std::uint64_t at, char* to, std::size_t len) {
          image_.read_run({run.pages.addr + at, len, run.pages.offset + at, run.pages.file}, to);
        },
        use);
  }
  const std::uint64_t blob = image_.blob_bytes();
  read_units(
      blob_offset_, blob, kBlobBlock,
      [&](std::uint64_t at) {
        return base && base->has_block_at(blob_offset_ + at, std::min(kBlobBlock, blob - at), image_.blob_checksums()[at / kBlobBlock]);
      },
      [&](std::uint64_t at, char* to, std::size_t len) { image_.read_blob(at, to, len); }, use);
  use(blob_offset_ + blob, tail_);
}

}  // namespace reprise
