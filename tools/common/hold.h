// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file --hold: get ready, then wait for a line on standard input. */
#include <csignal>

#include "command.h"

namespace reprise::tool {

/** @param what the thing that becomes ready, for the help text */
void add_hold(CLI::App& app, bool& wanted, const std::string& what);

/**
 * On its first call, report that all is ready: as text on standard error, or as a line of JSON. The hold ends with the
 * first line from standard input; nothing behind that line is read. End of file cancels it (Error refused).
 * @param mask signal mask while it waits, borrowed; nullptr: unchanged
 */
Hold hold_until_line(const Common& common, const sigset_t* mask = nullptr);

}  // namespace reprise::tool
