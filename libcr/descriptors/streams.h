// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Substitutes for pipes of a restarted process whose other end another process had. */
#include "restore/options.h"
#include "restore/report.h"

namespace reprise {

class Process;

/**
 * Substitute our standard input for read ends and our standard output for write ends of pipes to other processes,
 * unless @p options has a substitute. Adds a warning for each pipe.
 */
void use_streams_for_pipes(const Process& image, RestoreOptions& options, Report& report);

}  // namespace reprise
