// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Copies of kept memory that programs ask for between waves (--redundancy partner), on this node's disk: of its own ranks' memory,
 * for other nodes to read, and of other nodes' ranks.
 *
 *      COPY_KEPT ──> packed here ──HasCopy, asked──> crrun ──KeepCopy──> another node reads it ──HasCopy──> crrun
 *                                                      └──KeptCopied──> KEPT_COPIED: the rank goes on
 */
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <asio/thread_pool.hpp>

#include "crd/node.h"

namespace reprise::crd {

class KeptCopies {
 public:
  /** @param serves whether other nodes can read from this one */
  KeptCopies(Node& node, std::function<bool()> serves) : node_(node), serves_(std::move(serves)) {}
  ~KeptCopies();

  /** CR_RANK_COPY_KEPT */
  void asked(const RankMessage& message);
  void keep(const job::KeepCopy& order);
  void copied(const job::KeptCopied& message);
  /** Tell another crrun what is here. */
  void introduce();

  /** Memory for a rank that is restarted here. */
  struct Brought {
    std::uint32_t rank;
    std::string name;
    std::shared_ptr<HeldMemory> memory;
  };
  using Then = std::function<void(std::vector<Brought>)>;
  /** @return what @p message gives to ranks that it restarts here */
  std::vector<job::KeepCopy> orders(const job::Recover& message) const;
  /**
   * For a recovery to @p wave, read what @p orders name, without what the ranks have left here. @p then gets what could be read; the user is
   * told of the rest.
   */
  void bring(std::uint32_t wave, std::vector<job::KeepCopy> orders, Then then);

  /** A recovery: ranks ask again. */
  void recovering() { asked_.clear(); }
  /** All waves but these are removed. */
  void prune(const std::vector<std::uint32_t>& keep);
  /** Stop what runs. */
  void stop();
  /** Nothing that is here counts any more. */
  void forget();

 private:
  using Name = std::pair<std::uint32_t, std::string>;  ///< rank, name of the memory
  /** The newest request of a rank for this memory. */
  struct Asked {
    std::uint64_t id = 0, version = 0;
    bool under_way = true;
    int status = 0;
    std::string why;
  };
  void answer(std::uint32_t rank, Asked& asked, int status, const std::string& why);
  void has(const job::KeptCopy& copy, const std::string& error);
  void tell(const job::KeptCopy& copy, const std::string& error) const;
  /** What can be asked from other threads: whether the task that begins now still counts. */
  std::function<bool()> wanted() const;
  /** Make room for so many bytes on the disk, then call @p then from the loop with "", or the error. */
  void with_room(std::uint64_t bytes, std::function<void(const std::string& why)> then);

  Node& node_;
  const std::function<bool()> serves_;
  std::map<Name, job::KeptCopy> here_;  ///< the newest of each
  std::map<Name, Asked> asked_;
  std::uint32_t count_ = 0;             ///< of copies that were made here
  std::shared_ptr<std::atomic<bool>> wanted_ = std::make_shared<std::atomic<bool>>(true);
  asio::thread_pool thread_{1};         ///< of its own: other nodes may be slow or silent
  asio::thread_pool bringing_{1};       ///< a recovery waits for it
};

}  // namespace reprise::crd
