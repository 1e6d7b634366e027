// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Read an image. Opening it checks headers, notes and seal, but neither the pages
 * nor the table of their checksums. These are verified where they are
 * used. Every defect of an image is an Error that names the image.
 */
#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "cr.h"
#include "image/checksum_table.h"
#include "image/file_place.h"
#include "image/format.h"
#include "image/state.pb.h"

namespace reprise {

namespace image {
struct Loaded;
}

class Image {
 public:
  /** Called repeatedly with bytes done and bytes in total, from one thread at a time. */
  using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

  /**
   * Open and check, including the meaning of the state (validate.h).
   * @throws Error permanent (damaged, truncated, not an image, of a newer format), usage (no such file)
   */
  static Image open(const std::string& path);
  /**
   * As above, for an open descriptor. What comes from a descriptor that cannot seek (a pipe), and what is compressed
   * (compression.h), is first written to a temporary file.
   */
  static Image open(UniqueFd fd, const std::string& name);

  const std::string& name() const { return name_; }
  /**
   * The files that its pages are in: first the image itself, or an unnamed copy of it when it came from a pipe or is
   * compressed; then its bases, in the order of bases().
   */
  std::size_t files() const { return files_.size(); }
  int fd(std::size_t file = 0) const { return files_[file].fd.get(); }
  /** The files with the pages that a delta image does not have itself; none: the image stands alone. */
  const std::vector<Base>& bases() const { return bases_; }
  /** Where the file was when it was opened; empty for a pipe. */
  const image::FilePlace& place() const { return place_; }
  /** User who owns the file, and can forge its content; of an image from a pipe, ours. */
  uid_t owner() const { return owner_; }
  const Process& process() const { return *process_; }
  /** Identity of the checkpoint, in the module's format. */
  std::array<std::uint8_t, CR_ID_SIZE> id() const;

  /** Registers of all threads, in the order of process().threads(). */
  const std::vector<ThreadRegs>& threads() const { return threads_; }
  /** Registers of thread @p tid. Throws Error (permanent) when the image has no such thread. */
  const ThreadRegs& regs(pid_t tid) const;

  /**
   * The saved pages, sorted by address, for CR_IOC_RESTORE with fd(run.file) as source_fd.
   * Pages of the vdso are not included: they are for debuggers only.
   */
  const std::vector<PageRun>& runs() const { return runs_; }
  /** @return the parts of runs() that lie in @p range, extended to whole pages */
  std::vector<PageRun> runs_in(const cr_range& range) const;
  /** The saved pages of the vdso. */
  const std::vector<PageRun>& debug_runs() const { return debug_runs_; }
  bool has_page(std::uint64_t addr) const;
  /** @return the checksums of the pages of @p run, which is one of runs_in(). Throws Error (permanent) when they are damaged */
  std::span<const std::uint64_t> checksums(const PageRun& run) const;
  /** @return the checksums of the blocks of shared content */
  const std::vector<std::uint64_t>& blob_checksums() const { return blob_hashes_; }
  /** @return bytes of the pages that @p file has, whether this image needs them or not */
  std::uint64_t bytes_of_file(std::size_t file) const { return files_[file].table->pages() * image::kPage; }
  /** Whether the file has a page with that checksum at that offset. */
  bool has_page_at(std::uint64_t offset, std::uint64_t checksum) const;
  /** Whether the file has a block of @p len bytes of shared content with that checksum at that offset. */
  bool has_block_at(std::uint64_t offset, std::uint64_t len, std::uint64_t checksum) const;
  /** @return number of the first page of @p run in its file */
  std::uint64_t page_number(const PageRun& run) const;
  /** @return number of pages in runs() */
  std::uint64_t page_count() const;

  /**
   * Compare the saved pages that lie in @p ranges with their checksums. Reads
   * only those pages.
   * @param threads most threads to use, 0: as many as CPUs
   * @throws Error (permanent) naming the damaged page
   */
  void verify(std::span<const cr_range> ranges, unsigned threads = 0) const;
  /** Verify all pages and all blob content. @param threads as for verify() */
  void verify_all(unsigned threads = 0, const Progress& progress = {}) const;

