// SPDX-License-Identifier: LGPL-2.1-or-later
// For fenix.f90: communicators, datatypes and infos are integers there.
#include "groups.h"
#include "library.h"
#include "resume.h"

namespace {

MPI_Comm newcomm = MPI_COMM_NULL;

}  // namespace

extern "C" {

using fenix_f_body = void (*)(int role, MPI_Fint comm, int error);

FENIX_API void fenix_f_init(int *role, MPI_Fint comm, MPI_Fint *new_comm, int spares, int spawn, MPI_Fint info, int *error) {
  // A jump would go to a procedure that has returned.
  if (fnx::settings().resume == FENIX_RESUME_JUMP) fnx::settings().resume = FENIX_RESUME_RETURN;
  fenix_enter_(role, MPI_Comm_f2c(comm), &newcomm, nullptr, nullptr, spares, spawn, MPI_Info_f2c(info), error, nullptr);
  *new_comm = MPI_Comm_c2f(newcomm);
  if (*error < 0) return;
  fnx::set_outputs({role, &newcomm, error, nullptr, new_comm});
  fenix_leave_();
}

FENIX_API int fenix_f_run(MPI_Fint comm, int spares, int spawn, MPI_Fint info, fenix_f_body body) {
  static int role, error;
  static jmp_buf point;
  fnx::settings().resume = FENIX_RESUME_JUMP;
  fenix_enter_(&role, MPI_Comm_f2c(comm), &newcomm, nullptr, nullptr, spares, spawn, MPI_Info_f2c(info), &error, &point);
  if (error < 0) return error;
  (void)setjmp(point);
  fenix_leave_();
  body(role, MPI_Comm_c2f(newcomm), error);
  return FENIX_SUCCESS;
}

FENIX_API int fenix_f_get_role(MPI_Fint comm, int rank, int *role) { return Fenix_get_role(MPI_Comm_f2c(comm), rank, role); }

FENIX_API int fenix_f_fail_list(int *list, int size) {
  int *lost = nullptr;
  const int count = Fenix_Process_fail_list(&lost);
  for (int i = 0; i < count && i < size; ++i) list[i] = lost[i];
  return count;
}

FENIX_API int fenix_f_group_create(int group, MPI_Fint comm, int start, int depth, int policy, int *value, int *flag) {
  return Fenix_Data_group_create(group, MPI_Comm_f2c(comm), start, depth, policy, value, flag);
}

FENIX_API int fenix_f_member_create(int group, int member, void *buffer, int count, MPI_Fint datatype) {
  return Fenix_Data_member_create(group, member, buffer, count, MPI_Type_f2c(datatype));
}

FENIX_API void *fenix_f_subset(int full) { return (full ? FENIX_DATA_SUBSET_FULL : FENIX_DATA_SUBSET_EMPTY).impl; }

}  // extern "C"
