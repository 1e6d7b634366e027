/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file fenix.h
 * Recovery of processes and data inside an MPI application: the C interface of Reprise's libfenix.
 *
 * Programs that are written for Fenix (specification 1.0.1, Sandia National Laboratories; "the paper": Gamell et al., Exploring
 * Automatic, Online Failure Recovery for Scientific Applications at Extreme Scales, SC14) compile with it. docs/fenix.md explains
 * it with a program, and lists what differs.
 *
 * All functions are for the thread that has called MPI_Init. Unless they say otherwise they return FENIX_SUCCESS, a warning (> 0)
 * or an error (< 0); fenix_last_error() then names the thing and the way out. A function that meets a process failure recovers as
 * calls of MPI do: see Fenix_Init. With FENIX_RESUME_RETURN it then returns MPI's error class, MPI_ERR_PROC_FAILED or
 * MPI_ERR_REVOKED. Before Fenix_Init, and after Fenix_Finalize, functions return FENIX_ERROR_UNINITIALIZED.
 */
#ifndef FENIX_H
#define FENIX_H

#include <mpi.h>
#include <setjmp.h>

#if defined(__GNUC__)
#define FENIX_API __attribute__((visibility("default")))
#else
#define FENIX_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Return codes. They keep their values. */
enum {
  FENIX_SUCCESS = 0,
  FENIX_ERROR_UNINITIALIZED = -9,           /**< Fenix_Init was not called, or it was before MPI_Init */
  FENIX_ERROR_NOCATEGORY = -10,             /**< an argument is wrong in a way that has no code of its own */
  FENIX_ERROR_CALLBACK_NOT_REGISTERED = -11, /**< there is no callback */
  FENIX_ERROR_CALLBACK_NOT_REGISTERD = -11, /**< as older programs write it */
  FENIX_ERROR_GROUP_CREATE = -12,           /**< the arguments of the group are wrong, or differ between ranks */
  FENIX_ERROR_MEMBER_CREATE = -13,          /**< the arguments of the member are wrong, or it exists */
  FENIX_ERROR_COMMIT_BARRIER = -133,
  FENIX_ERROR_INVALID_GROUPID = -14,        /**< there is no such group, or none since the latest recovery */
  FENIX_ERROR_INVALID_MEMBERID = -15,       /**< the group has no such member */
  FENIX_ERROR_INVALID_LOGIC_CALL = -155,    /**< the call does not make sense now */
  FENIX_ERROR_INVALID_TIMESTAMP = -16,      /**< there is no such snapshot */
  FENIX_ERROR_INVALID_DEPTH = -17,
  FENIX_ERROR_INVALID_ATTRIBUTE_NAME = -18,
  FENIX_ERROR_INVALID_ATTRIBUTE_VALUE = -19,
  FENIX_ERROR_INVALID_POSITION = -20,
  FENIX_ERROR_DATA_WAIT = -21,              /**< a request is unknown, or was not waited for */
  FENIX_ERROR_SUBSET_NUM_BLOCKS = -22,
  FENIX_ERROR_SUBSET_START_OFFSET = -23,
  FENIX_ERROR_SUBSET_END_OFFSET = -24,
  FENIX_ERROR_SUBSET_STRIDE = -25,
  FENIX_ERROR_NODATA_FOUND = -30,           /**< nothing was stored, or it is lost */
  FENIX_ERROR_INTERN = -40,
  FENIX_ERROR_CANCELLED = -50,
  FENIX_ERROR_INVALID_SETTING_NAME = -51,
  FENIX_ERROR_INVALID_SETTING_OPTION = -52,
  FENIX_WARNING_SPARE_RANKS_DEPLETED = 100, /**< the resilient communicator has become smaller */
  FENIX_WARNING_PARTIAL_RESTORE = 101       /**< the snapshot has not all elements that were asked for */
};

/** What a rank has behind it (specification, Fenix_Init). */
typedef enum {
  FENIX_ROLE_INITIAL_RANK = 0,   /**< there was no recovery */
  FENIX_ROLE_RECOVERED_RANK = 1, /**< it was a spare before the latest recovery, or did not exist */
  FENIX_ROLE_SURVIVOR_RANK = 2   /**< it was active before the latest recovery */
} Fenix_Rank_role;

