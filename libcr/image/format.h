// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The layout of an image on disk: constants and structures of writer and reader.
 * docs/image-format.md describes it byte by byte.
 */
#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <string>

namespace reprise {

/** Saved pages, contiguous in memory and in a file. */
struct PageRun {
  std::uint64_t addr, len;  ///< bytes
  std::uint64_t offset;     ///< in the file
  std::uint32_t file = 0;   ///< 0: the image itself; else 1 + index of the base
};

/** Registers of one thread, as the regsets of its ELF core notes. */
struct ThreadRegs {
  pid_t tid = 0;
  user_regs_struct regs{};  ///< NT_PRSTATUS
  std::string fpregs;       ///< NT_PRFPREG, kFpregsSize bytes
  std::string xstate;       ///< NT_X86_XSTATE; may be empty
};

namespace image {

inline constexpr std::uint32_t kStateFormat = 1;  ///< of the state
// Formats of images. 1: stands alone, the seal covers the table of checksums.
inline constexpr std::uint32_t kDeltaFormat = 2;  ///< as 1, with pages in other files
inline constexpr std::uint32_t kTreeFormat = 3;   ///< either; checksums are a tree. What is written, and the newest that is read
inline constexpr std::uint64_t kPage = 4096;
inline constexpr std::uint64_t kTaskSize = 0x7ffffffff000;  ///< addresses end below this
inline constexpr std::uint64_t kBlobBlock = 65536;          ///< bytes of the blob section per checksum
inline constexpr std::size_t kFpregsSize = sizeof(user_fpregs_struct);

// Limits on what a hostile image can make the reader allocate.
inline constexpr std::uint64_t kMaxPages = (1ULL << 29) - 1;  ///< 2 TiB: the checksums must fit into one note
inline constexpr std::uint64_t kMaxBlob = 1ULL << 44;         ///< 16 TiB of shared content
inline constexpr std::uint64_t kMaxState = 256ULL << 20;      ///< bytes of the serialized Process
inline constexpr std::uint64_t kMaxStateItems = 4ULL << 20;   ///< messages, strings and repeated numbers in Process
inline constexpr std::uint64_t kMaxMappings = 1ULL << 20;
inline constexpr std::uint64_t kMaxNotes = 1ULL << 30;  ///< bytes of the first note segment
inline constexpr int kMaxBases = 16;                    ///< files that a delta image refers to
inline constexpr int kMaxBaseRuns = 1 << 18;            ///< runs of pages that it has there

/** Name and types of the project's own notes. The types differ from those of CORE: some readers ignore the name. */
inline constexpr char kNoteName[] = "REPRISE";
inline constexpr std::uint32_t kNoteState = 0x43520001;       ///< reprise.Process, serialized
inline constexpr std::uint32_t kNoteHashes = 0x43520002;      ///< XXH64 of every page, seed: its address
inline constexpr std::uint32_t kNoteBlobHashes = 0x43520003;  ///< XXH64 of every block, seed: its offset in the blob
inline constexpr std::uint32_t kNoteSeal = 0x43520004;        ///< struct Seal, at the end of the file
inline constexpr std::uint32_t kNoteTree = 0x43520005;        ///< XXH64 of the headers, and of each block of kNoteHashes

/** Content of the seal note: the last bytes of an image. Little endian, like the whole image. */
struct Seal {
  std::uint32_t format;        ///< 1, kDeltaFormat or kTreeFormat
  std::uint32_t page_size;     ///< kPage
  std::uint64_t pages_offset;  ///< file offset of the saved pages
  std::uint64_t pages_size;    ///< bytes of the saved pages
  std::uint64_t blob_offset;   ///< file offset of the blob section: pages_offset + pages_size
  std::uint64_t blob_size;     ///< bytes of the blob section
  std::uint64_t blob_block;    ///< kBlobBlock
  std::uint64_t file_size;     ///< bytes of the whole image
  /// XXH64, seed 0, of [blob_offset + blob_size, file_size - 8) without the table of page checksums, which the tree covers
  /// as it covers the headers. Formats 1 and 2: of [0, pages_offset), followed by all of [blob_offset + blob_size, file_size - 8)
  std::uint64_t hash;
};
static_assert(sizeof(Seal) == 64);

}  // namespace image
}  // namespace reprise
