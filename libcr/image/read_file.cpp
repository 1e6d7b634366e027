// SPDX-License-Identifier: LGPL-2.1-or-later
// Read an image as a file, to copy it.
#include <algorithm>
#include <cerrno>
#include <iterator>
#include <vector>

#include "base/error.h"
#include "image/missing.h"
#include "image/read_exactly.h"
#include "image/reader.h"

namespace reprise {

using namespace image;

bool Image::has_page_at(std::uint64_t offset, std::uint64_t checksum) const {
  if (offset < seal_.pages_offset) return false;
  const std::uint64_t index = (offset - seal_.pages_offset) / kPage;
  const ChecksumTable& table = *files_[0].table;
  try {
    return index < table.pages() && table.get(index, 1)[0] == checksum;
  } catch (const Error&) {
    return false;  // a damaged file does not have it
  }
}

bool Image::has_block_at(std::uint64_t offset, std::uint64_t len, std::uint64_t checksum) const {
  if (offset < seal_.blob_offset || (offset - seal_.blob_offset) % kBlobBlock) return false;
  const std::uint64_t at = offset - seal_.blob_offset;
  return at < seal_.blob_size && std::min(kBlobBlock, seal_.blob_size - at) == len &&
         blob_hashes_[at / kBlobBlock] == checksum;
}

void Image::read_piece(const Piece& piece, const Image* base, std::vector<char>& buffer, const Part& use) const {
  const auto there = [&](std::uint64_t at) {
    if (!base || !piece.unit) return false;
    const std::uint64_t offset = piece.offset + at, checksum = piece.hashes[at / piece.unit];
    return piece.unit == kPage ? base->has_page_at(offset, checksum)
                               : base->has_block_at(offset, std::min(piece.unit, piece.len - at), checksum);
  };
  each_missing(piece.len, piece.unit ? piece.unit : kPart, there, [&](std::uint64_t at, std::uint64_t end) {
    buffer.resize(end - at);
    read_exactly(fd(), name_, piece.offset + at, buffer.data(), buffer.size());
    if (piece.unit) check({0, piece.offset + at, end - at, piece.seed + at, piece.unit, piece.hashes + at / piece.unit}, buffer.data());
    use(piece.offset + at, buffer);
  });
}

void Image::read_file(const Image* base, const Part& use) const {
  std::vector<PageRun> runs;
  std::copy_if(runs_.begin(), runs_.end(), std::back_inserter(runs), [](const PageRun& run) { return run.file == 0; });
  runs.insert(runs.end(), debug_runs_.begin(), debug_runs_.end());
  std::sort(runs.begin(), runs.end(), [](const auto& one, const auto& other) { return one.offset < other.offset; });
  const std::uint64_t end = seal_.blob_offset + seal_.blob_size;
  std::vector<char> buffer;
  read_piece({0, 0, seal_.pages_offset, 0, 0, nullptr}, base, buffer, use);
  for (const PageRun& run : runs) read_piece(pages(run), base, buffer, use);
  if (seal_.blob_size) read_piece(blob(0, seal_.blob_size), base, buffer, use);
  read_piece({0, end, seal_.file_size - end, 0, 0, nullptr}, base, buffer, use);
}

}  // namespace reprise
