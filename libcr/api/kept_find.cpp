// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/kept_find.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/kept_name.h"

namespace reprise::api {
namespace {

/** @return the name of the memory that /proc shows as @p path; "" if it is no kept memory */
std::string_view name_in(std::string_view path) {
  if (!path.ends_with(kKeptEnd)) return {};
  path.remove_suffix(kKeptEnd.size());
  return kept_name(path);
}

/** A line of /proc/self/maps. */
struct Line {
  std::uintptr_t start, end;
  std::uint64_t offset, dev, ino;
  char permissions[5];
  std::string_view name;
};

bool parse(char* text, Line& line) {
  unsigned long start, end, offset, ino;
  unsigned major_number, minor_number;
  int at = 0;
  if (std::sscanf(text, "%lx-%lx %4s %lx %x:%x %lu %n", &start, &end, line.permissions, &offset, &major_number, &minor_number,
                  &ino, &at) != 7)
    return false;
  text[std::strcspn(text, "\n")] = '\0';
  line.start = start, line.end = end, line.offset = offset, line.ino = ino;
  line.dev = makedev(major_number, minor_number);
  line.name = name_in(text + at);
  return true;
}

}  // namespace

bool find_mapped(const char* name, KeptMapped& found) {
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return false;
  found = {};
  char* text = nullptr;
  std::size_t room = 0;
  // mprotect() and madvise() may have split the mapping.
  while (getline(&text, &room, maps) > 0) {
    Line line;
    if (!parse(text, line) || line.name != name || line.permissions[3] != 's') continue;
    if (found.size == 0 && line.offset == 0)
      found = {reinterpret_cast<void*>(line.start), line.end - line.start, line.dev, line.ino};
    else if (found.size != 0 && line.ino == found.ino && line.dev == found.dev && line.offset == found.size &&
             line.start == reinterpret_cast<std::uintptr_t>(found.addr) + found.size)
      found.size += line.end - line.start;
  }
  std::free(text);
  std::fclose(maps);
  return found.size != 0;
}

bool look_at(int fd, KeptOpen& found) {
  char link[64], path[512];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path);
  struct stat status {};
  if (length <= 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  const std::string_view name = name_in({path, static_cast<std::size_t>(length)});
  if (name.empty() || name.size() >= sizeof found.name) return false;
  found.fd = fd;
  found.size = static_cast<std::size_t>(status.st_size);
  found.dev = status.st_dev;
  found.ino = status.st_ino;
  std::memcpy(found.name, name.data(), name.size());
  found.name[name.size()] = '\0';
  return true;
}

bool find_open(const char* name, KeptOpen& found) {
  DIR* descriptors = opendir("/proc/self/fd");
  if (descriptors == nullptr) return false;
  bool is_there = false;
  while (const dirent* entry = is_there ? nullptr : readdir(descriptors))
    is_there = entry->d_name[0] != '.' && look_at(std::atoi(entry->d_name), found) && std::strcmp(found.name, name) == 0;
  closedir(descriptors);
  return is_there;
}

}  // namespace reprise::api
