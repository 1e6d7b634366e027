// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file How crrun, its daemons and crjob reach one another: ZeroMQ over TCP, encrypted and authenticated by CURVE with
 * keys made for the job. crrun has a ROUTER, the others have DEALERs. A message is two frames: one byte that
 * tells its kind, and a protobuf message. Nothing here blocks; all callbacks come from the event loop.
 */
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <asio/io_context.hpp>

#include "job/keys.h"
#include "job/messages.pb.h"

namespace reprise::job {

/** A connection, as crrun names it: the name that the other side chose. Not for printing. */
using Peer = std::string;

/** A longer frame ends the connection that brings it. */
inline constexpr std::size_t kMaxMessageBytes = 256 << 20;

struct ServerEvents {
  std::function<void(const Peer&, Up)> up;    ///< from a daemon
  std::function<void(const Peer&, Ask)> ask;  ///< from crjob
  /** A connection over which something had come has ended; the peer may be back already with another one. */
  std::function<void(const Peer&)> disconnected;
  /** Somebody without the job's key, or who speaks something else. */
  std::function<void(const std::string& address, const std::string& why)> refused;
};

/** crrun's side. */
class Server {
 public:
  /**
   * Listen, on IPv4 and IPv6. @param port 0: any that is free. Throws std::runtime_error when it is taken.
   * Callbacks may be left empty.
   */
  Server(asio::io_context& loop, const KeyPair& own, const std::string& client_public_key, std::uint16_t port,
         ServerEvents events);
  ~Server();
  std::uint16_t port() const;
  /** @return false when there is no such connection (any more) */
  bool send(const Peer& peer, const Down& message);
  bool answer(const Peer& peer, const Answer& message);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

struct ClientEvents {
  std::function<void(Down)> down;
  std::function<void(Answer)> answer;
  std::function<void()> connected;  ///< and authenticated: what is sent from now on arrives
  /**
   * The connection ended, or could not be made. It is not made again unless connect() is called; what was
   * not sent yet is gone.
   */
  std::function<void(const std::string& why)> lost;
};

/** A daemon's or crjob's side. */
class Client {
 public:
  /** @param name of this end, unlike that of all others: 1 to 255 bytes, the first not 0 */
  Client(asio::io_context& loop, std::string name, const std::string& server_public_key, const KeyPair& own,
         ClientEvents events);
  ~Client();
  /** Begin to connect, and give up the connection that was there. @param endpoint "tcp://ADDRESS:PORT" */
  void connect(const std::string& endpoint);
  void disconnect();
  /** Messages queue until the connection is there. */
  void send(const Up& message);
  void ask(const Ask& message);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::job
