// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Writing an image. The layout is fixed by begin(); pages and blob content may
 * then be written in any order and from several threads; finish() seals the
 * file, syncs it and gives it its name. Until then nothing exists under that
 * name, and an unfinished writer leaves nothing behind.
 */
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "cr.h"
#include "image/format.h"

namespace reprise {

class Process;

struct WriterOptions {
  bool clobber = false;  ///< replace an existing file of that name
  bool backup = false;   ///< keep it under another name, see backup_name
  bool sync = true;      ///< fsync the file and its directory
  bool unnamed = true;   ///< no temporary name where the file system can do without
  mode_t mode = 0600;    ///< images hold a process's memory: private by default
  std::string backup_name = {};  ///< where it goes, relative to the working directory; "": NAME.~1~, NAME.~2~ …, the first free
};

class ImageWriter {
 public:
  /**
   * An image at @p path (relative to @p dir_fd). Opens a temporary file in the
   * same directory: unnamed where the file system can (nothing stays behind even
   * after SIGKILL), else ".NAME.tmp-…".
   * @throws Error refused (EEXIST: exists and not clobber), temporary (no space), permanent
   */
  explicit ImageWriter(std::string path, WriterOptions options = {}, int dir_fd = -100 /* AT_FDCWD */);
  /**
   * An image into an open descriptor. A regular file that is empty, or at whose
   * start the descriptor stands, is replaced in place; anything else (a pipe, a
   * socket, a later position) is spooled and written out by finish().
   * @param name how messages call it
   */
  ImageWriter(UniqueFd fd, std::string name, WriterOptions options = {});
  ~ImageWriter();
  ImageWriter(const ImageWriter&) = delete;
  ImageWriter& operator=(const ImageWriter&) = delete;

  /**
   * Check the state (see validate.h), lay the file out and write headers and notes.
   * @param process  complete; its shared_objects' extents fix the size of the blob section
   * @param regs     of every thread, in any order
   * @param runs     pages that will be written, sorted, page aligned; they are split at
   *                 boundaries of mappings, whose protections become those of the segments. Those
   *                 of the vdso may be among them: debuggers like to see it, it is never put back
   */
  void begin(const Process& process, const std::vector<ThreadRegs>& regs, std::span<const cr_range> runs);

  /** Content of whole pages inside the runs; may span adjacent runs. Thread safe. Pages of zeros take no space. */
  void write_pages(std::uint64_t addr, const void* buf, std::size_t len);
  /** Content of the blob section. What is never written reads as zeros. Thread safe for disjoint ranges. */
  void write_blob(std::uint64_t offset, const void* buf, std::size_t len);

  /** Write checksums and seal, sync, give the file its name. Throws when a page of the runs was not written. */
  void finish();

  const std::string& name() const { return name_; }
  /** Bytes of the whole file, known after begin(). */
  std::uint64_t file_size() const { return file_size_; }
  /** Bytes of pages and blob content that took space (not zeros), so far. */
  std::uint64_t stored_bytes() const { return stored_.load(); }

 private:
  void put(std::uint64_t offset, const void* buf, std::size_t len);
  void put_sparse(std::uint64_t offset, const void* buf, std::size_t len);
  void hash_partial_blocks();
  void publish();
  [[noreturn]] void fail(const std::string& what, int err) const;

  void keep_backup();

  std::string name_;  // for messages
  WriterOptions options_;
  UniqueFd fd_;                         // what is written to
  UniqueFd dir_;                        // of the final name
  UniqueFd out_;                        // spooling: where it goes in the end
  std::string final_name_, temp_name_;  // inside dir_; temp_name_ empty: unnamed file
  bool in_place_ = false;               // fd_ is the caller's own file
  bool touched_ = false;                // something was written
  bool finished_ = false;
  std::vector<cr_page_run> runs_;
  std::string head_;  // bytes [0, pages offset)
  std::vector<std::uint64_t> hashes_, blob_hashes_;
  std::vector<std::uint8_t> page_written_, block_hashed_;
  std::uint64_t pages_offset_ = 0, blob_offset_ = 0, blob_size_ = 0, file_size_ = 0;
  std::atomic<std::uint64_t> stored_{0};
  // The kernel lets one at a time write to a file and has the others spin: here they sleep.
  std::mutex writing_;
};

}  // namespace reprise
