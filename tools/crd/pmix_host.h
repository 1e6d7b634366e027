// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The daemon's end of its PMIx server. */
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "crd/pmix_messages.pb.h"

namespace reprise::crd {

/** One PMIx server process. The destructor kills the process. */
class PmixHost {
 public:
  /** Start the process; it waits for start(). */
  PmixHost(asio::io_context& loop, const PmixInit& init);
  ~PmixHost();
  /**
   * Serve a job.
   * @param message messages of the server, `ready` and `failed` included
   * @param lost the process has ended by itself
   */
  void start(const PmixStart& start, std::function<void(const FromPmix&)> message,
             std::function<void(const std::string& why)> lost);

  /** Whether the process has not ended. */
  bool running() const;
  void send(const ToPmix& message);
  bool ready() const;
  /** Call @p then when all messages that the server has sent until now are handled, or when the server has ended. */
  void when_heard(std::function<void()> then);
  /** The variables that libpmix needs in the environment of a local rank; empty before `ready`. */
  const std::vector<std::string>& environment(std::uint32_t rank) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace reprise::crd
