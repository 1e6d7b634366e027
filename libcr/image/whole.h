// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * An image as a file that stands alone: of a delta image, what write_whole() (delta.h) makes of it, without writing that
 * first. To copy an image to where its bases are not.
 */
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "image/reader.h"

namespace reprise {

class WholeImage {
 public:
  /** Lay the file out. The image must outlive this. @throws Error (permanent) when checksums of pages are damaged */
  explicit WholeImage(const Image& image);

  std::uint64_t file_size() const { return file_size_; }
  /** As Image::checksum() of the file. */
  std::uint64_t checksum() const { return checksum_; }
  /** As Image::read_file(), of the file. */
  void read_file(const Image* base, const Image::Part& use) const;
  /**
   * Read @p len bytes at @p offset of the file, which has them. Pages and shared content among them are verified.
   * @throws Error as Image::verify()
   */
  void read(std::uint64_t offset, char* buf, std::size_t len) const;

 private:
  struct Run {
    PageRun pages;
    std::uint64_t offset;  // in the file
  };
  /** Read what there is at @p offset up to the next part of the file. @return bytes read, at most @p len */
  std::size_t read_some(std::uint64_t offset, char* buf, std::size_t len) const;
  std::size_t read_pages(const Run& run, std::uint64_t offset, char* buf, std::size_t len) const;
  const Image& image_;
  std::uint64_t file_size_, checksum_;
  std::vector<Run> runs_;  // in the order of the file
  std::uint64_t blob_offset_;
  std::string head_, tail_;  // of a delta image only: before the pages, and behind the blob section
};

/** @return all runs of pages of @p image by address, those of the vdso included */
std::vector<PageRun> all_runs(const Image& image);

/** @return the pages of @p runs, which are sorted: adjacent ones as one range, whatever file has them */
std::vector<cr_range> page_ranges(std::span<const PageRun> runs);

}  // namespace reprise
