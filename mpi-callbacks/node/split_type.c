/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file
 * @brief MPI_Comm_split_type(MPI_COMM_TYPE_SHARED) under crrun: the ranks that are on one node now.
 *
 * crtcp tells Open MPI that no peer is on this node: Open MPI would otherwise make memory for one-sided communication that
 * two ranks share, of which no image can be taken. So Open MPI's own function gives each rank a communicator of its own.
 * crd preloads this library into the ranks. It takes the function's place, in C and Fortran, and asks crtcp for the node.
 *
 * The library may be loaded into programs without MPI, and libmpi may be loaded where its symbols are not global (as by
 * Python): it is looked up among the loaded objects. So nothing here may refer to a symbol of libmpi, as MPI_INT does.
 */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <mpi.h>
#include <stddef.h>
#include <string.h>

/** Number of this node in the job; crtcp sets it at the start and after each recovery. -1: not under crrun. */
__attribute__((visibility("default"))) int reprise_node = -1;

static int is_libmpi(struct dl_phdr_info *object, size_t size, void *name)
{
  const char *file = strrchr(object->dlpi_name, '/');

  (void) size;
  if (strncmp(file ? file + 1 : object->dlpi_name, "libmpi.so", 9)) return 0;
  *(const char **) name = object->dlpi_name;
  return 1;
}

/* @return a symbol of libmpi, which is loaded, since the program has called an MPI function */
static void *of_libmpi(const char *symbol)
{
  static void *handle;
  const char *name = NULL;

  if (!handle && dl_iterate_phdr(is_libmpi, &name)) handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  return handle ? dlsym(handle, symbol) : NULL;
}

#define REAL(function) ((__typeof__(function) *) of_libmpi("P" #function))

/* Is it the type of all ranks that pass one? Others may pass MPI_UNDEFINED, and must take part in the same calls. */
static int all_shared(MPI_Comm comm, int type, int *shared)
{
  const int mine = type == MPI_UNDEFINED ? INT_MIN : type;
  int common, rc = REAL(MPI_Allreduce)(&mine, &common, 1, of_libmpi("ompi_mpi_int"), of_libmpi("ompi_mpi_op_max"), comm);

  *shared = rc == MPI_SUCCESS && common == MPI_COMM_TYPE_SHARED;
  return rc;
}

__attribute__((visibility("default"))) int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *result)
{
  int between = 0, shared = 0, rc;

  if (reprise_node < 0) return REAL(MPI_Comm_split_type)(comm, type, key, info, result);
  rc = REAL(MPI_Comm_test_inter)(comm, &between);
  if (rc == MPI_SUCCESS && !between) rc = all_shared(comm, type, &shared);
  if (rc != MPI_SUCCESS) return rc;
  if (!shared) return REAL(MPI_Comm_split_type)(comm, type, key, info, result);
  return REAL(MPI_Comm_split)(comm, type == MPI_UNDEFINED ? MPI_UNDEFINED : reprise_node, key, result);
}

/* Fortran: mpif.h and the module mpi; with the underscore that gfortran appends. */
__attribute__((visibility("default"))) void mpi_comm_split_type_(MPI_Fint *comm, MPI_Fint *type, MPI_Fint *key, MPI_Fint *info,
                                                               MPI_Fint *result, MPI_Fint *error)
{
  MPI_Comm made = REAL(MPI_Comm_f2c)(-1);
  const int rc = MPI_Comm_split_type(REAL(MPI_Comm_f2c)(*comm), *type, *key, REAL(MPI_Info_f2c)(*info), &made);

  if (rc == MPI_SUCCESS) *result = REAL(MPI_Comm_c2f)(made);
  if (error) *error = rc;
}

/* The module mpi_f08, whose handles are structures of one integer. */
__attribute__((visibility("default"))) void mpi_comm_split_type_f08_(MPI_Fint *comm, MPI_Fint *type, MPI_Fint *key, MPI_Fint *info,
                                                                   MPI_Fint *result, MPI_Fint *error)
{
  mpi_comm_split_type_(comm, type, key, info, result, error);
}