/** Settings of Fenix_set_option. */
typedef enum {
  FENIX_RECOVERY_MODE = 0,  /**< a Fenix_Recovery_mode */
  FENIX_RESUME_MODE = 1,    /**< a Fenix_Resume_mode */
  FENIX_UNHANDLED_MODE = 2  /**< a Fenix_Unhandled_mode */
} Fenix_Setting_name;

/** What is done for lost ranks. */
typedef enum {
  FENIX_RECOVERY_REPAIR = 2, /**< spares replace them; without enough spares the communicator becomes smaller (default) */
  FENIX_RECOVERY_SPAWN = 3   /**< spares, then new processes */
} Fenix_Recovery_mode;

/** Where a survivor goes on. */
typedef enum {
  FENIX_RESUME_JUMP = 0,   /**< after Fenix_Init, by longjmp (default) */
  FENIX_RESUME_RETURN = 1, /**< after the call that has met the failure, which returns its error (NO_JUMP) */
  FENIX_RESUME_THROW = 2   /**< the call throws fenix::CommException (C++, fenix.hpp) */
} Fenix_Resume_mode;

/** What is done about errors that are no process failures, on communicators with Fenix's error handler. */
typedef enum {
  FENIX_UNHANDLED_SILENT = 0, /**< the call returns the error */
  FENIX_UNHANDLED_PRINT = 1,  /**< it is printed, and the call returns it */
  FENIX_UNHANDLED_ABORT = 2   /**< it is printed, and the job is ended (default) */
} Fenix_Unhandled_mode;

/**
 * Make a communicator that outlives failures, and the point to which survivors return.
 *
 *     void Fenix_Init(int *role, MPI_Comm comm, MPI_Comm *newcomm, int *argc, char ***argv, int spare_ranks,
 *                     int spawn, MPI_Info info, int *error);
 *     void Fenix_Init(int *role, MPI_Comm comm, MPI_Comm *newcomm, int *argc, char ***argv, int spare_ranks, int *error);
 *
 * Collective over `comm`, after MPI_Init. It returns once, and once more after each recovery (see FENIX_RESUME_JUMP); the function
 * that contains it must not have returned then. The last `spare_ranks` ranks of `comm` do not return before they replace a lost
 * rank; at Fenix_Finalize they call MPI_Finalize and exit with 0. A failure is met by a call of MPI on `newcomm`, or on a
 * communicator that is derived from it, or by a function of this library. Then all communicators derived from `newcomm` are revoked, in all
 * processes, and the program makes them anew. Survivors keep their ranks unless the communicator becomes smaller.
 *
 * @param[out] role     a Fenix_Rank_role. This and the other two outputs are written again at each recovery
 * @param comm          its error handler stays as it is
 * @param[out] newcomm  to be used instead of `comm`; belongs to the library. MPI_COMM_NULL if Fenix_Init has failed
 * @param[inout] argc,argv  of main, or NULL. A spawned process has one argument more, the last, that is taken away here
 * @param spare_ranks   from 0 to the size of `comm` - 1
 * @param spawn         start processes if the spares are too few, by MPI_Comm_spawn of this program with its arguments
 * @param info          MPI_INFO_NULL or keys: FENIX_RESUME_MODE = Fenix_init (or JUMP), NO_JUMP (or RETURN), THROW;
 *                      FENIX_UNHANDLED_MODE = SILENT, PRINT, ABORT. Without a key, Fenix_set_option holds.
 *                      FENIX_ENGINE = ulfm (default) or reprise, with which FENIX_MEMORY is the largest size of this rank's store, in bytes
 *                      (default: that of the node's memory). Without these keys, environment variables of their names count
 * @param[out] error    FENIX_SUCCESS, FENIX_WARNING_SPARE_RANKS_DEPLETED; or an error, which is printed, too:
 *                      FENIX_ERROR_UNINITIALIZED (MPI is not initialised), FENIX_ERROR_INVALID_LOGIC_CALL (a second call),
 *                      FENIX_ERROR_NOCATEGORY (arguments), FENIX_ERROR_INVALID_SETTING_OPTION (info), FENIX_ERROR_INTERN
 *                      (MPI has no ULFM: start the program by crrun --recover ulfm; with the engine reprise: by crrun --shared DIR)
 *
 * With the engine reprise all memory of all ranks goes back to Fenix_Init, but what is stored. Survivors return from it as
 * FENIX_ROLE_SURVIVOR_RANK without a jump, whatever FENIX_RESUME_MODE is; NO_JUMP is refused. Communicators stay valid, and
 * `newcomm` has all ranks of `comm`, which must be those of MPI_COMM_WORLD. `spare_ranks` must be 0, and `spawn` has no effect.
 */
