// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file cr_checkpoint --every: delta images in a row, and a symbolic link to the newest. */
#include "command.h"
#include "request/options.h"

namespace reprise::tool {

/** Options of continuous checkpoints. */
struct Continuous {
  double seconds = 0;  ///< from the beginning of one checkpoint to that of the next; 0: there is only one
  unsigned keep = 1;   ///< the newest images that stay usable
};

/**
 * Save the process to IMAGE.1, IMAGE.2 … until it ends, or SIGINT, SIGTERM or SIGHUP comes. IMAGE is a symbolic link to the
 * newest of them. Files that none of the newest needs are removed. A checkpoint that is late begins at once.
 * @param options  of each checkpoint; a parent is not given
 * @throws Error when the first checkpoint fails, or a later one for good
 */
void save_continuously(const CheckpointOptions& options, const Continuous& how, const Common& common);

}  // namespace reprise::tool
