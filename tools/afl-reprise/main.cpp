// SPDX-License-Identifier: GPL-2.0-only
// afl-reprise: runs a command of AFL++ so that the target is rolled back behind each input, instead of forked for it.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "command.h"
#include "protocol.h"

using namespace reprise;
using namespace reprise::afl;

namespace {

/** The start of a target under emulation or with a long way to its input takes longer than afl-fuzz's ten runs. */
constexpr char kStartLimitMs[] = "120000";

/** The file of afl-fuzz's option -f, as the target names it; "" without the option. */
std::string input_file(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (words[i] == "-f" && i + 1 < words.size()) return std::filesystem::absolute(words[i + 1]);
    if (words[i].starts_with("-f") && words[i].size() > 2) return std::filesystem::absolute(words[i].substr(2));
  }
  return "";
}

void set(const char* name, const std::string& value) {
  if (::setenv(name, value.c_str(), 1) != 0) fail_errno(errno, "the environment");
}

int run(const std::string& at, const std::vector<std::string>& words) {
  if (::access("/dev/cr", R_OK | W_OK) != 0)
    throw Error(Failure::refused, errno,
                "/dev/cr: " + error_text(errno) + (errno == ENOENT ? ": load the module (modprobe cr)" : ": ask for access to it"));
  const char* const others = std::getenv("AFL_PRELOAD");
  set("AFL_PRELOAD", others && *others ? std::string(AFL_PRELOAD_PATH ":") + others : AFL_PRELOAD_PATH);
  set(kAt, at);
  if (const std::string file = input_file(words); !file.empty()) set(kInputFile, file);
  ::setenv("AFL_FORKSRV_INIT_TMOUT", kStartLimitMs, 0);
  // afl-fuzz leaves the target without standard error.
  const int messages = ::fcntl(STDERR_FILENO, F_DUPFD, kAnswers + 1);
  if (messages >= 0) set(kMessages, std::to_string(messages));
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const int error = errno;
  throw Error(error == ENOENT ? Failure::usage : Failure::permanent, error,
              words.front() + ": " + error_text(error) +
                  (error == ENOENT ? ": give a command of AFL++ such as afl-fuzz (package afl++), and then its arguments" : ""));
}

}  // namespace

int main(int argc, char** argv) {
  tool::Common common("afl-reprise");
  CLI::App app{"Run a command of AFL++, such as afl-fuzz, with a target that is rolled back behind each input, instead of forked "
               "for it: with all its threads and open files, to where it first comes to its input.",
               common.name};
  tool::set_up(app);
  app.usage("Usage: afl-reprise [--at FUNCTION | --at-accept] COMMAND [ARGUMENT ...]");
  std::string function;
  bool accept = false;
  app.add_option("--at", function, "runs begin where the target calls this function, of its own or of a library, for the first time")
      ->type_name("FUNCTION");
  app.add_flag("--at-accept", accept,
               "the target is a network server: runs begin where it waits for a connection, through which it gets the input, and "
               "end where it closes it")
      ->excludes("--at");
  app.prefix_command();
  app.footer("Without either, runs begin where the target first opens its input file or uses standard input.\n"
             "Exit status: the command's; 2 wrong usage, 3 refused, 5 failed.");
  return tool::run(app, common, argc, argv, [&] {
    std::vector<std::string> words = app.remaining();
    if (!words.empty() && words.front() == "--") words.erase(words.begin());
    if (words.empty()) throw Error(Failure::usage, EINVAL, "the command is missing, such as afl-fuzz (--help tells more)");
    return run(!function.empty() ? "=" + function : accept ? kAtAccept : kAtInput, words);
  });
}
