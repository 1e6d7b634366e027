// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file System calls of the target in batches, each with what to say when it fails. */
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "session/remote.h"

namespace reprise {

/**
 * Queues calls and makes them when the batch is full, or by run(). Calls that are queued when it ends are not made.
 * Nothing else may use the Remote while calls are queued.
 */
class CheckedBatch {
 public:
  /** What the call is for, as "mapping 7f12 of /x: cannot be made". Only asked for when the call has failed. */
  using Name = std::function<std::string()>;

  /**
   * @param tid       thread that makes the calls, 0: the leader
   * @param warnings  gets "NAME: strerror" of each call that may fail; nullptr: nobody wants to know
   */
  explicit CheckedBatch(Remote& remote, pid_t tid = 0, std::vector<std::string>* warnings = nullptr)
      : remote_(remote), tid_(tid), warnings_(warnings) {}

  /** Makes the queued calls unless there is room for one more with that many bytes of arguments in the arena. */
  void need(std::size_t bytes);
  /** A call that has to succeed: run() throws Error "NAME: strerror" (permanent), and makes none of those behind it. */
  void must(const Remote::Call& call, Name name) { add(call, std::move(name), true); }
  /** A call whose failure is only a warning. */
  void may(const Remote::Call& call, Name name) { add(call, std::move(name), false); }
  /** @return results of the calls since the last run, by order; errors of those that may fail as -errno */
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
