// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The daemon adopts processes whose parents end, so that all processes that come from its ranks remain its
 * descendants: the lease covers them, and nothing of a job outlives its daemon.
 */
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>

namespace reprise::crd {

class Orphans {
 public:
  /** Adopt from now on, and reap adopted processes when they end. */
  explicit Orphans(asio::io_context& loop);

 private:
  void wait();
  asio::signal_set ended_;
};

}  // namespace reprise::crd
