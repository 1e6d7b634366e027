// SPDX-License-Identifier: GPL-2.0-only
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>

#include "base/unique_fd.h"
#include "job/curve_sockets.h"
#include "job/frames.h"
#include "job/log.h"
#include "job/received.h"
#include "job/socket_monitor.h"
#include "job/transport.h"
#include "job/uninterrupted.h"
#include "job/zap.h"
#include "job/zmq_watch.h"

namespace reprise::job {
namespace {

struct Address {
  std::string host, port;
  std::shared_ptr<UniqueFd> socket;  ///< kept until the peer shows the key: tells if it has sent anything
  std::string text() const { return host.empty() ? "an unknown address (connection ended)" : host + " port " + port; }
};

/** Address of the peer of @p fd, which ZeroMQ's thread may close at any moment; empty if it has. */
Address address_of(int fd) {
  auto socket = std::make_shared<UniqueFd>(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (!*socket || ::getpeername(socket->get(), any, &length) != 0 ||
      ::getnameinfo(any, length, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {};
  return {host, port, std::move(socket)};
}

}  // namespace

class Server::Impl {
 public:
  Impl(asio::io_context& loop, const KeyPair& own, const std::string& client_public_key, std::uint16_t port, ServerEvents events)
      : events_(std::move(events)),
        doorkeeper_(loop, context_, client_public_key,
                    [this](const std::string& address, const std::string& why) { refused(address, why); }),
        socket_(server_socket(context_, own)),
        monitor_(loop, context_, socket_, [this](int event, std::uint32_t value, const std::string&) { happened(event, value); }),
        watch_(loop, socket_, [this] { receive(); }) {
    try {
      uninterrupted([&] { socket_.bind("tcp://*:" + (port ? std::to_string(port) : "*")); });
    } catch (const zmq::error_t& error) {
      throw std::runtime_error("cannot listen on port " + std::to_string(port) + ": " + error.what());
    }
    const std::string endpoint = socket_.get(zmq::sockopt::last_endpoint);
    port_ = static_cast<std::uint16_t>(std::stoul(endpoint.substr(endpoint.rfind(':') + 1)));
  }

  std::uint16_t port() const { return port_; }

  void send(const std::vector<Peer>& peers, const Down& message) {
    auto body = encode(message);
    for (const Peer& peer : peers) {
      if (!body) return;
      zmq::message_t copy;
      copy.copy(*body);
      send_frames(socket_, &peer, Kind::down, std::move(copy));
    }
    watch_.kick();
  }

  bool send(const Peer& peer, Kind kind, const google::protobuf::MessageLite& message) {
    const bool sent = send_frames(socket_, &peer, kind, message);
    watch_.kick();
    return sent;
  }

 private:
  void receive() {
    Received received;
    if (!receive_frames(socket_, true, received)) return;
    if (received.fd >= 0) {
      peers_[received.fd] = received.peer;
      addresses_[received.fd].socket.reset();
    }
    if (received.kind == static_cast<char>(Kind::up)) {
      Up up;
      if (parse(received, up) && events_.up) events_.up(received.peer, std::move(up));
    } else if (received.kind == static_cast<char>(Kind::ask)) {
      Ask ask;
      if (parse(received, ask) && events_.ask) events_.ask(received.peer, std::move(ask));
    } else {
      spdlog::warn("a message of unknown kind {} is dropped", static_cast<int>(received.kind));
    }
  }

  void happened(int event, std::uint32_t value) {
    const int fd = static_cast<int>(value);
    switch (event) {
      case ZMQ_EVENT_ACCEPTED:
        peers_.erase(fd);
        addresses_[fd] = address_of(fd);
        break;
      case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        // The event with the descriptor follows immediately, from the same thread.
        failed_ = true;
        break;
      case ZMQ_EVENT_DISCONNECTED: {
        const Address address = std::exchange(addresses_[fd], {});
        addresses_.erase(fd);
        const bool failed = std::exchange(failed_, false);
        const auto found = peers_.find(fd);
        if (failed) refused(address.text(), "it does not use the job's protocol");
        if (found == peers_.end()) {
          // A peer that does not speak ZeroMQ never gets to the handshake, so no handshake fails. A peer that sends
          // nothing only probed whether crrun listens; the job's own programs do that.
          if (failed) break;
          if (address.socket && !has_received(address.socket->get()))
            spdlog::debug("a connection from {} ended before any data came", address.text());
          else
            refused(address.text(), "it ended before it showed the job's key");
          break;
        }
        const Peer peer = found->second;
        peers_.erase(found);
        if (events_.disconnected) events_.disconnected(peer);
        break;
      }
      default:
        break;
    }
  }

  void refused(const std::string& address, const std::string& why) {
    if (events_.refused)
      events_.refused(address, why);
    else
      spdlog::warn("a connection from {} was refused: {}", address, why);
  }

  ServerEvents events_;
  std::map<int, Peer> peers_;             ///< by descriptor, the peer that has sent a message on it
  std::map<int, Address> addresses_;      ///< by descriptor
  bool failed_ = false;
  std::uint16_t port_ = 0;
  zmq::context_t context_{1};
  Doorkeeper doorkeeper_;
  zmq::socket_t socket_;
  SocketMonitor monitor_;
  ZmqWatch watch_;
};

Server::Server(asio::io_context& loop, const KeyPair& own, const std::string& client_public_key, std::uint16_t port,
               ServerEvents events)
    : impl_(std::make_unique<Impl>(loop, own, client_public_key, port, std::move(events))) {}
Server::~Server() = default;
std::uint16_t Server::port() const { return impl_->port(); }
bool Server::send(const Peer& peer, const Down& message) { return impl_->send(peer, Kind::down, message); }
void Server::send(const std::vector<Peer>& peers, const Down& message) { impl_->send(peers, message); }
bool Server::answer(const Peer& peer, const Answer& message) { return impl_->send(peer, Kind::answer, message); }

}  // namespace reprise::job
