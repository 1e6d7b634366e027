// SPDX-License-Identifier: GPL-2.0-only
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <asio/post.hpp>

#include "job/curve_sockets.h"
#include "job/frames.h"
#include "job/log.h"
#include "job/socket_monitor.h"
#include "job/transport.h"
#include "job/uninterrupted.h"
#include "job/zmq_watch.h"

namespace reprise::job {

class Client::Impl {
 public:
  Impl(asio::io_context& loop, std::string name, std::string server_public_key, KeyPair own, ClientEvents events)
      : loop_(loop), name_(std::move(name)), server_(std::move(server_public_key)), own_(std::move(own)), events_(std::move(events)) {}

  void connect(const std::string& endpoint) {
    disconnect();
    connection_ = std::make_unique<Connection>(*this, endpoint);
  }

  void disconnect() {
    if (!connection_) return;
    // Destroy the connection from the loop: the caller may be one of its own callbacks. Keep it here and not in the
    // loop, which may have been stopped: the context ends only after all its sockets.
    retired_->push_back(std::move(connection_));
    asio::post(loop_, [retired = std::weak_ptr(retired_)] {
      if (const auto there = retired.lock()) there->clear();
    });
  }

  void send(Kind kind, const google::protobuf::MessageLite& message) {
    if (!connection_) return;
    send_frames(connection_->socket, nullptr, kind, message);
    connection_->watch.kick();
  }

 private:
  /** One attempt to connect, and the connection that it makes. */
  struct Connection {
    Connection(Impl& impl, const std::string& endpoint)
        : owner(impl), socket(client_socket(impl.context_, impl.name_, impl.server_, impl.own_)),
          monitor(impl.loop_, impl.context_, socket,
                  [this](int event, std::uint32_t value, const std::string&) { happened(event, value); }),
          watch(impl.loop_, socket, [this] { receive(); }) {
      uninterrupted([&] { socket.connect(endpoint); });
    }

    bool current() const { return owner.connection_.get() == this; }

    void receive() {
      Received received;
      if (!receive_frames(socket, false, received) || !current()) return;
      if (received.kind == static_cast<char>(Kind::down)) {
        Down down;
        if (parse(received, down) && owner.events_.down) owner.events_.down(std::move(down));
      } else if (received.kind == static_cast<char>(Kind::answer)) {
        Answer answer;
        if (parse(received, answer) && owner.events_.answer) owner.events_.answer(std::move(answer));
      } else {
        spdlog::warn("a message of unknown kind {} is dropped", static_cast<int>(received.kind));
      }
    }

    void happened(int event, std::uint32_t value) {
      if (!current()) return;
      if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
        if (owner.events_.connected) owner.events_.connected();
      } else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH || event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) {
        lost(event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH ? "our key was refused" : "the other side is not the job's crrun");
      } else if (event == ZMQ_EVENT_DISCONNECTED) {
        // Messages that arrived before the end must still be read.
        while (current() && (uninterrupted([&] { return socket.get(zmq::sockopt::events); }) & ZMQ_POLLIN)) receive();
        lost("the connection was closed");
      } else if (event == ZMQ_EVENT_CLOSED) {
        lost(value ? std::string("cannot connect: ") + std::strerror(static_cast<int>(value)) : "cannot connect");
      }
    }

    void lost(const std::string& why) {
      if (!current()) return;
      owner.disconnect();
      if (owner.events_.lost) owner.events_.lost(why);
    }

    Impl& owner;
    zmq::socket_t socket;
    SocketMonitor monitor;
    ZmqWatch watch;
  };

  asio::io_context& loop_;
  std::string name_, server_;
  KeyPair own_;
  ClientEvents events_;
  zmq::context_t context_{1};
  std::unique_ptr<Connection> connection_;
  std::shared_ptr<std::vector<std::unique_ptr<Connection>>> retired_ = std::make_shared<std::vector<std::unique_ptr<Connection>>>();
};

Client::Client(asio::io_context& loop, std::string name, const std::string& server_public_key, const KeyPair& own,
               ClientEvents events)
    : impl_(std::make_unique<Impl>(loop, std::move(name), server_public_key, own, std::move(events))) {}
Client::~Client() = default;
void Client::connect(const std::string& endpoint) { impl_->connect(endpoint); }
void Client::disconnect() { impl_->disconnect(); }
void Client::send(const Up& message) { impl_->send(Kind::up, message); }
void Client::ask(const Ask& message) { impl_->send(Kind::ask, message); }

}  // namespace reprise::job
