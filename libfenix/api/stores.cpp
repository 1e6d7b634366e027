// SPDX-License-Identifier: LGPL-2.1-or-later
// Data groups: creating, storing, committing.
#include "groups.h"
#include "library.h"
#include "need.h"

namespace {

using fnx::Code, fnx::Error, fnx::groups, fnx::guarded, fnx::need;

int commit(int group_id, int *time_stamp, bool together) {
  return guarded([&] {
    const int time = groups().group(group_id).commit(together);
    fnx::process().progressed();
    if (time_stamp) *time_stamp = time;
    return FENIX_SUCCESS;
  });
}

}  // namespace

int Fenix_Data_group_create(int group_id, MPI_Comm comm, int start_time_stamp, int depth, int policy_name, void *policy_value, int *flag) {
  return guarded([&] {
    fnx::Process &process = fnx::process();
    const std::string name = "group " + std::to_string(group_id);
    if (flag) *flag = 0;
    if (group_id < 0) throw Error(Code::group_create, name + ": numbers of groups begin at 0");
    if (comm == MPI_COMM_NULL) throw Error(Code::group_create, name + ": comm is MPI_COMM_NULL: pass the resilient communicator");
    if (start_time_stamp < 0) throw Error(Code::time_stamp, name + ": time stamps begin at 0 or later");
    if (depth < 0) throw Error(Code::depth, name + ": depth " + std::to_string(depth) + ": give the number of older snapshots, from 0");
    if (policy_name != FENIX_DATA_POLICY_IN_MEMORY_RAID)
      throw Error(Code::group_create, name + ": policy " + std::to_string(policy_name) + ": use FENIX_DATA_POLICY_IN_MEMORY_RAID");
    const fnx::Group *before = groups().if_any(group_id);
    if (before && !before->stale()) return FENIX_SUCCESS;
    const fnx::GroupWish wish{group_id, start_time_stamp, depth,
                              fnx::policy_of(static_cast<const int *>(policy_value), fnx::size_of(comm))};
    groups().put(fnx::Group::create(process, comm, wish, before));
    return FENIX_SUCCESS;
  });
}

int Fenix_Data_group_created(int group_id) {
  const fnx::Group *group = groups().if_any(group_id);
  return group && !group->stale();
}

int Fenix_Data_group_delete(int group_id) {
  return guarded([&] {
    groups().drop(group_id);
    return FENIX_SUCCESS;
  });
}

int Fenix_Data_member_create(int group_id, int member_id, void *buffer, int count, MPI_Datatype datatype) {
  return guarded([&] {
    groups().group(group_id).create_member(member_id, buffer, count, datatype);
    return FENIX_SUCCESS;
  });
}

int Fenix_Data_member_created(int group_id, int member_id) {
  const fnx::Group *group = groups().if_any(group_id);
  return group && group->members().count(member_id);
}

int Fenix_Data_member_delete(int group_id, int member_id) {
  return guarded([&] {
    groups().group(group_id).delete_member(member_id);
    groups().renew();
    return FENIX_SUCCESS;
  });
}

int Fenix_Data_member_store(int group_id, int member_id, Fenix_Data_subset subset_specifier) {
  return guarded([&] {
    fnx::Store store = groups().begin(group_id, member_id, fnx::subset_in(subset_specifier));
    groups().end(store);
    return FENIX_SUCCESS;
  });
}

int Fenix_Data_member_storev(int group_id, int member_id, Fenix_Data_subset subset_specifier) {
  return Fenix_Data_member_store(group_id, member_id, subset_specifier);  // each rank tells its cohort what it stores
}

int Fenix_Data_member_istore(int group_id, int member_id, Fenix_Data_subset subset_specifier, Fenix_Request *request) {
  return guarded([&] {
    need(request, "request").id = 0;
    request->id = groups().remember(groups().begin(group_id, member_id, fnx::subset_in(subset_specifier)));
    return FENIX_SUCCESS;
  });
}

int Fenix_Data_member_istorev(int group_id, int member_id, Fenix_Data_subset subset_specifier, Fenix_Request *request) {
  return Fenix_Data_member_istore(group_id, member_id, subset_specifier, request);
}

int Fenix_Data_wait(Fenix_Request request) {
  return guarded([&] {
    groups().end(groups().pending(request.id));
    groups().forget(request.id);
    return FENIX_SUCCESS;
  });
}

int Fenix_Data_test(Fenix_Request request, int *flag) {
  return guarded([&] {
    need(flag, "flag") = 0;
    fnx::Store &store = groups().pending(request.id);
    for (auto &[member, protection] : store.members)
      if (!protection->test()) return FENIX_SUCCESS;
    groups().end(store);
    groups().forget(request.id);
    *flag = 1;
    return FENIX_SUCCESS;
  });
}

int Fenix_Data_commit(int group_id, int *time_stamp) { return commit(group_id, time_stamp, false); }

int Fenix_Data_commit_barrier(int group_id, int *time_stamp) { return commit(group_id, time_stamp, true); }

int Fenix_Data_barrier(int group_id) {
  return guarded([&] {
    groups().group(group_id).barrier();
    return FENIX_SUCCESS;
  });
}
