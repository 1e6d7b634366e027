// SPDX-License-Identifier: GPL-2.0-only
#include "crd/failed.h"

#include <cstring>

#include "job/log.h"
#include "job/names.h"
#include "rank_channel.h"

namespace reprise::crd {
namespace {

/** The process as its peers know it: a rank of a namespace. */
struct Name {
  std::string nspace;
  std::uint32_t rank;
};

Name name_of(const Node& node, std::uint32_t number) {
  const Spawned* space = node.space_of(number);
  if (!space) return {node.job.id(), number};
  return {job::spawned_name(node.job.id(), space->message.index()), number - space->message.first()};
}

/** @return the socket of the transport of a local process, and the rank by which it is known there */
std::pair<RankSocket*, std::uint32_t> socket_of(const Node& node, std::uint32_t number) {
  const Spawned* space = node.space_of(number);
  if (!space) return {node.socket.get(), number};
  return {space->socket.get(), number - space->message.first()};
}

std::string gone(const Name& name, std::uint32_t to, std::uint32_t recovery) {
  std::string bytes(sizeof(cr_rank_gone) + name.nspace.size() + 1, '\0');
  cr_rank_gone head{};
  head.head = {CR_RANK_GONE, static_cast<std::uint32_t>(bytes.size()), to, recovery};
  head.peer = name.rank;
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, name.nspace.data(), name.nspace.size());
  return bytes;
}

}  // namespace

void tell_failed(Node& node, const job::Failed& message) {
  for (const std::uint32_t failed : message.ranks()) {
    const Name name = name_of(node, failed);
    spdlog::info("rank {} of {} has failed: the ranks here are told", name.rank, name.nspace);
    for (const auto& [number, rank] : node.ranks) {
      const auto [socket, to] = socket_of(node, number);
      if (!socket || !rank->alive() || number == failed) continue;
      const std::string bytes = gone(name, to, node.recovery);
      socket->send(to, bytes.data(), bytes.size());
    }
  }
  if (!node.pmix) return;
  ToPmix to;
  *to.mutable_failed()->mutable_ranks() = message.ranks();
  node.pmix->send(to);
}

}  // namespace reprise::crd
