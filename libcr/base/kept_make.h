// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Make kept memory. */
#include <cstddef>

namespace reprise {

/** F_SEAL_WRITE and F_SEAL_FUTURE_WRITE, which older C libraries lack: with one of them the memory cannot be mapped for writing. */
inline constexpr int kNotWritableSeals = 0x0008 | 0x0010;

/**
 * Make kept memory that is mapped nowhere yet.
 * @param name   its name, without the prefix
 * @param bytes  its size, which is sealed: whoever accesses what another holder cuts off would get SIGBUS
 * @param copied whether images have its content (CR_KEPT_COPIED)
 * @return a descriptor (close-on-exec); -1 with errno
 */
int make_kept_memory(const char* name, std::size_t bytes, bool copied = false);

/** Seal the size of the memfd @p fd, if its seals are not sealed themselves. @return false with errno on failure */
bool seal_size(int fd);

}  // namespace reprise