  /** Read and verify whole pages at @p addr. Throws Error when a page is damaged or not saved. */
  void read_pages(std::uint64_t addr, void* buf, std::size_t len) const;
  /** The same for a part of one run, also of the vdso's (debug_runs()). */
  void read_run(const PageRun& run, void* buf) const;
  /** Read and verify content of the blob section at @p offset (SharedObject.Extent.blob_offset). Throws Error. */
  void read_blob(std::uint64_t offset, void* buf, std::size_t len) const;

  /** Called with a part of the file's content, and the offset of that part in the file. */
  using Part = std::function<void(std::uint64_t offset, std::span<const char> content)>;
  /**
   * Read the file from its beginning to its end, in parts of at most 1 MiB. Pages and shared content are verified first.
   * Pages in bases are not in the file; see whole.h for a file that has them.
   * @param base another image, or nullptr. Pages and blocks of shared content that it has at the same offset, as their
   *             checksums tell, are left out
   * @throws Error as verify()
   */
  void read_file(const Image* base, const Part& use) const;

  /**
   * Whether size, mtime or ctime of a file differ from when it was opened: its content may have changed, and pages
   * that were read from it without verification must be verified.
   */
  bool touched() const;
  /** Whether size or mtime do: its content has changed. Links to it may have come or gone. */
  bool written() const;

  /** Number of the format, see image/format.h. */
  std::uint32_t format() const { return seal_.format; }
  /** The checksum in the seal. By way of the tables it covers every byte of the file. */
  std::uint64_t checksum() const { return seal_.hash; }
  std::uint64_t file_size() const { return seal_.file_size; }
  /** Bytes of the file that was opened, if it is compressed; else 0. */
  std::uint64_t compressed_size() const { return compressed_size_; }
  /** Bytes of pages in the file; those in bases are not. */
  std::uint64_t page_bytes() const { return seal_.pages_size; }
  std::uint64_t blob_bytes() const { return seal_.blob_size; }
  /** Where the file has its shared content. */
  std::uint64_t blob_offset() const { return seal_.blob_offset; }
  /** Bytes of headers, notes and checksums. */
  std::uint64_t meta_bytes() const { return seal_.file_size - seal_.pages_size - seal_.blob_size; }

 private:
  struct Piece {                // contiguous bytes with checksums
    std::uint32_t file;
    std::uint64_t offset, len;  // in the file
    std::uint64_t seed;         // address, or offset in the blob
    std::uint64_t unit;         // bytes per hash; 0: headers or tables, which the seal covers
    const std::uint64_t* hashes;
  };
  struct Times {
    std::int64_t modified_ns, changed_ns;
    std::uint64_t size;
    bool operator==(const Times&) const = default;
  };
  struct File {
    std::string name;
    UniqueFd fd;
    Times opened;
    std::uint64_t pages_offset;
    std::unique_ptr<image::ChecksumTable> table;
  };
  Image() = default;
  static Times times_of(const std::string& name, int fd);
  void add_file(const std::string& name, UniqueFd fd, Times opened, image::Loaded& loaded);
  void sort_runs(const std::vector<cr_page_run>& own, const std::vector<PageRun>& elsewhere);
  std::vector<PageRun>::const_iterator first_after(std::uint64_t addr) const;  // first run that ends above addr
  Piece pages(const PageRun& run) const;
  Piece blob(std::uint64_t offset, std::uint64_t len) const;
  static Piece part(const Piece& piece, std::uint64_t from);
  void check(const Piece& piece, const char* data) const;
  void read_piece(const Piece& piece, const Image* base, std::vector<char>& buffer, const Part& use) const;
  void verify_pieces(const std::vector<Piece>& pieces, unsigned threads, const Progress& progress) const;

  std::string name_;
  std::vector<File> files_;
  std::vector<Base> bases_;
  image::FilePlace place_;
  uid_t owner_ = 0;
  std::uint64_t compressed_size_ = 0;
  image::Seal seal_{};
  std::unique_ptr<Process> process_;
  std::vector<ThreadRegs> threads_;
  std::map<pid_t, std::size_t> by_tid_;
  std::vector<PageRun> runs_;
  std::vector<PageRun> debug_runs_;  // of mappings that the kernel itself makes (the vdso)
  std::vector<std::uint64_t> blob_hashes_;
};

}  // namespace reprise
