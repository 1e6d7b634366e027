// SPDX-License-Identifier: LGPL-2.1-or-later
#include "line.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace croff {

Line::~Line() { close(socket_); }

void Line::launch(const Order &task) {
  Piece head;
  const auto add = [&head](const void *data, std::size_t bytes) {
    const auto *from = static_cast<const std::byte *>(data);
    head.own.insert(head.own.end(), from, from + bytes);
  };
  const wire::Order order = wire::order(task);
  const std::vector<wire::Region> regions = wire::regions(task);
  add(&order, sizeof order);
  add(regions.data(), regions.size() * sizeof(wire::Region));
  add(task.values->data(), task.values->size());
  head.bytes = head.own.size();
  out_.push_back(std::move(head));
  for (const Input &input : task.regions)
    if (input.reads && input.bytes) out_.push_back({{}, input.source, input.bytes, std::nullopt});
  out_.back().sent = task.task;
  write();
}

void Line::command(wire::Op op, TaskId task) {
  Piece piece;
  const wire::Order order = wire::order(op, task);
  const auto *from = reinterpret_cast<const std::byte *>(&order);
  piece.own.assign(from, from + sizeof order);
  piece.bytes = sizeof order;
  out_.push_back(std::move(piece));
  write();
}

void Line::fetch(TaskId task, std::vector<Target> targets) {
  fetches_.push_back({task, std::move(targets)});
  command(wire::Op::fetch, task);
}

bool Line::write() {
  while (!out_.empty()) {
    const Piece &piece = out_.front();
    const std::byte *data = piece.data ? piece.data : piece.own.data();
    const ssize_t n = send(socket_, data + written_, piece.bytes - written_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN;
    written_ += static_cast<std::size_t>(n);
    if (written_ < piece.bytes) continue;
    if (piece.sent) reports_.push_back({Report::sent, *piece.sent, Code::ok, ""});
    out_.pop_front();
    written_ = 0;
  }
  return true;
}

void Line::notice() {
  switch (notice_.note) {
    case wire::Note::hello: break;
    case wire::Note::leaves: left_ = true; break;
    case wire::Note::outputs:
      if (!fetches_.empty()) target_ = 0;
      break;
    case wire::Note::done: reports_.push_back({Report::done, notice_.task, Code::ok, ""}); break;
    case wire::Note::failed:
      notice_.text[sizeof notice_.text - 1] = 0;
      reports_.push_back({Report::failed, notice_.task, static_cast<Code>(notice_.code), notice_.text});
      break;
  }
}

bool Line::read() {
  for (;;) {
    if (target_ && *target_ == fetches_.front().targets.size()) {
      reports_.push_back({Report::received, fetches_.front().task, Code::ok, ""});
      fetches_.pop_front();
      target_.reset();
    }
    const Target into = target_ ? fetches_.front().targets[*target_] : Target{reinterpret_cast<std::byte *>(&notice_), sizeof notice_};
    if (got_ < into.bytes) {
      const ssize_t n = recv(socket_, into.data + got_, into.bytes - got_, MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno == EAGAIN;
      if (n == 0) return false;
      got_ += static_cast<std::size_t>(n);
    }
    if (got_ < into.bytes) continue;
    got_ = 0;
    if (target_)
      ++*target_;
    else
      notice();
  }
}

bool Line::progress(std::vector<Report> &reports) {
  const bool there = write() && read();
  reports.insert(reports.end(), reports_.begin(), reports_.end());
  reports_.clear();
  return there;
}

}  // namespace croff
