// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Connections to a PMIx server in the names of ranks. Each is made by a process of its own, a donor: libpmix connects a process
 * once. The donors are forked by one process, `crd --donor`, that has loaded all libraries before: half of what a donor would cost.
 */
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "base/unique_fd.h"
#include "crd/process.h"

namespace reprise::crd {

class Donors {
 public:
  using Done = std::function<void(UniqueFd, const std::string& error)>;
  explicit Donors(asio::io_context& loop) : loop_(loop) {}
  /** Start the process that forks donors, if it does not run. */
  void prepare();
  /**
   * Make a connection to the server that the environment names.
   * @param environment the rank's whole environment, with what libpmix needs
   * @param done gets the connected socket, or an empty one and the reason; called from the loop
   */
  void donate(std::uint32_t rank, std::vector<std::string> environment, Done done);

 private:
  asio::io_context& loop_;
  UniqueFd control_;  ///< takes a socket for each donor
  std::unique_ptr<Process> process_;
};

}  // namespace reprise::crd
