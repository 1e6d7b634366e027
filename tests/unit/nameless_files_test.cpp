// SPDX-License-Identifier: GPL-2.0-only
// Unnamed files, directories and FIFOs: making them leaves no name behind, with or without O_TMPFILE.
#include "restore/nameless_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "image_sample.h"
#include "restore/file_content.h"

namespace reprise::test {
namespace {

class Nameless : public testing::Test {
 protected:
  static struct ::stat look(const UniqueFd& fd) {
    EXPECT_TRUE(static_cast<bool>(fd)) << std::strerror(errno);
    struct ::stat out = {};
    EXPECT_EQ(::fstat(fd.get(), &out), 0);
    return out;
  }
  TempDir dir_;
  UniqueFd folder_{::open(dir_.path("").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
};

TEST_F(Nameless, FileWhereTheFileSystemHasSuchFilesAndWhereNot) {
  for (const bool by_name : {false, true}) {
    const UniqueFd fd = make_nameless_file(folder_.get(), by_name);
    const auto now = look(fd);
    EXPECT_TRUE(S_ISREG(now.st_mode));
    EXPECT_EQ(now.st_nlink, 0U);
    EXPECT_EQ(::fcntl(fd.get(), F_GETFL) & O_ACCMODE, O_RDWR);
    EXPECT_THAT(dir_.entries(), testing::IsEmpty());
  }
}

TEST_F(Nameless, FolderTakesNoFiles) {
  const UniqueFd fd = make_nameless_folder(folder_.get());
  EXPECT_TRUE(S_ISDIR(look(fd).st_mode));
  EXPECT_EQ(::openat(fd.get(), "x", O_CREAT | O_WRONLY, 0600), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_THAT(dir_.entries(), testing::IsEmpty());
}

TEST_F(Nameless, FifoCarriesBytes) {
  const UniqueFd fd = make_nameless_fifo(folder_.get());
  EXPECT_TRUE(S_ISFIFO(look(fd).st_mode));
  char text[4];
  EXPECT_EQ(::write(fd.get(), "abc", 3), 3);
  EXPECT_EQ(::read(fd.get(), text, sizeof text), 3);
  EXPECT_THAT(dir_.entries(), testing::IsEmpty());
}

TEST_F(Nameless, SaysWhyItCannotBeMade) {
  const UniqueFd none(::open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC));
  EXPECT_FALSE(make_nameless_file(none.get(), true));
  EXPECT_NE(errno, 0);
  EXPECT_FALSE(make_nameless_folder(none.get()));
  EXPECT_FALSE(make_nameless_fifo(none.get()));
}

TEST(FileContent, IntersectsAndFindsHoles) {
  const std::vector<FileRange> within = {{10, 20}, {30, 40}, {50, 60}};
  const auto text = [](const std::vector<FileRange>& ranges) {
    std::string out;
    for (const FileRange& one : ranges) out += std::to_string(one.start) + "-" + std::to_string(one.end) + " ";
    return out;
  };
  EXPECT_EQ(text(intersect({0, 100}, within)), "10-20 30-40 50-60 ");
  EXPECT_EQ(text(intersect({15, 55}, within)), "15-20 30-40 50-55 ");
  EXPECT_EQ(text(intersect({20, 30}, within)), "");
  EXPECT_EQ(text(intersect({0, 100}, {})), "");
  SharedObject object;
  object.set_size(100);
  EXPECT_EQ(text(holes_of(object)), "0-100 ");
  auto* extent = object.add_extents();
  extent->set_offset(10);
  extent->set_length(20);
  EXPECT_EQ(text(holes_of(object)), "0-10 30-100 ");
}

TEST_F(Nameless, DataRangesKeepThePosition) {
  const UniqueFd fd = make_nameless_file(folder_.get());
  ASSERT_EQ(::pwrite(fd.get(), "x", 1, 1 << 20), 1);
  ASSERT_EQ(::ftruncate(fd.get(), 4 << 20), 0);
  ASSERT_EQ(::lseek(fd.get(), 77, SEEK_SET), 77);
  const auto ranges = data_ranges(fd.get(), 4 << 20);
  EXPECT_EQ(::lseek(fd.get(), 0, SEEK_CUR), 77);
  ASSERT_FALSE(ranges.empty());
  EXPECT_LE(ranges[0].start, 1U << 20);
  EXPECT_GT(ranges.back().end, 1U << 20);
}

}  // namespace
}  // namespace reprise::test
