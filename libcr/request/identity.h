// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Which process, on which machine: what an image says of itself, and whether it fits. */
#include <cstdint>
#include <string>

#include "image/state.pb.h"
#include "request/options.h"
#include "session/session.h"

namespace reprise {

/** Save who the process is. It need not stand still. */
void collect_identity(Session& session, Process& process);
/** Save its executable, on what machine this is, and the time. Target frozen. */
void collect_host(Session& session, Process& process);

/**
 * Check that @p image is of the process that @p session is bound to, or of one that it was restarted from.
 * @param tracked  the module tracks the process under this image's id, which settles it. Target frozen.
 * @return whether it was made after the checkpoint: it was restarted, from this image or a later one.
 * Throws Error (refused) naming both.
 */
bool check_same_process(Session& session, const Process& image, bool tracked);

/** Can an image of that machine be restarted on this one? Throws Error (refused). */
void check_same_machine(const Process& image);

/** The machine has not been booted since the checkpoint, and is the same one. */
bool same_boot(const Process& image);

/** "1234 (name)" */
std::string process_name(const Process& image);

}  // namespace reprise
