// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The real system calls, on which the fake is built. All return -errno on failure. */
#include <cstddef>
#include <cstdint>

#include <sys/stat.h>
#include <sys/types.h>

extern "C" {
ssize_t __real_pread(int fd, void* to, std::size_t size, off_t at);
ssize_t __real_pwrite(int fd, const void* from, std::size_t size, off_t at);
}

namespace reprise::fuzz {

int real_open(const char* path, int flags);
int real_memfd(const char* name);
int real_fstat(int fd, struct ::stat& st);
int real_truncate(int fd, std::uint64_t size);
off_t real_size(int fd);
bool real_is_open(int fd);
/** Create an object of this kind (S_IF*) that no other process has. */
int real_object(mode_t mode);

}  // namespace reprise::fuzz
