// SPDX-License-Identifier: GPL-2.0-only
#include "job/frames.h"

#include <limits>
#include <vector>

#include "job/log.h"
#include "job/transport.h"
#include "job/uninterrupted.h"

namespace reprise::job {

std::optional<zmq::message_t> encode(const google::protobuf::MessageLite& message) {
  const std::size_t bytes = message.ByteSizeLong();
  if (bytes > kMaxMessageBytes) {
    spdlog::error("a message of {} bytes is not sent: the limit is {}", bytes, kMaxMessageBytes);
    return std::nullopt;
  }
  zmq::message_t body(bytes);
  if (!message.SerializeToArray(body.data(), static_cast<int>(bytes))) return std::nullopt;
  return body;
}

bool send_frames(zmq::socket_t& socket, const std::string* peer, Kind kind, zmq::message_t body) {
  const char byte = static_cast<char>(kind);
  constexpr auto kMore = zmq::send_flags::sndmore | zmq::send_flags::dontwait;
  try {
    if (peer && !uninterrupted([&] { return socket.send(zmq::buffer(*peer), kMore); })) return false;
    if (!uninterrupted([&] { return socket.send(zmq::buffer(&byte, 1), kMore); })) return false;
    return uninterrupted([&] { return socket.send(body, zmq::send_flags::dontwait); }).has_value();
  } catch (const zmq::error_t& error) {
    if (error.num() != EHOSTUNREACH) spdlog::warn("a message cannot be sent: {}", error.what());
    return false;
  }
}

bool send_frames(zmq::socket_t& socket, const std::string* peer, Kind kind, const google::protobuf::MessageLite& message) {
  auto body = encode(message);
  return body && send_frames(socket, peer, kind, std::move(*body));
}

bool receive_frames(zmq::socket_t& socket, bool router, Received& received) {
  std::vector<zmq::message_t> frames;
  bool more = true;
  while (more) {
    zmq::message_t frame;
    if (!uninterrupted([&] { return socket.recv(frame, zmq::recv_flags::dontwait); })) return false;
    more = frame.more();
    if (frames.size() < 4) frames.push_back(std::move(frame));
  }
  const std::size_t skip = router ? 1 : 0;
  if (frames.size() != skip + 2 || frames[skip].size() != 1) {
    spdlog::warn("a message of {} frames is dropped: messages of the job have two", frames.size());
    return false;
  }
  if (router) received.peer = frames[0].to_string();
  received.kind = *frames[skip].data<char>();
  received.body = std::move(frames[skip + 1]);
  received.fd = ::zmq_msg_get(received.body.handle(), ZMQ_SRCFD);
  return true;
}

bool parse(const Received& received, google::protobuf::MessageLite& message) {
  if (received.body.size() <= std::numeric_limits<int>::max() &&
      message.ParseFromArray(received.body.data(), static_cast<int>(received.body.size())))
    return true;
  spdlog::warn("a message of kind '{}' and {} bytes is dropped: it cannot be read", received.kind, received.body.size());
  return false;
}

}  // namespace reprise::job
