// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The daemon's end of its PMIx server, and donors of connections to it. */
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "base/unique_fd.h"
#include "crd/pmix_messages.pb.h"

namespace reprise::crd {

/** One PMIx server process. To destroy it kills the process, and donors under way. */
class PmixHost {
 public:
  /** Its process begins, and waits for start(). */
  PmixHost(asio::io_context& loop, const PmixInit& init);
  ~PmixHost();
  /**
   * Serve a job.
   * @param message what the server says, `ready` and `failed` among it
   * @param lost the process has ended without being asked to
   */
  void start(const PmixStart& start, std::function<void(const FromPmix&)> message,
             std::function<void(const std::string& why)> lost);

  /** Its process has not ended. */
  bool running() const;
  void send(const ToPmix& message);
  bool ready() const;
  /** Call @p then when everything that the server has said up to now was taken, or when it has gone. */
  void when_heard(std::function<void()> then);
  /** What libpmix wants in the environment of a local rank; empty before ready(). */
  const std::vector<std::string>& environment(std::uint32_t rank) const;
  /**
   * Make a connection to the server in the name of a local rank. @param environment all of the rank's
   * @param done with the connected socket, or with an empty one and why
   */
  void donate(std::uint32_t rank, const std::vector<std::string>& environment,
              std::function<void(UniqueFd, const std::string& error)> done);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace reprise::crd
