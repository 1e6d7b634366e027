// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Batches of system calls of the target, each with its own error message. */
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "session/remote.h"

namespace reprise {

/**
 * Queues calls and makes them in run(), or earlier when the batch is full. The destructor drops calls that are still
 * queued. No other code may use the Remote while calls are queued.
 */
class CheckedBatch {
 public:
  /** Returns the name of a call for messages, such as "mapping 7f12 of /x: cannot be made". Called only on failure. */
  using Name = std::function<std::string()>;

  /**
   * @param tid       thread that makes the calls, 0: the leader
   * @param warnings  receives "NAME: strerror" for each failed call of may(); nullptr: these failures are ignored
   */
  explicit CheckedBatch(Remote& remote, pid_t tid = 0, std::vector<std::string>* warnings = nullptr)
      : remote_(remote), tid_(tid), warnings_(warnings) {}

  /** Run the queued calls unless the arena has room for one more call with @p bytes bytes of arguments. */
  void need(std::size_t bytes);
  /** Queue a call that must succeed. If it fails, later calls are not made and run() throws Error "NAME: strerror". */
  void must(const Remote::Call& call, Name name) { add(call, std::move(name), true); }
  /** Queue a call whose failure is only a warning. */
  void may(const Remote::Call& call, Name name) { add(call, std::move(name), false); }
  /**
   * Run the queued calls.
   * @return their results in order; -errno for a failed call of may()
   * Throws Error (permanent) when a call of must() fails.
   */
  std::vector<std::int64_t> run();

 private:
  struct Entry {
    Name name;
    bool must;
  };
  void add(const Remote::Call& call, Name name, bool must);

  Remote& remote_;
  pid_t tid_;
  std::vector<std::string>* warnings_;
  std::vector<Entry> queued_;
};

}  // namespace reprise
