// SPDX-License-Identifier: GPL-2.0-only
#include "command.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/unique_fd.h"
#include "report.h"

namespace reprise::tool {
namespace {

int fail(const Common& common, Failure kind, int code, const std::string& message, Stage stage = current_stage()) {
  if (common.json)
    std::printf("%s\n", failure_json(common.name, kind, code, stage, message).c_str());
  else
    std::fprintf(stderr, "%s: %s\n", common.name.c_str(), message.c_str());
  return static_cast<int>(kind);
}

/** CLI11's formatter, except that it does not print the value that a flag stands for, as in `--no-sync{false}`. */
class Help : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    if (is_positional) return option->get_name(true);
    std::string names;
    const auto add = [&](const std::string& name) { names += (names.empty() ? "" : ", ") + name; };
    for (const std::string& name : option->get_snames()) add("-" + name);
    for (const std::string& name : option->get_lnames()) add("--" + name);
    const std::string value = option->get_type_name();
    if (value.empty()) return names;
    // An optional value of a flag must follow it directly: --kill=SIG.
    return names + (option->get_items_expected_max() == 0 ? "[=" + value + "]" : " " + value);
  }
  std::string make_option_opts(const CLI::Option*) const override { return ""; }
};

}  // namespace

void set_up(CLI::App& app) {
  app.formatter(std::make_shared<Help>());
  app.set_help_flag("-h,--help", "print this and exit");
  app.set_version_flag("--version", std::string("reprise " REPRISE_VERSION), "print the version and exit");
}

void Common::add(CLI::App& app, const std::string& timeout_text) {
  set_up(app);
  app.add_flag("--json", json, "print the result, or the error, as one line of JSON on standard output");
  app.add_flag("-q,--quiet", quiet, "print nothing but warnings and errors");
  app.add_flag("-v,--verbose", verbose, "print how long each step took");
  app.add_option("--timeout", timeout_s, timeout_text)
      ->check(CLI::Range(0.001, 4e6).description(""))
      ->type_name("SECONDS");
  app.footer("Exit status: 0 done, 2 wrong usage, 3 refused (nothing has changed), 4 try again, 5 failed.");
}

void SignalOptions::add(CLI::App& app, const std::string& when) {
  const std::vector<CLI::Option*> options = {
      app.add_flag("--stop", stop_, "stop the program (SIGSTOP) " + when),
      app.add_flag("--term", term_, "ask the program to end (SIGTERM) " + when),
      app.add_flag("--kill{KILL}", kill_, "end the program (SIGKILL) " + when + "; --kill=SIG: send SIG, a name or a number")
          ->type_name("SIG"),
      app.add_flag("--cont", cont_, "continue the program if it was stopped (SIGCONT) " + when),
  };
  for (std::size_t i = 0; i < options.size(); ++i) {
    options[i]->group("Afterwards, before the program runs on (at most one)");
    for (std::size_t j = 0; j < i; ++j) options[i]->excludes(options[j]);
  }
}

int SignalOptions::signal() const {
  if (stop_) return SIGSTOP;
  if (term_) return SIGTERM;
  if (cont_) return SIGCONT;
  return kill_.empty() ? 0 : signal_number(kill_);
}

int signal_number(const std::string& text) {
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) {
    const int number = std::atoi(text.c_str());
    if (text.size() < 4 && number > 0 && number <= SIGRTMAX) return number;
  } else {
    std::string name = text.rfind("SIG", 0) == 0 ? text.substr(3) : text;
    // sigabbrev_np() knows one name for each signal; shells and kill -l also accept these.
    for (const auto& [other, known] : {std::pair{"IOT", "ABRT"}, {"IO", "POLL"}, {"CLD", "CHLD"}})
      if (name == other) name = known;
    for (int number = 1; number < NSIG; ++number)
      if (const char* known = ::sigabbrev_np(number); known && name == known) return number;
  }
  throw Error(Failure::usage, EINVAL, "there is no signal " + text);
}

void add_restore_options(CLI::App& app, RestoreOptions& restore) {
  app.add_flag("--rewind-files", restore.rewind_files,
               "cut files that the program has grown since the checkpoint back to their old size");
  static const std::map<std::string, SharedMemory> shared{{"keep", SharedMemory::keep}, {"restore", SharedMemory::restore}};
  app.add_option("--shared-memory", restore.shared_memory,
                 "memory and mapped files that other live processes share, and that have changed: keep them as they are, or "
                 "restore them under those processes, rather than refuse")
      ->transform(CLI::CheckedTransformer(shared, CLI::ignore_case).description(""))
      ->type_name("keep|restore");
  app.add_flag("--dead-sockets", restore.dead_sockets,
               "restore sockets and pipes whose state cannot be restored as dead ones, as if their peers had gone");
}

namespace {

/** A copy of @p fd, which becomes what @p other is. */
int give_away(int fd, int other) {
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0 || other < 0 || ::dup2(other, fd) < 0) fail_errno(errno, "standard input or output");
  return copy;
}

}  // namespace

int give_away_output() {
  if (::isatty(STDOUT_FILENO))
    throw Error(Failure::usage, ENOTTY, "an image is not for a terminal: redirect standard output to a file or a pipe");
  return give_away(STDOUT_FILENO, STDERR_FILENO);
}

int image_from_input(std::string& image, bool hold) {
  if (image != kStandard) return -1;
  if (hold) throw Error(Failure::usage, EINVAL, "--hold reads standard input, from which the image comes");
  image = "standard input";
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return give_away(STDIN_FILENO, null.get());
}

int run(CLI::App& app, const Common& common, int argc, char** argv, const std::function<int()>& body) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return fail(common, Failure::usage, EINVAL, std::string(error.what()) + " (--help tells more)");
  }
  try {
    return body();
  } catch (const Error& error) {
    return fail(common, error.kind(), error.code(), error.what(), error.stage());
  } catch (const std::bad_alloc&) {
    return fail(common, Failure::temporary, ENOMEM, "not enough memory");
  } catch (const std::exception& error) {
    return fail(common, Failure::permanent, 0, error.what());
  }
}

}  // namespace reprise::tool
