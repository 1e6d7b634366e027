// SPDX-License-Identifier: LGPL-2.1-or-later
// Data groups: restoring, and what can be asked of them.
#include <algorithm>
#include <iterator>

#include "data/fetch.h"
#include "groups.h"
#include "library.h"
#include "need.h"

namespace {

using fnx::Code, fnx::Error, fnx::groups, fnx::guarded, fnx::need;

[[noreturn]] void refuse_position(int position, std::size_t size) {
  throw Error(Code::position, "position " + std::to_string(position) + " of " + std::to_string(size) + ": positions begin at 0");
}

/** Copy what was found to where it is wanted. */
int copy_out(const fnx::Member &member, int member_id, const fnx::Shape &shape, std::span<const std::byte> data, void *target,
             int max_count, Fenix_Data_subset *found_data) {
  const std::string name = "member " + std::to_string(member_id);
  if (!target) target = member.buffer;
  if (!target) throw Error(Code::no_category, "target_buffer is NULL, and " + name + " has no buffer: pass one");
  if (max_count < 0) throw Error(Code::no_category, "max_count is " + std::to_string(max_count) + ": pass the number of elements");
  if (!member.elements.can_copy())
    throw Error(Code::attribute_value, name + " has gaps in its elements: name its datatype by Fenix_Data_member_create first");
  const fnx::Subset found = shape.found.below(max_count);
  member.elements.spread(data, found, target);
  fnx::put_out(found, found_data);
  return found.covers(max_count) ? FENIX_SUCCESS : FENIX_WARNING_PARTIAL_RESTORE;
}

int restore(fnx::Group &group, int member_id, void *target, int max_count, int time, bool own_only, Fenix_Data_subset *found_data) {
  const fnx::Member &member = group.member(member_id);
  const std::string name = "member " + std::to_string(member_id);
  const fnx::Snapshot &snapshot = group.snapshot(time);
  const auto there = snapshot.members.find(member_id);
  if (there == snapshot.members.end())
    throw Error(Code::no_data, name + " is not in snapshot " + std::to_string(snapshot.time) + ": store it before the commit");
  const fnx::Image &image = *there->second;
  if (!own_only && image.layout->ranks != group.layout().ranks)
    throw Error(Code::logic_call, name + " was stored by " + std::to_string(image.layout->ranks) + " ranks, and now they are " +
                                      std::to_string(group.layout().ranks) + ": use Fenix_Data_member_restore_from_rank");
  return copy_out(member, member_id, image.shape(), image.data, target, max_count, found_data);
}

/** What is known of a member that another rank of the cohort has stored. */
const fnx::Shape &shape_of(fnx::Group &group, int member_id, int rank) {
  const std::vector<int> times = group.times();
  if (!times.empty()) {
    const fnx::Snapshot &latest = group.snapshot(times.front());
    const auto there = latest.members.find(member_id);
    if (there != latest.members.end()) {
      const std::vector<int> &cohort = there->second->layout->cohort;
      const auto at = std::find(cohort.begin(), cohort.end(), rank);
      if (at != cohort.end()) return there->second->shapes[at - cohort.begin()];
    }
  }
  throw Error(Code::no_data, "this rank knows nothing of member " + std::to_string(member_id) + " of rank " + std::to_string(rank) +
                                 ": ask that rank, or one that keeps redundant data for it");
}

}  // namespace

int Fenix_Data_member_restore(int group_id, int member_id, void *target_buffer, int max_count, int time_stamp,
                              Fenix_Data_subset *found_data) {
  return guarded([&] {
    return restore(groups().group(group_id), member_id, target_buffer, max_count, time_stamp, false, found_data);
  });
}

int Fenix_Data_member_lrestore(int group_id, int member_id, void *target_buffer, int max_count, int time_stamp,
                               Fenix_Data_subset *found_data) {
  return guarded([&] {
    return restore(groups().any(group_id), member_id, target_buffer, max_count, time_stamp, true, found_data);
  });
}

int Fenix_Data_member_restore_from_rank(int group_id, int member_id, void *target_buffer, int max_count, int time_stamp,
                                        Fenix_Data_subset *found_data, int source_rank) {
  return guarded([&] {
    fnx::Group &group = groups().group(group_id);
    const fnx::Member *member = group.members().count(member_id) ? &group.member(member_id) : nullptr;
    // A rank without the snapshot takes part: others may want what it has not.
    fnx::ImagePointer image;
    if (!group.times().empty()) {
      const fnx::Snapshot &snapshot = group.snapshot(time_stamp);
      const auto there = snapshot.members.find(member_id);
      if (there != snapshot.members.end()) image = there->second;
    }
    const auto fetched = fnx::fetch(group, image, source_rank);
    if (source_rank < 0) return static_cast<int>(FENIX_SUCCESS);
    if (!fetched)
      throw Error(Code::no_data, "member " + std::to_string(member_id) + " of rank " + std::to_string(source_rank) +
                                     ": it has stored nothing, or two ranks of its cohort are lost");
    const fnx::Member bare{nullptr, 0, fnx::Elements(fetched->shape.element, fetched->shape.dense), 0, nullptr};
    return copy_out(member ? *member : bare, member_id, fetched->shape, fetched->data, target_buffer, max_count, found_data);
  });
}

int Fenix_Data_group_get_redundancy_policy(int group_id, int *policy_name, void *policy_value, int *flag) {
  return guarded([&] {
    const fnx::Policy &policy = groups().any(group_id).wish().policy;
    need(policy_name, "policy_name") = FENIX_DATA_POLICY_IN_MEMORY_RAID;
    int *values = &need(static_cast<int *>(policy_value), "policy_value");
    values[0] = policy.mode;
    values[1] = policy.separation;
    values[2] = policy.size;
    if (flag) *flag = 1;
    return FENIX_SUCCESS;
  });
}

