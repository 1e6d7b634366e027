// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Small made-up images for the tests, and ways to damage them. */
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "image/format.h"
#include "image/state.pb.h"
#include "image/writer.h"

namespace reprise::test {

/** A temporary directory; the destructor removes it. */
class TempDir {
 public:
  TempDir();
  ~TempDir();
  std::string path(const std::string& name = "") const { return (dir_ / name).string(); }
  /** @return the names of all entries, hidden ones included */
  std::vector<std::string> entries() const;

 private:
  std::filesystem::path dir_;
};

/** Everything that goes into an image. */
struct Sample {
  Process process;
  std::vector<ThreadRegs> regs;
  std::vector<cr_range> runs;
  std::string blob;

  /** @return the content of page @p addr; some pages are all zeros */
  static std::string page(std::uint64_t addr);
  void write(ImageWriter& writer) const;
  void write(const std::string& path) const;
};

/** Two threads, five mappings, eleven saved pages, some descriptors, shared content of 100,000 bytes. */
Sample small_sample();

/** The same with a sixth mapping below the stack, of @p pages saved pages from @p addr on. */
Sample sample_with(std::uint64_t addr, std::uint64_t pages);

std::string read_file(const std::string& path);
void write_file(const std::string& path, std::string_view content);

/** Recompute the checksums of headers, notes and tables of an altered image. */
void reseal(std::string& image);
image::Seal seal_of(const std::string& image);
/** @return the same image in format 1 or 2 (image/format.h), as older versions wrote it */
std::string in_format(std::string image, std::uint32_t format);

/** @return the text of the Error that @p action throws, "" if it throws none */
std::string error_of(const std::function<void()>& action);

}  // namespace reprise::test
