// SPDX-License-Identifier: GPL-2.0-only
// Names, interruptions and full disks: never half an image under the final name.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "image/reader.h"
#include "image_sample.h"

namespace reprise::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ImageWriter, PrivateAndUnderItsNameOnlyWhenFinished) {
  const TempDir dir;
  const Sample sample = small_sample();
  ImageWriter writer(dir.path("image"));
  writer.begin(sample.process, sample.regs, sample.runs);
  EXPECT_NE(::access(dir.path("image").c_str(), F_OK), 0);
  for (const auto& run : sample.runs)
    for (std::uint64_t at = run.addr; at < run.addr + run.len; at += image::kPage)
      writer.write_pages(at, Sample::page(at).data(), image::kPage);
  writer.write_blob(0, sample.blob.data(), sample.blob.size());
  EXPECT_NE(::access(dir.path("image").c_str(), F_OK), 0);
  writer.finish();
  struct stat st;
  ASSERT_EQ(::stat(dir.path("image").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600U);
  EXPECT_EQ(static_cast<std::uint64_t>(st.st_size), writer.file_size());
  EXPECT_THAT(dir.entries(), ElementsAre("image"));
}

TEST(ImageWriter, AbandonedLeavesNothing) {
  const TempDir dir;
  const Sample sample = small_sample();
  {
    ImageWriter writer(dir.path("image"));
    writer.begin(sample.process, sample.regs, sample.runs);
  }
  EXPECT_THAT(dir.entries(), IsEmpty());
}

// As on file systems without O_TMPFILE.
TEST(ImageWriter, TemporaryName) {
  const TempDir dir;
  const Sample sample = small_sample();
  const WriterOptions options{.unnamed = false};
  {
    ImageWriter writer(dir.path("image"), options);
    writer.begin(sample.process, sample.regs, sample.runs);
    ASSERT_THAT(dir.entries(), ElementsAre(testing::StartsWith(".image.tmp-")));
  }
  EXPECT_THAT(dir.entries(), IsEmpty());
  {
    ImageWriter writer(dir.path("image"), options);
    sample.write(writer);
  }
  EXPECT_THAT(dir.entries(), ElementsAre("image"));
  Image::open(dir.path("image"));
  {
    ImageWriter writer(dir.path("other"), options);
    write_file(dir.path("other"), "precious");
    EXPECT_THAT(error_of([&] { sample.write(writer); }), HasSubstr("meanwhile"));
  }
  EXPECT_EQ(read_file(dir.path("other")), "precious");
  {
    ImageWriter writer(dir.path("other"), {.clobber = true, .unnamed = false});
    sample.write(writer);
  }
  Image::open(dir.path("other"));
  EXPECT_EQ(dir.entries().size(), 2U);
}

TEST(ImageWriter, AbandonedInPlaceLeavesNoHalfImage) {
  const TempDir dir;
  const Sample sample = small_sample();
  {
    ImageWriter writer(UniqueFd(::open(dir.path("image").c_str(), O_RDWR | O_CREAT, 0600)), "descriptor");
    writer.begin(sample.process, sample.regs, sample.runs);
  }
  EXPECT_EQ(read_file(dir.path("image")), "");
}

TEST(ImageWriter, KilledLeavesNothingUnderTheName) {
  const TempDir dir;
  const Sample sample = small_sample();
  sample.write(dir.path("old"));
  const std::string old = read_file(dir.path("old"));
  for (const char* name : {"new", "old"}) {
    const pid_t child = ::fork();
    if (child == 0) {
      ImageWriter writer(dir.path(name), {.clobber = true});
      writer.begin(sample.process, sample.regs, sample.runs);
      writer.write_pages(sample.runs[0].addr, Sample::page(sample.runs[0].addr).data(), image::kPage);
      ::raise(SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
  }
  EXPECT_NE(::access(dir.path("new").c_str(), F_OK), 0);
  EXPECT_EQ(read_file(dir.path("old")), old);
}

TEST(ImageWriter, ReplacesOnlyWhenAllowed) {
  const TempDir dir;
  const Sample sample = small_sample();
  write_file(dir.path("image"), "precious");
  EXPECT_THAT(error_of([&] { ImageWriter writer(dir.path("image")); }), HasSubstr("exists"));
  EXPECT_EQ(read_file(dir.path("image")), "precious");
  sample.write(dir.path("image"));
  Image::open(dir.path("image"));
  // A file that is created meanwhile
  ImageWriter writer(dir.path("other"));
  write_file(dir.path("other"), "precious");
  EXPECT_THAT(error_of([&] { sample.write(writer); }), HasSubstr("meanwhile"));
  EXPECT_EQ(read_file(dir.path("other")), "precious");
}

TEST(ImageWriter, RefusesOtherKindsOfFiles) {
  const TempDir dir;
  const WriterOptions clobber{.clobber = true};
  ASSERT_EQ(::mkfifo(dir.path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { ImageWriter writer(dir.path("fifo"), clobber); }), HasSubstr("not a regular file"));
  EXPECT_THAT(error_of([&] { ImageWriter writer(dir.path("."), clobber); }), HasSubstr("directory"));
  EXPECT_NE(error_of([&] { ImageWriter writer(dir.path("none/image"), clobber); }), "");
  EXPECT_NE(error_of([&] { ImageWriter writer(dir.path(), clobber); }), "");
  EXPECT_THAT(error_of([&] { ImageWriter writer(UniqueFd(::open("/dev/null", O_RDONLY)), "descriptor"); }),
              HasSubstr("not open for writing"));
}

TEST(ImageWriter, RelativeToADirectory) {
  const TempDir dir;
  UniqueFd fd(::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY));
  ImageWriter writer("image", {}, fd.get());
  small_sample().write(writer);
  EXPECT_THAT(dir.entries(), ElementsAre("image"));
}

TEST(ImageWriter, LongNames) {
  const TempDir dir;
  small_sample().write(dir.path(std::string(255, 'n')));
  Image::open(dir.path(std::string(255, 'n')));
  EXPECT_NE(error_of([&] { small_sample().write(dir.path(std::string(256, 'n'))); }), "");
}

TEST(ImageWriter, ManyRangesAtOnceAreThoseOneByOne) {
  const TempDir dir;
  const Sample sample = small_sample();
  sample.write(dir.path("one by one"));
  for (const std::size_t at_once : {1u, 2u, 5u, 1000u}) {
    ImageWriter writer(dir.path("at once"), {.clobber = true, .sync = false});
    writer.begin(sample.process, sample.regs, sample.runs);
    std::vector<cr_range> pages;
    for (const cr_range& run : sample.runs)
      for (std::uint64_t at = 0; at < run.len; at += image::kPage) pages.push_back({run.addr + at, image::kPage});
    // The last first, and one left out in the middle of each group, so that there are gaps in the file.
    for (std::size_t end = pages.size(); end > 0; end -= std::min(end, at_once)) {
      std::vector<cr_range> group(pages.begin() + static_cast<std::ptrdiff_t>(end - std::min(end, at_once)),
                                  pages.begin() + static_cast<std::ptrdiff_t>(end));
      const cr_range left = group[group.size() / 2];
      group.erase(group.begin() + static_cast<std::ptrdiff_t>(group.size() / 2));
      std::string content;
      for (const cr_range& page : group) content += Sample::page(page.addr);
      writer.write_pages(group, content.data());
      writer.write_pages(left.addr, Sample::page(left.addr).data(), left.len);
    }
    writer.write_blob(0, sample.blob.data(), sample.blob.size());
    writer.finish();
    EXPECT_EQ(read_file(dir.path("at once")), read_file(dir.path("one by one"))) << at_once;
  }
}

TEST(ImageWriter, MissingAndUnannouncedPages) {
  const TempDir dir;
  const Sample sample = small_sample();
  ImageWriter writer(dir.path("image"));
  writer.begin(sample.process, sample.regs, sample.runs);
  const std::string page(image::kPage, 'p');
  EXPECT_THAT(error_of([&] { writer.write_pages(0x10000000, page.data(), page.size()); }), HasSubstr("10000000"));
  EXPECT_NE(error_of([&] { writer.write_pages(0x20004001, page.data(), page.size()); }), "");
  EXPECT_NE(error_of([&] { writer.write_blob(99999, page.data(), 2); }), "");
  writer.write_pages(0x10001000, page.data(), page.size());
  EXPECT_THAT(error_of([&] { writer.finish(); }), HasSubstr("page 20004000 was never written"));
}

TEST(ImageWriter, RefusesWhatCouldNotBeRead) {
  const TempDir dir;
  const auto refusal = [&](const std::function<void(Sample&)>& change) {
    Sample sample = small_sample();
    change(sample);
    return error_of([&] { sample.write(dir.path("image")); });
  };
  EXPECT_EQ(refusal([](auto&) {}), "");
  EXPECT_THAT(refusal([](auto& s) { s.regs.pop_back(); }), HasSubstr("thread 4712 has no registers"));
  EXPECT_THAT(refusal([](auto& s) { s.regs[0].fpregs.pop_back(); }), HasSubstr("wrong size"));
  EXPECT_THAT(refusal([](auto& s) { s.runs[0].addr = 0x18000000; }), HasSubstr("no mapping"));
  EXPECT_THAT(refusal([](auto& s) { s.runs[0].addr = 0x30000000; }), HasSubstr("out of order"));
  EXPECT_THAT(refusal([](auto& s) { s.runs = {{0x30000000, 0x1000}}; }), HasSubstr("not saved"));
  EXPECT_THAT(refusal([](auto& s) { s.runs[0].len = 1; }), HasSubstr("out of order"));
  EXPECT_THAT(refusal([](auto& s) { s.runs[2].len = ~0ULL << 12; }), HasSubstr("out of order"));
}

// Runs in a child, because the limit applies to a whole process. SIGXFSZ must not be delivered.
TEST(ImageWriter, FileSizeLimit) {
  const TempDir dir;
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{30000, 30000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      small_sample().write(dir.path("image"));
    } catch (const Error& error) {
      ::_exit(error.kind() == Failure::temporary && error.code() == EFBIG ? 0 : 2);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(dir.entries(), IsEmpty());
}

TEST(ImageWriter, DiskFull) {
  const TempDir dir;
  if (::mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=80k") != 0)
    GTEST_SKIP() << "needs root to mount a small tmpfs";
  try {
    small_sample().write(dir.path("image"));
    ADD_FAILURE() << "the image was written to a full file system";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Failure::temporary);
    EXPECT_EQ(error.code(), ENOSPC);
    EXPECT_THAT(error.what(), HasSubstr("image"));
  }
  EXPECT_THAT(dir.entries(), IsEmpty());
  ::umount2(dir.path().c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace reprise::test
