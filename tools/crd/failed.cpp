// SPDX-License-Identifier: GPL-2.0-only
#include "crd/failed.h"

#include <cstring>

#include "job/log.h"
#include "rank_channel.h"

namespace reprise::crd {
namespace {

std::string gone(const ProcessName& name, std::uint32_t recovery) {
  std::string bytes(sizeof(cr_rank_gone) + name.nspace.size() + 1, '\0');
  cr_rank_gone head{};
  head.head = {CR_RANK_GONE, static_cast<std::uint32_t>(bytes.size()), 0, recovery};
  head.peer = name.rank;
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, name.nspace.data(), name.nspace.size());
  return bytes;
}

}  // namespace

void tell_failed(Node& node, const job::Failed& message) {
  for (const std::uint32_t failed : message.ranks()) {
    const ProcessName name = node.name_of(failed);
    const std::string bytes = gone(name, node.recovery);
    spdlog::info("rank {} of {} has failed: the ranks here are told", name.rank, name.nspace);
    for (const auto& [number, rank] : node.ranks)
      if (rank->alive() && number != failed) node.tell(number, bytes.data(), bytes.size());
  }
  ToPmix to;
  *to.mutable_failed()->mutable_ranks() = message.ranks();
  node.pmix.tell_all(to);
}

}  // namespace reprise::crd
