// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file What the commands have in common: options, what they print, how they end. */
#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "request/options.h"

namespace reprise::tool {

/** Options of every command. */
struct Common {
  std::string name;  ///< of the command
  bool json = false, quiet = false, verbose = false;
  double timeout_s = 0;

  explicit Common(std::string command) : name(std::move(command)) {}
  /** Declare them, with the texts that all commands share. */
  void add(CLI::App& app);
  unsigned timeout_ms() const { return static_cast<unsigned>(timeout_s * 1000); }
};

/** --stop, --term, --kill[=SIG], --cont: at most one of them. */
class SignalOptions {
 public:
  void add(CLI::App& app, const std::string& when);
  /** @return 0 when none was given; throws Error (usage) */
  int signal() const;

 private:
  bool stop_ = false, term_ = false, cont_ = false;
  std::string kill_;
};

/** --relocate OLD=NEW, --rewind-files, --dead-sockets … */
void add_restore_options(CLI::App& app, RestoreOptions& restore, std::vector<std::string>& relocate);
/** Put what was given with --relocate into @p restore; throws Error (usage). */
void apply_relocations(const std::vector<std::string>& relocate, RestoreOptions& restore);

/** Number of a signal by number or name, with or without SIG. Throws Error (usage). */
int signal_number(const std::string& text);

/** Parse, run, print errors. @return the exit code */
int run(CLI::App& app, const Common& common, int argc, char** argv, const std::function<int()>& body);

}  // namespace reprise::tool
