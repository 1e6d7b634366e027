// SPDX-License-Identifier: GPL-2.0-only
#include "crd/pmix_renewal.h"

#include <utility>

#include "crd/launch.h"
#include "job/log.h"

namespace reprise::crd {

struct PmixRenewal::State {
  /** A connection and the function that wants it: the one that is there first waits for the other. */
  struct Connection {
    bool there = false;
    UniqueFd fd;
    std::string error;
    Then then;
  };
  std::map<std::uint32_t, Connection> connections;
  std::shared_ptr<PmixHost> old;

  void made(std::uint32_t rank, UniqueFd fd, const std::string& error) {
    Connection& it = connections.at(rank);
    it.there = true;
    it.fd = std::move(fd);
    it.error = error;
    if (it.then) hand_over(it);
  }
  static void hand_over(Connection& it) { std::exchange(it.then, nullptr)(std::move(it.fd), it.error); }
};

PmixRenewal::PmixRenewal(Node& node, Side side, const std::map<std::uint32_t, std::uint32_t>& placement,
                         const std::vector<std::uint32_t>& ranks)
    : state_(std::make_shared<State>()) {
  for (const std::uint32_t rank : ranks) state_->connections[rank];
  const std::weak_ptr<State> weak = state_;
  state_->old = node.pmix.renew(side, placement, [&node, weak, ranks](const std::string& error) {
    spdlog::debug("the new PMIx server is ready");
    for (const std::uint32_t rank : ranks) {
      const auto state = weak.lock();
      if (!state) return;
      if (!error.empty()) {
        state->made(rank, {}, error);
        continue;
      }
      try {
        node.donors.donate(rank, environment_of_rank(node, rank), [weak, rank](UniqueFd fd, const std::string& why) {
          spdlog::debug("rank {}: new PMIx connection {}", rank, fd ? "made" : why);
          if (const auto it = weak.lock()) it->made(rank, std::move(fd), why);
        });
      } catch (const std::exception& problem) {
        state->made(rank, {}, problem.what());
      }
    }
  });
}

void PmixRenewal::connection(std::uint32_t rank, Then then) {
  State::Connection& it = state_->connections.at(rank);
  it.then = std::move(then);
  if (it.there) State::hand_over(it);
}

std::shared_ptr<PmixHost> PmixRenewal::take_old() { return std::move(state_->old); }

}  // namespace reprise::crd
