// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The node's part of a wave: one cr_checkpoint for each rank, and what its transport says of it. */
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include <asio/steady_timer.hpp>

#include "crd/manifest.h"
#include "crd/node.h"

namespace reprise::crd {

class Waves {
 public:
  explicit Waves(Node& node) : node_(node), timer_(node.loop) {}
  void begin(const job::WaveBegin& message);
  void end(const job::WaveEnd& message);
  /** A recovery or relaunch began: give up what is under way. */
  void abandon();
  /** To every rank of the node: a peer's mark may hold up one that never began this wave. */
  void tell_of_abort(std::uint32_t wave);
  void tell_of_abort(std::uint32_t wave, std::uint32_t rank);
  /** CR_RANK_PREPARED */
  void prepared(const RankMessage& message);
  /** A rank has ended. */
  void rank_ended(std::uint32_t rank);

 private:
  /** One rank in the wave that is under way. */
  struct Taking {
    std::unique_ptr<Tool> tool;
    bool saved = false;      ///< its image is there
    bool answered = false;   ///< its transport has said that it is sound
    bool reading = false;    ///< its output is read again
    bool done = false;
    Manifest manifest;
    job::RankWave report;
  };
  void take(std::uint32_t rank, std::uint32_t timeout_ms);
  void checkpointed(std::uint32_t rank, const ToolResult& result);
  void both(std::uint32_t rank);
  void fail(std::uint32_t rank, const std::string& why, bool again);
  void finish(std::uint32_t rank);
  void read_on(std::uint32_t rank);
  void tell_when_done();
  void overdue();

  Node& node_;
  asio::steady_timer timer_;
  std::uint32_t wave_ = 0;      ///< under way, 0: none
  unsigned turn_ = 0;           ///< counts waves and abandonments: what comes late is of an older turn
  bool told_ = false;           ///< WaveDone was sent
  std::map<std::uint32_t, Taking> ranks_;
  std::uint64_t last_bytes_ = 0;  ///< of the last wave: what the next may need
};

}  // namespace reprise::crd
