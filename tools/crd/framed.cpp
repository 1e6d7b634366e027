// SPDX-License-Identifier: GPL-2.0-only
#include "crd/framed.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <asio/read.hpp>
#include <asio/write.hpp>
#include <sys/socket.h>
#include <unistd.h>

namespace reprise::crd {
namespace {

constexpr std::uint32_t kLimit = 512u << 20;
/** Allocate memory as bytes arrive: the announced length is not trusted. */
constexpr std::uint32_t kPart = 1u << 20;

std::string framed(const google::protobuf::MessageLite& message) {
  std::string text(4, '\0');
  message.AppendToString(&text);
  const auto length = static_cast<std::uint32_t>(text.size() - 4);
  for (int i = 0; i < 4; ++i) text[static_cast<std::size_t>(i)] = static_cast<char>(length >> (8 * i));
  return text;
}

std::uint32_t length_of(const unsigned char* bytes) {
  return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | static_cast<std::uint32_t>(bytes[3]) << 24;
}

template <class Call>
bool all(char* at, std::size_t size, Call call) {
  while (size > 0) {
    const ssize_t done = call(at, size);
    if (done == 0 || (done < 0 && errno != EINTR)) return false;
    if (done > 0) at += done, size -= static_cast<std::size_t>(done);
  }
  return true;
}

}  // namespace

struct FramedStream::State : std::enable_shared_from_this<State> {
  State(asio::io_context& loop, int fd) : socket(loop, asio::local::stream_protocol(), fd) {}
  asio::local::stream_protocol::socket socket;
  std::function<void(const std::string&)> message;
  std::function<void()> closed;
  std::array<unsigned char, 4> head{};
  std::string body;
  std::uint32_t left = 0;  ///< bytes of the body still to be read
  std::deque<std::string> queue;
  bool gone = false;

  void read() {
    asio::async_read(socket, asio::buffer(head), [self = shared_from_this()](const asio::error_code& error, std::size_t) {
      if (error || length_of(self->head.data()) > kLimit) return self->end();
      self->left = length_of(self->head.data());
      self->body.clear();
      self->read_body();
    });
  }
  void read_body() {
    const std::size_t at = body.size(), part = std::min(left, kPart);
    body.resize(at + part);
    asio::async_read(socket, asio::buffer(body.data() + at, part), [self = shared_from_this()](const asio::error_code& error, std::size_t got) {
      if (error) return self->end();
      if (self->gone) return;
      self->left -= static_cast<std::uint32_t>(got);
      if (self->left) return self->read_body();
      self->message(self->body);
      if (!self->gone) self->read();
    });
  }
  void write() {
    asio::async_write(socket, asio::buffer(queue.front()), [self = shared_from_this()](const asio::error_code& error, std::size_t) {
      if (error || self->gone) return;  // the read path reports the end
      self->queue.pop_front();
      if (!self->queue.empty()) self->write();
    });
  }
  void end() {
    if (!std::exchange(gone, true) && closed) closed();
  }
};

FramedStream::FramedStream(asio::io_context& loop, int fd, std::function<void(const std::string&)> message,
                           std::function<void()> closed)
    : state_(std::make_shared<State>(loop, fd)) {
  state_->message = std::move(message);
  state_->closed = std::move(closed);
  state_->read();
}

FramedStream::~FramedStream() {
  state_->gone = true;
  asio::error_code ignored;
  state_->socket.close(ignored);
}

void FramedStream::send(const google::protobuf::MessageLite& message) {
  state_->queue.push_back(framed(message));
  if (state_->queue.size() == 1) state_->write();
}

std::pair<UniqueFd, UniqueFd> socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::system_error(errno, std::generic_category(), "no sockets to a helper process");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

bool read_framed(int fd, std::string& message) {
  unsigned char head[4];
  const auto take = [fd](char* at, std::size_t size) { return ::read(fd, at, size); };
  if (!all(reinterpret_cast<char*>(head), sizeof head, take) || length_of(head) > kLimit) return false;
  message.clear();
  for (std::uint32_t left = length_of(head); left > 0;) {
    const std::size_t at = message.size(), part = std::min(left, kPart);
    message.resize(at + part);
    if (!all(message.data() + at, part, take)) return false;
    left -= static_cast<std::uint32_t>(part);
  }
  return true;
}

bool write_framed(int fd, const google::protobuf::MessageLite& message) {
  std::string text = framed(message);
  return all(text.data(), text.size(), [fd](char* at, std::size_t size) { return ::write(fd, at, size); });
}

}  // namespace reprise::crd
