// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Find out if a program listens at an address: distinguishes a dead program from a silent network. */
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

namespace reprise::job {

enum class Reach {
  open,     ///< a program listens
  refused,  ///< the host answers, but no program listens
  silent,   ///< no answer
};

/**
 * Try TCP connections to all of @p endpoints ("tcp://ADDRESS:PORT") at once. The loop calls @p done once. As soon as one
 * connection is open, the result is `open` with its endpoint. The result is `refused` if at least one was refused and none
 * was silent: the address that refuses may be one that many hosts have, like that of a bridge for virtual machines. All
 * else is `silent`. Addresses to which this host has no route do not count. `held` keeps the probe connections
 * open: if one ended before the server could look at it, the server would report it as a stranger's.
 */
void find_reach(asio::io_context& loop, const std::vector<std::string>& endpoints, std::chrono::milliseconds limit,
                std::function<void(Reach, const std::string& endpoint, std::shared_ptr<void> held)> done);

}  // namespace reprise::job
