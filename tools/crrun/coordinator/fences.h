// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file PMIx over several nodes: collectives, what ranks have put, what they publish. */
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "types.h"

namespace reprise::job {

/** Collectives that have begun. */
class Fences {
 public:
  struct Done {
    FenceDone message;
    std::vector<NodeIndex> to;
  };
  /** Nodes of processes that were spawned, by their numbers. */
  using Others = std::map<Rank, NodeIndex>;
  /**
   * A daemon's share. When it was the last one of the nodes that have members, the result.
   * @param context gives the next context id; called once for a group that wants one
   */
  std::optional<Done> contribute(NodeIndex from, const Fence& fence, const PlacementTable& placement, const Others& others = {},
                                 const std::function<std::uint64_t()>& context = nullptr);
  /** A rollback makes what was half done void. */
  void reset() {
    open_.clear();
    last_.clear();
  }
  std::size_t open() const { return open_.size(); }

 private:
  struct Who {
    std::string group;
    std::vector<Rank> members;
    auto operator<=>(const Who&) const = default;
  };
  struct Key {
    Who who;
    std::uint32_t count;
    auto operator<=>(const Key&) const = default;
  };
  struct Open {
    std::set<NodeIndex> awaited;
    std::vector<NodeIndex> all;
    std::map<NodeIndex, std::string> data;
  };
  std::map<Key, Open> open_;
  std::map<Who, FenceDone> last_;  ///< of these members: for a daemon that asks again, having missed it
};

/** What the ranks have put, for daemons that come later or ask. */
class Modex {
 public:
  struct Answer {
    NodeIndex to;
    ModexReply reply;
  };
  /** @return answers to those who waited for it */
  std::vector<Answer> put(const ModexBlob& blob);
  /** @return the answer, if it is there already */
  std::optional<Answer> ask(NodeIndex from, const ModexRequest& request);
  /** Everybody begins anew. */
  void clear();
  /** What ranks from @p first on have put, and who asked for it. */
  void forget_from(Rank first);
  void node_lost(NodeIndex node);

 private:
  struct Waiting {
    NodeIndex node;
    std::uint64_t id;
  };
  std::map<Rank, std::string> blobs_;
  std::map<Rank, std::vector<Waiting>> waiting_;
};

/** MPI_Publish_name and its like. */
class Board {
 public:
  struct Answer {
    NodeIndex to;
    LookupReply reply;
  };
  /** @return that it was taken, to whom it is from, and answers to those who waited for it */
  std::vector<Answer> publish(NodeIndex from, const Publish& message);
  std::optional<Answer> lookup(NodeIndex from, const Lookup& message);
  void clear();
  /** The job went back: what two sides had begun to tell each other is void. Names that stay until they are taken back stay. */
  void rolled_back();
  void node_lost(NodeIndex node);

 private:
  struct Entry {
    std::string value, publisher;
    bool once = false;  ///< gone when it was read
  };
  struct Waiting {
    NodeIndex node;
    Lookup message;
  };
  std::optional<LookupReply> find(const Lookup& message, bool whole);

  std::map<std::string, Entry> entries_;
  std::vector<Waiting> waiting_;
};

}  // namespace reprise::job
