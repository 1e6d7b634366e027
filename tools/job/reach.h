// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Whether somebody listens at an address: tells a program that has died from a network that is silent. */
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

namespace reprise::job {

enum class Reach {
  open,     ///< somebody listens
  refused,  ///< the host answers, and nobody listens
  silent,   ///< no answer
};

/**
 * Try TCP connections to all of @p endpoints ("tcp://ADDRESS:PORT") at once. @p done is called once, from the loop: as
 * soon as one is open, with it; else, when all have answered or @p limit has passed, `refused` if any
 * was refused, else `silent`, with "". `held` keeps the connections that were tried open: one that is gone before
 * the server could look at it would be taken for a stranger's.
 */
void find_reach(asio::io_context& loop, const std::vector<std::string>& endpoints, std::chrono::milliseconds limit,
                std::function<void(Reach, const std::string& endpoint, std::shared_ptr<void> held)> done);

}  // namespace reprise::job
