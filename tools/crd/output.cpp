// SPDX-License-Identifier: GPL-2.0-only
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crd/streams.h"
#include "job/log.h"

namespace reprise::crd {

struct Output::State : std::enable_shared_from_this<State> {
  State(asio::io_context& io, Send call) : loop(io), send(std::move(call)) {}
  asio::io_context& loop;
  Send send;
  std::shared_ptr<asio::posix::stream_descriptor> pipe;
  std::uint32_t recovery = 0;  ///< since which the process writes, or in which it has stayed since
  std::uint64_t offset = 0;    ///< of the next byte to read
  std::uint64_t drop = 0;    ///< number of bytes to read and drop
  std::string kept;          ///< not acknowledged yet; ends at offset
  bool paused = false, waiting = false, ended = false;
  std::vector<std::pair<std::uint64_t, std::function<void()>>> whens;

  void wait() {
    if (!pipe || !pipe->is_open() || paused || waiting || (kept.size() >= kWindow && drop == 0)) return;
    waiting = true;
    pipe->async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this(), at = pipe](const asio::error_code& error) {
      if (at != self->pipe) return;
      self->waiting = false;
      if (error || self->paused) return;
      self->read();
    });
  }
  void read() {
    char buffer[65536];
    const std::size_t limit = drop ? std::min<std::uint64_t>(drop, sizeof buffer) : sizeof buffer;
    const ssize_t got = ::read(pipe->native_handle(), buffer, limit);
    if (got > 0 && drop) {
      drop -= static_cast<std::uint64_t>(got);
    } else if (got > 0) {
      const std::string data(buffer, static_cast<std::size_t>(got));
      kept += data;
      const std::uint64_t at = std::exchange(offset, offset + data.size());
      send(recovery, at, data, false);
      tell();
    } else if (got == 0) {
      ended = true;
      close();
      send(recovery, offset, "", true);
      tell();
    }
    wait();
  }
  void close() {
    asio::error_code ignored;
    if (pipe) pipe->close(ignored);
    pipe.reset();
    waiting = false;
  }
  void tell() {
    std::vector<std::function<void()>> due;
    std::erase_if(whens, [&](auto& when) {
      if (when.first > offset && !ended) return false;
      due.push_back(std::move(when.second));
      return true;
    });
    for (auto& then : due) asio::post(loop, std::move(then));
  }
};

Output::Output(asio::io_context& loop, Send send) : state_(std::make_shared<State>(loop, std::move(send))) {}
Output::~Output() {
  state_->send = [](std::uint32_t, std::uint64_t, const std::string&, bool) {};
  state_->paused = true;
  state_->close();
}

UniqueFd Output::open(std::uint32_t recovery, std::uint64_t offset) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "no pipe for a rank's output");
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  state_->close();
  state_->pipe = std::make_shared<asio::posix::stream_descriptor>(state_->loop, ends[0]);
  state_->recovery = recovery;
  state_->offset = offset;
  state_->drop = 0;
  state_->kept.clear();
  state_->whens.clear();
  state_->paused = state_->ended = false;
  state_->wait();
  return UniqueFd(ends[1]);
}

void Output::pause() {
  state_->paused = true;
  if (state_->pipe) state_->pipe->cancel();
}

void Output::resume() {
  state_->paused = false;
  state_->waiting = false;
  if (state_->pipe) state_->pipe->cancel();
  state_->wait();
}

std::uint64_t Output::queued() const {
  int bytes = 0;
  return state_->pipe && ::ioctl(state_->pipe->native_handle(), FIONREAD, &bytes) == 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

std::uint64_t Output::offset() const { return state_->offset; }

void Output::rewind(std::uint32_t recovery, std::uint64_t offset, std::uint64_t count) {
  state_->recovery = recovery;
  state_->offset = offset;
  state_->drop = count;
  state_->kept.clear();
  state_->whens.clear();
}

void Output::stay(std::uint32_t recovery) { state_->recovery = recovery; }

void Output::acknowledge(std::uint64_t offset) {
  const std::uint64_t begin = state_->offset - state_->kept.size();
  if (offset > begin) state_->kept.erase(0, std::min<std::uint64_t>(offset - begin, state_->kept.size()));
  state_->wait();
}

void Output::resend() {
  if (!state_->kept.empty()) state_->send(state_->recovery, state_->offset - state_->kept.size(), state_->kept, false);
  if (state_->ended) state_->send(state_->recovery, state_->offset, "", true);
}

void Output::when_sent(std::uint64_t offset, std::function<void()> then) {
  state_->whens.emplace_back(offset, std::move(then));
  state_->tell();
}

bool Output::is(const std::string& link) const { return state_->pipe && is_pipe(state_->pipe->native_handle(), link); }

bool is_pipe(int fd, const std::string& link) {
  struct stat st {};
  return ::fstat(fd, &st) == 0 && link == fmt::format("pipe:[{}]", st.st_ino);
}

}  // namespace reprise::crd
