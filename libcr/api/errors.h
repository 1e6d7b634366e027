// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Failing with errno and a sentence for cr_last_error(). */

namespace reprise::api {

/** Set errno and the sentence; nullptr or "" stands for the text of @p err. @return -1 */
int fail(int err, const char* sentence = nullptr);
/** Nothing has failed. */
void clear_error();

}  // namespace reprise::api
