// SPDX-License-Identifier: LGPL-2.1-or-later
// For croff.f90: communicators are integers there.
#include "croff.h"

extern "C" {

CROFF_API int croff_f_alloc(MPI_Fint comm, int hosts, int per_host, MPI_Fint *inter) {
  MPI_Comm made = MPI_COMM_NULL;
  const int error = deep_booster_alloc(MPI_Comm_f2c(comm), hosts, per_host, &made);
  *inter = MPI_Comm_c2f(made);
  return error;
}

CROFF_API int croff_f_free(MPI_Fint *inter) {
  MPI_Comm group = MPI_Comm_f2c(*inter);
  const int error = deep_booster_free(&group);
  *inter = MPI_Comm_c2f(group);
  return error;
}

CROFF_API int croff_f_group_size(MPI_Fint inter, int *size) { return croff_group_size(MPI_Comm_f2c(inter), size); }

CROFF_API int croff_f_task(MPI_Fint inter, int rank, int recover, croff_function function, const void *values, size_t bytes,
                           const croff_region *regions, int count) {
  return croff_task(MPI_Comm_f2c(inter), rank, recover, function, values, bytes, regions, count);
}

}  // extern "C"
