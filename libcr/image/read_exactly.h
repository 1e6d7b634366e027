// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Read a part of a file, or say that the file is too short. */
#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::image {

/** Read exactly @p len bytes at file offset @p offset. @throws Error when the file is shorter or cannot be read */
void read_exactly(int fd, const std::string& name, std::uint64_t offset, void* buf, std::size_t len);

}  // namespace reprise::image
