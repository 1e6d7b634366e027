// SPDX-License-Identifier: GPL-2.0-only
#include "job/zmq_watch.h"

#include <utility>

#include <asio/post.hpp>

#include "job/uninterrupted.h"

namespace reprise::job {

struct ZmqWatch::State {
  State(asio::io_context& io, zmq::socket_t& zmq_socket, std::function<void()> call)
      : loop(io), socket(zmq_socket), descriptor(io, zmq_socket.get(zmq::sockopt::fd)), readable(std::move(call)) {}
  asio::io_context& loop;
  zmq::socket_t& socket;
  asio::posix::stream_descriptor descriptor;
  std::function<void()> readable;
  bool gone = false, kicked = false;
};

ZmqWatch::ZmqWatch(asio::io_context& loop, zmq::socket_t& socket, std::function<void()> readable)
    : state_(std::make_shared<State>(loop, socket, std::move(readable))) {
  wait(state_);
  kick();
}

ZmqWatch::~ZmqWatch() {
  state_->gone = true;
  state_->descriptor.cancel();
  // The descriptor belongs to the ZeroMQ socket.
  state_->descriptor.release();
}

void ZmqWatch::kick() {
  if (std::exchange(state_->kicked, true)) return;
  asio::post(state_->loop, [state = state_] {
    state->kicked = false;
    if (!state->gone) drain(state);
  });
}

void ZmqWatch::wait(const std::shared_ptr<State>& state) {
  state->descriptor.async_wait(asio::posix::stream_descriptor::wait_read, [state](const asio::error_code& error) {
    if (error || state->gone) return;
    drain(state);
    if (!state->gone) wait(state);
  });
}

void ZmqWatch::drain(const std::shared_ptr<State>& state) {
  // Reading ZMQ_EVENTS clears the state that ZMQ_FD signals.
  const auto events = [&] { return uninterrupted([&] { return state->socket.get(zmq::sockopt::events); }); };
  while (!state->gone && (events() & ZMQ_POLLIN)) state->readable();
}

}  // namespace reprise::job
