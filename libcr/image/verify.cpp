// SPDX-License-Identifier: LGPL-2.1-or-later
// Read the content of an image and compare it with its checksums.
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/text.h"
#include "image/read_exactly.h"
#include "image/reader.h"

namespace reprise {

using namespace image;

namespace {
constexpr std::uint64_t kChunk = 128 << 10;       // bytes of one read: they stay in the cache
constexpr std::uint64_t kPerThread = 4ULL << 20;  // one more thread for each of these bytes,
constexpr std::uint64_t kPiecesPerThread = 256;   // and for each of these pieces
constexpr std::size_t kBatch = 16;                // chunks that a thread takes at a time
}  // namespace

std::uint64_t Image::page_number(const PageRun& run) const {
  return (run.offset - files_[run.file].pages_offset) / kPage;
}

std::span<const std::uint64_t> Image::checksums(const PageRun& run) const {
  return files_[run.file].table->get(page_number(run), run.len / kPage);
}

Image::Piece Image::pages(const PageRun& run) const {
  return {run.file, run.offset, run.len, run.addr, kPage, checksums(run).data()};
}

Image::Piece Image::blob(std::uint64_t offset, std::uint64_t len) const {
  return {0, seal_.blob_offset + offset, len, offset, kBlobBlock, blob_hashes_.data() + offset / kBlobBlock};
}

Image::Piece Image::part(const Piece& piece, std::uint64_t from) {
  return {piece.file, piece.offset + from, std::min(kChunk, piece.len - from), piece.seed + from, piece.unit,
          piece.hashes + from / piece.unit};
}

void Image::check(const Piece& piece, const char* data) const {
  for (std::uint64_t at = 0, i = 0; at < piece.len; at += piece.unit, ++i) {
    if (XXH64(data + at, std::min(piece.unit, piece.len - at), piece.seed + at) == piece.hashes[i]) continue;
    const std::string what = piece.unit == kPage ? "page " : "shared content at offset ";
    throw Error(Failure::permanent, EBADMSG,
                files_[piece.file].name + ": " + what + hex(piece.seed + at) +
                    " is damaged (does not match its checksum); use another image or take a new checkpoint");
  }
}

void Image::verify_pieces(const std::vector<Piece>& pieces, unsigned threads, const Progress& progress) const {
  std::uint64_t total = 0, done = 0;
  for (const auto& piece : pieces) total += piece.len;
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  threads = static_cast<unsigned>(
      std::clamp<std::uint64_t>(total / kPerThread + pieces.size() / kPiecesPerThread, 1, threads));

  std::mutex mutex;
  std::size_t next = 0;    // index of the next piece
  std::uint64_t from = 0;  // offset in that piece
  std::pair<std::uint32_t, std::uint64_t> failed_at{UINT32_MAX, 0};
  std::exception_ptr failure;
  // Take several chunks at a time: a scattered page costs less than a contended lock.
  const auto take = [&](std::array<Piece, kBatch>& chunks) {
    const std::lock_guard lock(mutex);
    std::size_t n = 0;
    for (; n < chunks.size() && next < pieces.size() && !failure; ++n) {
      chunks[n] = part(pieces[next], from);
      from += chunks[n].len;
      if (from == pieces[next].len) ++next, from = 0;
    }
    return n;
  };
  const auto work = [&] {
    std::vector<char> buffer;
    std::array<Piece, kBatch> chunks;
    while (const std::size_t n = take(chunks)) {
      for (std::size_t i = 0; i < n; ++i) {
        const Piece& chunk = chunks[i];
        try {
          buffer.resize(std::max<std::size_t>(buffer.size(), chunk.len));
          read_exactly(files_[chunk.file].fd.get(), files_[chunk.file].name, chunk.offset, buffer.data(), chunk.len);
          check(chunk, buffer.data());
          if (!progress) continue;
          const std::lock_guard lock(mutex);
          done += chunk.len;
          progress(done, total);
        } catch (...) {
          const std::lock_guard lock(mutex);
          const std::pair at{chunk.file, chunk.offset};
          if (at < failed_at) failure = std::current_exception(), failed_at = at;
        }
      }
    }
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) {
    try {
      others.emplace_back(work);
    } catch (const std::system_error&) {
      break;  // RLIMIT_NPROC or pids.max: continue with fewer threads
    }
  }
  work();
  for (auto& thread : others) thread.join();
  if (failure) std::rethrow_exception(failure);
}

void Image::verify(std::span<const cr_range> ranges, unsigned threads) const {
  std::vector<Piece> pieces;
  for (const auto& range : ranges)
    for (const auto& run : runs_in(range)) pieces.push_back(pages(run));
  verify_pieces(pieces, threads, {});
}

void Image::verify_all(unsigned threads, const Progress& progress) const {
  std::vector<Piece> pieces;
  for (const auto* runs : {&runs_, &debug_runs_})
    for (const auto& run : *runs) pieces.push_back(pages(run));
  if (seal_.blob_size) pieces.push_back(blob(0, seal_.blob_size));
  verify_pieces(pieces, threads, progress);
}

void Image::read_pages(std::uint64_t addr, void* buf, std::size_t len) const {
  if (addr % kPage || len % kPage)
    throw Error(Failure::permanent, EINVAL, name_ + ": address " + hex(addr) + " is not that of whole pages");
  char* to = static_cast<char*>(buf);
  for (auto run = first_after(addr); len > 0; ++run) {
    if (run == runs_.end() || run->addr > addr)
      throw Error(Failure::permanent, ENOENT, name_ + ": page " + hex(addr) + " is not in the image");
    const std::uint64_t skip = addr - run->addr, size = std::min<std::uint64_t>(len, run->len - skip);
    read_run({addr, size, run->offset + skip, run->file}, to);
    addr += size;
    to += size;
    len -= size;
  }
}

void Image::read_run(const PageRun& run, void* buf) const {
  const File& file = files_[run.file];
  read_exactly(file.fd.get(), file.name, run.offset, buf, run.len);
  check(pages(run), static_cast<const char*>(buf));
}

void Image::read_blob(std::uint64_t offset, void* buf, std::size_t len) const {
  if (offset > seal_.blob_size || len > seal_.blob_size - offset)
    throw Error(Failure::permanent, ENOENT,
                name_ + ": shared content at offset " + hex(offset) + " is not in the image");
  char* to = static_cast<char*>(buf);
  std::vector<char> block(kBlobBlock);
  while (len > 0) {
    // Read whole blocks directly into the result, parts of blocks through a buffer.
    const std::uint64_t start = offset / kBlobBlock * kBlobBlock;
    const std::uint64_t size = std::min(kBlobBlock, seal_.blob_size - start), skip = offset - start;
    const std::uint64_t take = std::min<std::uint64_t>(len, size - skip);
    char* at = take == size ? to : block.data();
    read_exactly(fd(), name_, seal_.blob_offset + start, at, size);
    check(blob(start, size), at);
    if (at != to) std::memcpy(to, at + skip, take);
    offset += take;
    to += take;
    len -= take;
  }
}

}  // namespace reprise
