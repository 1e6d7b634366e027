// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The two frames of a message: its kind (one byte) and the protobuf message. */
#include <optional>
#include <string>

#include <google/protobuf/message_lite.h>
#include <zmq.hpp>

namespace reprise::job {

enum class Kind : char { up = 'U', down = 'D', ask = 'Q', answer = 'A' };

/** @return nothing when the message is too long (logged) */
std::optional<zmq::message_t> encode(const google::protobuf::MessageLite& message);

/** Send what encode() returned. Copies of a message share its bytes. The rest as for a message. */
bool send_frames(zmq::socket_t& socket, const std::string* peer, Kind kind, zmq::message_t body);

/** Send without waiting. @return false when the message cannot be sent: no such peer, no connection */
bool send_frames(zmq::socket_t& socket, const std::string* peer, Kind kind, const google::protobuf::MessageLite& message);

struct Received {
  std::string peer;  ///< set for a ROUTER only
  char kind = 0;
  zmq::message_t body;
  int fd = -1;       ///< of the connection that delivered the message; only to match it with events
};

/** Receive one message. @return false when there is none, or when its frames are malformed (logged) */
bool receive_frames(zmq::socket_t& socket, bool router, Received& received);

/** @return false when the bytes cannot be parsed as this type of message (logged) */
bool parse(const Received& received, google::protobuf::MessageLite& message);

}  // namespace reprise::job
