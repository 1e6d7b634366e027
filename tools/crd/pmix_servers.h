// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The node's PMIx servers: one for the job's own ranks, one for spawned processes.
 *
 * A server knows what its clients have sent, so it has to be replaced when they go back, and cannot be replaced under those that run
 * on. To each server the clients of the other one are as processes on another node: crrun completes what they do together.
 */
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "crd/pmix_host.h"

namespace reprise::crd {

struct Node;

/** Processes that have a server for themselves. */
enum class Side : std::uint8_t { own, spawned };
inline constexpr std::array<Side, 2> kSides{Side::own, Side::spawned};

class PmixServers {
 public:
  explicit PmixServers(Node& node) : node_(node) {}
  std::function<void(Side, const FromPmix&)> said;  ///< set by the daemon

  /** @return nullptr: there is none, as there are no such processes here */
  PmixHost* of(Side side) const { return at(side).host.get(); }
  bool any() const { return of(Side::own) || of(Side::spawned); }
  /** The variables that libpmix needs in the environment of a process of this node. */
  const std::vector<std::string>& environment(std::uint32_t number) const;
  void tell(Side side, const ToPmix& message) const;
  void tell_all(const ToPmix& message) const;

  /** Start the process of the next server in advance. */
  void prepare();
  /** Start a server that replaces the old one. @param where the node of each rank @return the old server */
  std::shared_ptr<PmixHost> renew(Side side, const std::map<std::uint32_t, std::uint32_t>& where,
                                  std::function<void(const std::string& error)> ready);
  void drop(Side side);
  void drop_all();

 private:
  struct Served {
    std::shared_ptr<PmixHost> host;
    unsigned generation = 0;  ///< counts the servers that were started
  };
  Served& at(Side side) { return served_[static_cast<std::size_t>(side)]; }
  const Served& at(Side side) const { return served_[static_cast<std::size_t>(side)]; }

  Node& node_;
  std::array<Served, kSides.size()> served_;
  std::unique_ptr<PmixHost> next_;
  unsigned processes_ = 0;
};

}  // namespace reprise::crd