int Fenix_Data_group_get_number_of_members(int group_id, int *number_of_members) {
  return guarded([&] {
    need(number_of_members, "number_of_members") = static_cast<int>(groups().any(group_id).members().size());
    return FENIX_SUCCESS;
  });
}

int Fenix_Data_group_get_member_at_position(int group_id, int *member_id, int position) {
  return guarded([&] {
    const auto &members = groups().any(group_id).members();
    if (position < 0 || static_cast<std::size_t>(position) >= members.size()) refuse_position(position, members.size());
    need(member_id, "member_id") = std::next(members.begin(), position)->first;
    return FENIX_SUCCESS;
  });
}

int Fenix_Data_group_get_number_of_snapshots(int group_id, int *number_of_snapshots) {
  return guarded([&] {
    need(number_of_snapshots, "number_of_snapshots") = static_cast<int>(groups().any(group_id).times().size());
    return FENIX_SUCCESS;
  });
}

int Fenix_Data_group_get_snapshot_at_position(int group_id, int position, int *time_stamp) {
  return guarded([&] {
    const std::vector<int> times = groups().any(group_id).times();
    if (position < 0 || static_cast<std::size_t>(position) >= times.size()) refuse_position(position, times.size());
    need(time_stamp, "time_stamp") = times[position];
    return FENIX_SUCCESS;
  });
}

int Fenix_Data_snapshot_delete(int group_id, int time_stamp) {
  return guarded([&] {
    fnx::Group &group = groups().any(group_id);
    if (time_stamp == FENIX_DATA_SNAPSHOT_ALL)
      group.delete_all_snapshots();
    else
      group.delete_snapshot(group.snapshot(time_stamp).time);
    groups().renew();
    return FENIX_SUCCESS;
  });
}

int Fenix_Data_member_attr_get(int group_id, int member_id, int attribute_name, void *attribute_value, int *flag, int source_rank) {
  return guarded([&] {
    fnx::Group &group = groups().any(group_id);
    const fnx::Member &member = group.member(member_id);
    if (flag) *flag = 0;
    if (attribute_name < FENIX_DATA_MEMBER_ATTRIBUTE_BUFFER || attribute_name > FENIX_DATA_MEMBER_ATTRIBUTE_SIZE)
      throw Error(Code::attribute_name, "there is no attribute " + std::to_string(attribute_name) + ": use FENIX_DATA_MEMBER_ATTRIBUTE_…");
    need(static_cast<char *>(attribute_value), "attribute_value");
    const bool own = source_rank == group.layout().rank;
    switch (attribute_name) {
      case FENIX_DATA_MEMBER_ATTRIBUTE_COUNT:
        *static_cast<int *>(attribute_value) = own ? member.count : static_cast<int>(shape_of(group, member_id, source_rank).count);
        break;
      case FENIX_DATA_MEMBER_ATTRIBUTE_SIZE:
        *static_cast<int *>(attribute_value) =
            static_cast<int>(own ? member.elements.bytes() : shape_of(group, member_id, source_rank).element);
        break;
      default:
        if (!own) throw Error(Code::no_data, "addresses and datatypes are known to their own rank only: ask for COUNT or SIZE");
        if (attribute_name == FENIX_DATA_MEMBER_ATTRIBUTE_BUFFER)
          *static_cast<void **>(attribute_value) = member.buffer;
        else
          *static_cast<MPI_Datatype *>(attribute_value) = member.elements.type();
    }
    if (flag) *flag = 1;
    return FENIX_SUCCESS;
  });
}

int Fenix_Data_member_attr_set(int group_id, int member_id, int attribute_name, void *attribute_value, int *flag) {
  return guarded([&] {
    fnx::Member &member = groups().group(group_id).member(member_id);
    const std::string name = "member " + std::to_string(member_id);
    if (flag) *flag = 0;
    switch (attribute_name) {
      case FENIX_DATA_MEMBER_ATTRIBUTE_BUFFER: member.buffer = attribute_value; break;
      case FENIX_DATA_MEMBER_ATTRIBUTE_COUNT:
        if (!attribute_value || *static_cast<int *>(attribute_value) < 0)
          throw Error(Code::attribute_value, name + ": COUNT is NULL or negative: pass the address of a number of elements");
        member.count = *static_cast<int *>(attribute_value);
        break;
      case FENIX_DATA_MEMBER_ATTRIBUTE_DATATYPE: {
        if (!attribute_value) throw Error(Code::attribute_value, name + ": DATATYPE is NULL: pass the address of an MPI_Datatype");
        const fnx::Elements elements(*static_cast<MPI_Datatype *>(attribute_value));
        if (elements.bytes() != member.elements.bytes() || elements.dense() != member.elements.dense())
          throw Error(Code::attribute_value, name + " has elements of another size: delete it, and create it with the datatype");
        member.elements = elements;
        break;
      }
      case FENIX_DATA_MEMBER_ATTRIBUTE_SIZE:
        throw Error(Code::attribute_name, name + ": SIZE follows from the datatype: set that");
      default:
        throw Error(Code::attribute_name, "there is no attribute " + std::to_string(attribute_name) + ": use FENIX_DATA_MEMBER_ATTRIBUTE_…");
    }
    if (flag) *flag = 1;
    return FENIX_SUCCESS;
  });
}
