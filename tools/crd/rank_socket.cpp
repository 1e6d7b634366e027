// SPDX-License-Identifier: GPL-2.0-only
#include "crd/rank_socket.h"

#include <cerrno>
#include <cstddef>
#include <deque>
#include <map>
#include <system_error>

#include <asio/posix/stream_descriptor.hpp>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptor_passing.h"
#include "base/unique_fd.h"
#include "job/log.h"

namespace reprise::crd {
namespace {

using Descriptor = asio::posix::stream_descriptor;

struct Packet {
  std::string bytes;
  UniqueFd descriptor;
};

struct Connection {
  explicit Connection(asio::io_context& loop, int fd) : socket(loop, fd) {}
  Descriptor socket;
  std::int64_t number = -1;  ///< -1: it has not introduced itself yet
  std::deque<Packet> queue;
  bool writing = false, gone = false;

  void close() {
    gone = true;
    asio::error_code ignored;
    socket.close(ignored);
  }
};

/** Put @p rank into the header at the beginning of @p bytes. */
void set_rank(std::string& bytes, std::uint32_t rank) {
  std::memcpy(bytes.data() + offsetof(cr_rank_message, rank), &rank, sizeof rank);
}

}  // namespace

std::string RankMessage::text(std::size_t offset) const {
  std::string text = offset < bytes_.size() ? bytes_.substr(offset) : "";
  return text.substr(0, text.find('\0'));
}

std::vector<std::string> RankMessage::strings(std::size_t offset, std::uint32_t count) const {
  std::vector<std::string> all;
  while (all.size() < count) {
    const std::size_t end = offset < bytes_.size() ? bytes_.find('\0', offset) : std::string::npos;
    if (end == std::string::npos) break;
    all.push_back(bytes_.substr(offset, end - offset));
    offset = end + 1;
  }
  return all;
}

std::size_t rank_message_size(std::uint32_t type) {
  switch (type) {
    case CR_RANK_HELLO:
      return sizeof(cr_rank_hello);
    case CR_RANK_PREPARED:
      return sizeof(cr_rank_prepared);
    case CR_RANK_RESTORED:
      return sizeof(cr_rank_restored);
    case CR_RANK_RESUMED:
      return sizeof(cr_rank_resumed);
    case CR_RANK_LOST:
      return sizeof(cr_rank_lost);
    case CR_RANK_COUNTERS:
      return sizeof(cr_rank_counters_at);
    case CR_RANK_WAVE_REQUEST:
      return sizeof(cr_rank_wave_request);
    case CR_RANK_STAYS:
      return sizeof(cr_rank_stays);
    case CR_RANK_COPY_KEPT:
      return sizeof(cr_rank_copy_kept);
    case CR_RANK_LOG:
    case CR_RANK_NEED_LANES:
    case CR_RANK_PMIX_DONE:
      return sizeof(cr_rank_message);
    default:
      return 0;
  }
}

struct RankSocket::State : std::enable_shared_from_this<State> {
  State(asio::io_context& io, int fd) : loop(io), listener(io, fd) {}
  asio::io_context& loop;
  Descriptor listener;
  std::string path;
  std::uint32_t first = 0;
  std::function<void(const RankMessage&)> message;
  std::map<std::uint32_t, std::shared_ptr<Connection>> ranks;  ///< by number

