// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The transport between crrun, its daemons and crjob: ZeroMQ over TCP, encrypted and authenticated by CURVE with
 * keys made for the job. crrun has a ROUTER socket, the others have DEALERs. A message has two frames: one byte for its
 * kind, and a protobuf message. No function blocks; all callbacks come from the event loop.
 */
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "job/keys.h"
#include "job/messages.pb.h"

namespace reprise::job {

/** Routing id of a connection at crrun: the name that the other side chose. It may contain unprintable bytes. */
using Peer = std::string;

/** A longer frame ends the connection that it arrives on. */
inline constexpr std::size_t kMaxMessageBytes = 256 << 20;

struct ServerEvents {
  std::function<void(const Peer&, Up)> up;    ///< from a daemon
  std::function<void(const Peer&, Ask)> ask;  ///< from crjob
  /** A connection that had delivered a message has ended. The peer may already have a new one. */
  std::function<void(const Peer&)> disconnected;
  /** The peer did not show the job's key, or did not speak the protocol. */
  std::function<void(const std::string& address, const std::string& why)> refused;
};

/** crrun's side. */
class Server {
 public:
  /**
   * Listen on IPv4 and IPv6. @param port 0: any free port. Throws std::runtime_error when the port is taken. Callbacks
   * may be empty.
   */
  Server(asio::io_context& loop, const KeyPair& own, const std::string& client_public_key, std::uint16_t port,
         ServerEvents events);
  ~Server();
  std::uint16_t port() const;
  /** @return false when the connection does not exist (any more) */
  bool send(const Peer& peer, const Down& message);
  /** The same to several. It is encoded once: in a large job messages have megabytes. */
  void send(const std::vector<Peer>& peers, const Down& message);
  bool answer(const Peer& peer, const Answer& message);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

struct ClientEvents {
  std::function<void(Down)> down;
  std::function<void(Answer)> answer;
  std::function<void()> connected;  ///< and authenticated: messages sent from now on arrive
  /**
   * The connection ended or could not be made. It is made again only by connect(). Messages that were not sent yet are
   * lost.
   */
  std::function<void(const std::string& why)> lost;
};

/** A daemon's or crjob's side. */
class Client {
 public:
  /** @param name routing id of this end, unique: 1 to 255 bytes, the first not 0 */
  Client(asio::io_context& loop, std::string name, const std::string& server_public_key, const KeyPair& own,
         ClientEvents events);
  ~Client();
  /** Begin to connect; drops the previous connection. @param endpoint "tcp://ADDRESS:PORT" */
  void connect(const std::string& endpoint);
  void disconnect();
  /** Messages are queued until the connection is made. */
  void send(const Up& message);
  void ask(const Ask& message);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::job
