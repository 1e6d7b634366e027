// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file --hold: get ready, then wait for a line on standard input. */
#include <csignal>

#include "command.h"

namespace reprise::tool {

/** @p what becomes ready */
void add_hold(CLI::App& app, bool& wanted, const std::string& what);

/**
 * Says, when asked for the first time, that all is ready: in words on standard error, or as a line of JSON. Lets go with
 * the first line from standard input, of which nothing more is read. Gives up at its end (Error refused).
 * @param mask of signals while it waits, borrowed; nullptr: as it is
 */
Hold hold_until_line(const Common& common, const sigset_t* mask = nullptr);

}  // namespace reprise::tool
