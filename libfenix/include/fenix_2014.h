/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file fenix_2014.h
 * The interface of the paper (Gamell et al., Exploring Automatic, Online Failure Recovery for Scientific Applications at Extreme
 * Scales, SC14), for programs that were written for it. Include it instead of fenix.h, which it includes.
 *
 * From the paper are the names of the functions, the arguments of Fenix_Init, Fenix_Finalize and Fenix_Checkpoint, the two
 * arguments of Fenix_Checkpoint_commit, and FENIX_LATEST_COMMIT. Chosen here, where it was not at hand: the names of the other constants,
 * that `index` is written by the commit, and the arguments of Fenix_Checkpoint_restore, which are those of Fenix_Checkpoint with the
 * index as the last one. A group is one of Fenix_Data_group_create, and a subset one of Fenix_Data_subset_create.
 */
#ifndef FENIX_2014_H
#define FENIX_2014_H

#include <fenix.h>

/** What is done for lost ranks when there is no spare process. */
typedef enum {
  FENIX_NO_SPAWN = 0, /**< the communicator becomes smaller */
  FENIX_SPAWN = 1     /**< processes are started */
} Fenix_Comm_repair_policy;

/** `status` of Fenix_Init: see Fenix_Rank_role. */
enum {
  FENIX_STATUS_INITIAL_RANK = FENIX_ROLE_INITIAL_RANK,
  FENIX_STATUS_RECOVERED_RANK = FENIX_ROLE_RECOVERED_RANK,
  FENIX_STATUS_SURVIVOR_RANK = FENIX_ROLE_SURVIVOR_RANK
};

/** In Fenix_Checkpoint_restore: the newest commit. */
#define FENIX_LATEST_COMMIT FENIX_DATA_SNAPSHOT_LATEST

/** void Fenix_Init(int *status, MPI_Comm comm, MPI_Comm *newcomm, int *argc, char ***argv, int num_spare_ranks,
 *                  Fenix_Comm_repair_policy policy, int *error); as in fenix.h */
#undef Fenix_Init
#define Fenix_Init(status, comm, newcomm, argc, argv, num_spare_ranks, policy, error) \
  FENIX_INIT_9_(status, comm, newcomm, argc, argv, num_spare_ranks, (policy) == FENIX_SPAWN, MPI_INFO_NULL, error)

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Store elements of a member, which is created first if the group does not have it: see Fenix_Data_member_store. Collective over the
 * group's communicator.
 * @param count of the elements in @p buffer; may be another one than before
 * @return as Fenix_Data_member_create and Fenix_Data_member_store
 */
FENIX_API int Fenix_Checkpoint(int member_id, void *buffer, int count, MPI_Datatype datatype, int group, Fenix_Data_subset subset);
/** As Fenix_Data_commit. @param[out] index of this commit, for Fenix_Checkpoint_restore; may be NULL */
FENIX_API int Fenix_Checkpoint_commit(int *index, int group);
/**
 * Copy what was stored of a member to @p buffer: see Fenix_Data_member_restore. It becomes the member's buffer.
 * @param index of a commit, or FENIX_LATEST_COMMIT
 * @return as Fenix_Data_member_restore; FENIX_ERROR_NODATA_FOUND also if the group has no such member
 */
FENIX_API int Fenix_Checkpoint_restore(int member_id, void *buffer, int count, MPI_Datatype datatype, int group, int index);

#ifdef __cplusplus
}
#endif

#endif
