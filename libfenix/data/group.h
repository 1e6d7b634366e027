// SPDX-License-Identifier: LGPL-2.1-or-later
// A data group of this process: its members, and the snapshots that are kept of them.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "cohort/cohort.h"
#include "elements.h"
#include "image/image.h"
#include "owned_comm.h"
#include "protection.h"

namespace fnx {

struct Member {
  void *buffer = nullptr;
  int count = 0;
  Elements elements;
  int epoch = 0;          // recoveries that this process had seen when the program named it last
  ImagePointer staged;    // stored since the latest commit
};

class Group {
 public:
  /**
   * Collective over `comm`, among ranks that have the group (`before`) and those that do not. What only some have committed is
   * dropped; lost ranks get their data again.
   * @throw Error(group_create), Failure
   */
  static std::unique_ptr<Group> create(Process &process, MPI_Comm comm, const GroupWish &wish, const Group *before);
  ~Group();
  /** A group of before a recovery that has taken this process back: it has no communicator, and is stale. */
  static std::unique_ptr<Group> found_again(Process &process, KeptGroup &&kept);
  KeptGroup kept() const { return {wish_, next_time_, layout_, {snapshots_.begin(), snapshots_.end()}}; }

  int id() const { return wish_.id; }
  const GroupWish &wish() const { return wish_; }
  /** There was a recovery since: the program has to create it again. */
  bool stale() const { return epoch_ != process_.epoch(); }

  /** @throw Error(member_create) */
  void create_member(int id, void *buffer, int count, MPI_Datatype type);
  /** @throw Error(member_id) */
  Member &member(int id);
  void delete_member(int id);
  const std::map<int, Member> &members() const { return members_; }

  /** @throw Error(member_id), Error(subset_end), Error(attribute_value): a store would be refused */
  void check_store(int member, const Subset &subset);
  /** A store that has begun: the elements are copied. Collective over the cohort. */
  std::unique_ptr<Protection> begin_store(int member, const Subset &subset);
  /** It has ended: until here the group is as before. */
  void end_store(int member, const Protection &store);

  /**
   * @param together return when all have committed it
   * @return time stamp. @throw Error(data_wait) if stores have not ended
   */
  int commit(bool together);
  void barrier() { check(MPI_Barrier(*comm_)); }

  /** Newest first. */
  std::vector<int> times();
  /** @param time FENIX_DATA_SNAPSHOT_LATEST or _ALL: the newest. @throw Error(time_stamp), Error(no_data) */
  const Snapshot &snapshot(int time);
  void delete_snapshot(int time);
  void delete_all_snapshots() { snapshots_.clear(); }
  const Layout &layout() const { return *layout_; }
  MPI_Comm comm() const { return *comm_; }

  int pending_stores = 0;

 private:
  struct Census;  // who has what
  void set_up(const Group *before);
  Group(Process &process, MPI_Comm comm, const GroupWish &wish);
  Group(Process &process, KeptGroup &&kept);
  void name_members();
  Census ask_all(const Group *before) const;
  void inherit(const Group &before, const Census &census);
  void form_layout(const Census &census, const Group *before);
  void enter_cohort();
  void bring_back(const Census &census);
  void mark(int time);
  void prune();

  Process &process_;
  GroupWish wish_;
  int epoch_;
  std::unique_ptr<OwnedComm> comm_, cohort_;
  std::shared_ptr<const Layout> layout_;
  std::map<int, Member> members_;
  std::deque<Snapshot> snapshots_;  // oldest first
  int next_time_ = 0;
  int safe_ = -1;  // newest snapshot that all have committed; older ones than its depth are not needed
  struct Marker {
    int time;
    MPI_Request request;
  };
  std::deque<Marker> markers_;  // barriers that end when all have committed
};

}  // namespace fnx
