// SPDX-License-Identifier: GPL-2.0-only
// A written image reads back unchanged, from every kind of output.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "image/reader.h"
#include "image_sample.h"

namespace reprise::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void expect_same(const Image& image, const Sample& sample) {
  EXPECT_EQ(image.process().SerializeAsString(), sample.process.SerializeAsString());
  ASSERT_EQ(image.threads().size(), sample.regs.size());
  for (const auto& regs : sample.regs) {
    EXPECT_EQ(std::memcmp(&image.regs(regs.tid).regs, &regs.regs, sizeof regs.regs), 0);
    EXPECT_EQ(image.regs(regs.tid).fpregs, regs.fpregs);
    EXPECT_EQ(image.regs(regs.tid).xstate, regs.xstate);
  }
  for (const auto& run : sample.runs)
    for (std::uint64_t at = run.addr; at < run.addr + run.len; at += image::kPage) {
      std::string page(image::kPage, 'x');
      image.read_pages(at, page.data(), page.size());
      EXPECT_EQ(page, Sample::page(at)) << std::hex << at;
    }
  std::string blob(sample.blob.size(), 'x');
  image.read_blob(0, blob.data(), blob.size());
  EXPECT_EQ(blob, sample.blob);
  image.verify_all();
}

TEST(ImageRoundTrip, Everything) {
  const TempDir dir;
  const Sample sample = small_sample();
  sample.write(dir.path("image"));
  const Image image = Image::open(dir.path("image"));
  expect_same(image, sample);
  EXPECT_EQ(image.page_bytes(), 11 * image::kPage);
  EXPECT_EQ(image.blob_bytes(), sample.blob.size());
  EXPECT_EQ(image.file_size(), read_file(dir.path("image")).size());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(image.id().data()), 16), sample.process.id());
  EXPECT_THAT(error_of([&] { image.regs(1); }), HasSubstr("no thread 1"));
}

TEST(ImageRoundTrip, RunsAreSplitAtMappings) {
  const TempDir dir;
  small_sample().write(dir.path("image"));
  const Image image = Image::open(dir.path("image"));
  ASSERT_EQ(image.runs().size(), 4U);
  EXPECT_EQ(image.runs()[1].addr, 0x20004000U);
  EXPECT_EQ(image.runs()[1].len, 0x4000U);
  EXPECT_EQ(image.runs()[2].addr, 0x20008000U);
  EXPECT_EQ(image.runs()[2].offset, image.runs()[1].offset + 0x4000);

  const auto part = image.runs_in({0x20005000, 0x4000});
  ASSERT_EQ(part.size(), 2U);
  EXPECT_EQ(part[0].addr, 0x20005000U);
  EXPECT_EQ(part[0].len, 0x3000U);
  EXPECT_EQ(part[0].offset, image.runs()[1].offset + 0x1000);
  EXPECT_EQ(part[1].len, 0x1000U);
  EXPECT_TRUE(image.runs_in({0x10002000, 0x1000}).empty());
  EXPECT_TRUE(image.runs_in({0x20005000, 0}).empty());
  EXPECT_TRUE(image.has_page(0x20009fff));
  EXPECT_FALSE(image.has_page(0x2000a000));
  EXPECT_FALSE(image.has_page(0));
}

TEST(ImageRoundTrip, VdsoIsForDebuggersOnly) {
  const TempDir dir;
  Sample sample = small_sample();
  auto* vdso = sample.process.add_mappings();
  vdso->set_start(0x7fff00000000);
  vdso->set_end(0x7fff00002000);
  vdso->set_flags(CR_VMA_READ | CR_VMA_EXEC | CR_VMA_SPECIAL);
  sample.runs.push_back({0x7fff00000000, 0x2000});
  sample.write(dir.path("image"));
  const Image image = Image::open(dir.path("image"));
  EXPECT_EQ(image.runs().size(), 4U);
  EXPECT_FALSE(image.has_page(0x7fff00000000));
  EXPECT_EQ(image.page_bytes(), 13 * image::kPage);
  image.verify_all();
  std::string bytes = read_file(dir.path("image"));
  bytes[seal_of(bytes).blob_offset - 1] ^= 1;
  write_file(dir.path("image"), bytes);
  EXPECT_THAT(error_of([&] { Image::open(dir.path("image")).verify_all(); }), HasSubstr("page 7fff00001000"));
}

