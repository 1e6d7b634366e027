// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Registers of threads, and the system calls that the checkpoint interrupted. */
#include <functional>
#include <vector>

#include "image/format.h"
#include "image/state.pb.h"
#include "restore/report.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/**
 * Restore the registers and signal mask of every thread. The last step before thaw, when all memory is restored: calls
 * with a remaining timeout are made again here, so that the kernel gets their restart block.
 * @param regs        in the order of image.threads()
 * @param in_session  the session's own snapshot may hold the restart block of a call
 * @param same_processor  they were saved on this machine in this boot, so that they need no check
 */
void restore_registers(Session& session, Remote& remote, const Process& image, const std::vector<ThreadRegs>& regs,
                       bool in_session, bool same_processor, Report& report);

/**
 * @return all threads for one call of the module (CR_IOC_ROLLBACK), with restart blocks of the session's snapshot; empty if
 * the registers of one of them were not saved by this processor. They point into @p regs
 */
std::vector<cr_thread_regs> thread_registers(const Process& image, const std::vector<ThreadRegs>& regs);

/**
 * Restore rseq_cs of the given @p threads: the kernel clears it when a thread is outside its critical section.
 * @param read_page  reads one saved page; returns false if the image has none at that address
 */
void restore_rseq_pointers(Session& session, const Process& image, const std::vector<pid_t>& threads,
                           const std::function<bool(std::uint64_t addr, char (&page)[4096])>& read_page);

}  // namespace reprise
