// SPDX-License-Identifier: GPL-2.0-only
#include "output_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <poll.h>

namespace reprise::job {

namespace {
constexpr std::size_t kLongestLine = 1 << 20;
}  // namespace

std::string LineTagger::feed(const std::string& data, std::size_t take_back, bool end) {
  partial_.resize(partial_.size() - std::min(take_back, partial_.size()));
  partial_ += data;
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at; (at = partial_.find('\n', begin)) != std::string::npos; begin = at + 1)
    out += tag_ + partial_.substr(begin, at + 1 - begin);
  partial_.erase(0, begin);
  if (!partial_.empty() && (end || partial_.size() > kLongestLine)) {
    out += tag_ + partial_ + "\n";
    partial_.clear();
  }
  return out;
}

OutputWriter::OutputWriter(bool tag, Written written) : tag_(tag), written_(std::move(written)), thread_([this] { run(); }) {}

OutputWriter::~OutputWriter() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  more_.notify_one();
  thread_.join();
}

void OutputWriter::write(const std::string& who, std::uint32_t stream, const std::string& data, std::size_t take_back,
                         bool end, std::uint64_t mark) {
  std::string text = data;
  if (tag_) {
    const auto tagger = taggers_.try_emplace({who, stream}, "[" + who + "]<" + (stream == 2 ? "stderr" : "stdout") + ">: ").first;
    text = tagger->second.feed(data, take_back, end);
  }
  const std::lock_guard lock(mutex_);
  queue_.push_back({stream == 2 ? STDERR_FILENO : STDOUT_FILENO, std::move(text), mark});
  more_.notify_one();
}

void OutputWriter::flush() {
  std::unique_lock lock(mutex_);
  less_.wait(lock, [this] { return queue_.empty() && !writing_; });
}

void OutputWriter::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    more_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const Piece piece = std::move(queue_.front());
    const auto& [fd, data, mark] = piece;
    queue_.pop_front();
    writing_ = true;
    lock.unlock();
    for (std::size_t done = 0; done < data.size();) {
      const ssize_t wrote = ::write(fd, data.data() + done, data.size() - done);
      if (wrote > 0) {
        done += static_cast<std::size_t>(wrote);
      } else if (errno == EAGAIN) {
        pollfd wait{fd, POLLOUT, 0};
        ::poll(&wait, 1, -1);
      } else if (errno != EINTR) {
        break;  // the reader has closed it
      }
    }
    if (written_) written_(mark);
    lock.lock();
    writing_ = false;
    less_.notify_all();
  }
}

}  // namespace reprise::job