#define Fenix_Init(...)                                                                                            \
  FENIX_TENTH_(__VA_ARGS__, FENIX_INIT_9_, Fenix_Init_takes_7_or_9_arguments, FENIX_INIT_7_,                     \
               Fenix_Init_takes_7_or_9_arguments, Fenix_Init_takes_7_or_9_arguments,                             \
               Fenix_Init_takes_7_or_9_arguments, Fenix_Init_takes_7_or_9_arguments,                             \
               Fenix_Init_takes_7_or_9_arguments, Fenix_Init_takes_7_or_9_arguments, 0)(__VA_ARGS__)

/* Internal: the parts of the macro. */
#define FENIX_TENTH_(a, b, c, d, e, f, g, h, i, tenth, ...) tenth
#define FENIX_INIT_7_(role, comm, newcomm, argc, argv, spare_ranks, error) \
  FENIX_INIT_9_(role, comm, newcomm, argc, argv, spare_ranks, -1, MPI_INFO_NULL, error)
#define FENIX_INIT_9_(role, comm, newcomm, argc, argv, spare_ranks, spawn, info, error)                  \
  do {                                                                                                   \
    static jmp_buf fenix_point_;                                                                         \
    fenix_enter_(role, comm, newcomm, argc, argv, spare_ranks, spawn, info, error, &fenix_point_);       \
    (void)setjmp(fenix_point_);                                                                          \
    fenix_leave_();                                                                                      \
  } while (0)
FENIX_API void fenix_enter_(int *role, MPI_Comm comm, MPI_Comm *newcomm, int *argc, char ***argv, int spare_ranks, int spawn,
                            MPI_Info info, int *error, jmp_buf *point);
FENIX_API void fenix_leave_(void);

/** @param[out] flag 1 from Fenix_Init to Fenix_Finalize, else 0. May be called at any time. */
FENIX_API int Fenix_Initialized(int *flag);
/** @param[out] flag 1 after Fenix_Finalize, else 0. May be called at any time. */
FENIX_API int Fenix_Finalized(int *flag);

/**
 * Local. Before Fenix_Init it holds for that; FENIX_RECOVERY_MODE must be the same in all ranks.
 * @return FENIX_SUCCESS, FENIX_ERROR_INVALID_SETTING_NAME, FENIX_ERROR_INVALID_SETTING_OPTION
 */
FENIX_API int Fenix_set_option(Fenix_Setting_name setting, unsigned option);
FENIX_API int Fenix_get_option(Fenix_Setting_name setting, unsigned *option);

/**
 * Call `recover` after each recovery, in survivors, before the program goes on. Local. The latest one registered is called first.
 * @param recover gets the new communicator, MPI's error code of the call that has met the failure, and `data`. It may call MPI:
 *                a failure in it is recovered, too, and all callbacks are called anew
 * @return FENIX_SUCCESS, FENIX_ERROR_NOCATEGORY; FENIX_ERROR_INVALID_LOGIC_CALL with the engine reprise, which would take it back
 */
FENIX_API int Fenix_Callback_register(void (*recover)(MPI_Comm newcomm, int error, void *data), void *data);
/** Forget the latest callback. @return FENIX_SUCCESS, FENIX_ERROR_CALLBACK_NOT_REGISTERED */
FENIX_API int Fenix_Callback_pop(void);

/**
 * For programs that compute for long without MPI. Local, unless there is a failure.
 * @param do_recovery recover if there is one; else say so only
 * @return MPI_SUCCESS, or MPI_ERR_PROC_FAILED
 */
FENIX_API int Fenix_Process_detect_failures(int do_recovery);

/** @param[out] number of ranks of the resilient communicator with this role; the same in all ranks */
FENIX_API int Fenix_get_number_of_ranks_with_role(int role, int *number);
/**
 * @param comm the resilient communicator, or one derived from it
 * @param[out] role of this rank of it, a Fenix_Rank_role
 * @return FENIX_SUCCESS, FENIX_ERROR_NOCATEGORY
 */
FENIX_API int Fenix_get_role(MPI_Comm comm, int rank, int *role);
FENIX_API int Fenix_get_rank_role(MPI_Comm comm, int rank, int *role); /**< the same */
/** What Fenix_Init has written to `error` last. */
FENIX_API int Fenix_get_error(void);
/** Number of spares that are left. */
FENIX_API int Fenix_get_nspare(void);

