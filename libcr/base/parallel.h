// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Independent pieces of work on all processors. */
#include <cstddef>
#include <functional>

namespace reprise {

/**
 * Call @p work for 0 to @p count - 1, each once, in that order but several at the same time, in the calling thread and in
 * others. When one throws, no more are begun. Throws what the lowest of those that have thrown has thrown, after all that
 * were begun have ended.
 */
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace reprise
