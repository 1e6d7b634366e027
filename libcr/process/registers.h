// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Registers of threads, and the system calls in which they were parked. */
#include <functional>
#include <vector>

#include "image/format.h"
#include "image/state.pb.h"
#include "restore/report.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/**
 * Give every thread its registers and signal mask; the last step before thaw, when all memory is
 * back: calls with time left are made anew here, so that the kernel knows of them.
 * @param regs        in the order of image.threads()
 * @param in_session  the session's own snapshot may know how to go on with a call
 */
void restore_registers(Session& session, Remote& remote, const Process& image, const std::vector<ThreadRegs>& regs,
                       bool in_session, Report& report);

/**
 * Pointers to restartable sequences, which the kernel cleared when it saw the threads elsewhere.
 * @param read_page  gives one saved page; false when the image has none there
 */
void restore_rseq_pointers(Session& session, const Process& image, const std::vector<pid_t>& threads,
                           const std::function<bool(std::uint64_t addr, char (&page)[4096])>& read_page);

}  // namespace reprise
