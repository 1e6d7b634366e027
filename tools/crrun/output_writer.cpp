// SPDX-License-Identifier: GPL-2.0-only
#include "output_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include <poll.h>

namespace reprise::job {

namespace {
/** Less than what a daemon keeps of output that was not written: it sends no more until it learns of that. */
constexpr std::size_t kLongestLine = 64 << 10;
}  // namespace

LineTagger::Lines LineTagger::feed(const std::string& data, std::size_t take_back, bool end) {
  partial_.resize(partial_.size() - std::min(take_back, partial_.size()));
  partial_ += data;
  Lines out;
  std::size_t begin = 0;
  for (std::size_t at; (at = partial_.find('\n', begin)) != std::string::npos; begin = at + 1)
    out.text += tag_ + partial_.substr(begin, at + 1 - begin);
  if (partial_.size() > begin && (end || partial_.size() - begin > kLongestLine)) {
    out.text += tag_ + partial_.substr(begin) + "\n";
    begin = partial_.size();
  }
  out.raw = partial_.substr(0, begin);
  partial_.erase(0, begin);
  return out;
}

OutputWriter::OutputWriter(bool tag, OutputRecord record, Written written)
    : tag_(tag), record_(std::move(record)), written_(std::move(written)), thread_([this] { run(); }) {}

OutputWriter::~OutputWriter() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  more_.notify_one();
  thread_.join();
}

std::uint64_t OutputWriter::write(const WriteOutput& output, std::uint64_t mark) {
  LineTagger::Lines lines{output.data, ""};
  std::uint64_t offset = output.offset;
  if (tag_) {
    const std::string tag = "[" + output.tag + "]<" + (output.stream == 2 ? "stderr" : "stdout") + ">: ";
    LineTagger& tagger = taggers_.try_emplace({output.tag, output.stream}, tag).first->second;
    lines = tagger.feed(output.data, output.take_back, output.end);
    offset -= std::min<std::uint64_t>(offset, tagger.held());
  }
  const int fd = output.stream == 2 ? STDERR_FILENO : STDOUT_FILENO;
  const std::lock_guard lock(mutex_);
  queue_.push_back({fd, output.rank, output.stream, std::move(lines), offset, mark});
  more_.notify_one();
  return offset;
}

void OutputWriter::flush() {
  std::unique_lock lock(mutex_);
  less_.wait(lock, [this] { return queue_.empty() && !writing_; });
}

void OutputWriter::put(const Piece& piece) {
  const std::string_view text = piece.lines.text;
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(piece.fd, text.data() + done, text.size() - done);
    if (wrote > 0) {
      const std::string_view part = text.substr(done, static_cast<std::size_t>(wrote));
      done += part.size();
      // At once: what is not recorded when crrun is killed is written again.
      if (!tag_) record_.wrote(piece.rank, piece.stream, piece.offset - (text.size() - done), part);
    } else if (errno == EAGAIN) {
      pollfd wait{piece.fd, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      break;  // the reader has closed it
    }
  }
  if (tag_) record_.wrote(piece.rank, piece.stream, piece.offset, piece.lines.raw);
}

void OutputWriter::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    more_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const Piece piece = std::move(queue_.front());
    queue_.pop_front();
    writing_ = true;
    lock.unlock();
    put(piece);
    if (written_) written_(piece.mark);
    lock.lock();
    writing_ = false;
    less_.notify_all();
  }
}

}  // namespace reprise::job
