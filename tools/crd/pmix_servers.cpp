// SPDX-License-Identifier: GPL-2.0-only
#include "crd/pmix_servers.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "crd/node.h"
#include "crd/spawner.h"
#include "job/programs.h"

namespace reprise::crd {

const std::vector<std::string>& PmixServers::environment(std::uint32_t number) const {
  static const std::vector<std::string> none;
  const PmixHost* const host = of(node_.side_of(number));
  return host ? host->environment(number) : none;
}

void PmixServers::tell(Side side, const ToPmix& message) const {
  if (PmixHost* const host = of(side)) host->send(message);
}

void PmixServers::tell_all(const ToPmix& message) const {
  for (const Side side : kSides) tell(side, message);
}

void PmixServers::drop(Side side) {
  at(side).host.reset();
  ++at(side).generation;
}

void PmixServers::drop_all() {
  for (const Side side : kSides) drop(side);
}

void PmixServers::prepare() {
  if (next_ && next_->running()) return;
  PmixInit init;
  init.set_host(node_.host());
  init.set_directory(node_.run_directory + "/pmix-" + std::to_string(++processes_));
  std::error_code error;
  std::filesystem::create_directories(init.directory(), error);
  next_ = std::make_unique<PmixHost>(node_.loop, init);
}

std::shared_ptr<PmixHost> PmixServers::renew(Side side, const std::map<std::uint32_t, std::uint32_t>& where,
                                             std::function<void(const std::string&)> ready) {
  PmixStart message;
  message.set_nspace(node_.job.id());
  message.set_node(node_.index);
  message.set_serves_spawned(side == Side::spawned);
  for (const job::Node& node : node_.nodes) {
    while (message.hosts_size() <= static_cast<int>(node.index())) message.add_hosts("");
    message.set_hosts(static_cast<int>(node.index()), node.host());
  }
  for (std::uint32_t rank = 0; rank < node_.job.ranks(); ++rank) {
    message.add_node_of_rank(where.count(rank) ? where.at(rank) : 0);
    message.add_app_of_rank(job::program_number(node_.job, rank));
  }
  for (const auto& [first, space] : node_.spawned) *message.add_spawned() = pmix_spawned(node_, space.message);
  Served& it = at(side);
  const unsigned generation = ++it.generation;
  prepare();
  auto old = std::exchange(it.host, std::move(next_));
  auto call = std::make_shared<std::function<void(const std::string&)>>(std::move(ready));
  it.host->start(
      message,
      [this, side, call, generation](const FromPmix& what) {
        if (generation != at(side).generation) return;  // from a server that was replaced
        if (what.has_ready() || what.has_failed()) {
          if (auto then = std::exchange(*call, nullptr)) then(what.failed());
          return;
        }
        if (said) said(side, what);
      },
      [this, side, call, generation](const std::string& why) {
        if (generation != at(side).generation) return;
        if (auto then = std::exchange(*call, nullptr)) return then("the PMIx server has ended: " + why);
        node_.say(job::Log::ERROR, "the PMIx server has ended (" + why + "): ranks that need it will fail");
      });
  return old;
}

}  // namespace reprise::crd