/**
 * @param[out] fail_list what the latest recovery has lost: ranks of the resilient communicator before it, ascending, then spares
 *                       by their ranks in the communicator that Fenix_Init was given. Valid until the next recovery
 * @return their number, or an error
 */
FENIX_API int Fenix_Process_fail_list(int **fail_list);

/**
 * Look at a request of before the recovery, without an error. It is not waited for.
 * @param[out] status may be MPI_STATUS_IGNORE
 * @return 0 if it is complete (and is MPI_REQUEST_NULL now), 1 if not: it will never be
 */
FENIX_API int Fenix_check_cancelled(MPI_Request *request, MPI_Status *status);

/**
 * Collective over the resilient communicator, before MPI_Finalize. If a rank has failed before all others are here, they recover,
 * as its work is lost: survivors go on as after any other failure, and come here again. `newcomm` is MPI_COMM_NULL afterwards.
 * @return FENIX_SUCCESS; with FENIX_RESUME_RETURN MPI_ERR_PROC_FAILED after a recovery
 */
FENIX_API int Fenix_Finalize(void);

/* Data recovery. */

/** A set of elements of a member. Made by the functions below, and freed by Fenix_Data_subset_delete. */
typedef struct {
  void *impl;
} Fenix_Data_subset;
/** A store under way. */
typedef struct {
  int id;
} Fenix_Request;

FENIX_API extern const Fenix_Data_subset FENIX_DATA_SUBSET_FULL;  /**< all elements */
FENIX_API extern const Fenix_Data_subset FENIX_DATA_SUBSET_EMPTY; /**< none */
#define FENIX_DATA_SUBSET_IGNORE ((Fenix_Data_subset *)0)
#define FENIX_TIME_STAMP_IGNORE ((int *)0)

enum {
  FENIX_DATA_GROUP_WORLD_ID = 10,
  FENIX_DATA_MEMBER_ALL = -1,       /**< in store: all members */
  FENIX_DATA_SNAPSHOT_LATEST = -1,  /**< in restore: the newest snapshot */
  FENIX_DATA_SNAPSHOT_ALL = -2,     /**< in delete: all; in restore: the newest, which has what older ones had, too */
  FENIX_DATA_MEMBER_ATTRIBUTE_BUFFER = 11,   /**< a `void *` */
  FENIX_DATA_MEMBER_ATTRIBUTE_COUNT = 12,    /**< an `int`, elements */
  FENIX_DATA_MEMBER_ATTRIBUTE_DATATYPE = 13, /**< an `MPI_Datatype` */
  FENIX_DATA_MEMBER_ATTRIBUTE_SIZE = 14,     /**< an `int`, bytes of an element without gaps; cannot be set */
  FENIX_DATA_POLICY_IN_MEMORY_RAID = 13,
  FENIX_DATA_POLICY_IMR = FENIX_DATA_POLICY_IN_MEMORY_RAID
};

/**
 * Create a group of members whose data is stored redundantly in the memory of other ranks. Collective over `comm`; all pass the same.
 * After a recovery all ranks call it again: survivors' arguments but `comm` are ignored then, uncommitted data and what not all have
 * committed are dropped, and ranks that have taken lost ones get their data, if `comm` has as many ranks as before. If the data
 * of a rank is lost, as two of a cohort have failed at once, all snapshots are dropped in all ranks. If a group exists and there
 * was no recovery, the call does nothing.
 * @param comm             the resilient communicator, or one derived from it
 * @param start_time_stamp of the first snapshot, from 0
 * @param depth            so many snapshots are kept before the latest one, from 0
 * @param policy_name      FENIX_DATA_POLICY_IN_MEMORY_RAID
 * @param policy_value     int[]: {1, separation}: partners, so many ranks apart, keep copies of each other's data (ranks that are
 *                         left over at the end have other distances, and the last of an odd number makes a three); {5, separation,
 *                         size}: cohorts of `size` (from 3) ranks keep parity, 1/(size - 1) of the data. NULL: partners on different
 *                         hosts. Each cohort outlives the loss of one of its ranks
 * @param[out] flag        0; may be NULL
 * @return FENIX_SUCCESS, FENIX_ERROR_GROUP_CREATE, FENIX_ERROR_INVALID_DEPTH, FENIX_ERROR_INVALID_TIMESTAMP
 */
