// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Pipes of a restarted process whose other end another process had. */
#include "restore/options.h"
#include "restore/report.h"

namespace reprise {

class Process;

/**
 * Let our standard input and output take the place of pipes to other processes that nothing else has been given for:
 * input that of the ends that are read from, output that of those that are written to. A warning names each.
 */
void use_streams_for_pipes(const Process& image, RestoreOptions& options, Report& report);

}  // namespace reprise
