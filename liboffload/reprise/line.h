// SPDX-License-Identifier: LGPL-2.1-or-later
// The master's end of the connection to one booster: orders and inputs go out in order, notices and outputs come in.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "boosters/wire.h"
#include "engine/engine.h"

namespace croff {

class Line {
 public:
  explicit Line(int socket) : socket_(socket) {}
  ~Line();
  Line(const Line &) = delete;
  Line &operator=(const Line &) = delete;

  // These write what the socket takes at once: the master may compute for long before it calls the library again.
  void launch(const Order &task);
  void fetch(TaskId task, std::vector<Target> targets);
  void command(wire::Op op, TaskId task = 0);

  /** Write and read what is possible. @return false: the booster has gone */
  bool progress(std::vector<Report> &reports);
  /** The booster has said that it leaves. */
  bool left() const { return left_; }

 private:
  /** Bytes of its own, or of the caller until the report `sent`. */
  struct Piece {
    std::vector<std::byte> own;
    const std::byte *data = nullptr;
    std::size_t bytes = 0;
    std::optional<TaskId> sent;  // to be reported behind it
  };
  struct Fetch {
    TaskId task;
    std::vector<Target> targets;
  };

  bool write();
  bool read();
  void notice();

  const int socket_;
  std::deque<Piece> out_;
  std::size_t written_ = 0;  // of the first piece
  std::deque<Fetch> fetches_;
  wire::Notice notice_;
  std::optional<std::size_t> target_;  // of the first fetch, which is coming in; nothing: a notice is
  std::size_t got_ = 0;                // of what is coming in
  std::vector<Report> reports_;        // since the last progress()
  bool left_ = false;
};

}  // namespace croff
