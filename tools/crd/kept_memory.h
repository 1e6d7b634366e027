// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Kept memory of the node's ranks (cr_kept_alloc() of libcr). The daemon gets it with each image, and holds it: when a
 * rank has died and is restarted here, it gets its memory back as it was in the end.
 */
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "base/kept_passing.h"

namespace reprise::crd {

/** Memory that the daemon holds. */
struct HeldMemory {
  UniqueFd memory;
  bool unfilled = false;  ///< it was made here, and is to get what the image has of it
};
/** The memory of one rank, by name. Waves share the descriptors of memory that is the same. */
using RankMemory = std::map<std::string, std::shared_ptr<HeldMemory>>;

class KeptMemory {
 public:
  /** The wave is committed: hold the memory that the image of @p rank in it refers to. */
  void saved(std::uint32_t wave, std::uint32_t rank, std::vector<KeptFile> files);
  /** @return the memory that is here, and can be used */
  RankMemory of(std::uint32_t wave, std::uint32_t rank) const;
  /**
   * @return memory for a restart of @p rank from its image in @p wave. What is not here is made and held from now on: the rank may be
   *   restarted here again
   * @param sizes  of what the image refers to, by name
   * @param copied names of those whose content the image has
   */
  RankMemory complete(std::uint32_t wave, std::uint32_t rank, const std::map<std::string, std::uint64_t>& sizes,
                      const std::set<std::string>& copied = {});
  /** Hold this memory for a restart of @p rank from its image in @p wave. */
  void give(std::uint32_t wave, std::uint32_t rank, const std::string& name, std::shared_ptr<HeldMemory> memory);
  /** The rank was restarted from that image: its memory is as it should be, and the rank's. */
  void filled(std::uint32_t wave, std::uint32_t rank);
  /** Images of other waves than these may be removed. */
  void prune(const std::vector<std::uint32_t>& keep);
  /** Forget ranks that are elsewhere: what they do to their memory there is not in what is held here. */
  void only(const std::function<bool(std::uint32_t rank)>& here);
  void clear() { waves_.clear(); }

 private:
  std::map<std::uint32_t, std::map<std::uint32_t, RankMemory>> waves_;  ///< by wave, then by rank
};

/** @return the sizes of memory by name, without what cr_restart could not be told of */
std::map<std::string, std::uint64_t> sizes_of(const std::vector<KeptFile>& files);
/** @return the names of those whose content images have (CR_KEPT_COPIED) */
std::set<std::string> copied_of(const std::vector<KeptFile>& files);

/** Receives what one cr_checkpoint hands over. */
class KeptReceiver {
 public:
  /** Throws std::system_error. */
  explicit KeptReceiver(asio::io_context& loop);
  KeptReceiver(KeptReceiver&&) = delete;
  ~KeptReceiver();
  /** The end for cr_checkpoint: close it when cr_checkpoint has it. */
  UniqueFd take_sender() { return std::move(sender_); }
  /** cr_checkpoint has reported. @return what has arrived */
  std::vector<KeptFile> take();
  /** @return why some memory could not be received; "" if all was */
  const std::string& problem() const { return state_->problem; }

 private:
  struct State {
    explicit State(asio::io_context& loop) : socket(loop) {}
    asio::posix::stream_descriptor socket;
    std::vector<KeptFile> files;
    std::string problem;
    bool receive_all();
  };
  static void wait(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;
  UniqueFd sender_;
};

}  // namespace reprise::crd
