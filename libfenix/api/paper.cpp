// SPDX-License-Identifier: LGPL-2.1-or-later
// fenix_2014.h, by the functions of fenix.h.
#include "fenix_2014.h"

namespace {

/** Name the buffer of a member that is there. */
int rename_member(int group, int member, void *buffer, int count, MPI_Datatype datatype) {
  const struct {
    int name;
    void *value;
  } attributes[] = {{FENIX_DATA_MEMBER_ATTRIBUTE_BUFFER, buffer},
                    {FENIX_DATA_MEMBER_ATTRIBUTE_COUNT, &count},
                    {FENIX_DATA_MEMBER_ATTRIBUTE_DATATYPE, &datatype}};
  for (const auto &[name, value] : attributes)
    if (const int code = Fenix_Data_member_attr_set(group, member, name, value, nullptr); code != FENIX_SUCCESS) return code;
  return FENIX_SUCCESS;
}

}  // namespace

int Fenix_Checkpoint(int member_id, void *buffer, int count, MPI_Datatype datatype, int group, Fenix_Data_subset subset) {
  const int code = Fenix_Data_member_created(group, member_id) ? rename_member(group, member_id, buffer, count, datatype)
                                                               : Fenix_Data_member_create(group, member_id, buffer, count, datatype);
  return code == FENIX_SUCCESS ? Fenix_Data_member_store(group, member_id, subset) : code;
}

int Fenix_Checkpoint_commit(int *index, int group) { return Fenix_Data_commit(group, index); }

int Fenix_Checkpoint_restore(int member_id, void *buffer, int count, MPI_Datatype datatype, int group, int index) {
  if (Fenix_Data_group_created(group) && !Fenix_Data_member_created(group, member_id)) return FENIX_ERROR_NODATA_FOUND;
  const int code = rename_member(group, member_id, buffer, count, datatype);
  return code == FENIX_SUCCESS ? Fenix_Data_member_restore(group, member_id, nullptr, count, index, FENIX_DATA_SUBSET_IGNORE) : code;
}