TEST(ImageRoundTrip, ReadsAcrossRunsAndRefusesHoles) {
  const TempDir dir;
  small_sample().write(dir.path("image"));
  const Image image = Image::open(dir.path("image"));
  std::string pages(0x6000, 'x');
  image.read_pages(0x20004000, pages.data(), pages.size());
  EXPECT_EQ(pages.substr(0x4000, image::kPage), Sample::page(0x20008000));
  EXPECT_THAT(error_of([&] { image.read_pages(0x20005000, pages.data(), pages.size()); }), HasSubstr("page 2000a000"));
  EXPECT_THAT(error_of([&] { image.read_pages(0x10000000, pages.data(), 0x1000); }), HasSubstr("page 10000000"));
  EXPECT_NE(error_of([&] { image.read_blob(99999, pages.data(), 2); }), "");
}

TEST(ImageRoundTrip, PartsOfSharedContent) {
  const TempDir dir;
  const Sample sample = small_sample();
  {
    ImageWriter writer(dir.path("image"));
    writer.begin(sample.process, sample.regs, sample.runs);
    for (const auto& run : sample.runs)
      for (std::uint64_t at = run.addr; at < run.addr + run.len; at += image::kPage)
        writer.write_pages(at, Sample::page(at).data(), image::kPage);
    // Write pieces that match no block size, the last one first.
    for (int at = 99000; at >= 0; at -= 9000)
      writer.write_blob(static_cast<std::uint64_t>(at), sample.blob.data() + at,
                        std::min<std::size_t>(9000, sample.blob.size() - static_cast<std::size_t>(at)));
    writer.finish();
  }
  const Image image = Image::open(dir.path("image"));
  expect_same(image, sample);
  for (std::size_t from : {0U, 1U, 65535U, 65536U, 70000U})
    for (std::size_t size : {1U, 4096U, 30000U}) {
      std::string part(size, 'x');
      image.read_blob(from, part.data(), size);
      EXPECT_EQ(part, sample.blob.substr(from, size));
    }
}

TEST(ImageRoundTrip, WrittenByManyThreads) {
  const TempDir dir;
  Sample sample = small_sample();
  auto* big = sample.process.mutable_mappings(1);
  big->set_start(0x11000000);
  sample.runs = {{0x11000000, 0x20008000 - 0x11000000 - 0xe000000}};
  ImageWriter writer(dir.path("image"), {.sync = false});
  writer.begin(sample.process, sample.regs, sample.runs);
  const std::uint64_t pages = sample.runs[0].len / image::kPage;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (std::uint64_t page = i; page < pages; page += 4) {
        const std::uint64_t at = sample.runs[0].addr + page * image::kPage;
        writer.write_pages(at, Sample::page(at).data(), image::kPage);
      }
    });
  for (auto& thread : threads) thread.join();
  writer.write_blob(0, sample.blob.data(), sample.blob.size());
  writer.finish();
  const Image image = Image::open(dir.path("image"));
  expect_same(image, sample);
  std::uint64_t last = 0, calls = 0;
  image.verify_all(3, [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_LE(done, total);
    last = done;
    ++calls;
  });
  EXPECT_EQ(last, image.page_bytes() + image.blob_bytes());
  EXPECT_GT(calls, 10U);
}

TEST(ImageRoundTrip, ZerosTakeNoSpace) {
  const TempDir dir;
  Sample sample = small_sample();
  sample.runs = {{0x20003000, 0x1000}, {0x20007000, 0x1000}};  // pages of zeros
  ImageWriter writer(dir.path("image"), {.sync = false});
  sample.write(writer);
  EXPECT_EQ(writer.stored_bytes(), sample.blob.size());
  Image::open(dir.path("image")).verify_all();
}

TEST(ImageRoundTrip, NoPagesAtAll) {
  const TempDir dir;
  Sample sample = small_sample();
  sample.runs.clear();
  sample.blob.clear();
  sample.process.mutable_shared_objects(0)->clear_extents();
  sample.write(dir.path("image"));
  const Image image = Image::open(dir.path("image"));
  expect_same(image, sample);
  EXPECT_EQ(image.page_bytes(), 0U);
}

