// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The node's part of a wave: one cr_checkpoint for each rank, and the answer of the rank's transport. */
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/steady_timer.hpp>

#include "crd/image_store.h"
#include "crd/images/manifest.h"
#include "crd/node.h"

namespace reprise::crd {

class Waves {
 public:
  explicit Waves(Node& node) : node_(node), timer_(node.loop) {}
  void begin(const job::WaveBegin& message);
  void end(const job::WaveEnd& message);
  /** A recovery or a relaunch began: give the current wave up. */
  void abandon();
  /** Tell every rank of the node: a peer's mark may block even a rank that never began this wave. */
  void tell_of_abort(std::uint32_t wave);
  void tell_of_abort(std::uint32_t wave, std::uint32_t rank);
  /** CR_RANK_PREPARED */
  void prepared(const RankMessage& message);
  /** A rank has ended. */
  void rank_ended(std::uint32_t rank);
  bool under_way() const { return wave_ != 0; }

 private:
  /** One rank in the current wave. */
  struct Taking {
    std::unique_ptr<Tool> tool;
    std::unique_ptr<KeptReceiver> receiver;  ///< of what the tool hands over
    std::vector<KeptFile> kept;
    bool saved = false;      ///< its image is written
    bool answered = false;   ///< its transport has confirmed that the image is consistent
    bool reading = false;    ///< the daemon reads its output again
    bool done = false;
    std::optional<image_store::Parent> parent;
    std::uint64_t file_bytes = 0;  ///< of its image here, which may be a delta
    Manifest manifest;
    job::RankWave report;
  };
  void take(std::uint32_t rank, std::uint32_t timeout_ms);
  void tell_to_prepare(std::uint32_t rank, std::uint32_t timeout_ms);
  /** What the image of a rank takes here, by the last one or by the rank's memory. */
  struct Sizes {
    std::uint64_t whole = 0, file = 0;  ///< if it has all pages; as the last one was
  };
  std::map<std::uint32_t, Sizes> sizes() const;
  void checkpointed(std::uint32_t rank, const ToolResult& result);
  void both(std::uint32_t rank);
  void fail(std::uint32_t rank, const std::string& why, bool again);
  void finish(std::uint32_t rank);
  void read_on(std::uint32_t rank);
  void tell_when_done();
  void tell_pinned(std::uint32_t wave);
  void overdue();

  Node& node_;
  asio::steady_timer timer_;
  std::uint32_t wave_ = 0;      ///< current wave; 0: none
  unsigned turn_ = 0;           ///< counts waves and abandonments: late results belong to an older turn
  bool told_ = false;           ///< WaveDone has been sent
  std::vector<std::string> partners_;  ///< the namespaces that take part
  std::map<std::uint32_t, Taking> ranks_;
  std::map<std::uint32_t, Sizes> last_;  ///< of each rank in the last wave: estimate for the next one
};

}  // namespace reprise::crd