FENIX_API int Fenix_Data_group_create(int group_id, MPI_Comm comm, int start_time_stamp, int depth, int policy_name, void *policy_value,
                                      int *flag);
/** @return 1 if this rank has the group, else 0 */
FENIX_API int Fenix_Data_group_created(int group_id);
/**
 * Name a piece of memory. Local. A recovered rank has the members of its group's latest snapshot already; here it names their
 * buffers and datatypes. A survivor may name them again after a recovery.
 * @param member_id from 0
 * @param buffer    may be NULL until it is stored
 * @param count     elements; may differ between ranks
 * @param datatype  the same in all ranks
 * @return FENIX_SUCCESS, FENIX_ERROR_INVALID_GROUPID, FENIX_ERROR_MEMBER_CREATE
 */
FENIX_API int Fenix_Data_member_create(int group_id, int member_id, void *buffer, int count, MPI_Datatype datatype);
/** @return 1 if this rank has the member, else 0 */
FENIX_API int Fenix_Data_member_created(int group_id, int member_id);
/**
 * @param[out] policy_value int[3]: mode, separation (0: by hosts), size of the cohorts
 * @param[out] flag         1
 */
FENIX_API int Fenix_Data_group_get_redundancy_policy(int group_id, int *policy_name, void *policy_value, int *flag);

/**
 * Copy elements to this rank's store, and redundantly to others'. It is not seen by restore before a commit. Elements that were
 * not stored keep what they had in the latest snapshot. Collective over the group's communicator, though it waits for the
 * cohort only. A failure in it leaves everything as it was.
 * @param member_id or FENIX_DATA_MEMBER_ALL
 * @return FENIX_SUCCESS; FENIX_ERROR_INVALID_GROUPID, FENIX_ERROR_INVALID_MEMBERID, FENIX_ERROR_SUBSET_END_OFFSET (beyond COUNT),
 *         FENIX_ERROR_INVALID_ATTRIBUTE_VALUE (no buffer or datatype)
 */
FENIX_API int Fenix_Data_member_store(int group_id, int member_id, Fenix_Data_subset subset_specifier);
/** The same; the subsets may differ between ranks. */
FENIX_API int Fenix_Data_member_storev(int group_id, int member_id, Fenix_Data_subset subset_specifier);
/** The same without waiting for the copies at others; the member may be changed at once. @param[out] request to be waited for */
FENIX_API int Fenix_Data_member_istore(int group_id, int member_id, Fenix_Data_subset subset_specifier, Fenix_Request *request);
FENIX_API int Fenix_Data_member_istorev(int group_id, int member_id, Fenix_Data_subset subset_specifier, Fenix_Request *request);
/** Wait for the end of an istore. @return FENIX_SUCCESS, FENIX_ERROR_DATA_WAIT (unknown), FENIX_ERROR_CANCELLED (by a recovery) */
FENIX_API int Fenix_Data_wait(Fenix_Request request);
/** @param[out] flag 1 if it has ended: the request is unknown then */
FENIX_API int Fenix_Data_test(Fenix_Request request, int *flag);

/**
 * Make a snapshot of what was stored. Collective, without waiting. After a recovery a snapshot exists if all survivors have made it.
 * @param[out] time_stamp one more than the latest; may be NULL
 * @return FENIX_SUCCESS, FENIX_ERROR_INVALID_GROUPID, FENIX_ERROR_DATA_WAIT (an istore has not been waited for)
 */
FENIX_API int Fenix_Data_commit(int group_id, int *time_stamp);
/** The same, and wait until all ranks have made it. */
FENIX_API int Fenix_Data_commit_barrier(int group_id, int *time_stamp);
/** Wait for all ranks of the group. */
FENIX_API int Fenix_Data_barrier(int group_id);

/**
 * Copy elements of a snapshot to memory. Recovered ranks have got their data in Fenix_Data_group_create: no rank waits here.
 * @param target_buffer NULL: the member's
 * @param max_count     elements from the first one on
 * @param time_stamp    or FENIX_DATA_SNAPSHOT_LATEST
 * @param[out] found_data what was copied; FENIX_DATA_SUBSET_IGNORE, or to be freed by Fenix_Data_subset_delete
 * @return FENIX_SUCCESS, FENIX_WARNING_PARTIAL_RESTORE (less than max_count elements), FENIX_ERROR_INVALID_GROUPID,
 *         FENIX_ERROR_INVALID_MEMBERID, FENIX_ERROR_INVALID_TIMESTAMP, FENIX_ERROR_NODATA_FOUND, FENIX_ERROR_INVALID_LOGIC_CALL
 *         (the number of ranks has changed since: use one of the next two),
 *         FENIX_ERROR_INVALID_ATTRIBUTE_VALUE (a recovered rank has to name the datatype first)
 */
