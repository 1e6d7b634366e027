// SPDX-License-Identifier: LGPL-2.1-or-later
#include "groups.h"

#include <string>

#include "image/index.h"
#include "library.h"

namespace fnx {

Groups &groups() {
  static auto *all = new Groups;  // it outlives the process recovery: its communicators end in Fenix_Finalize or never
  return *all;
}

const Group *Groups::if_any(int id) const {
  const auto there = groups_.find(id);
  return there == groups_.end() ? nullptr : there->second.get();
}

Group &Groups::any(int id) {
  process();
  const auto there = groups_.find(id);
  if (there == groups_.end())
    throw Error(Code::group_id, "there is no group " + std::to_string(id) + ": create it by Fenix_Data_group_create");
  return *there->second;
}

Group &Groups::group(int id) {
  Group &group = any(id);
  if (group.stale())
    throw Error(Code::group_id, "group " + std::to_string(id) +
                                    " is of before the recovery: all ranks have to call Fenix_Data_group_create for it again");
  return group;
}

void Groups::put(std::unique_ptr<Group> made) {
  drop_stores_of(made->id());
  groups_[made->id()] = std::move(made);
  renew();
}

void Groups::drop(int id) {
  any(id);
  drop_stores_of(id);
  groups_.erase(id);
  renew();
}

void Groups::find_again(Arena &arena) {
  for (KeptGroup &kept : groups_in(arena.begin_again(), arena)) {
    const int id = kept.wish.id;
    groups_[id] = Group::found_again(process(), std::move(kept));
  }
  arena.set_renewal([this, &arena] {
    std::vector<KeptGroup> all;
    for (const auto &[id, group] : groups_) all.push_back(group->kept());
    arena.publish(index_of(all, arena));
  });
}

void Groups::renew() {
  if (Arena *arena = process().arena()) arena->renew();
}

void Groups::drop_all() {
  pending_.clear();
  groups_.clear();
}

Store Groups::begin(int id, int member, const Subset &subset) {
  Group &group = this->group(id);
  std::vector<int> members{member};
  if (member == FENIX_DATA_MEMBER_ALL) {
    members.clear();
    for (const auto &[one, ignored] : group.members()) members.push_back(one);
  }
  for (int one : members) group.check_store(one, subset);  // all, before anything is sent
  Store store{id, {}};
  for (int one : members) store.members.emplace_back(one, group.begin_store(one, subset));
  return store;
}

void Groups::end(Store &store) {
  Group &group = this->group(store.group);
  for (auto &[member, protection] : store.members) protection->wait();
  for (auto &[member, protection] : store.members) group.end_store(member, *protection);
}

int Groups::remember(Store &&store) {
  ++group(store.group).pending_stores;
  pending_.emplace(next_id_, std::move(store));
  return next_id_++;
}

Store &Groups::pending(int id) {
  const auto there = pending_.find(id);
  if (there == pending_.end())
    throw Error(Code::data_wait, "there is no store with this request: use each request of Fenix_Data_member_istore once");
  if (any(there->second.group).stale()) {
    pending_.erase(there);
    throw Error(Code::cancelled, "the store was given up in a recovery: store again after Fenix_Data_group_create");
  }
  return there->second;
}

void Groups::forget(int id) {
  const auto there = pending_.find(id);
  --any(there->second.group).pending_stores;
  pending_.erase(there);
}

void Groups::drop_stores_of(int group) {
  for (auto at = pending_.begin(); at != pending_.end();) at = at->second.group == group ? pending_.erase(at) : std::next(at);
}

}  // namespace fnx
