// SPDX-License-Identifier: LGPL-2.1-or-later
#include "group.h"

#include <algorithm>
#include <string>

#include "base/fault.h"
#include "store/arena.h"

namespace fnx {

Group::~Group() {
  for (Marker &marker : markers_) {
    int done = 0;
    if (marker.request == MPI_REQUEST_NULL) continue;
    if (MPI_Test(&marker.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done) continue;
    comm_->keep();
  }
}

void Group::create_member(int id, void *buffer, int count, MPI_Datatype type) {
  const std::string name = "member " + std::to_string(id) + " of group " + std::to_string(wish_.id);
  if (id < 0) throw Error(Code::member_create, name + ": numbers of members begin at 0");
  if (count < 0) throw Error(Code::member_create, name + " has " + std::to_string(count) + " elements: give at least 0");
  const Elements elements(type);
  const auto there = members_.find(id);
  if (there != members_.end()) {  // a survivor names it again after a recovery, or a recovered rank for the first time
    if (there->second.epoch == process_.epoch())
      throw Error(Code::member_create, name + " exists: use another number, or Fenix_Data_member_attr_set");
    if (there->second.elements.bytes() != elements.bytes() || there->second.elements.dense() != elements.dense())
      throw Error(Code::member_create, name + " had elements of another size: give the same datatype as before the recovery");
    there->second.buffer = buffer;
    there->second.count = count;
    there->second.elements = elements;
    there->second.epoch = process_.epoch();
    return;
  }
  members_[id] = {buffer, count, elements, process_.epoch(), nullptr};
}

Member &Group::member(int id) {
  const auto there = members_.find(id);
  if (there == members_.end())
    throw Error(Code::member_id, "group " + std::to_string(wish_.id) + " has no member " + std::to_string(id) +
                                     ": create it by Fenix_Data_member_create");
  return there->second;
}

void Group::delete_member(int id) {
  member(id);
  members_.erase(id);
  for (Snapshot &snapshot : snapshots_) snapshot.members.erase(id);
}

void Group::check_store(int id, const Subset &subset) {
  const Member &member = this->member(id);
  const std::string name = "member " + std::to_string(id);
  const Subset wanted = subset.below(member.count);
  if (subset.end() > member.count)
    throw Error(Code::subset_end, name + " has " + std::to_string(member.count) + " elements, and the subset has number " +
                                      std::to_string(subset.end() - 1) + ": cut the subset, or set the attribute COUNT");
  if (!member.buffer && !wanted.empty())
    throw Error(Code::attribute_value, name + " has no buffer: set it by Fenix_Data_member_attr_set or Fenix_Data_member_create");
  if (!member.elements.can_copy() && !wanted.empty())
    throw Error(Code::attribute_value, name + " has no datatype: name it by Fenix_Data_member_create");
}

std::unique_ptr<Protection> Group::begin_store(int id, const Subset &subset) {
  const Member &member = this->member(id);
  const Subset wanted = subset.below(member.count);
  // A copy of the latest state with the new elements: nothing is changed before it is safe.
  ImagePointer base = member.staged;
  if (!base && !snapshots_.empty()) {
    const auto latest = snapshots_.back().members.find(id);
    if (latest != snapshots_.back().members.end()) base = latest->second;
  }
  auto image = std::make_shared<Image>(process_.arena());
  image->layout = layout_;
  image->shapes.resize(layout_->cohort.size());
  Shape &shape = image->shapes[layout_->index];
  shape.count = member.count;
  shape.element = static_cast<std::int64_t>(member.elements.bytes());
  shape.dense = member.elements.dense();
  if (base && base->shape().element == shape.element && !wanted.covers(member.count)) {
    image->data.assign(base->data);
    shape.found = base->shape().found.below(member.count);
  }
  image->data.resize(shape.bytes());
  member.elements.collect(member.buffer, wanted, image->data);
  shape.found.add(wanted);
  return std::make_unique<Protection>(std::move(image), *cohort_);
}

void Group::end_store(int id, const Protection &store) {
  fault("stored");
  member(id).staged = store.image();
}

int Group::commit(bool together) {
  if (pending_stores)
    throw Error(Code::data_wait, "group " + std::to_string(wish_.id) + " has " + std::to_string(pending_stores) +
                                     " stores under way: wait for them by Fenix_Data_wait before the commit");
  fault("committing");
  Snapshot next;
  if (!snapshots_.empty()) next.members = snapshots_.back().members;
  next.time = next_time_;
  for (const auto &[id, member] : members_)
    if (member.staged) next.members[id] = member.staged;
  snapshots_.push_back(std::move(next));
  for (auto &[id, member] : members_) member.staged = nullptr;
  const int time = next_time_++;
  // First of all it is kept: when others learn that this rank has it, they drop what is older.
  if (Arena *arena = process_.arena()) arena->renew();
  if (!together) mark(time);
  fault("committed");
  if (together) {
    barrier();
    safe_ = time;
  }
  prune();
  return time;
}

/** A rank that is ahead must not drop what others may still need: prune() looks whether all have come here. */
void Group::mark(int time) {
  Marker marker{time, MPI_REQUEST_NULL};
  check(MPI_Ibarrier(*comm_, &marker.request));
  markers_.push_back(marker);
}

/** Drop the snapshots that nobody can need: they are deeper than the depth below one that all have. */
void Group::prune() {
  while (!markers_.empty()) {
    int done = 0;
    check(MPI_Test(&markers_.front().request, &done, MPI_STATUS_IGNORE));
    if (!done) break;
    safe_ = std::max(safe_, markers_.front().time);
    markers_.pop_front();
  }
  const auto newer = [&] {
    return std::count_if(snapshots_.begin(), snapshots_.end(), [&](const Snapshot &one) { return one.time <= safe_; });
  };
  for (auto below = newer(); below > wish_.depth + 1; --below) snapshots_.pop_front();
}

std::vector<int> Group::times() {
  std::vector<int> times;
  for (auto at = snapshots_.rbegin(); at != snapshots_.rend(); ++at) times.push_back(at->time);
  // Those that are kept for ranks that are behind do not count.
  if (times.size() > static_cast<std::size_t>(wish_.depth) + 1) times.resize(wish_.depth + 1);
  return times;
}

const Snapshot &Group::snapshot(int time) {
  if (snapshots_.empty())
    throw Error(Code::no_data, "group " + std::to_string(wish_.id) +
                                   " has no snapshot: nothing was committed, or the ranks of a whole cohort were lost at once");
  if (time < 0) return snapshots_.back();  // FENIX_DATA_SNAPSHOT_LATEST, _ALL
  for (const Snapshot &one : snapshots_)
    if (one.time == time) return one;
  throw Error(Code::time_stamp, "group " + std::to_string(wish_.id) + " has no snapshot " + std::to_string(time) +
                                    ": ask Fenix_Data_group_get_snapshot_at_position, or create the group with a larger depth");
}

void Group::delete_snapshot(int time) {
  snapshot(time);
  snapshots_.erase(std::find_if(snapshots_.begin(), snapshots_.end(), [&](const Snapshot &one) { return one.time == time; }));
}

}  // namespace fnx
