// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The error codes of libcr.h in words. */

namespace reprise {

/** @return what the code CR_E... means, nullptr when @p err is none of them */
const char* code_text(int err);

}  // namespace reprise
