// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The protocol of afl-fuzz's fork servers, on descriptors kRequests and kAnswers. */
#include "target.h"

namespace reprise::afl {

/** Serve until afl-fuzz ends. Messages for the user go to descriptor @p messages. Throws Error. */
void serve_afl(const Command& command, int messages);

}  // namespace reprise::afl
