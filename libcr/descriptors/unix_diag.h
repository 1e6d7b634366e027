// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Properties of Unix sockets that only the kernel's sock_diag interface returns. */
#include <cstdint>
#include <optional>

namespace reprise {

struct UnixDiag {
  std::uint64_t peer_ino = 0;  ///< inode of the peer; 0: none, or it was closed
  std::uint32_t backlog = 0;   ///< of a listening socket
  std::uint32_t shut = 0;      ///< bits: 1: reading, 2: writing was shut down
  std::uint64_t path_ino = 0;  ///< inode that it is bound to in the file system; 0: none
};

/** Query a socket of our network namespace by inode number. @return nullopt if the kernel has no answer */
std::optional<UnixDiag> unix_diag(std::uint64_t ino);

}  // namespace reprise
