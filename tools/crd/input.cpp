// SPDX-License-Identifier: GPL-2.0-only
#include <cerrno>
#include <system_error>
#include <utility>

#include <asio/posix/stream_descriptor.hpp>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "crd/streams.h"

namespace reprise::crd {

struct Input::State : std::enable_shared_from_this<State> {
  explicit State(asio::io_context& io) : loop(io) {}
  asio::io_context& loop;
  std::shared_ptr<asio::posix::stream_descriptor> pipe;  ///< our end, to write to
  UniqueFd other;          ///< the rank's end, kept to empty the pipe, and to write to it again after end of file
  std::uint64_t offset = 0;  ///< of the next byte that crrun sends
  std::string queue;         ///< bytes that are not in the pipe yet; ends at offset
  bool end = false, waiting = false;

  void write() {
    while (pipe && !queue.empty()) {
      const ssize_t put = ::write(pipe->native_handle(), queue.data(), queue.size());
      if (put > 0) {
        queue.erase(0, static_cast<std::size_t>(put));
        continue;
      }
      if (put < 0 && errno != EAGAIN) queue.clear();
      break;
    }
    if (pipe && queue.empty() && end) close();
    if (!pipe || queue.empty() || std::exchange(waiting, true)) return;
    pipe->async_wait(asio::posix::stream_descriptor::wait_write, [self = shared_from_this(), at = pipe](const asio::error_code& error) {
      if (at != self->pipe) return;
      self->waiting = false;
      if (!error) self->write();
    });
  }
  void close() {
    asio::error_code ignored;
    if (pipe) pipe->close(ignored);
    pipe.reset();
    waiting = false;
  }
};

Input::Input(asio::io_context& loop) : state_(std::make_shared<State>(loop)) {}
Input::~Input() { state_->close(); }

UniqueFd Input::open(std::uint64_t offset) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "no pipe for a rank's input");
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  state_->close();
  state_->pipe = std::make_shared<asio::posix::stream_descriptor>(state_->loop, ends[1]);
  state_->other.reset(ends[0]);
  state_->offset = offset;
  state_->queue.clear();
  state_->end = false;
  return UniqueFd(::fcntl(ends[0], F_DUPFD_CLOEXEC, 0));
}

bool Input::give(std::uint64_t offset, const std::string& data, bool end) {
  if (offset > state_->offset) return false;
  const std::uint64_t known = state_->offset - offset;
  if (known < data.size()) {
    state_->queue.append(data, known);
    state_->offset += data.size() - known;
  }
  state_->end = state_->end || end;
  state_->write();
  return true;
}

std::uint64_t Input::offset() const { return state_->offset - state_->queue.size(); }

std::uint64_t Input::queued() const {
  int bytes = 0;
  return state_->other && ::ioctl(state_->other.get(), FIONREAD, &bytes) == 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

void Input::rewind(std::uint64_t offset) {
  char buffer[4096];
  if (!state_->other) return;
  for (std::uint64_t left = queued(); left > 0;) {
    const ssize_t got = ::read(state_->other.get(), buffer, std::min<std::uint64_t>(left, sizeof buffer));
    if (got <= 0) break;
    left -= static_cast<std::uint64_t>(got);
  }
  state_->queue.clear();
  state_->offset = offset;
  state_->end = false;
  if (!state_->pipe) {
    const std::string path = "/proc/self/fd/" + std::to_string(state_->other.get());
    const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) state_->pipe = std::make_shared<asio::posix::stream_descriptor>(state_->loop, fd);
  }
}

bool Input::is(const std::string& link) const { return state_->other && is_pipe(state_->other.get(), link); }

}  // namespace reprise::crd
