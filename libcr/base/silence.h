// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file For how long the module hears nothing of a session before it takes its owner for dead. */

namespace reprise {

inline constexpr unsigned kSilenceMs = 60'000;

/** As sessions ask for it: kSilenceMs, or in a test build what CR_SILENCE_MS says, so that a test need not wait so long. */
unsigned silence_ms();

}  // namespace reprise
