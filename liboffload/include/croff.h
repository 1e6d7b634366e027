// SPDX-License-Identifier: LGPL-2.1-or-later
/**
 * @file croff.h
 * Resilient offload of tasks over MPI: the C interface of liboffload.
 *
 * Masters start a group of boosters and give it tasks. A task is a function of the program, with values and regions of memory.
 * A booster that is lost is replaced, and what was lost with it is executed again. The meaning is that of the offload of
 * OmpSs on ParaStation MPI ("the paper" below); docs/offload.md explains it with a program.
 *
 * All functions are for the thread that has called MPI_Init. They return CROFF_OK or an error code; croff_last_error() then
 * names the thing and the way out. Sizes of memory are in bytes.
 */
#ifndef CROFF_H
#define CROFF_H

#include <mpi.h>
#include <stddef.h>

#if defined(__GNUC__)
#define CROFF_API __attribute__((visibility("default")))
#else
#define CROFF_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Error codes. They keep their values. */
enum croff_error {
  CROFF_OK = 0,
  CROFF_ERR_INIT = 1,      /**< croff_init() was not called, or was called before MPI_Init */
  CROFF_ERR_ARGUMENT = 2,  /**< an argument is out of its range */
  CROFF_ERR_GROUP = 3,     /**< no group of boosters has this intercommunicator */
  CROFF_ERR_FUNCTION = 4,  /**< a function is in no object that the boosters have, too */
  CROFF_ERR_SPAWN = 5,     /**< the boosters cannot be started */
  CROFF_ERR_LOST = 6,      /**< a booster was lost with a task that has no `recover` */
  CROFF_ERR_TASK = 7,      /**< a task has failed by itself: it has thrown, or called croff_fail() */
  CROFF_ERR_ATTEMPTS = 8,  /**< a group was lost too often without any progress (CROFF_ATTEMPTS) */
  CROFF_ERR_MASTERS = 9,   /**< masters that share a group cannot reach each other */
  CROFF_ERR_ENGINE = 10,   /**< CROFF_ENGINE names no engine of this library */
  CROFF_ERR_MEMORY = 11    /**< there is too little memory */
};

/** What a task does with a region. */
enum croff_access {
  CROFF_IN = 1,   /**< it is copied to the booster */
  CROFF_OUT = 2,  /**< it is copied from the booster; the task writes all of it */
  CROFF_INOUT = 3 /**< both */
};

/** The clause `recover` of a task (paper, section on resilient offload). */
enum croff_recover {
  CROFF_NO_RECOVER = -2, /**< a loss of the booster is an error, CROFF_ERR_LOST */
  CROFF_RECOVER = -1     /**< executed again; the domain follows from the order. Numbers from 0 are explicit domains */
};

/** A region of the master's memory that a task uses. */
typedef struct croff_region {
  void *data;             /**< first byte; may be NULL if `bytes` is 0 */
  size_t bytes;           /**< size in bytes */
  enum croff_access access;
} croff_region;

/**
 * A task as the booster runs it.
 * @param values  the booster's copy of the values, aligned for any type
 * @param regions the booster's memory of each region in the order of the submission; aligned to 64 bytes. CROFF_OUT regions
 *                begin with zeros
 */
typedef void (*croff_function)(void *values, void *const *regions);

/**
 * Make this process a master, or serve as a booster. Call it in main() after MPI_Init, before any use of the program's own
 * state: boosters are processes of the same executable with the same arguments (and one more, the last).
 * In a booster it does not return: it executes tasks until the group is freed, calls MPI_Finalize and exits with 0.
 * Boosters have error handlers on MPI_COMM_WORLD and MPI_COMM_SELF that end the booster when a peer is lost.
 * @return CROFF_OK in a master, CROFF_ERR_INIT, CROFF_ERR_ENGINE
 */
CROFF_API int croff_init(void);

