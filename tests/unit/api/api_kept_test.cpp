// SPDX-License-Identifier: GPL-2.0-only
// cr_kept_alloc() and so on: memory by name, within a process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "libcr.h"

namespace {

std::string last_error() { return cr_last_error(); }

class Kept : public testing::Test {
 protected:
  void TearDown() override {
    while (cr_kept_free("log") == 0) {}
    for (int fd; (fd = cr_kept_fd("log")) >= 0;) {
      struct stat wanted, is;
      fstat(fd, &wanted);
      for (int other = 0; other < 64; ++other)
        if (fstat(other, &is) == 0 && is.st_ino == wanted.st_ino && is.st_dev == wanted.st_dev) close(other);
    }
  }
  char* alloc(std::size_t size) {
    void* at = nullptr;
    fd_ = cr_kept_alloc("log", size, 0, &at);
    EXPECT_GE(fd_, 0) << last_error();
    return static_cast<char*>(at);
  }
  int fd_ = -1;
};

TEST_F(Kept, IsFoundByName) {
  char* const at = alloc(10000);
  std::strcpy(at, "text");
  void* found = nullptr;
  std::size_t size = 0;
  ASSERT_EQ(cr_kept_attach("log", -1, &found, &size), 0) << last_error();
  EXPECT_EQ(found, at);
  EXPECT_EQ(size, 12288U);
  // Also when its mapping is in pieces.
  ASSERT_EQ(mprotect(at + 4096, 4096, PROT_READ), 0);
  ASSERT_EQ(cr_kept_attach("log", -1, &found, &size), 0) << last_error();
  EXPECT_EQ(found, at);
  EXPECT_EQ(size, 12288U);
  EXPECT_TRUE(fcntl(fd_, F_GETFD) & FD_CLOEXEC);
  char link[100] = "";
  EXPECT_GT(readlink(("/proc/self/fd/" + std::to_string(fd_)).c_str(), link, sizeof link - 1), 0);
  EXPECT_STREQ(link, "/memfd:reprise.keep.log (deleted)");
}

TEST_F(Kept, SaysByItsNameThatImagesHaveItsContent) {
  void *at = nullptr, *found = nullptr;
  fd_ = cr_kept_alloc("log", 4096, CR_KEPT_COPIED, &at);
  ASSERT_GE(fd_, 0) << last_error();
  char link[100] = "";
  EXPECT_GT(readlink(("/proc/self/fd/" + std::to_string(fd_)).c_str(), link, sizeof link - 1), 0);
  EXPECT_STREQ(link, "/memfd:reprise.keep+log (deleted)");
  ASSERT_EQ(cr_kept_attach("log", -1, &found, nullptr), 0) << last_error();
  EXPECT_EQ(found, at);
  EXPECT_EQ(cr_kept_alloc("log", 4096, 0, &at), -1) << "the name is there once";
  EXPECT_EQ(errno, EEXIST);
}

TEST_F(Kept, IsMappedAgainByItsDescriptor) {
  char* const at = alloc(4096);
  std::strcpy(at, "text");
  const int other = cr_kept_fd("log");
  ASSERT_GE(other, 0) << last_error();
  close(fd_);
  ASSERT_EQ(cr_kept_free("log"), 0) << last_error();
  EXPECT_EQ(cr_kept_free("log"), -1);
  EXPECT_EQ(errno, ENOENT);
  void* found = nullptr;
  std::size_t size = 0;
  ASSERT_EQ(cr_kept_attach(nullptr, other, &found, &size), 0) << last_error();
  EXPECT_STREQ(static_cast<char*>(found), "text");
  EXPECT_EQ(size, 4096U);
  ASSERT_EQ(cr_kept_free("log"), 0) << last_error();
  ASSERT_EQ(cr_kept_attach("log", -1, &found, nullptr), 0) << last_error();
  EXPECT_STREQ(static_cast<char*>(found), "text");
  close(other);
}

TEST_F(Kept, IsGoneWithItsLastMappingAndDescriptor) {
  std::strcpy(alloc(4096), "text");
  ASSERT_EQ(cr_kept_free("log"), 0);
  close(fd_);
  void* found = nullptr;
  EXPECT_EQ(cr_kept_attach("log", -1, &found, nullptr), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_NE(last_error().find("kept memory log: the process does not have it"), std::string::npos) << last_error();
  EXPECT_EQ(*alloc(4096), 0);
}

TEST_F(Kept, ANameIsThereOnce) {
  alloc(4096);
  void* at = nullptr;
  EXPECT_EQ(cr_kept_alloc("log", 4096, 0, &at), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_NE(last_error().find("cr_kept_attach()"), std::string::npos) << last_error();
  // Another process's memory of that name.
  const int other = memfd_create("reprise.keep.log", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(other, 4096), 0);
  EXPECT_EQ(cr_kept_attach("log", other, &at, nullptr), -1);
  EXPECT_EQ(errno, EEXIST);
  close(other);
}

TEST_F(Kept, ItsSizeStays) {
  alloc(8192);
  EXPECT_EQ(ftruncate(fd_, 4096), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(fd_, 16384), -1);
}

TEST_F(Kept, RefusesOtherArguments) {
  void* at = nullptr;
  for (const char* name : {"", "a/b", "a b", "a=b", static_cast<const char*>(nullptr)}) {
    EXPECT_EQ(cr_kept_alloc(name, 4096, 0, &at), -1);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(cr_kept_fd(name), -1);
    EXPECT_EQ(cr_kept_free(name), -1);
    EXPECT_EQ(cr_kept_attach(name, -1, &at, nullptr), -1);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(cr_kept_alloc(std::string(CR_KEPT_NAME_MAX + 1, 'a').c_str(), 4096, 0, &at), -1);
  EXPECT_EQ(cr_kept_alloc("log", 0, 0, &at), -1);
  EXPECT_EQ(cr_kept_alloc("log", SIZE_MAX, 0, &at), -1);
  EXPECT_EQ(cr_kept_alloc("log", 4096, 2, &at), -1);
  EXPECT_EQ(cr_kept_alloc("log", 4096, 0, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  const int null = open("/dev/null", O_RDWR), other = memfd_create("log", MFD_CLOEXEC);
  for (const int fd : {null, other}) {
    EXPECT_EQ(cr_kept_attach("log", fd, &at, nullptr), -1);
    EXPECT_EQ(errno, EINVAL);
    close(fd);
  }
  EXPECT_EQ(cr_kept_attach("log", 1000, &at, nullptr), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST_F(Kept, TheLongestNameWorks) {
  const std::string name(CR_KEPT_NAME_MAX, 'n');
  void *at = nullptr, *found = nullptr;
  const int fd = cr_kept_alloc(name.c_str(), 4096, 0, &at);
  ASSERT_GE(fd, 0) << last_error();
  ASSERT_EQ(cr_kept_attach(name.c_str(), fd, &found, nullptr), 0) << last_error();
  EXPECT_EQ(found, at);
  EXPECT_EQ(cr_kept_free(name.c_str()), 0);
  close(fd);
}

TEST_F(Kept, AChildSharesIt) {
  char* const at = alloc(4096);
  const pid_t child = fork();
  if (child == 0) {
    void* found = nullptr;
    if (cr_kept_attach("log", -1, &found, nullptr) == 0 && found == at) std::strcpy(at, "of the child");
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_STREQ(at, "of the child");
}

}  // namespace
