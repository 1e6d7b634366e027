// SPDX-License-Identifier: LGPL-2.1-or-later
#include "spawn.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "calls.h"

namespace croff {
namespace {

const std::string kMark = "croff-booster@";  // the last argument of a booster

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

}  // namespace

std::optional<std::string> booster_lifeline() {
  const auto words = arguments();
  if (words.empty() || words.back().rfind(kMark, 0) != 0) return std::nullopt;
  return words.back().substr(kMark.size());
}

MPI_Comm spawn(MPI_Comm masters, const Places &places, const std::string &lifeline, std::string &why) {
  std::vector<std::string> words = arguments();
  if (!words.empty()) words.erase(words.begin());
  if (!words.empty() && words.back().rfind(kMark, 0) == 0) words.pop_back();
  words.push_back(kMark + lifeline);
  std::vector<char *> argv;
  for (std::string &word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const auto names = places.named ? host_names() : std::vector<std::string>();
  const int commands = names.empty() ? 1 : places.hosts;
  std::string program = executable();
  std::vector<char *> programs(commands, program.data());
  std::vector<char **> argvs(commands, argv.data());
  std::vector<int> counts(commands, names.empty() ? places.hosts * places.per_host : places.per_host);
  std::vector<MPI_Info> infos(commands);
  for (int i = 0; i < commands; ++i) {
    MPI_Info_create(&infos[i]);
    MPI_Info_set(infos[i], "parricide", "disable");  // a fault in the children cleans only these
    if (!names.empty()) MPI_Info_set(infos[i], "host", names[i % names.size()].c_str());
  }
  MPI_Comm inter = MPI_COMM_NULL;
  const int error = MPI_Comm_spawn_multiple(commands, programs.data(), argvs.data(), counts.data(), infos.data(), 0, masters,
                                            &inter, MPI_ERRCODES_IGNORE);
  for (MPI_Info &info : infos) MPI_Info_free(&info);
  if (error != MPI_SUCCESS) {
    why = calls::text(error);
    return MPI_COMM_NULL;
  }
  MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
  return inter;
}

}  // namespace croff
