// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Set errno and the text of cr_last_error(). */

namespace reprise::api {

/**
 * Set errno to @p err and the text of cr_last_error().
 * @param sentence  the text; nullptr or "": cr_strerror(@p err)
 * @return -1
 */
int fail(int err, const char* sentence = nullptr);
/** Set the text of cr_last_error() to "". */
void clear_error();

}  // namespace reprise::api
