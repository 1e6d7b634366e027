// SPDX-License-Identifier: GPL-2.0-only
// An image is read as a file, without what another one has already.
#include <gmock/gmock.h>

#include "base/error.h"
#include "image/reader.h"
#include "image_sample.h"

namespace reprise::test {
namespace {

using image::kBlobBlock;
using image::kPage;
using testing::HasSubstr;

class ImageReadFile : public testing::Test {
 protected:
  ImageReadFile() { sample.write(dir.path("base")); }
  /** Write @p made as "image", with other content of the pages of which @p changed is true. */
  template <class Changed>
  void write(const Sample& made, const Changed& changed) const {
    ImageWriter writer(dir.path("image"), {.clobber = true});
    writer.begin(made.process, made.regs, made.runs);
    for (const auto& run : made.runs)
      for (std::uint64_t at = run.addr; at < run.addr + run.len; at += kPage)
        writer.write_pages(at, (changed(at) ? std::string(kPage, 'c') : Sample::page(at)).data(), kPage);
    writer.write_blob(0, made.blob.data(), made.blob.size());
    writer.finish();
  }
  /** Write what read_file() gives over the base. @return the bytes written */
  std::uint64_t write_over_base(std::string& content) const {
    const Image base = Image::open(dir.path("base")), image = Image::open(dir.path("image"));
    content = read_file(dir.path("base"));
    content.resize(image.file_size());
    std::uint64_t bytes = 0, behind = 0;
    image.read_file(&base, [&](std::uint64_t offset, std::span<const char> part) {
      EXPECT_GE(offset, behind);
      behind = offset + part.size();
      bytes += part.size();
      content.replace(offset, part.size(), part.data(), part.size());
    });
    return bytes;
  }
  const TempDir dir;
  const Sample sample = small_sample();
};

const auto nothing = [](std::uint64_t) { return false; };

TEST_F(ImageReadFile, Whole) {
  const Image base = Image::open(dir.path("base"));
  std::string content;
  base.read_file(nullptr, [&](std::uint64_t offset, std::span<const char> part) {
    EXPECT_EQ(offset, content.size());
    content.append(part.data(), part.size());
  });
  EXPECT_EQ(content, read_file(dir.path("base")));
}

TEST_F(ImageReadFile, OnlyHeadersAndTablesOfAnEqualOne) {
  write(sample, nothing);
  std::string content;
  const std::uint64_t meta = Image::open(dir.path("image")).meta_bytes();
  EXPECT_EQ(write_over_base(content), meta);
  EXPECT_EQ(content, read_file(dir.path("image")));
}

TEST_F(ImageReadFile, ChangedPages) {
  const std::uint64_t first = sample.runs.front().addr, last = sample.runs.back().addr;
  write(sample, [&](std::uint64_t at) { return at == first || at == last; });
  std::string content;
  EXPECT_EQ(write_over_base(content), Image::open(dir.path("image")).meta_bytes() + 2 * kPage);
  EXPECT_EQ(content, read_file(dir.path("image")));
}

TEST_F(ImageReadFile, AChangedBlockOfSharedContent) {
  Sample made = sample;
  made.blob[kBlobBlock + 5] ^= 1;
  write(made, nothing);
  std::string content;
  EXPECT_EQ(write_over_base(content), Image::open(dir.path("image")).meta_bytes() + made.blob.size() - kBlobBlock);
  EXPECT_EQ(content, read_file(dir.path("image")));
}

// The base has the same pages, but at other places of its file.
TEST_F(ImageReadFile, AnotherLayout) {
  Sample fewer = sample;
  fewer.runs.erase(fewer.runs.begin());
  write(fewer, nothing);
  std::string content;
  EXPECT_GT(write_over_base(content), Image::open(dir.path("image")).meta_bytes());
  EXPECT_EQ(content, read_file(dir.path("image")));
}

TEST_F(ImageReadFile, DamageIsFound) {
  const std::uint64_t offset = Image::open(dir.path("base")).runs().front().offset;
  std::string content = read_file(dir.path("base"));
  content[offset] ^= 1;
  write_file(dir.path("base"), content);
  const Image damaged = Image::open(dir.path("base"));
  EXPECT_THAT(error_of([&] { damaged.read_file(nullptr, [](std::uint64_t, std::span<const char>) {}); }),
              HasSubstr("does not match its checksum"));
}

TEST_F(ImageReadFile, EqualImagesHaveEqualChecksums) {
  write(sample, nothing);
  EXPECT_EQ(Image::open(dir.path("image")).checksum(), Image::open(dir.path("base")).checksum());
  write(sample, [&](std::uint64_t at) { return at == sample.runs.front().addr; });
  EXPECT_NE(Image::open(dir.path("image")).checksum(), Image::open(dir.path("base")).checksum());
}

}  // namespace
}  // namespace reprise::test
