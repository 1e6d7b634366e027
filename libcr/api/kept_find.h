// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Find kept memory that the process has mapped or open. */
#include <cstddef>
#include <cstdint>

namespace reprise::api {

struct KeptMapped {
  void* addr;
  std::size_t size;
  std::uint64_t dev, ino;
};

struct KeptOpen {
  int fd;
  std::size_t size;
  std::uint64_t dev, ino;
  char name[256];
};

/** Find the shared mapping of kept memory @p name from its first byte on. @return false if there is none */
bool find_mapped(const char* name, KeptMapped& found);
/** Find the lowest descriptor of kept memory @p name. @return false if there is none */
bool find_open(const char* name, KeptOpen& found);
/** @return false if @p fd is not of kept memory */
bool look_at(int fd, KeptOpen& found);

}  // namespace reprise::api
