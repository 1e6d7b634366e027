// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The actions that the coordinator requests. Their order matters: carry out each one before the next. */
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "state.h"
#include "types.h"

namespace reprise::job {

/** Send to the nodes in `to`; to all that are up when empty. */
struct SendDown {
  Down down;
};
struct StartDaemon {
  NodeIndex node;
};
/** End the node's ssh or srun, if it still runs. */
struct StopDaemon {
  NodeIndex node;
};
/** Write these changes of Coordinator::state() to disk before any later effect that others can see. */
struct SaveState {
  std::vector<Record> records;
};
/** Remove a staged wave that no longer counts, once the state that does without it is in JOBDIR. @p wave 0: all waves */
struct RemoveStaged {
  WaveNumber wave = 0;
  bool reuse = false;  ///< its files are kept for the next wave to be written over
};
struct Say {
  Log::Level level;
  std::string text;
};
/**
 * Output of a rank, for the user. The last @p take_back bytes of earlier output are void, if they have not been printed
 * yet.
 */
struct WriteOutput {
  Rank rank;
  std::uint32_t stream;
  std::string data;
  std::size_t take_back = 0;
  bool end = false;
  std::string tag;  ///< source of the output: "JOB,3", "JOB.1,0"
  std::uint64_t offset = 0;  ///< of the stream behind @p data: for Coordinator::written()
};
/** Answer to a request of crjob. */
struct Reply {
  std::uint64_t request;
  bool ok;
  std::string text;
};
/** One line of the timeline. */
struct TimelineEvent {
  nlohmann::json line;
};
struct Finish {
  int code;
};

using Effect = std::variant<SendDown, StartDaemon, StopDaemon, SaveState, RemoveStaged, Say, WriteOutput, Reply,
                            TimelineEvent, Finish>;

/** Collects effects in order. */
class Outbox {
 public:
  template <class T>
  void add(T effect) {
    effects_.emplace_back(std::move(effect));
  }
  /** A message to all nodes, or to @p to. @return fill it in before the next call, which invalidates it */
  Down& send(const std::vector<NodeIndex>& to = {}) {
    effects_.emplace_back(SendDown{});
    Down& down = std::get<SendDown>(effects_.back()).down;
    for (NodeIndex node : to) down.add_to(node);
    return down;
  }
  void say(Log::Level level, std::string text) { add(Say{level, std::move(text)}); }
  std::vector<Effect> take() { return std::exchange(effects_, {}); }
  bool empty() const { return effects_.empty(); }

 private:
  std::vector<Effect> effects_;
};

}  // namespace reprise::job
