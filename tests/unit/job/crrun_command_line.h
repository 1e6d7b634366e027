// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file crrun's command line, parsed as crrun does. */

#include <algorithm>
#include <string>
#include <vector>

#include "crrun/options.h"

namespace reprise::job {

struct Parsed {
  Options options;
  std::vector<std::string> words;  // before they were parsed, without the program's
};

/** @param line the words after `crrun` */
inline Parsed parse(std::vector<std::string> line) {
  Parsed out;
  CLI::App app;
  add_options(app, out.options);
  line.insert(line.begin(), "crrun");
  std::vector<char*> argv;
  for (std::string& word : line) argv.push_back(word.data());
  std::vector<std::string> words = split_command_line(app, static_cast<int>(argv.size()), argv.data(), out.options.program);
  out.words = words;
  std::reverse(words.begin(), words.end());
  app.parse(words);
  return out;
}

}  // namespace reprise::job
