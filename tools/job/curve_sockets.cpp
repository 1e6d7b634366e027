// SPDX-License-Identifier: GPL-2.0-only
#include "job/curve_sockets.h"

#include <cstdint>

#include "job/transport.h"

namespace reprise::job {
namespace {

zmq::socket_t socket_of(zmq::context_t& context, zmq::socket_type type) {
  zmq::socket_t socket(context, type);
  socket.set(zmq::sockopt::linger, 200);
  socket.set(zmq::sockopt::ipv6, true);
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(kMaxMessageBytes));
  // No limit needed: the protocol bounds the number of messages without an answer.
  socket.set(zmq::sockopt::sndhwm, 0);
  socket.set(zmq::sockopt::rcvhwm, 0);
  return socket;
}

}  // namespace

zmq::socket_t server_socket(zmq::context_t& context, const KeyPair& own) {
  zmq::socket_t socket = socket_of(context, zmq::socket_type::router);
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::curve_secretkey, own.secret_key);
  socket.set(zmq::sockopt::zap_domain, "reprise");
  // A daemon that connects again uses the same routing id, possibly before its old connection is known to be dead.
  socket.set(zmq::sockopt::router_handover, true);
  socket.set(zmq::sockopt::router_mandatory, true);
  socket.set(zmq::sockopt::backlog, 1024);
  return socket;
}

zmq::socket_t client_socket(zmq::context_t& context, const std::string& name, const std::string& server_public_key, const KeyPair& own) {
  zmq::socket_t socket = socket_of(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::routing_id, name);
  socket.set(zmq::sockopt::curve_serverkey, server_public_key);
  socket.set(zmq::sockopt::curve_publickey, own.public_key);
  socket.set(zmq::sockopt::curve_secretkey, own.secret_key);
  // No automatic reconnection: the user of the socket decides when and where to connect again.
  socket.set(zmq::sockopt::reconnect_ivl, -1);
  socket.set(zmq::sockopt::connect_timeout, 3000);
  socket.set(zmq::sockopt::handshake_ivl, 5000);
  return socket;
}

}  // namespace reprise::job
