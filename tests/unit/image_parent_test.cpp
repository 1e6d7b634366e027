// SPDX-License-Identifier: GPL-2.0-only
// An image takes pages of another one as they are.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "base/error.h"
#include "image/reader.h"
#include "image_sample.h"

namespace reprise::test {
namespace {

using image::kPage;
using testing::HasSubstr;

/** Write @p sample. It takes the pages for which @p inherited is true from @p parent; all others consist of 'c'. */
template <class Inherited>
void write_with(ImageWriter& writer, const Sample& sample, const Image& parent, const Inherited& inherited) {
  writer.begin(sample.process, sample.regs, sample.runs);
  for (const auto& run : sample.runs)
    for (std::uint64_t at = run.addr; at < run.addr + run.len; at += kPage) {
      if (inherited(at))
        writer.take_pages(parent, {at, kPage});
      else
        writer.write_pages(at, std::string(kPage, 'c').data(), kPage);
    }
  writer.write_blob(0, sample.blob.data(), sample.blob.size());
  writer.finish();
}

template <class Inherited>
void expect_pages(const Image& image, const Sample& sample, const Inherited& inherited) {
  image.verify_all();
  for (const auto& run : sample.runs)
    for (std::uint64_t at = run.addr; at < run.addr + run.len; at += kPage) {
      std::string page(kPage, 'x');
      image.read_pages(at, page.data(), page.size());
      EXPECT_EQ(page, inherited(at) ? Sample::page(at) : std::string(kPage, 'c')) << std::hex << at;
    }
}

const auto all = [](std::uint64_t) { return true; };
const auto every_other = [](std::uint64_t at) { return at / kPage % 2 == 0; };

class ImageParent : public testing::Test {
 protected:
  ImageParent() { sample.write(dir.path("parent")); }
  Image parent() const { return Image::open(dir.path("parent")); }
  const TempDir dir;
  const Sample sample = small_sample();
};

TEST_F(ImageParent, EverythingIsTaken) {
  {
    ImageWriter writer(dir.path("image"));
    write_with(writer, sample, parent(), all);
  }
  EXPECT_EQ(read_file(dir.path("image")), read_file(dir.path("parent")));
  struct stat old, made;
  ASSERT_EQ(::stat(dir.path("parent").c_str(), &old), 0);
  ASSERT_EQ(::stat(dir.path("image").c_str(), &made), 0);
  EXPECT_LE(made.st_blocks, old.st_blocks) << "holes of the parent are holes";
}

TEST_F(ImageParent, SomePagesAreTaken) {
  ImageWriter writer(dir.path("image"));
  write_with(writer, sample, parent(), every_other);
  expect_pages(Image::open(dir.path("image")), sample, every_other);
}

TEST_F(ImageParent, RangesSpanRunsAndHoles) {
  ImageWriter writer(dir.path("image"));
  writer.begin(sample.process, sample.regs, sample.runs);
  const auto& last = sample.runs.back();
  const std::uint64_t start = sample.runs.front().addr;
  writer.take_pages(parent(), {start, last.addr + last.len - start});
  writer.write_blob(0, sample.blob.data(), sample.blob.size());
  writer.finish();
  expect_pages(Image::open(dir.path("image")), sample, all);
}

TEST_F(ImageParent, TheLayoutMayDiffer) {
  Sample fewer = sample;
  fewer.runs.erase(fewer.runs.begin());
  ImageWriter writer(dir.path("image"));
  write_with(writer, fewer, parent(), every_other);
  expect_pages(Image::open(dir.path("image")), fewer, every_other);
}

TEST_F(ImageParent, ReplacedByItsChild) {
  const Image old = parent();
  ImageWriter writer(dir.path("parent"), {.clobber = true});
  write_with(writer, sample, old, every_other);
  expect_pages(parent(), sample, every_other);
}

// The image is spooled to a file that may be on another file system.
TEST_F(ImageParent, ThroughAPipe) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  std::thread feeder([&] {
    ImageWriter writer(UniqueFd(ends[1]), "pipe");
    write_with(writer, sample, parent(), every_other);
  });
  const Image image = Image::open(UniqueFd(ends[0]), "pipe");
  feeder.join();
  expect_pages(image, sample, every_other);
}

TEST_F(ImageParent, ToAnotherFileSystem) {
  struct stat here, there;
  if (::stat("/dev/shm", &there) != 0 || ::stat(dir.path().c_str(), &here) != 0 || here.st_dev == there.st_dev)
    GTEST_SKIP() << "/dev/shm is no other file system";
  UniqueFd fd(::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_TRUE(fd);
  ImageWriter writer(UniqueFd(::dup(fd.get())), "elsewhere");
  write_with(writer, sample, parent(), every_other);
  expect_pages(Image::open(std::move(fd), "elsewhere"), sample, every_other);
}

TEST_F(ImageParent, PagesThatWereNotAnnounced) {
  Sample fewer = sample;
  const cr_range dropped = fewer.runs.front();
  fewer.runs.erase(fewer.runs.begin());
  ImageWriter writer(dir.path("image"));
  writer.begin(fewer.process, fewer.regs, fewer.runs);
  EXPECT_THAT(error_of([&] { writer.take_pages(parent(), dropped); }), HasSubstr("not one that was announced"));
}

TEST_F(ImageParent, DamageIsInheritedAndFound) {
  const Image old = parent();
  const auto& run = old.runs().front();
  std::string content = read_file(dir.path("parent"));
  content[run.offset] = static_cast<char>(content[run.offset] ^ 1);
  const UniqueFd fd(::open(dir.path("parent").c_str(), O_WRONLY));
  ASSERT_EQ(::pwrite(fd.get(), content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
  {
    ImageWriter writer(dir.path("image"));
    write_with(writer, sample, old, all);
  }
  EXPECT_TRUE(old.touched());
  EXPECT_THAT(error_of([&] { Image::open(dir.path("image")).verify_all(); }), HasSubstr("does not match its checksum"));
}

TEST_F(ImageParent, CutShortMeanwhile) {
  const Image old = parent();
  ASSERT_EQ(::truncate(dir.path("parent").c_str(), static_cast<off_t>(old.runs().front().offset)), 0);
  {
    ImageWriter writer(dir.path("image"));
    EXPECT_NE(error_of([&] { write_with(writer, sample, old, all); }), "");
  }
  EXPECT_NE(::access(dir.path("image").c_str(), F_OK), 0);
}

}  // namespace
}  // namespace reprise::test
