// SPDX-License-Identifier: LGPL-2.1-or-later
#include "spawn.h"

#include <vector>

#include "boosters/arguments.h"
#include "boosters/calls.h"

namespace croff {
namespace {

const std::string kMark = "croff-booster@";  // the last argument of a booster

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
