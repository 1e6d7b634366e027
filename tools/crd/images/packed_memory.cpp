// SPDX-License-Identifier: GPL-2.0-only
#include "crd/images/packed_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "crd/images/copying.h"
#include "job/files.h"

namespace reprise::crd {
namespace {

constexpr std::uint64_t kPiece = 1 << 20;

/** Before each piece, in the byte order of the machine: all nodes of a job have the same. */
struct Head {
  std::uint64_t offset, length;
};

/** Call @p use with each piece that was written: offset, length. The position of @p memory moves. */
template <class Use>
void each_piece(int memory, std::uint64_t size, Use use) {
  for (std::uint64_t at = 0; at < size;) {
    const off_t data = ::lseek(memory, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) return;  // nothing but holes
    const off_t hole = data < 0 ? -1 : ::lseek(memory, data, SEEK_HOLE);
    if (hole < 0) job::throw_errno("cannot find what kept memory has");
    const std::uint64_t end = std::min(static_cast<std::uint64_t>(hole), size);
    for (at = static_cast<std::uint64_t>(data); at < end; at += std::min(kPiece, end - at)) use(at, std::min(kPiece, end - at));
    at = std::max(at, end);
  }
}

}  // namespace

PackedChecksum::PackedChecksum() : state_(XXH64_createState(), XXH64_freeState) {
  if (!state_) throw std::bad_alloc();
  XXH64_reset(state_.get(), 0);
}

void PackedChecksum::add(const void* data, std::size_t size) { XXH64_update(state_.get(), data, size); }

std::uint64_t PackedChecksum::sum() const { return XXH64_digest(state_.get()); }

std::uint64_t packed_bytes(int memory, std::uint64_t size) {
  std::uint64_t bytes = 0;
  each_piece(memory, size, [&](std::uint64_t, std::uint64_t length) { bytes += sizeof(Head) + length; });
  return bytes;
}

PackedMemory pack_memory(int memory, std::uint64_t size, PartFile& to, const std::function<bool()>& keep_on) {
  PackedMemory out;
  PackedChecksum checksum;
  std::vector<char> piece;
  each_piece(memory, size, [&](std::uint64_t offset, std::uint64_t length) {
    stop_if_told({0, keep_on, nullptr}, "copying kept memory");
    piece.resize(length);
    if (read_piece(memory, offset, piece, "kept memory") != length) throw std::runtime_error("kept memory has become smaller");
    const Head head{offset, length};
    const char* bytes = reinterpret_cast<const char*>(&head);
    piece.insert(piece.begin(), bytes, bytes + sizeof head);
    to.write(out.bytes, piece);
    checksum.add(piece.data(), piece.size());
    out.bytes += piece.size();
  });
  out.checksum = checksum.sum();
  return out;
}

void unpack_memory(const std::string& path, const PackedMemory& packed, int memory, std::uint64_t size) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) job::throw_errno("cannot open " + path);
  PackedChecksum checksum;
  std::vector<char> piece;
  const auto take = [&](std::uint64_t at, std::uint64_t length) {
    piece.resize(length);
    if (read_piece(file.get(), at, piece, path) != length) throw std::runtime_error(path + " is too short");
    checksum.add(piece.data(), length);
  };
  for (std::uint64_t at = 0; at < packed.bytes;) {
    Head head;
    take(at, sizeof head);
    std::memcpy(&head, piece.data(), sizeof head);
    at += sizeof head;
    if (head.length == 0 || head.length > kPiece || head.offset > size || head.length > size - head.offset)
      throw std::runtime_error(path + " is damaged: a piece lies outside of the memory");
    take(at, head.length);
    write_piece(memory, head.offset, piece.data(), piece.size(), "kept memory");
    at += head.length;
  }
  if (checksum.sum() != packed.checksum) throw std::runtime_error(path + " is damaged: its checksum is another one");
}

}  // namespace reprise::crd
