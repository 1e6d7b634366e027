// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Events of the connections of a ZeroMQ socket, reported by the event loop. */
#include <cstdint>
#include <functional>
#include <string>

#include <asio/io_context.hpp>
#include <zmq.hpp>

#include "job/zmq_watch.h"

namespace reprise::job {

class SocketMonitor {
 public:
  /** @param event ZMQ_EVENT_…; @param value an fd, errno or code; @param endpoint on our side */
  using Handler = std::function<void(int event, std::uint32_t value, const std::string& endpoint)>;
  SocketMonitor(asio::io_context& loop, zmq::context_t& context, zmq::socket_t& socket, Handler handler);
  ~SocketMonitor();

 private:
  void receive();
  zmq::socket_t& watched_;
  zmq::socket_t pair_;
  Handler handler_;
  ZmqWatch watch_;
};

}  // namespace reprise::job
