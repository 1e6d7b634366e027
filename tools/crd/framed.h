// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Protobuf messages over a stream socket: four bytes of length, then the message. */
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <google/protobuf/message_lite.h>

#include "base/unique_fd.h"

namespace reprise::crd {

/** In an event loop. The destructor closes the socket. */
class FramedStream {
 public:
  /** @param fd connected Unix stream socket; takes ownership. @param closed called when the other side has closed it */
  FramedStream(asio::io_context& loop, int fd, std::function<void(const std::string&)> message, std::function<void()> closed);
  ~FramedStream();
  void send(const google::protobuf::MessageLite& message);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/** @return two connected Unix stream sockets, close-on-exec; throws std::system_error */
std::pair<UniqueFd, UniqueFd> socket_pair();

/** Blocking, for a process that does nothing else. @return false at end of file */
bool read_framed(int fd, std::string& message);
bool write_framed(int fd, const google::protobuf::MessageLite& message);

}  // namespace reprise::crd
