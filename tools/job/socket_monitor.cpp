// SPDX-License-Identifier: GPL-2.0-only
#include "job/socket_monitor.h"

#include <atomic>
#include <cstring>

#include "job/uninterrupted.h"

namespace reprise::job {
namespace {

zmq::socket_t monitor_of(zmq::context_t& context, zmq::socket_t& socket) {
  static std::atomic<unsigned> count{0};
  const std::string name = "inproc://monitor-" + std::to_string(++count);
  uninterrupted([&] {
    if (::zmq_socket_monitor(socket.handle(), name.c_str(), ZMQ_EVENT_ALL) != 0) throw zmq::error_t();
  });
  zmq::socket_t pair(context, zmq::socket_type::pair);
  pair.set(zmq::sockopt::linger, 0);
  uninterrupted([&] { pair.connect(name); });
  return pair;
}

}  // namespace

SocketMonitor::SocketMonitor(asio::io_context& loop, zmq::context_t& context, zmq::socket_t& socket, Handler handler)
    : watched_(socket), pair_(monitor_of(context, socket)), handler_(std::move(handler)),
      watch_(loop, pair_, [this] { receive(); }) {}

SocketMonitor::~SocketMonitor() { ::zmq_socket_monitor(watched_.handle(), nullptr, 0); }

void SocketMonitor::receive() {
  zmq::message_t event, endpoint;
  const auto receive = [this](zmq::message_t& into) {
    return uninterrupted([&] { return pair_.recv(into, zmq::recv_flags::dontwait); }).has_value();
  };
  if (!receive(event) || (event.more() && !receive(endpoint))) return;
  if (event.size() < 6) return;
  std::uint16_t number = 0;
  std::uint32_t value = 0;
  std::memcpy(&number, event.data(), sizeof number);
  std::memcpy(&value, event.data<char>() + sizeof number, sizeof value);
  handler_(number, value, endpoint.to_string());
}

}  // namespace reprise::job