  void accept() {
    listener.async_wait(Descriptor::wait_read, [self = shared_from_this()](const asio::error_code& error) {
      if (error) return;
      const int fd = ::accept4(self->listener.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd >= 0) self->welcome(UniqueFd(fd));
      self->accept();
    });
  }
  void welcome(UniqueFd fd) {
    ucred peer{};
    socklen_t length = sizeof peer;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != ::geteuid()) {
      spdlog::warn("process {} of user {} was refused at {}: it does not belong to this user", peer.pid, peer.uid, path);
      return;
    }
    read(std::make_shared<Connection>(loop, fd.release()));
  }
  void read(const std::shared_ptr<Connection>& connection) {
    connection->socket.async_wait(Descriptor::wait_read, [self = shared_from_this(), connection](const asio::error_code& error) {
      if (error || connection->gone) return;
      std::string bytes(CR_RANK_MAX, '\0');
      const ssize_t got = ::recv(connection->socket.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return self->read(connection);
      if (got <= 0) return self->ended(connection);
      bytes.resize(static_cast<std::size_t>(got));
      if (!self->take(connection, std::move(bytes))) return self->ended(connection);
      if (!connection->gone) self->read(connection);
    });
  }
  void ended(const std::shared_ptr<Connection>& connection) {
    connection->close();
    if (connection->number < 0) return;
    const auto found = ranks.find(static_cast<std::uint32_t>(connection->number));
    if (found != ranks.end() && found->second == connection) ranks.erase(found);
  }
  /** @return false when the connection must be closed */
  bool take(const std::shared_ptr<Connection>& connection, std::string bytes) {
    const std::size_t size = bytes.size();
    cr_rank_message head{};
    if (size >= sizeof head) std::memcpy(&head, bytes.data(), sizeof head);
    const std::size_t least = rank_message_size(head.type);
    if (least == 0 || size < least || head.length != size || head.rank > UINT32_MAX - first) {
      spdlog::warn("a rank's connection is closed: it sent {} bytes that are not a valid message", size);
      return false;
    }
    const std::uint32_t number = first + head.rank;
    set_rank(bytes, number);
    const RankMessage received(std::move(bytes));
    if (head.type == CR_RANK_HELLO && received.as<cr_rank_hello>().protocol != CR_RANK_PROTOCOL) {
      spdlog::error("rank {} uses protocol version {} instead of {}: install the same version everywhere", number,
                    received.as<cr_rank_hello>().protocol, CR_RANK_PROTOCOL);
      return false;
    }
    if (connection->number < 0) {
      connection->number = number;
      auto& current = ranks[number];
      if (current) current->close();
      current = connection;
    }
    if (connection->number != number) {
      spdlog::warn("rank {}'s connection is closed: it sent a message in the name of rank {}", connection->number, number);
      return false;
    }
    message(received);
    return true;
  }
  void write(const std::shared_ptr<Connection>& connection) {
    while (!connection->queue.empty()) {
      Packet& packet = connection->queue.front();
      const int fd = connection->socket.native_handle();
      const bool sent = packet.descriptor
                            ? send_descriptor(fd, packet.descriptor.get(), packet.bytes.data(), packet.bytes.size())
                            : ::send(fd, packet.bytes.data(), packet.bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
      if (!sent && errno == EAGAIN) {
        if (std::exchange(connection->writing, true)) return;
        connection->socket.async_wait(Descriptor::wait_write, [self = shared_from_this(), connection](const asio::error_code& error) {
          connection->writing = false;
          if (!error && !connection->gone) self->write(connection);
        });
        return;
      }
      connection->queue.pop_front();  // the read path notices a broken connection
    }
  }
};

RankSocket::RankSocket(asio::io_context& loop, const std::string& path, std::uint32_t first,
                       std::function<void(const RankMessage&)> message) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw std::system_error(ENAMETOOLONG, std::generic_category(), "the path " + path + " is too long for a socket");
  std::memcpy(address.sun_path, path.c_str(), path.size());
  ::unlink(path.c_str());
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || ::listen(fd.get(), 1024) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot listen at " + path);
  state_ = std::make_shared<State>(loop, fd.release());
  state_->path = path;
  state_->first = first;
  state_->message = std::move(message);
  state_->accept();
}

RankSocket::~RankSocket() {
  asio::error_code ignored;
  state_->listener.close(ignored);
  for (auto& [rank, connection] : state_->ranks) connection->close();
  ::unlink(state_->path.c_str());
}

bool RankSocket::connected(std::uint32_t number) const { return state_->ranks.count(number) != 0; }

bool RankSocket::send(std::uint32_t number, const void* message, std::size_t size, int descriptor) {
  const auto found = state_->ranks.find(number);
  if (found == state_->ranks.end()) return false;
  Packet packet{std::string(static_cast<const char*>(message), size), UniqueFd(descriptor >= 0 ? ::dup(descriptor) : -1)};
  set_rank(packet.bytes, number - state_->first);
  found->second->queue.push_back(std::move(packet));
  state_->write(found->second);
  return true;
}

void RankSocket::drop(std::uint32_t number) {
  const auto found = state_->ranks.find(number);
  if (found == state_->ranks.end()) return;
  found->second->close();
  state_->ranks.erase(found);
}

}  // namespace reprise::crd
