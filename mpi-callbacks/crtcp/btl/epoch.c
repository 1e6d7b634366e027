/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * With ULFM, Open MPI tells communicators apart by their number, which is used again, and by an epoch. The epoch of a new communicator
 * is the largest count of communicators that one of its members has made (ompi/communicator/comm_cid.c). A spawned process has made
 * next to none. So when the processes that had made most have all failed and been replaced, both come again. An agreement of ULFM is then
 * taken for an older one of the same name (coll_ftagree_earlyreturning.c): who is asked before it takes part answers with the old result,
 * forgets what the other has said, and waits for it for ever.
 *
 * So a spawned process makes communicators at the end of MPI_Init until it has made as many as its parents. It makes them of itself only,
 * and no component is chosen for them.
 */
#include "btl/epoch.h"

#include "ompi_config.h"

#include <dlfcn.h>

#include "base/crtcp.h"
#include "ompi/communicator/communicator.h"
#include "ompi/mca/hook/hook.h"

#if OPAL_ENABLE_FT_MPI

/* This library is not linked with libmpi, which has loaded it. */
static struct {
  const bool *told; /* the program deals with failures */
  ompi_communicator_t **parent, *self;
  __typeof__(PMPI_Comm_dup) *dup;
  __typeof__(PMPI_Comm_free) *release;
  __typeof__(PMPI_Comm_split) *split;
} mpi;

static bool find(void)
{
  mpi.told = dlsym(RTLD_DEFAULT, "ompi_ftmpi_enabled");
  mpi.parent = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_parent");
  mpi.self = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_self");
  mpi.dup = (__typeof__(mpi.dup)) dlsym(RTLD_DEFAULT, "PMPI_Comm_dup");
  mpi.release = (__typeof__(mpi.release)) dlsym(RTLD_DEFAULT, "PMPI_Comm_free");
  mpi.split = (__typeof__(mpi.split)) dlsym(RTLD_DEFAULT, "PMPI_Comm_split");
  return mpi.told && mpi.parent && mpi.self && mpi.dup && mpi.release && mpi.split;
}

static void follow(int argc, char **argv, int requested, int *provided)
{
  const int spin = crtcp.spin;
  MPI_Comm mine, none;
  int lag;

  (void) argc;
  (void) argv;
  (void) requested;
  (void) provided;
  if (!*mpi.told || !*mpi.parent || !OMPI_COMM_IS_INTER(*mpi.parent)) return; /* it has no parents */
  crtcp.spin = 0; /* nobody else takes part: there is no event to wait for */
  if (mpi.dup(mpi.self, &mine) == MPI_SUCCESS) {
    lag = (*mpi.parent)->c_epoch - mine->c_epoch;
    mpi.release(&mine);
    while (lag-- > 0 && mpi.split(mpi.self, MPI_UNDEFINED, 0, &none) == MPI_SUCCESS) {}
  }
  crtcp.spin = spin;
}

static ompi_hook_base_component_t hook = {
    .hookm_version = {OMPI_HOOK_BASE_VERSION_1_0_0, .mca_component_name = "crtcp"},
    .hookm_mpi_init_bottom = follow,
};

void crtcp_epoch_follow(void)
{
  int (*add)(ompi_hook_base_component_t *) = (__typeof__(add)) dlsym(RTLD_DEFAULT, "ompi_hook_base_register_callbacks");

  if (add && find()) add(&hook);
}

#else

void crtcp_epoch_follow(void)
{
}

#endif
