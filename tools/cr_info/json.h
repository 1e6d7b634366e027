// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The JSON output. */
#include <string>

#include "details.h"

namespace reprise {

/**
 * {"image": sizes, "verification": …, "process": the state as in state.proto}.
 * Names and paths that are not UTF-8 have their invalid bytes replaced. Other bytes (siginfo_t, socket addresses …) are
 * hexadecimal.
 */
std::string to_json(const Image& image, const Verification& verification);

}  // namespace reprise
