// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The command line of cr_pause and what it prints, for the command and for the keeper of a process's snapshots. */
#include <string>
#include <vector>

#include "command.h"
#include "image_file.h"
#include "request/options.h"

namespace reprise::snapshots {

inline constexpr char kPauseCommand[] = "cr_pause";

struct PauseCommand {
  tool::Common common{kPauseCommand};
  tool::SignalOptions signal;
  PauseOptions options;
  bool hold = false;
  bool keep = false;
  ImageFile image;  ///< in words of the command for the keeper: the file that the command has found

  /** Complete the options by what follows from the others. Throws Error (usage). */
  void complete();

 private:
  friend void declare(CLI::App& app, PauseCommand& command);
  std::string image_is_;
  std::vector<int> keep_pipes_;
};

/** Declare all of it. @p command must outlive @p app. */
void declare(CLI::App& app, PauseCommand& command);

/** @return the words with which the command @p argv asks the keeper about @p image */
std::vector<std::string> words_for_keeper(int argc, char** argv, const ImageFile& image);

/** Print the result. */
void print_pause(const tool::Common& common, const Report& report);

}  // namespace reprise::snapshots
