// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The node's part of a recovery. Each rank placed here is rolled back in place if it lives and need not be
 * restarted; otherwise it is restarted from its image as a new process. A newer recovery voids this one at any moment. If only
 * spawned processes go back, the job's own ranks here are left alone (staying.h).
 */
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include <asio/steady_timer.hpp>

#include "crd/attempt.h"
#include "crd/fetching.h"
#include "crd/kept_copies.h"
#include "crd/node.h"
#include "crd/pmix_renewal.h"
#include "crd/standby.h"

namespace reprise::crd {

class Recovery {
 public:
  Recovery(Node& node, Standby& standby, KeptCopies& copies)
      : node_(node), standby_(standby), copies_(copies), fetching_(node), timer_(node.loop) {}
  void begin(const job::Recover& message);
  void resume(const job::Resume& message);
  /** A newer recovery or launch began: kill the tools that are running. */
  void abandon();
  /** No earlier rank is left: drop what is kept for older recoveries. */
  void forget();
  void restored(const RankMessage& message);   ///< CR_RANK_RESTORED
  void pmix_done(const RankMessage& message);  ///< CR_RANK_PMIX_DONE
  void resumed(const RankMessage& message);    ///< CR_RANK_RESUMED
  void rank_ended(std::uint32_t rank);
  bool under_way() const { return !ranks_.empty(); }

 private:
  struct Bringing {
    job::ImagePlace place;
    int next_path = 0;           ///< index into place.paths: the next path to try
    bool restart = false;
    bool anew = false;           ///< it is restarted, or was since the wave: it has none of the image's connections
    bool awaited = false;        ///< its image comes from another node
    bool image_bad = false;      ///< an image was missing or damaged
    bool local = false;          ///< the image that is restored is on this node
    std::string problems;        ///< errors of the paths tried so far
    std::optional<Attempt> ready;  ///< prepared before this recovery began
    std::unique_ptr<Tool> tool;
    bool tool_done = false;      ///< cr_pause or cr_restart has succeeded
    bool said = false;           ///< CR_RANK_RESTORED has arrived
    bool said_early = false;     ///< it arrived before the tool was done
    bool stale = false;          ///< the rank needs a new PMIx connection and has none yet
    bool pmix_sent = false;      ///< the connection has been sent to the rank
    bool done = false, resumed = false;
    Manifest manifest;
    UniqueFd pmix;               ///< a connection to the new server
    job::RankRestored report;
    job::RankResumed resume_report;
  };
  using Guard = std::function<bool()>;
  /** @return a function that says if this recovery is still the current one */
  Guard guard() const;
  /** Whether a process has a part in this recovery, on whatever node. */
  bool takes_back(std::uint32_t rank) const { return !stay_ || !node_.own(rank); }
  /** Log the progress with a rank. */
  void note(std::uint32_t rank, const char* what) const;
  void kill_those_that_leave(std::function<void()> then);
  void look_who_lives();
  void fetch_and_begin(const std::vector<job::Fetch>& orders);
  void prepare_pmix();
  void replace_pmix(Side side);
  void begin_all();
  void fetched(std::uint32_t rank, const Fetching::Result& result);
  void bring(std::uint32_t rank);
  void found_image(std::uint32_t rank, const FoundImage& found);
  void use(std::uint32_t rank, Attempt attempt);
  void pause(std::uint32_t rank);
  void restart(std::uint32_t rank, std::unique_ptr<Rank> made);
  void tool_said(std::uint32_t rank, const ToolResult& result);
  void bind(Rank& rank, const Manifest& manifest);
  void another_image(std::uint32_t rank, const std::string& why, bool bad);
  void give_pmix(std::uint32_t rank);
  void check(std::uint32_t rank);
  void fail(std::uint32_t rank, const std::string& why);
  void tell_when_done();
  void tell_when_resumed();

  Node& node_;
  Standby& standby_;
  KeptCopies& copies_;
  Fetching fetching_;
  asio::steady_timer timer_;
  unsigned turn_ = 0;
  std::uint64_t begun_ns_ = 0;
  std::uint32_t number_ = 0, wave_ = 0;
  std::unique_ptr<PmixRenewal> ready_pmix_;  ///< the server that was prepared for this recovery, for the job's own ranks
  std::map<Side, std::unique_ptr<PmixRenewal>> renewals_;  ///< of the servers that were replaced in this recovery
  std::set<Side> pmix_mixed_;  ///< these servers were replaced, and not every process is connected to the new one yet
  bool stay_ = false;          ///< the job's own ranks run on, and have no part in this
  bool superseding_ = false;   ///< another recovery was under way when this one began: messages of ranks may belong to that
                               ///< one
  bool told_ = false, resumed_told_ = false;
  /**
   * Replaced servers, kept until every rank here is connected to the new one: a running rank must not see its server end.
   */
  std::vector<std::shared_ptr<PmixHost>> old_pmix_;
  std::map<std::uint32_t, Bringing> ranks_;
};

}  // namespace reprise::crd
