// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Options that BLCR's command has. */
#include <CLI/CLI.hpp>

namespace reprise::tool {

/**
 * Those that ask for what is done anyway are taken, and those that ask for what cannot be done are refused by name;
 * neither is shown by --help.
 */
void add_blcr_options(CLI::App& app);

}  // namespace reprise::tool
