// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file PMIx across nodes: collectives, data that ranks put, names that they publish. */
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "types.h"

namespace reprise::job {

/** @return whether ranks of the job itself, of which there are @p own, meet spawned processes in a collective */
bool is_mixed(const Fence& fence, std::size_t own);

/** The collectives that have begun. */
class Fences {
 public:
  struct Done {
    FenceDone message;
    std::vector<NodeIndex> to;
  };
  /** Nodes of spawned processes, by their numbers. */
  using Others = std::map<Rank, NodeIndex>;
  /**
   * Add the contribution of a PMIx server. @return the result, when all that serve members have contributed
   * @param context returns the next context id; called once for a group that asks for one
   */
  std::optional<Done> contribute(NodeIndex from, const Fence& fence, const PlacementTable& placement, const Others& others = {},
                                 const std::function<std::uint64_t()>& context = nullptr);
  /**
   * These have failed, and take part in no collective any more. @return the collectives that are complete without them, or
   * that have failed with them
   */
  std::vector<Done> fail(const std::vector<Rank>& ranks, const PlacementTable& placement, const Others& others = {});
  /** A rollback voids incomplete collectives. */
  void reset() {
    open_.clear();
    last_.clear();
  }
  /** Spawned processes go back while the @p own ranks of the job run on: void what these take part in. */
  void others_went_back(std::size_t own);
  std::size_t open() const { return open_.size(); }
  /** Whether one of the @p own ranks of the job waits in a collective. */
  bool await_own(std::size_t own) const;

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
  /** A node has one for the job's own ranks, and one for spawned processes. */
  struct Server {
    NodeIndex node;
    bool spawned;
    auto operator<=>(const Server&) const = default;
  };
  struct Open {
    bool whole = false;  ///< it fails with any of its members
    std::set<Server> awaited;
    std::vector<NodeIndex> all;
    std::map<Server, std::string> data;
    FenceDone answer;    ///< without data and status
  };
  using OpenOnes = std::map<Key, Open>;
  std::set<Server> servers(const std::vector<Rank>& members, const PlacementTable& placement, const Others& others) const;
  bool has_failed_member(const Key& key, std::size_t own) const;
  Done complete(OpenOnes::iterator open, int status);

  OpenOnes open_;
  std::set<Rank> failed_;
  std::map<Who, FenceDone> last_;  ///< by members, the last result: for a daemon that missed it and asks again
};

/** The data that ranks have put, for daemons that join later or ask. */
class Modex {
 public:
  struct Answer {
    NodeIndex to;
    ModexReply reply;
  };
  /** @return answers to the daemons that waited for the data */
  std::vector<Answer> put(const ModexBlob& blob);
  /** @return the answer, if the data is already there */
  std::optional<Answer> ask(NodeIndex from, const ModexRequest& request);
  /** All ranks start from the beginning. */
  void clear();
  /** Drop the data of ranks from @p first on but those for which @p keep holds, and the requests for any of them. */
  void forget_from(Rank first, const std::function<bool(Rank)>& keep);
  void node_lost(NodeIndex node);

 private:
  struct Waiting {
    NodeIndex node;
    std::uint64_t id;
  };
  std::map<Rank, std::string> blobs_;
  std::map<Rank, std::vector<Waiting>> waiting_;
};

/** MPI_Publish_name and similar functions. */
class Board {
 public:
  struct Answer {
    NodeIndex to;
    LookupReply reply;
  };
  /** @return the confirmation with its receiver, and answers to the daemons that waited for the value */
  std::vector<Answer> publish(NodeIndex from, const Publish& message);
  std::optional<Answer> lookup(NodeIndex from, const Lookup& message);
  void clear();
  /**
   * The job was rolled back: values to be read once, by which two sides find each other, are void. Names that stay until
   * they are unpublished stay.
   */
  void rolled_back();
  void node_lost(NodeIndex node);  ///< or its processes went back: nobody waits there

 private:
  struct Entry {
    std::string value, publisher;
    bool once = false;  ///< dropped when it is read
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
