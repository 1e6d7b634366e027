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
 *                      FENIX_UNHANDLED_MODE = SILENT, PRINT, ABORT; FENIX_ENGINE = ulfm. Without a key, Fenix_set_option holds
 * @param[out] error    FENIX_SUCCESS, FENIX_WARNING_SPARE_RANKS_DEPLETED; or an error, which is printed, too:
 *                      FENIX_ERROR_UNINITIALIZED (MPI is not initialised), FENIX_ERROR_INVALID_LOGIC_CALL (a second call),
 *                      FENIX_ERROR_NOCATEGORY (arguments), FENIX_ERROR_INVALID_SETTING_OPTION (info), FENIX_ERROR_INTERN
 *                      (MPI has no ULFM: start the program by crrun --recover ulfm)
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
 * @return FENIX_SUCCESS, FENIX_ERROR_NOCATEGORY
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
 * as its work is lost: survivors go on as after any other failure, and come here again.
 * @return FENIX_SUCCESS; with FENIX_RESUME_RETURN MPI_ERR_PROC_FAILED after a recovery
 */
FENIX_API int Fenix_Finalize(void);

/** Text of the last error of this process: what is wrong, and the way out. Valid until the next call of the library. */
FENIX_API const char *fenix_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
