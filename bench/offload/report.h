// SPDX-License-Identifier: GPL-2.0-only
// What the measured programs print, and how they end.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

/** A checksum of the bits: FNV-1a over 64-bit words. @param before the sum so far */
unsigned long checksum(const std::vector<double> &values, unsigned long before = 0xcbf29ce484222325);

/** The line that programs.py reads: "NAME: S s, T tasks, E executions, R replacements, checksum X". */
void report(const std::string &name, double seconds, unsigned long sum);

/** Say how the program is called, or what is wrong, and end the job. */
[[noreturn]] void give_up(const std::string &text);

/** The words of the command line without the one that boosters have more. */
std::vector<std::string> words(int argc, char **argv);
