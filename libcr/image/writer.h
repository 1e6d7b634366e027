// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Write an image. begin() fixes the layout. Pages and blob content may then be
 * written in any order and from several threads. finish() seals the file, syncs
 * it and gives it its name. Until then no file has that name, and an unfinished
 * writer leaves no file behind.
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
#include "image/compression.h"
#include "image/format.h"

namespace reprise {

class Image;
class Process;

struct WriterOptions {
  bool clobber = false;  ///< replace an existing file of that name
  bool backup = false;   ///< with clobber: keep the replaced file under another name, see backup_name
  bool sync = true;      ///< fsync the file and its directory
  Compression compression = {};  ///< of the whole file, see compression.h
  bool stream = false;   ///< compressed, or to a descriptor that cannot seek: write in the order of the file, see in_order()
  bool unnamed = true;   ///< use O_TMPFILE where the file system supports it, instead of a temporary name
  mode_t mode = 0600;    ///< private by default: an image holds the process's memory
  uid_t owner = static_cast<uid_t>(-1);  ///< of the new file, if we are root; -1: ours
  /** Name of the backup, relative to the working directory. "": the first free of NAME.~1~, NAME.~2~ … */
  std::string backup_name = {};
};

class ImageWriter {
 public:
  /**
   * Write an image to @p path (relative to @p dir_fd). Opens a temporary file in the
   * same directory: an unnamed one (O_TMPFILE) where the file system supports it, so
   * that even SIGKILL leaves no file behind, else ".NAME.tmp-…".
   * @throws Error usage (no such directory), refused (EEXIST: exists and not clobber), temporary (no space), permanent
   */
  explicit ImageWriter(std::string path, WriterOptions options = {}, int dir_fd = -100 /* AT_FDCWD */);
  /**
   * Write an image to an open descriptor, which the writer then owns. A regular file
   * that is open for reading and writing, without O_APPEND and at position 0, is
   * replaced in place. For anything else (a pipe, a socket, a later position) the image
   * is spooled to a temporary file, and finish() copies it to the descriptor; with
   * options.stream only shared content is, and all else is written as it comes. So is
   * each image that is compressed.
   * @param name name of the image in messages
   * @throws Error usage (not open for writing)
   */
  ImageWriter(UniqueFd fd, std::string name, WriterOptions options = {});
  ~ImageWriter();
  ImageWriter(const ImageWriter&) = delete;
  ImageWriter& operator=(const ImageWriter&) = delete;

  /**
   * Check the state (see validate.h), lay the file out and write headers and notes.
   * @param process  the complete state; the extents of its shared_objects fix the size of the blob section
   * @param regs     registers of every thread, in any order
   * @param runs     the pages that will be written, sorted and page-aligned. They are split at
   *                 boundaries of mappings, whose protections become those of the segments. They may
   *                 include pages of the vdso, which are for debuggers and never restored; not pages in other
   *                 files (Process.base_runs)
   * @throws Error   refused (too large), usage, temporary or permanent
   */
  void begin(const Process& process, const std::vector<ThreadRegs>& regs, std::span<const cr_range> runs);

  /** Write whole pages inside the runs; may span adjacent runs. Thread-safe. Pages of zeros take no space. */
  void write_pages(std::uint64_t addr, const void* buf, std::size_t len);
  /** The same for @p ranges, sorted, with their content one behind the other: adjacent ones in the file take one write. */
  void write_pages(std::span<const cr_range> ranges, const void* buf);
  /**
   * Take the pages that @p from has in @p range as they are, with their checksums. The file system shares the content
   * with that file where it can (reflink); else it is copied. Nothing is verified. Thread-safe.
   * @throws Error when a page is not inside the runs of this image
   */
  void take_pages(const Image& from, const cr_range& range);
  /** The same for one run of @p from, also one of its debug_runs(). */
  void take_run(const Image& from, const PageRun& run);
  /** @return where the page at @p addr, one of the runs, is in the file. Throws Error when it is not one of them. */
  std::uint64_t offset_of(std::uint64_t addr) const;
  /** Write content of the blob section. Parts that are never written read as zeros. Thread-safe for disjoint ranges. */
  void write_blob(std::uint64_t offset, const void* buf, std::size_t len);

  /** Write checksums and seal, sync, give the file its name. Throws Error, also when a page of the runs is missing. */
  void finish();

  /** Must pages be written by address, by one thread, and are they not to be taken from another image? */
  bool in_order() const { return out_ && options_.stream; }
  const std::string& name() const { return name_; }
  /** Bytes of the whole image, not compressed. Valid after begin(). */
  std::uint64_t file_size() const { return file_size_; }
  bool compressed() const { return compressor_ != nullptr; }
  /** Bytes of the file as it is compressed. Valid after finish(). */
  std::uint64_t compressed_size() const { return put_out_; }
  /** Bytes of pages and blob content, without pages of zeros, that were written so far. */
  std::uint64_t stored_bytes() const { return stored_.load(); }

 private:
  void put(std::uint64_t offset, const void* buf, std::size_t len);
  void put_sparse(std::uint64_t offset, const void* buf, std::size_t len);
  void send(std::uint64_t offset, const char* data, std::size_t len);
  void out(const char* data, std::size_t len);
  void put_out(const char* data, std::size_t len);
  /** Place in fd_ of what belongs at @p offset of the image. */
  std::uint64_t place(std::uint64_t offset) const { return in_order() ? offset - blob_offset_ : offset; }
  bool next_data(int fd, std::uint64_t& at, std::uint64_t& upto, std::uint64_t end);
  void copy_data(int from, std::uint64_t at, std::uint64_t offset, std::uint64_t len);
  /** Call @p use(offset in the file, number of the first page, bytes) for each part of [addr, addr + len) in one run. */
  template <class Use>
  void in_runs(std::uint64_t addr, std::uint64_t len, const Use& use) const;
  void hash_partial_blocks();
  void spool_to(UniqueFd fd);
  void finish_spooling();
  void give_name(int fd);
  void publish();
  [[noreturn]] void fail(const std::string& what, int err) const;

  void keep_backup();

  std::string name_;  // for messages
  WriterOptions options_;
  UniqueFd fd_;                         // the file that is written
  UniqueFd dir_;                        // directory of the final name
  UniqueFd out_;                        // if spooling: where to. in_order(): fd_ is for what follows the pages
  std::uint64_t sent_ = 0;              // in_order(): bytes of the image written to it
  std::uint64_t put_out_ = 0;           // bytes written to out_
  std::uint64_t out_most_ = UINT64_MAX; // bytes that RLIMIT_FSIZE lets us write to out_
  std::unique_ptr<image::Compressor> compressor_;
  std::string final_name_, temp_name_;  // inside dir_; temp_name_ empty: unnamed file
  bool in_place_ = false;               // the caller's own file is replaced
  bool touched_ = false;                // the file was truncated or written to
  bool finished_ = false;
  std::vector<cr_page_run> runs_;
  std::string head_;  // bytes [0, pages offset)
  std::vector<std::uint64_t> hashes_, blob_hashes_;
  std::vector<std::uint8_t> page_written_, block_hashed_;
  std::uint64_t pages_offset_ = 0, blob_offset_ = 0, blob_size_ = 0, file_size_ = 0;
  std::atomic<std::uint64_t> stored_{0};
  // The kernel serializes writes to a file (inode rwsem) and lets waiters spin. With this mutex they sleep.
  std::mutex writing_;
  /** A range of another image without holes. Under writing_. */
  struct {
    int fd = -1;
    std::uint64_t from = 0, upto = 0;
  } data_;
};

}  // namespace reprise
