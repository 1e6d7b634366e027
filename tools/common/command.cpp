// SPDX-License-Identifier: GPL-2.0-only
#include "command.h"

#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>

#include "base/error.h"
#include "report.h"

namespace reprise::tool {
namespace {

int fail(const Common& common, Failure kind, int code, const std::string& message) {
  if (common.json)
    std::printf("%s\n", failure_json(common.name, kind, code, message).c_str());
  else
    std::fprintf(stderr, "%s: %s\n", common.name.c_str(), message.c_str());
  return static_cast<int>(kind);
}

}  // namespace

void Common::add(CLI::App& app) {
  app.set_version_flag("--version", std::string("reprise " REPRISE_VERSION));
  app.add_flag("--json", json, "tell what happened, or what failed, as one line of JSON on standard output");
  app.add_flag("-q,--quiet", quiet, "print nothing but errors");
  app.add_flag("-v,--verbose", verbose, "print how long each step took");
  app.add_option("--timeout", timeout_s, "give up when its threads have not stopped after this many seconds")
      ->check(CLI::Range(0.001, 4e6))
      ->type_name("S");
  app.footer("Exit codes: 0 done, 2 wrong usage, 3 refused (nothing has changed), 4 try again, 5 failed.");
}

void SignalOptions::add(CLI::App& app, const std::string& when) {
  auto* group = app.add_option_group("signal", "Afterwards, before the program runs on");
  group->add_flag("--stop", stop_, "stop it (SIGSTOP) " + when);
  group->add_flag("--term", term_, "ask it to end (SIGTERM) " + when);
  group->add_flag("--kill{KILL}", kill_, "end it (SIGKILL) " + when + "; --kill=SIG: send this signal");
  group->add_flag("--cont", cont_, "let it go on if it was stopped (SIGCONT) " + when);
  group->require_option(0, 1);
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
    const std::string name = text.rfind("SIG", 0) == 0 ? text.substr(3) : text;
    for (int number = 1; number < NSIG; ++number)
      if (const char* known = ::sigabbrev_np(number); known && name == known) return number;
  }
  throw Error(Failure::usage, EINVAL, "there is no signal " + text);
}

void add_restore_options(CLI::App& app, RestoreOptions& restore, std::vector<std::string>& relocate) {
  app.add_option("--relocate", relocate, "look for files whose path begins with OLD under NEW; may be given again")
      ->type_name("OLD=NEW")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--rewind-files", restore.rewind_files,
               "cut files that the program has grown since the checkpoint back to their old size");
  app.add_flag("--dead-sockets", restore.dead_sockets,
               "give sockets and pipes that cannot be brought back as dead ones, as if their peers had gone");
}

void apply_relocations(const std::vector<std::string>& relocate, RestoreOptions& restore) {
  for (const std::string& pair : relocate) {
    const std::size_t at = pair.find('=');
    if (at == 0 || at == std::string::npos)
      throw Error(Failure::usage, EINVAL, "--relocate " + pair + ": give it as OLD=NEW");
    restore.relocate.emplace_back(pair.substr(0, at), pair.substr(at + 1));
  }
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
    return fail(common, error.kind(), error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(common, Failure::temporary, ENOMEM, "not enough memory");
  } catch (const std::exception& error) {
    return fail(common, Failure::permanent, 0, error.what());
  }
}

}  // namespace reprise::tool
