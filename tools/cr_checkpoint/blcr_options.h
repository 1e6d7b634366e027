// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Options of BLCR's cr_checkpoint. */
#include <CLI/CLI.hpp>

namespace reprise::tool {

/**
 * Add them to @p app, hidden from --help. Options for behaviour that is the default here are accepted without effect.
 * Options that cannot be supported are refused with a message.
 */
void add_blcr_options(CLI::App& app);

}  // namespace reprise::tool
