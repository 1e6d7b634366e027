// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The error codes of libcr.h. */

namespace reprise {

/** @return the meaning of the code CR_E…; nullptr when @p err is not such a code */
const char* code_text(int err);

/**
 * @param err  errno of an Error of kind Failure::permanent, 0 if it has none
 * @return the code by which libcr.h reports it: CR_EBADARCH for ENOEXEC, CR_EIMAGE for EBADMSG and what has no errno of
 *   its own, otherwise @p err
 */
int public_code(int err);

}  // namespace reprise
