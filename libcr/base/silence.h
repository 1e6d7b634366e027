// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Time without an ioctl of a session after which the module regards the session's owner as dead. */

namespace reprise {

inline constexpr unsigned kSilenceMs = 60'000;

/** @return kSilenceMs; in a test build the shorter value of the environment variable CR_SILENCE_MS, if it is set */
unsigned silence_ms();

}  // namespace reprise