FENIX_API int Fenix_Data_member_restore(int group_id, int member_id, void *target_buffer, int max_count, int time_stamp,
                                        Fenix_Data_subset *found_data);
/** The same from this rank's own store, whatever has happened to others. */
FENIX_API int Fenix_Data_member_lrestore(int group_id, int member_id, void *target_buffer, int max_count, int time_stamp,
                                         Fenix_Data_subset *found_data);

/**
 * The same from the data of any rank, also after the communicator has become smaller. Collective over the group's communicator; each rank
 * may want another one's.
 * @param source_rank the rank that had stored it, in the communicator of then; -1: this rank wants nothing
 * @return as Fenix_Data_member_restore; FENIX_ERROR_NODATA_FOUND if two of its cohort are lost
 */
FENIX_API int Fenix_Data_member_restore_from_rank(int group_id, int member_id, void *target_buffer, int max_count, int time_stamp,
                                                  Fenix_Data_subset *found_data, int source_rank);

/**
 * Blocks of elements: `num_blocks` of them, each `stride` elements after the one before.
 * @param start_offset,end_offset first and last element of the first block, from 0
 * @return FENIX_SUCCESS, FENIX_ERROR_SUBSET_NUM_BLOCKS, _START_OFFSET, _END_OFFSET, _STRIDE
 */
FENIX_API int Fenix_Data_subset_create(int num_blocks, int start_offset, int end_offset, int stride, Fenix_Data_subset *subset_specifier);
/** Blocks with first and last elements of their own, in any order. */
FENIX_API int Fenix_Data_subset_createv(int num_blocks, int *array_start_offsets, int *array_end_offsets,
                                        Fenix_Data_subset *subset_specifier);
FENIX_API int Fenix_Data_subset_delete(Fenix_Data_subset *subset_specifier);

/* Queries; local. */
FENIX_API int Fenix_Data_group_get_number_of_members(int group_id, int *number_of_members);
/** @param position from 0, in the order of the numbers. @return FENIX_SUCCESS, FENIX_ERROR_INVALID_POSITION */
FENIX_API int Fenix_Data_group_get_member_at_position(int group_id, int *member_id, int position);
FENIX_API int Fenix_Data_group_get_number_of_snapshots(int group_id, int *number_of_snapshots);
/** @param position from 0, the newest. @return FENIX_SUCCESS, FENIX_ERROR_INVALID_POSITION */
FENIX_API int Fenix_Data_group_get_snapshot_at_position(int group_id, int position, int *time_stamp);
/**
 * @param[out] attribute_value see FENIX_DATA_MEMBER_ATTRIBUTE_…
 * @param[out] flag            1 if it is known; may be NULL
 * @param source_rank          this rank of the group's communicator; for COUNT and SIZE of what was stored also one of its cohort
 * @return FENIX_SUCCESS, FENIX_ERROR_INVALID_ATTRIBUTE_NAME, FENIX_ERROR_NODATA_FOUND (of another rank)
 */
FENIX_API int Fenix_Data_member_attr_get(int group_id, int member_id, int attribute_name, void *attribute_value, int *flag, int source_rank);
/**
 * @param attribute_value address of the value; for BUFFER the buffer itself
 * @return FENIX_SUCCESS, FENIX_ERROR_INVALID_ATTRIBUTE_NAME, FENIX_ERROR_INVALID_ATTRIBUTE_VALUE
 */
FENIX_API int Fenix_Data_member_attr_set(int group_id, int member_id, int attribute_name, void *attribute_value, int *flag);
/** @param time_stamp or FENIX_DATA_SNAPSHOT_ALL */
FENIX_API int Fenix_Data_snapshot_delete(int group_id, int time_stamp);
FENIX_API int Fenix_Data_group_delete(int group_id);
/** Its data in all snapshots, too. */
FENIX_API int Fenix_Data_member_delete(int group_id, int member_id);

/** Text of the last error of this process: what is wrong, and the way out. Valid until the next call of the library. */
FENIX_API const char *fenix_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
