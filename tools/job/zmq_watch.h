// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file A ZeroMQ socket in an asio event loop. */
#include <functional>
#include <memory>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <zmq.hpp>

namespace reprise::job {

/**
 * Calls back whenever the socket has something to receive. ZMQ_FD tells of changes only once, and any send or
 * receive may swallow one: so kick() must be called after every send, and the callback receives
 * until nothing is left. Destroy it before the socket.
 */
class ZmqWatch {
 public:
  /** @param readable must receive everything that is there (dontwait) */
  ZmqWatch(asio::io_context& loop, zmq::socket_t& socket, std::function<void()> readable);
  ~ZmqWatch();
  ZmqWatch(const ZmqWatch&) = delete;
  ZmqWatch& operator=(const ZmqWatch&) = delete;

  /** Look again from the loop: something was sent. */
  void kick();

 private:
  struct State;
  static void wait(const std::shared_ptr<State>& state);
  static void drain(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;  ///< handlers on their way may outlive the watch
};

}  // namespace reprise::job
