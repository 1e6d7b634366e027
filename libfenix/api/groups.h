// SPDX-License-Identifier: LGPL-2.1-or-later
// The data groups of this process, and its stores under way.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "data/group.h"
#include "fenix.h"

namespace fnx {

/** A store of one or several members, until it was waited for. */
struct Store {
  int group;
  std::vector<std::pair<int, std::unique_ptr<Protection>>> members;
};

class Groups {
 public:
  /** Of now. @throw Error(group_id) if it is unknown, or was not created again after a recovery */
  Group &group(int id);
  /** Also of before a recovery. @throw Error(group_id) */
  Group &any(int id);
  const Group *if_any(int id) const;
  void put(std::unique_ptr<Group> made);
  void drop(int id);
  void drop_all();
  /** The groups of before the engine has taken this process back, and how they are kept from now on. */
  void find_again(Arena &arena);
  /** Keep what there is now. */
  void renew();

  Store begin(int group, int member, const Subset &subset);
  void end(Store &store);
  int remember(Store &&store);
  /** @throw Error(data_wait), Error(cancelled) */
  Store &pending(int id);
  void forget(int id);

 private:
  void drop_stores_of(int group);
  std::map<int, std::unique_ptr<Group>> groups_;
  std::map<int, Store> pending_;
  int next_id_ = 1;
};

Groups &groups();

/** What a Fenix_Data_subset stands for. @throw Error(subset_blocks) if it was not made */
const Subset &subset_in(const Fenix_Data_subset &given);
/** @param found may be NULL */
void put_out(const Subset &subset, Fenix_Data_subset *found);

}  // namespace fnx
