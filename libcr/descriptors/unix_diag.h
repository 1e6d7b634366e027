// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Facts about Unix sockets that only the kernel's socket diagnosis tells. */
#include <cstdint>
#include <optional>

namespace reprise {

struct UnixDiag {
  std::uint64_t peer_ino = 0;  ///< 0: none, or it was closed
  std::uint32_t backlog = 0;   ///< of a listening one
  std::uint32_t shut = 0;      ///< 1: reading, 2: writing was shut down
  std::uint64_t path_ino = 0;  ///< of what it was bound to in the file system; 0: nothing
};

/** By inode number; nothing when the kernel does not know or tell. Of our own network namespace. */
std::optional<UnixDiag> unix_diag(std::uint64_t ino);

}  // namespace reprise