/**
 * Start a group of boosters. Collective over `comm`, whose processes are its masters.
 * @param comm     the masters. With MPI_COMM_SELF no consensus is ever needed
 * @param hosts    number of hosts (1 or more). The environment variable CROFF_HOSTS may name them: "node1,node2"; else the
 *                 launcher places the processes. When the named hosts are lost, the launcher places them, too
 * @param per_host processes on each host (1 or more). More than the host has cores is permitted
 * @param[out] inter names the group in the other functions. Tasks with `recover` must not communicate over it: after a
 *                 loss there is another one behind it (paper: the intercommunicator is opaque)
 * @return CROFF_OK, CROFF_ERR_INIT, CROFF_ERR_ARGUMENT, CROFF_ERR_SPAWN, CROFF_ERR_MASTERS
 * @see paper, deep_booster_alloc: MPI_Comm_spawn_multiple with the info key "parricide" = "disable"
 */
CROFF_API int deep_booster_alloc(MPI_Comm comm, int hosts, int per_host, MPI_Comm *inter);

/**
 * Wait for the group's tasks and end its boosters. Collective over its masters. What was lost while it ends needs no
 * replacement.
 * @param[in,out] inter becomes MPI_COMM_NULL, also if an error is returned that is not CROFF_ERR_GROUP
 * @return the errors of croff_taskwait(), CROFF_ERR_GROUP
 */
CROFF_API int deep_booster_free(MPI_Comm *inter);

/**
 * Number of boosters of a group.
 * @return CROFF_OK, CROFF_ERR_GROUP
 */
CROFF_API int croff_group_size(MPI_Comm inter, int *size);

/**
 * Submit a task. It starts when its booster is free and the tasks before it whose regions conflict with its own have been
 * cleared: one of both writes, and they share a byte. Masters must neither write to its regions nor read what it writes
 * until croff_taskwait(). Tasks of one booster run one after the other in the order of their submission.
 * @param inter   group
 * @param rank    booster in the group, from 0
 * @param recover CROFF_NO_RECOVER, CROFF_RECOVER or the number of an explicit domain
 * @param function function of the executable or of a library of which the boosters have the same file
 * @param values  copied at once; may be NULL if `bytes` is 0
 * @param bytes   size of the values in bytes
 * @param regions `count` regions
 * @param count   number of regions
 * @return CROFF_OK, CROFF_ERR_INIT, CROFF_ERR_ARGUMENT, CROFF_ERR_GROUP, CROFF_ERR_FUNCTION, CROFF_ERR_MEMORY
 * @see paper, `#pragma omp task onto(inter, rank) recover(domain)`
 */
CROFF_API int croff_task(MPI_Comm inter, int rank, int recover, croff_function function, const void *values, size_t bytes,
                         const croff_region *regions, int count);

/**
 * Wait until all tasks of this process are cleared, and replace lost boosters until they are. Collective over the masters of
 * each group with several masters. All recovery domains end here.
 * @return CROFF_OK, or the first error of a task: CROFF_ERR_LOST, CROFF_ERR_TASK, CROFF_ERR_FUNCTION, CROFF_ERR_ATTEMPTS,
 *         CROFF_ERR_SPAWN, CROFF_ERR_MASTERS. Tasks that depend on a failed one have failed, too. Groups stay usable
 */
CROFF_API int croff_taskwait(void);

/**
 * In a task: it has failed, and is not to be executed again. The master's croff_taskwait() returns CROFF_ERR_TASK with the
 * text. May be called in a task only; the task must return afterwards.
 * @param text is copied
 */
CROFF_API void croff_fail(const char *text);

/** Text of the last error in this process; "" if there was none. It is valid until the next call of the library. */
CROFF_API const char *croff_last_error(void);

/** What has happened in this process so far. */
typedef struct croff_counts {
  unsigned long tasks;        /**< submitted */
  unsigned long executions;   /**< launched; more than `tasks` after losses */
  unsigned long replacements; /**< groups that were replaced after a loss */
  unsigned long merges;       /**< recovery domains that were joined to avoid a deadlock */
  unsigned long staged;       /**< bytes of outputs that passed through a buffer */
} croff_counts;

/** @param[out] counts of this process */
CROFF_API void croff_count(croff_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
