// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Everything that is saved of a process beside its private pages. */
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

/** A new identity, at random. */
CheckpointId new_checkpoint_id();

struct State {
  Process process;
  std::vector<ThreadRegs> regs;  ///< in the order of process.threads()
  SharedContents shared;
  CheckpointId id{};
};

/** Save everything that needs no stop. */
void collect_running(Session& session, State& state);
/** Save everything else. Target frozen. Throws Error (refused) naming what cannot be saved; nothing has changed. */
void collect_frozen(Session& session, State& state, Report& report, std::uint64_t deleted_limit = kDeletedLimit);

}  // namespace reprise
