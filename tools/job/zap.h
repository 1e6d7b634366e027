// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The ZAP handler (ZeroMQ RFC 27) of a ZeroMQ context: admits peers that have the job's key. */
#include <functional>
#include <string>

#include <asio/io_context.hpp>
#include <zmq.hpp>

#include "job/zmq_watch.h"

namespace reprise::job {

class Doorkeeper {
 public:
  using Refused = std::function<void(const std::string& address, const std::string& why)>;
  /** Create it before the first socket of the context listens. @param client_public_key in Z85 */
  Doorkeeper(asio::io_context& loop, zmq::context_t& context, const std::string& client_public_key, Refused refused);

 private:
  void answer();
  zmq::socket_t socket_;
  std::string key_;  ///< 32 bytes
  Refused refused_;
  ZmqWatch watch_;
};

}  // namespace reprise::job
