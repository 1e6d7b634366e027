// SPDX-License-Identifier: GPL-2.0-only
// Truncated and altered images are refused with a message that names the fault.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include "image/reader.h"
#include "image_sample.h"

namespace reprise::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

Image open_bytes(std::string_view bytes) {
  UniqueFd fd(::memfd_create("image", MFD_CLOEXEC));
  if (::write(fd.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    throw std::runtime_error("short write");
  return Image::open(std::move(fd), "IMAGE");
}

class ImageDamage : public testing::Test {
 protected:
  ImageDamage() {
    sample_.write(dir_.path("image"));
    good_ = read_file(dir_.path("image"));
    seal_ = seal_of(good_);
  }
  const TempDir dir_;
  const Sample sample_ = small_sample();
  std::string good_;
  image::Seal seal_;
};

TEST_F(ImageDamage, TheGoodOneOpens) { open_bytes(good_).verify_all(); }

TEST_F(ImageDamage, TruncatedAnywhere) {
  std::vector<std::size_t> sizes = {0,
                                    1,
                                    3,
                                    4,
                                    63,
                                    64,
                                    65,
                                    119,
                                    120,
                                    seal_.pages_offset,
                                    seal_.pages_offset + 1,
                                    seal_.blob_offset - 1,
                                    seal_.blob_offset,
                                    seal_.blob_offset + 1000};
  for (std::size_t size = 64; size < good_.size(); size += 4096) sizes.push_back(size), sizes.push_back(size + 11);
  for (std::size_t size = good_.size() - 600; size < good_.size(); ++size) sizes.push_back(size);
  for (std::size_t size : sizes) {
    const std::string text = error_of([&] { open_bytes(std::string_view(good_).substr(0, size)); });
    EXPECT_THAT(text, AllOf(HasSubstr("IMAGE: "), AnyOf(HasSubstr("cut short"), HasSubstr("not an image")))) << size;
  }
}

TEST_F(ImageDamage, SomethingAtItsEnd) {
  EXPECT_THAT(error_of([&] { open_bytes(good_ + "x"); }), HasSubstr("seal"));
  EXPECT_THAT(error_of([&] { open_bytes(good_ + std::string(4096, '\0')); }), HasSubstr("seal"));
  EXPECT_THAT(error_of([&] { open_bytes(good_ + good_); }), HasSubstr("size"));
}

TEST_F(ImageDamage, EveryByteOfHeadersAndNotes) {
  // This also checks that every refusal is an Error that names the image.
  std::string image = good_;
  const auto try_at = [&](std::size_t at) {
    image[at] = static_cast<char>(image[at] ^ (1 << (at % 8)));
    const std::string text = error_of([&] { open_bytes(image).verify_all(); });  // checksums of pages are checked with them
    EXPECT_THAT(text, HasSubstr("IMAGE: ")) << at;
    image[at] = good_[at];
  };
  for (std::size_t at = 0; at < seal_.pages_offset; ++at) try_at(at);
  for (std::size_t at = seal_.blob_offset + seal_.blob_size; at < good_.size(); ++at) try_at(at);
}

TEST_F(ImageDamage, PagesAreFoundByVerifying) {
  const Image whole = open_bytes(good_);
  for (const auto& run : whole.runs())
    for (std::uint64_t at = 0; at < run.len; at += 4093) {
      std::string image = good_;
      image[run.offset + at] = static_cast<char>(image[run.offset + at] ^ 0x80);
      const Image damaged = open_bytes(image);  // opening reads no pages
      const std::uint64_t page = (run.addr + at) & ~0xfffULL;
      char name[32];
      std::snprintf(name, sizeof name, "page %llx", static_cast<unsigned long long>(page));
      EXPECT_THAT(error_of([&] { damaged.verify_all(2); }), AllOf(HasSubstr("IMAGE: "), HasSubstr(name)));
      const cr_range bad{page, 4096};
      EXPECT_THAT(error_of([&] { damaged.verify({&bad, 1}); }), HasSubstr(name));
      char buffer[4096];
      EXPECT_THAT(error_of([&] { damaged.read_pages(page, buffer, sizeof buffer); }), HasSubstr(name));
      // The other pages remain usable.
      const cr_range others[] = {{0, page}, {page + 4096, 0x7ffffffff000 - page - 4096}};
      EXPECT_EQ(error_of([&] { damaged.verify(others); }), "");
    }
}

TEST_F(ImageDamage, SwappedPagesAreFound) {
  const Image whole = open_bytes(good_);
  std::string image = good_;
  const std::size_t a = whole.runs()[1].offset, b = a + 2 * 4096;
  image.replace(a, 4096, good_, b, 4096);
  image.replace(b, 4096, good_, a, 4096);
  EXPECT_THAT(error_of([&] { open_bytes(image).verify_all(); }), HasSubstr("page 20004000"));
}

TEST_F(ImageDamage, SharedContentIsFoundByVerifying) {
  for (std::size_t at : {std::size_t{0}, std::size_t{65535}, std::size_t{65536}, sample_.blob.size() - 1}) {
    std::string image = good_;
    image[seal_.blob_offset + at] ^= 1;
    const Image damaged = open_bytes(image);
    EXPECT_THAT(error_of([&] { damaged.verify_all(); }), HasSubstr(at < 65536 ? "offset 0" : "offset 10000"));
    char byte;
    EXPECT_THAT(error_of([&] { damaged.read_blob(at, &byte, 1); }), HasSubstr("shared content"));
  }
}

TEST_F(ImageDamage, LowestDamagedPageIsNamed) {
  std::string image = good_;
  for (std::uint64_t at = seal_.pages_offset; at < seal_.blob_offset; at += 4096) image[at] ^= 1;
  EXPECT_THAT(error_of([&] { open_bytes(image).verify_all(4); }), HasSubstr("page 10001000"));
}

TEST_F(ImageDamage, CutWhileOpen) {
  UniqueFd fd(::memfd_create("image", MFD_CLOEXEC));
  ASSERT_EQ(::write(fd.get(), good_.data(), good_.size()), static_cast<ssize_t>(good_.size()));
  UniqueFd other(::dup(fd.get()));
  const Image image = Image::open(std::move(fd), "IMAGE");
  ASSERT_EQ(::ftruncate(other.get(), static_cast<off_t>(seal_.pages_offset)), 0);
  EXPECT_THAT(error_of([&] { image.verify_all(); }), HasSubstr("cut short"));
}

TEST(ImageOpen, ThingsThatAreNoImages) {
  const TempDir dir;
  EXPECT_THAT(error_of([&] { Image::open(dir.path("nothing")); }), HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] { Image::open(dir.path()); }), HasSubstr("is a directory"));
  EXPECT_THAT(error_of([&] { Image::open("/dev/null"); }), HasSubstr("not a regular file"));
  EXPECT_THAT(error_of([&] { Image::open("/proc/self/exe"); }), HasSubstr("no core file"));
  write_file(dir.path("text"), "just some text\n");
  EXPECT_THAT(error_of([&] { Image::open(dir.path("text")); }), HasSubstr("no ELF file"));
  write_file(dir.path("zeros"), std::string(100000, '\0'));
  EXPECT_THAT(error_of([&] { Image::open(dir.path("zeros")); }), HasSubstr("no ELF file"));
}

}  // namespace
}  // namespace reprise::test
