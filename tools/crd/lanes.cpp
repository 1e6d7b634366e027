// SPDX-License-Identifier: GPL-2.0-only
#include "crd/lanes.h"

#include <cerrno>
#include <random>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rank_lanes.h"

namespace reprise::crd {

UniqueFd make_lanes(const std::vector<std::uint32_t>& ranks) {
  const auto failed = [] { return std::system_error(errno, std::generic_category(), "no memory for the messages between ranks of this node"); };
  const auto count = static_cast<std::uint32_t>(ranks.size());
  cr_lanes header{};
  header.magic = CR_LANES_MAGIC;
  header.id = std::random_device()() | 1;  // 0 is that of no memory
  header.ranks = count;
  header.lane_bytes = cr_lane_bytes(count);

  UniqueFd memory(::memfd_create("reprise-lanes", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ::ftruncate(memory.get(), static_cast<off_t>(cr_lanes_bytes(count, header.lane_bytes))) != 0) throw failed();
  if (::pwrite(memory.get(), &header, sizeof header, 0) != sizeof header) throw failed();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    cr_lanes_rank line{};
    line.rank = ranks[i];
    if (::pwrite(memory.get(), &line, sizeof line, static_cast<off_t>(sizeof header + i * sizeof line)) != sizeof line) throw failed();
  }
  // A rank that accesses lanes must not find them cut off.
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) throw failed();
  return memory;
}

}  // namespace reprise::crd
