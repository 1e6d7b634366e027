// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The saved state of a process without its private pages. */
#include <array>
#include <cstdint>
#include <vector>

#include "image/format.h"
#include "image/state.pb.h"
#include "process/shared.h"
#include "request/options.h"
#include "restore/report.h"
#include "session/session.h"

namespace reprise {

using CheckpointId = std::array<std::uint8_t, CR_ID_SIZE>;

/** @return a new random identity. Throws Error when getrandom(2) fails. */
CheckpointId new_checkpoint_id();

struct State {
  Process process;
  std::vector<ThreadRegs> regs;  ///< in the order of process.threads()
  SharedContents shared;
  CheckpointId id{};
};

/** Save the part of the state that can be read while the target runs. Throws Error. */
void collect_running(Session& session, State& state);
/**
 * Save the rest of the state. The target must be frozen.
 * @param deleted_limit  most bytes of open deleted files to save; 0: save none
 * @param kept           as for SharedContents::collect()
 * Throws Error (refused) naming what cannot be saved; nothing has changed.
 */
void collect_frozen(Session& session, State& state, Report& report, std::uint64_t deleted_limit = kDeletedLimit,
                    std::vector<KeptFile>* kept = nullptr);

}  // namespace reprise
