// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The local descriptor table (modify_ldt): Wine's and DOS emulators' own segments. */
#include "image/state.pb.h"
#include "session/lazy_remote.h"
#include "session/session.h"

namespace reprise {

/** Save the LDT. Target frozen. */
void collect_ldt(const cr_process& data, LazyRemote& remote, Process& process);

/** Set the entries that differ. Call it before the registers, whose selectors refer to the entries, are restored. */
void restore_ldt(Session& session, Remote& remote, const Process& image);

}  // namespace reprise
