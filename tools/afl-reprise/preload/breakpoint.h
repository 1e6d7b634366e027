// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file A function of the target at which the runs begin. */
namespace reprise::afl {

/**
 * Runs begin where function @p name is called for the first time. Gives up if there is none.
 * @param offset  where the executable has it, see kOffset; nullptr: look for it in the libraries
 */
void begin_at_function(const char* name, const char* offset);

}  // namespace reprise::afl
