// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Reading an image. Opening checks headers, notes and their seal and reads the
 * table of page checksums, never the pages; these are verified where they are
 * used. Whatever is wrong with an image is an Error that names it.
 */
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
#include "image/format.h"
#include "image/state.pb.h"

namespace reprise {

class Image {
 public:
  /** done, total: bytes. Called now and then, from one thread at a time. */
  using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

  /**
   * Open and check, including the meaning of the state (validate.h).
   * @throws Error permanent (damaged, truncated, not an image, of a newer format), usage (no such file)
   */
  static Image open(const std::string& path);
  /** The same for an open descriptor; what cannot be sought in (a pipe) is copied to memory first. */
  static Image open(UniqueFd fd, const std::string& name);

  const std::string& name() const { return name_; }
  int fd() const { return fd_.get(); }
  const Process& process() const { return *process_; }
  /** Identity of the checkpoint, as the module wants it. */
  std::array<std::uint8_t, CR_ID_SIZE> id() const;

  /** In the order of process().threads(). */
  const std::vector<ThreadRegs>& threads() const { return threads_; }
  /** Registers of @p tid; throws Error when the image has no such thread. */
  const ThreadRegs& regs(pid_t tid) const;

  /**
   * The saved pages, sorted by address: usable for CR_IOC_RESTORE with fd() as
   * source_fd. Without those of the vdso, which are for debuggers only.
   */
  const std::vector<cr_page_run>& runs() const { return runs_; }
  /** The parts of the saved pages that lie in @p range. */
  std::vector<cr_page_run> runs_in(const cr_range& range) const;
  bool has_page(std::uint64_t addr) const;
  /** Pages in runs(). */
  std::uint64_t page_count() const;

  /**
   * Compare the saved pages that lie in @p ranges with their checksums: costs
   * what those pages cost to read. @throws Error naming the damaged page
   */
  void verify(std::span<const cr_range> ranges, unsigned threads = 0) const;
  /** Everything: all pages, all blob content. @param threads 0: as many as CPUs */
  void verify_all(unsigned threads = 0, const Progress& progress = {}) const;

  /** Read saved pages (whole pages; all must be saved), verified. */
  void read_pages(std::uint64_t addr, void* buf, std::size_t len) const;
  /** Read from the blob section (SharedObject.Extent.blob_offset), verified. */
  void read_blob(std::uint64_t offset, void* buf, std::size_t len) const;

  /** Has the file changed, or may it have, since it was opened? What is read from it unverified must be verified then. */
  bool touched() const;

  std::uint64_t file_size() const { return seal_.file_size; }
  std::uint64_t page_bytes() const { return seal_.pages_size; }
  std::uint64_t blob_bytes() const { return seal_.blob_size; }
  /** Bytes of headers, notes and checksums. */
  std::uint64_t meta_bytes() const { return seal_.file_size - seal_.pages_size - seal_.blob_size; }

 private:
  struct Piece {                // contiguous bytes under checksums
    std::uint64_t offset, len;  // in the file
    std::uint64_t seed;         // address, or offset in the blob
    std::uint64_t unit;         // bytes under one hash
    const std::uint64_t* hashes;
  };
  Image() = default;
  void sort_runs(const std::vector<cr_page_run>& runs);
  std::vector<cr_page_run>::const_iterator first_after(std::uint64_t addr) const;  // first run that ends above
  Piece pages(const cr_page_run& run) const;
  Piece blob(std::uint64_t offset, std::uint64_t len) const;
  static Piece part(const Piece& piece, std::uint64_t from);
  void check(const Piece& piece, const char* data) const;
  void verify_pieces(const std::vector<Piece>& pieces, unsigned threads, const Progress& progress) const;

  std::string name_;
  UniqueFd fd_;
  struct Times {
    std::int64_t modified_ns, changed_ns;
    std::uint64_t size;
    bool operator==(const Times&) const = default;
  };
  Times times() const;
  Times opened_{};
  image::Seal seal_{};
  std::unique_ptr<Process> process_;
  std::vector<ThreadRegs> threads_;
  std::map<pid_t, std::size_t> by_tid_;
  std::vector<cr_page_run> runs_;
  std::vector<cr_page_run> debug_runs_;  // of mappings that the kernel makes itself
  std::unique_ptr<std::uint64_t[]> tail_;
  std::span<const std::uint64_t> hashes_;  // in tail_
  std::vector<std::uint64_t> blob_hashes_;
};

}  // namespace reprise
