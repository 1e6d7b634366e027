// SPDX-License-Identifier: GPL-2.0-only
// Compressed images: to files, descriptors and pipes, and back; damaged ones are refused.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/error.h"
#include "image/compression.h"
#include "image/reader.h"
#include "image_sample.h"

namespace reprise::test {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Compressed : public testing::TestWithParam<const char*> {
 protected:
  WriterOptions options() const { return {.clobber = true, .sync = false, .compression = Compression::parse(GetParam()), .stream = true}; }
  std::string compressed(const std::string& content) const {
    std::string out;
    const auto compressor = image::make_compressor(Compression::parse(GetParam()), "IMAGE",
                                                   [&](const char* data, std::size_t len) { out.append(data, len); });
    compressor->write(content.data(), content.size());
    compressor->finish();
    return out;
  }
  /** The bytes of the sample's image, not compressed. */
  std::string plain() const {
    small_sample().write(dir.path("plain"));
    std::string content = read_file(dir.path("plain"));
    ::unlink(dir.path("plain").c_str());
    return content;
  }
  void expect_sample(const Image& image) const {
    const Sample sample = small_sample();
    image.verify_all();
    char page[image::kPage];
    for (const PageRun& run : image.runs())
      for (std::uint64_t at = run.addr; at < run.addr + run.len; at += image::kPage) {
        image.read_pages(at, page, sizeof page);
        EXPECT_EQ(std::string(page, sizeof page), Sample::page(at));
      }
    std::string blob(sample.blob.size(), 0);
    image.read_blob(0, blob.data(), blob.size());
    EXPECT_EQ(blob, sample.blob);
  }
  const TempDir dir;
};

INSTANTIATE_TEST_SUITE_P(Methods, Compressed, testing::Values("lz4", "zstd", "lz4:9", "zstd:19"),
                         [](const auto& one) { return (one.param[0] == 'l' ? "lz4_" : "zstd_") + std::to_string(one.index); });

TEST_P(Compressed, AFileIsWrittenAndRead) {
  ImageWriter writer(dir.path("image"), options());
  EXPECT_TRUE(writer.in_order());
  small_sample().write(writer);
  struct stat st;
  ASSERT_EQ(::stat(dir.path("image").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600U);
  EXPECT_EQ(static_cast<std::uint64_t>(st.st_size), writer.compressed_size());
  EXPECT_LT(writer.compressed_size(), writer.file_size());
  const Image image = Image::open(dir.path("image"));
  expect_sample(image);
  EXPECT_EQ(image.compressed_size(), writer.compressed_size());
  EXPECT_THAT(dir.entries(), ElementsAre("image"));
}

TEST_P(Compressed, ItIsTheWholeImage) {
  const std::string content = plain();
  small_sample().write(*std::make_unique<ImageWriter>(dir.path("image"), options()));
  UniqueFd fd(::open(dir.path("image").c_str(), O_RDONLY));
  const UniqueFd expanded = image::expand(fd.get(), "image");
  ASSERT_TRUE(expanded);
  std::string got(content.size() + 1, 0);
  ASSERT_EQ(::pread(expanded.get(), got.data(), got.size(), 0), static_cast<ssize_t>(content.size()));
  got.pop_back();
  EXPECT_EQ(got, content);
  struct stat st;
  ASSERT_EQ(::fstat(expanded.get(), &st), 0);
  EXPECT_LT(st.st_blocks * 512, st.st_size) << "pages of zeros are holes";
}

// Nothing is known of the order of pages that come from a parent.
TEST_P(Compressed, PagesInAnyOrder) {
  WriterOptions any = options();
  any.stream = false;
  ImageWriter writer(dir.path("image"), any);
  EXPECT_FALSE(writer.in_order());
  const Sample sample = small_sample();
  writer.begin(sample.process, sample.regs, sample.runs);
  for (auto run = sample.runs.rbegin(); run != sample.runs.rend(); ++run)
    for (std::uint64_t at = run->addr; at < run->addr + run->len; at += image::kPage)
      writer.write_pages(at, Sample::page(at).data(), image::kPage);
  writer.write_blob(0, sample.blob.data(), sample.blob.size());
  writer.finish();
  expect_sample(Image::open(dir.path("image")));
}

TEST_P(Compressed, AFileIsReplacedInPlace) {
  write_file(dir.path("image"), std::string(1 << 20, 'x'));
  {
    ImageWriter writer(UniqueFd(::open(dir.path("image").c_str(), O_RDWR)), "descriptor", options());
    small_sample().write(writer);
    EXPECT_EQ(read_file(dir.path("image")).size(), writer.compressed_size());
  }
  expect_sample(Image::open(dir.path("image")));
  {
    const Sample sample = small_sample();
    ImageWriter writer(UniqueFd(::open(dir.path("image").c_str(), O_RDWR)), "descriptor", options());
    writer.begin(sample.process, sample.regs, sample.runs);
  }
  EXPECT_EQ(read_file(dir.path("image")), "") << "half an image is none";
}

TEST_P(Compressed, ThroughAPipe) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  std::thread writing([this, fd = ends[1]] {
    ImageWriter writer(UniqueFd(fd), "pipe", options());
    small_sample().write(writer);
  });
  expect_sample(Image::open(UniqueFd(ends[0]), "pipe"));
  writing.join();
}

TEST_P(Compressed, AbandonedLeavesNothing) {
  const Sample sample = small_sample();
  {
    ImageWriter writer(dir.path("image"), options());
    writer.begin(sample.process, sample.regs, sample.runs);
  }
  EXPECT_THAT(dir.entries(), IsEmpty());
}

TEST_P(Compressed, SeveralStreamsOneAfterTheOther) {
  const std::string content = plain();
  write_file(dir.path("image"), compressed(content.substr(0, 5000)) + compressed(content.substr(5000)));
  expect_sample(Image::open(dir.path("image")));
}

TEST_P(Compressed, LargeContent) {
  std::string content = "\177ELF";
  for (unsigned i = 0; content.size() < (5 << 20); i = i * 1664525 + 1013904223) content.append(reinterpret_cast<char*>(&i), 4);
  content += std::string(3 << 20, 0);
  write_file(dir.path("image"), compressed(content));
  UniqueFd fd(::open(dir.path("image").c_str(), O_RDONLY));
  const UniqueFd expanded = image::expand(fd.get(), "image");
  std::string got(content.size(), 1);
  ASSERT_EQ(::pread(expanded.get(), got.data(), got.size(), 0), static_cast<ssize_t>(content.size()));
  EXPECT_TRUE(got == content);
}

TEST_P(Compressed, DamageIsFound) {
  const std::string content = compressed(plain());
  const auto refusal = [&](std::string bytes) {
    write_file(dir.path("image"), bytes);
    return error_of([&] { Image::open(dir.path("image")).verify_all(); });
  };
  EXPECT_EQ(refusal(content), "");
  int found = 0, all = 0;
  for (std::size_t at = 4; at < content.size(); at += 1 + content.size() / 200) {
    std::string damaged = content;
    damaged[at] ^= 0x10;
    const std::string error = refusal(damaged);  // "" where the bit is unused: all pages are verified
    EXPECT_THAT(error, AnyOf(HasSubstr("image: "), IsEmpty())) << at;
    found += !error.empty();
    ++all;
  }
  EXPECT_GT(found, all * 9 / 10);
  for (std::size_t len = 5; len < content.size(); len += 1 + content.size() / 50)
    EXPECT_THAT(refusal(content.substr(0, len)), AnyOf(HasSubstr("is cut off"), HasSubstr("not an image"))) << len;
  EXPECT_THAT(refusal(content + "the rest of the file"), HasSubstr("is damaged"));
  EXPECT_THAT(refusal(compressed(std::string(100 << 20, 'x'))), HasSubstr("is not an image"));
  EXPECT_THAT(refusal(compressed("")), HasSubstr("is not an image"));
}

// Runs in a child, because the limit applies to a whole process. SIGXFSZ must not be delivered.
TEST_P(Compressed, FileSizeLimit) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{101000, 101000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      std::string content = "\177ELF";
      for (unsigned i = 0; content.size() < (1 << 20); i = i * 1664525 + 1013904223) content.append(reinterpret_cast<char*>(&i), 4);
      ImageWriter writer(UniqueFd(::open(dir.path("image").c_str(), O_RDWR | O_CREAT, 0600)), "descriptor", options());
      Sample sample = small_sample();
      sample.blob = content.substr(0, sample.blob.size());
      sample.write(writer);
    } catch (const Error& error) {
      ::_exit(error.kind() == Failure::temporary && error.code() == EFBIG ? 0 : 2);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Compression, NamesAndLevels) {
  EXPECT_EQ(Compression::parse("zstd:19").level, 19);
  EXPECT_EQ(Compression::parse("lz4").level, 0);
  EXPECT_THAT(error_of([] { Compression::parse("gzip"); }), HasSubstr("'gzip' is no compression: lz4 and zstd are"));
  for (const char* text : {"zstd:", "zstd:x", "zstd:0", "zstd:-1", "zstd:1x", "zstd:99", "lz4:13", ""})
    EXPECT_NE(error_of([&] { Compression::parse(text); }), "") << text;
}

TEST(Compression, AnImageOfAnotherUserIsKnownAsSuch) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give a file away";
  const TempDir dir;
  ImageWriter writer(dir.path("image"), {.compression = Compression::parse("lz4"), .stream = true});
  small_sample().write(writer);
  ASSERT_EQ(::chown(dir.path("image").c_str(), 1234, 0), 0);
  EXPECT_EQ(Image::open(dir.path("image")).owner(), 1234U);
}

}  // namespace
}  // namespace reprise::test
