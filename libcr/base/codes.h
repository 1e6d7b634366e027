// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The error codes of libcr.h in words. */

namespace reprise {

/** @return the meaning of the code CR_E…; nullptr when @p err is not such a code */
const char* code_text(int err);

}  // namespace reprise
