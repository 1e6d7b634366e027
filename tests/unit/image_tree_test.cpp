// SPDX-License-Identifier: GPL-2.0-only
// Checksums are a tree: who opens an image does not read those of pages that are not used.
#include <gmock/gmock.h>

#include "base/error.h"
#include "image/reader.h"
#include "image/tail.h"
#include "image_sample.h"

namespace reprise::test {
namespace {

using image::kBlockPages;
using image::kPage;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kMany = 0x40000000, kPages = 3 * kBlockPages + 100;

class ImageTree : public testing::Test {
 protected:
  ImageTree() {
    sample.write(dir.path("image"));
    good = read_file(dir.path("image"));
    const image::Seal seal = seal_of(good);
    tail = seal.blob_offset + seal.blob_size;
    pages = seal.pages_size / kPage;
    at = image::TailLayout(seal.format, pages, seal.blob_size);
  }
  /** Change a byte and open the image. */
  Image with_damage_at(std::uint64_t place) const {
    std::string bad = good;
    bad[place] = static_cast<char>(bad[place] ^ 4);
    write_file(dir.path("bad"), bad);
    return Image::open(dir.path("bad"));
  }
  /** Of the page with number @p number in the file, in the table. */
  std::uint64_t place_of_checksum(std::uint64_t number) const { return tail + at.table + number * 8; }

  const TempDir dir;
  const Sample sample = sample_with(kMany, kPages);  // four blocks of the table of checksums
  std::string good;
  std::uint64_t tail = 0, pages = 0;
  image::TailLayout at{image::kTreeFormat, 0, 0};
};

TEST_F(ImageTree, EachBlockOfTheTableIsReadWhenItIsUsed) {
  const Image image = Image::open(dir.path("image"));
  const std::uint64_t first = image.page_number(image.runs_in({kMany, kPage})[0]);
  for (std::uint64_t block = 0; block * kBlockPages < pages; ++block) {
    const std::uint64_t from = block * kBlockPages, end = std::min(pages, from + kBlockPages);
    for (const std::uint64_t damaged : {from, from + 33, end - 1}) {
      const Image bad = with_damage_at(place_of_checksum(damaged));
      char page[kPage];
      for (std::uint64_t number = first; number < first + kPages; number += 7) {
        const std::uint64_t addr = kMany + (number - first) * kPage;
        const std::string problem = error_of([&] { bad.read_pages(addr, page, sizeof page); });
        if (number < from || number >= end)
          EXPECT_EQ(problem, "") << number;
        else
          EXPECT_THAT(problem, AllOf(HasSubstr("bad: "), HasSubstr("checksums of its pages " + std::to_string(from) + " to " +
                                                                    std::to_string(end - 1))));
      }
      EXPECT_THAT(error_of([&] { bad.verify_all(); }), HasSubstr("checksums of its pages"));
      EXPECT_THAT(error_of([&] { bad.read_file(nullptr, [](std::uint64_t, std::span<const char>) {}); }),
                  HasSubstr("checksums of its pages"));
    }
  }
}

TEST_F(ImageTree, ItsUpperLevelIsReadAtOnce) {
  for (const std::uint64_t place : {at.tree, at.tree + 8, at.tree + at.tree_size - 1, at.blob, at.table - 1})
    EXPECT_THAT(error_of([&] { with_damage_at(tail + place); }), HasSubstr("is damaged: its headers")) << place;
  for (const std::uint64_t place : {100UL, 5000UL})
    EXPECT_THAT(error_of([&] { with_damage_at(place); }), HasSubstr("is damaged: its headers")) << place;
}

TEST_F(ImageTree, AnImageTakesNoPagesWhoseChecksumsAreDamaged) {
  const Image bad = with_damage_at(place_of_checksum(2 * kBlockPages));
  ImageWriter writer(dir.path("new"));
  writer.begin(sample.process, sample.regs, sample.runs);
  EXPECT_THAT(error_of([&] {
                for (const cr_range& run : sample.runs) writer.take_pages(bad, run);
              }),
              HasSubstr("checksums of its pages"));
}

TEST_F(ImageTree, ADamagedBaseDoesNotHaveThePages) {
  const Image base = with_damage_at(place_of_checksum(kBlockPages)), image = Image::open(dir.path("image"));
  std::uint64_t bytes = 0;
  image.read_file(&base, [&](std::uint64_t, std::span<const char> part) { bytes += part.size(); });
  EXPECT_GE(bytes, kBlockPages * kPage);
  EXPECT_LT(bytes, 2 * kBlockPages * kPage);
}

TEST_F(ImageTree, OlderFormatHasNone) {
  write_file(dir.path("old"), in_format(good, 1));
  const Image old = Image::open(dir.path("old")), image = Image::open(dir.path("image"));
  EXPECT_EQ(old.format(), 1U);
  EXPECT_EQ(image.format(), image::kTreeFormat);
  old.verify_all();
  ASSERT_EQ(old.runs().size(), image.runs().size());
  for (std::size_t i = 0; i < old.runs().size(); ++i) {
    const auto one = old.checksums(old.runs()[i]), other = image.checksums(image.runs()[i]);
    EXPECT_TRUE(std::equal(one.begin(), one.end(), other.begin(), other.end()));
  }
  std::string bad = in_format(good, 1);
  bad[place_of_checksum(3)] = static_cast<char>(bad[place_of_checksum(3)] ^ 4);
  write_file(dir.path("bad"), bad);
  EXPECT_THAT(error_of([&] { Image::open(dir.path("bad")); }), HasSubstr("is damaged")) << "its seal covers the whole table";
}

}  // namespace
}  // namespace reprise::test