TEST(ImageRoundTrip, ThroughDescriptors) {
  const TempDir dir;
  const Sample sample = small_sample();
  const std::string path = dir.path("image");
  struct Case {
    const char* what;
    int flags;
    const char* before;
    off_t seek;
  };
  for (const Case& one : {Case{"in place", O_RDWR, "longer than nothing", 0}, Case{"write only", O_WRONLY, "", 0},
                          Case{"appending", O_RDWR | O_APPEND, "", 0}, Case{"behind", O_RDWR, "prefix", 6}}) {
    SCOPED_TRACE(one.what);
    write_file(path, one.before);
    UniqueFd fd(::open(path.c_str(), one.flags));
    ::lseek(fd.get(), one.seek, SEEK_SET);
    ImageWriter writer(std::move(fd), "descriptor");
    sample.write(writer);
    std::string content = read_file(path);
    ASSERT_EQ(content.substr(0, static_cast<std::size_t>(one.seek)),
              std::string(one.before, static_cast<std::size_t>(one.seek)));
    write_file(path, content.substr(static_cast<std::size_t>(one.seek)));
    expect_same(Image::open(path), sample);
  }
}

TEST(ImageRoundTrip, ThroughAPipe) {
  const Sample sample = small_sample();
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  std::thread feeder([&] {
    ImageWriter writer(UniqueFd(ends[1]), "pipe");
    sample.write(writer);
  });
  const Image image = Image::open(UniqueFd(ends[0]), "pipe");
  feeder.join();
  expect_same(image, sample);
}

TEST(ImageRoundTrip, AsAStream) {
  const TempDir dir;
  const Sample sample = small_sample();
  sample.write(dir.path("image"));
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  std::string got;
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) got.append(buffer, static_cast<std::size_t>(n));
    ::close(ends[0]);
  });
  {
    ImageWriter writer(UniqueFd(ends[1]), "pipe", {.stream = true});
    EXPECT_TRUE(writer.in_order());
    sample.write(writer);
  }
  reader.join();
  EXPECT_TRUE(got == read_file(dir.path("image"))) << "the same bytes as in a file";
  ImageWriter file(dir.path("other"), {.stream = true});
  EXPECT_FALSE(file.in_order()) << "a file can seek";
}

TEST(ImageRoundTrip, AStreamHasNoWayBack) {
  const Sample sample = small_sample();
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_GE(::fcntl(ends[1], F_SETPIPE_SZ, 1 << 20), 0);
  const UniqueFd end(ends[0]);
  ImageWriter writer(UniqueFd(ends[1]), "pipe", {.stream = true});
  writer.begin(sample.process, sample.regs, sample.runs);
  ASSERT_GE(sample.runs.size(), 2U);
  const std::string page(image::kPage, 'x');
  EXPECT_THROW(writer.write_pages(sample.runs[1].addr, page.data(), page.size()), Error);
  EXPECT_THROW(writer.finish(), Error) << "pages are missing";
}

TEST(ImageRoundTrip, MoreSegmentsThanSixteenBits) {
  const TempDir dir;
  Sample sample = small_sample();
  auto* big = sample.process.mutable_mappings(1);
  big->set_start(0x11000000);
  big->set_end(0x11000000 + 2 * 66000 * image::kPage);
  sample.process.mutable_mappings(2)->set_start(big->end());
  sample.process.mutable_mappings(2)->set_end(big->end() + image::kPage);
  big = nullptr;
  sample.process.mutable_mappings(3)->set_start(0x40000000);
  sample.process.mutable_mappings(3)->set_end(0x40000000 + 32 * image::kPage);
  sample.process.clear_layout();
  sample.runs.clear();
  for (std::uint64_t i = 0; i < 66000; ++i) sample.runs.push_back({0x11000000 + 2 * i * image::kPage, image::kPage});
  sample.write(dir.path("image"));
  const Image image = Image::open(dir.path("image"));
  EXPECT_EQ(image.runs().size(), 66000U);
  image.verify_all();
  EXPECT_EQ(static_cast<unsigned char>(read_file(dir.path("image"))[56]), 0xff);  // e_phnum: PN_XNUM
  if (std::system("readelf --version >/dev/null 2>&1") == 0) {
    const std::string command = "readelf -lhnW " + dir.path("image") + " 2>&1 >/dev/null | grep . ";
    EXPECT_NE(std::system(command.c_str()), 0) << "readelf warns";
  }
}

}  // namespace
}  // namespace reprise::test
