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
 * Calls back whenever the socket has something to receive. ZMQ_FD is edge-triggered, and any send or receive may consume
 * an edge. So call kick() after every send, and let the callback receive until nothing is left. Destroy the watch before
 * the socket.
 */
class ZmqWatch {
 public:
  /** @param readable must receive all messages that are there (dontwait) */
  ZmqWatch(asio::io_context& loop, zmq::socket_t& socket, std::function<void()> readable);
  ~ZmqWatch();
  ZmqWatch(const ZmqWatch&) = delete;
  ZmqWatch& operator=(const ZmqWatch&) = delete;

  /** Check for messages again from the loop: call it after a send. */
  void kick();

 private:
  struct State;
  static void wait(const std::shared_ptr<State>& state);
  static void drain(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;  ///< pending handlers may outlive the watch
};

}  // namespace reprise::job
