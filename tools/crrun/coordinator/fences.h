// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file PMIx over several nodes: collectives, what ranks have put, what they publish. */
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
  /** A daemon's share. When it was the last one of the nodes that have members, the result. */
  std::optional<Done> contribute(NodeIndex from, const Fence& fence, const PlacementTable& placement);
  /** A rollback makes what was half done void. */
  void reset() {
    open_.clear();
    last_.clear();
  }
  std::size_t open() const { return open_.size(); }

 private:
  struct Key {
    std::vector<Rank> members;
    std::uint32_t count;
    auto operator<=>(const Key&) const = default;
  };
  struct Open {
    std::set<NodeIndex> awaited;
    std::vector<NodeIndex> all;
    std::map<NodeIndex, std::string> data;
  };
  std::map<Key, Open> open_;
  std::map<std::vector<Rank>, FenceDone> last_;  ///< of these members: for a daemon that asks again, having missed it
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
  void node_lost(NodeIndex node);

 private:
  struct Entry {
    std::string value, publisher;
  };
  struct Waiting {
    NodeIndex node;
    Lookup message;
  };
  std::optional<LookupReply> find(const Lookup& message, bool whole) const;

  std::map<std::string, Entry> entries_;
  std::vector<Waiting> waiting_;
};

}  // namespace reprise::job
