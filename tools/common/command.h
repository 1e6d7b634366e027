// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The parts that all commands share: options, output, exit codes. */
#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "request/options.h"
#include "restore/options.h"

namespace reprise::tool {

/** Set the help formatter, --help and --version. */
void set_up(CLI::App& app);

/** Help text of --timeout for commands on a program with callbacks. */
inline constexpr char kTargetTimeout[] =
    "give up when its threads have not stopped (default: 5) or its own callbacks have not returned (default: 60) "
    "after so many seconds";

/** Options of every command that acts on a process. */
struct Common {
  std::string name;  ///< of the command
  bool json = false, quiet = false, verbose = false;
  double timeout_s = 0;

  explicit Common(std::string command) : name(std::move(command)) {}
  /** Declare the options, with the same texts for all commands. @param timeout_text help text of --timeout */
  void add(CLI::App& app, const std::string& timeout_text);
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

/** --rewind-files, --shared-memory, --dead-sockets */
void add_restore_options(CLI::App& app, RestoreOptions& restore);

/** Number of a signal by number or name, with or without SIG. Throws Error (usage). */
int signal_number(const std::string& text);

/** The name that stands for standard input or output in place of a file. */
inline constexpr char kStandard[] = "-";

/**
 * Standard output is for the image: what is printed there goes to standard error from now on.
 * @return the descriptor for the image. Throws Error (usage) when it is a terminal.
 */
int give_away_output();
/**
 * If @p image is kStandard: it comes from standard input, and whoever reads that from now on reads nothing. Throws Error
 * (usage) with --hold, which reads it, too.
 * @param image  becomes its name in messages
 * @return the descriptor of the image; -1: @p image is a file
 */
int image_from_input(std::string& image, bool hold = false);

/** Parse, run, print errors. @return the exit code */
int run(CLI::App& app, const Common& common, int argc, char** argv, const std::function<int()>& body);

}  // namespace reprise::tool
