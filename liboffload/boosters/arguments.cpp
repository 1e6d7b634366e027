// SPDX-License-Identifier: LGPL-2.1-or-later
#include "arguments.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/error.h"

namespace croff {

std::vector<std::string> arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::istringstream in(all);
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
  return words;
}

std::string executable() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0 || length == sizeof path) throw Error(Code::spawn, "/proc/self/exe cannot be read: mount /proc");
  return std::string(path, length);
}

std::vector<std::string> host_names() {
  const char *list = getenv("CROFF_HOSTS");
  std::istringstream in(list ? list : "");
  std::vector<std::string> names;
  for (std::string name; std::getline(in, name, ',');)
    if (!name.empty()) names.push_back(name);
  return names;
}

}  // namespace croff
