/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file
 * @brief The C interface of Reprise: callbacks around checkpoints, critical
 * sections, requests, snapshots in memory, and reading of images.
 *
 * The first half keeps the names, types and meanings of the libcr.h of Berkeley
 * Lab Checkpoint/Restart (BLCR) 0.8, so that programs written for it build
 * unchanged; blcr_common.h includes this one. What is new is marked so. docs/library.md says where behaviour
 * differs and how to use the library from C, C++ and Fortran.
 *
 * Unless a function says otherwise it returns -1 and sets errno on failure;
 * cr_strerror() also knows the CR_E* codes, cr_last_error() gives a full
 * sentence that names the descriptor, thread or mapping in the way.
 */
#ifndef REPRISE_LIBCR_H
#define REPRISE_LIBCR_H 1

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/select.h> /* struct timeval */
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* ------------------------------------------------------------------ versions */

/** Version of BLCR whose interface this is, for programs that ask. */
#define CR_RELEASE_MAJOR 0
#define CR_RELEASE_MINOR 8
#define CR_RELEASE_PATCH 5
#define CR_RELEASE_VERSION "0.8.5"

/** Versions of the library and of the module that came with it. */
#define LIBCR_MAJOR 0
#define LIBCR_MINOR 5
#define LIBCR_PATCH 5
#define LIBCR_VERSION "0.5.5"
#define CR_MODULE_MAJOR 0
#define CR_MODULE_MINOR 10
#define CR_MODULE_PATCH 3
#define CR_MODULE_VERSION "0.10.3"

/** Version of Reprise (new). */
#define CR_REPRISE_MAJOR 0
#define CR_REPRISE_MINOR 1
#define CR_REPRISE_PATCH 0
#define CR_REPRISE_VERSION "0.1.0"

/** Version of an argument structure; the initialisers below set it. */
typedef int cr_version_t;
#define CR_CHECKPOINT_ARGS_VERSION 1
#define CR_RESTART_ARGS_VERSION 1
#define CR_PAUSE_ARGS_VERSION 1 /**< new */

/* -------------------------------------------------------------------- errors */

/** Error codes beside those of errno.h, in errno or as negative results. */
enum {
  CR_MIN_ERRCODE = 2353,
  CR_ETEMPFAIL,  /**< a callback asked not to be checkpointed now */
  CR_EPERMFAIL,  /**< a callback gave up for good; its process was killed */
  CR_ENOSUPPORT, /**< the process cannot take part */
  CR_EVERSION,   /**< library and module do not fit together */
  CR_EOMITTED,   /**< a callback left its process out of the checkpoint */
  CR_EBADARCH,   /**< the image is of another architecture or not an image */
  CR_EPTRACED,   /**< a target is traced, by a debugger for instance */
  CR_EPTRACER,   /**< a target traces another process */
  CR_ERSTRTABRT, /**< a callback failed behind the restart, which ended the process */
  CR_ERESTARTED, /**< the request was overtaken: this process was restarted or rolled back */
  CR_ENOTCB,     /**< only allowed inside a callback */
  CR_ENOINIT,    /**< the calling thread has not called cr_init() */
  CR_EREFUSED,   /**< new: cannot be saved or restored, nothing has changed; cr_last_error() says what */
  CR_EIMAGE,     /**< new: the image is damaged or unknown */
  CR_EHELPER,    /**< new: the helper process could not be started or died */
  CR_MAX_ERRCODE
};

/** @return a text for @p errnum, of errno.h or CR_E*. Never NULL. Static or per thread. */
extern const char *cr_strerror(int errnum);

/**
 * New. @return one sentence about the last request, snapshot or image function
 * that failed in the calling thread; "" if none did. Valid until the next such call.
 */
extern const char *cr_last_error(void);

/* ----------------------------------------------------------------- constants */

/** Real-time signal that the library uses for callbacks in signal context. */
#define CR_SIGNUM 64

/** Whom a request is about. */
typedef enum {
  CR_SCOPE_PROC, /**< one process with all its threads */
  CR_SCOPE_PGRP, /**< a process group */
  CR_SCOPE_SESS, /**< a session */
  CR_SCOPE_TREE  /**< a process and its descendants */
} cr_scope_t;

/** What cr_status() tells. */
enum {
  CR_STATE_IDLE,    /**< nothing going on */
  CR_STATE_PENDING, /**< requested, held up by a critical section */
  CR_STATE_ACTIVE   /**< callbacks run or the checkpoint is being taken */
};

/** Argument of cr_checkpoint(). */
enum {
  CR_CHECKPOINT_READY = 0,        /**< go ahead */
  CR_CHECKPOINT_TEMP_FAILURE = 1, /**< not now: no checkpoint, everything runs on */
  CR_CHECKPOINT_PERM_FAILURE = 2, /**< no checkpoint, and this process is killed */
  CR_CHECKPOINT_OMIT = 4          /**< leave this process out */
};
/** As above with an error code of the program's own, 1 to 65535; 0 is as if none were given. */
#define CR_CHECKPOINT_TEMP_FAILURE_CODE(code_) (CR_CHECKPOINT_TEMP_FAILURE | ((code_) << 16))
#define CR_CHECKPOINT_PERM_FAILURE_CODE(code_) (CR_CHECKPOINT_PERM_FAILURE | ((code_) << 16))
#define CR_CHECKPOINT_ABORT_MASK (CR_CHECKPOINT_TEMP_FAILURE | CR_CHECKPOINT_PERM_FAILURE | CR_CHECKPOINT_OMIT)

/** New: names for what cr_checkpoint() returns; failures are negative. */
enum {
  CR_CONTINUED = 0, /**< the checkpoint was taken, this is the same process */
  CR_RESTARTED = 1, /**< a new process, made from the image */
  CR_PAUSED = 2     /**< the same process, rolled back in place; its sockets are still open */
};

/** Where a callback runs: exactly one of them in the flags of cr_register_callback(). */
#define CR_SIGNAL_CONTEXT 0x2000000
#define CR_THREAD_CONTEXT 0x4000000

#define CR_MAX_CALLBACKS 0x1FFFFFF

/** @name Flags of a checkpoint request
 * @{ */
#define CR_CHKPT_PROHIBIT_SELF 0x00000001  /**< fail with EDEADLK when the caller is a target */
#define CR_CHKPT_PTRACED_ALLOW 0x00000002  /**< accepted; a traced process is still refused */
#define CR_CHKPT_PTRACED_SKIP 0x00000004   /**< leave traced processes out */
#define CR_CHKPT_PTRACER_SKIP 0x00000008   /**< leave tracing processes out; without it CR_EPTRACER */
#define CR_CHKPT_ASYNC_ERR 0x00000010      /**< report errors that come before the target knows when reaping */
#define CR_CHKPT_DUMP_EXEC 0x0200          /**< accepted, as the next three are: a message says that images hold */
#define CR_CHKPT_DUMP_PRIVATE 0x0400       /**< what differs from the program's files, and never the files */
#define CR_CHKPT_DUMP_SHARED 0x0800
#define CR_CHKPT_DUMP_ALL (CR_CHKPT_DUMP_EXEC | CR_CHKPT_DUMP_PRIVATE | CR_CHKPT_DUMP_SHARED)
#define CR_CHKPT_NO_SYNC 0x00020000        /**< new: do not wait until the image is on the disk */
/** @} */

/** As cr_fd of a checkpoint: write context.PID into the working directory. */
#define CR_DEST_CWD (-4096)

/** @name Flags of a restart request
 * @{ */
#define CR_RSTRT_ASYNC_ERR 0x00000001      /**< report errors that come before there is a process when reaping */
#define CR_RSTRT_RESTORE_PID 0x00000002
#define CR_RSTRT_RESTORE_PGID 0x00000004   /**< in the process group it was in, or fail */
#define CR_RSTRT_RESTORE_SID 0x00000008    /**< in the session it was in, its own or the caller's, or fail */
#define CR_RSTRT_DEAD_SOCKETS 0x00010000   /**< new: give back sockets that cannot be remade as closed ones */
#define CR_RSTRT_REWIND_FILES 0x00020000   /**< new: cut files back to the length they had */
#define CR_RSTRT_TRUST 0x00040000          /**< new: as root, take the image of anybody, and open what it names as root */
#define CR_RSTRT_KEEP_SHARED 0x00100000    /**< new: leave mapped files that other processes map, too, as they are */
#define CR_RSTRT_RESTORE_SHARED 0x00200000 /**< new: rewrite them. With neither, a restart that must is refused */
/** @} */

/** @name Flags of a pause request (new)
 * @{ */
#define CR_PAUSE_ASYNC_ERR 0x00000001      /**< report all errors when reaping */
#define CR_PAUSE_REWIND_FILES 0x00020000   /**< cut files back to the length they had */
#define CR_PAUSE_NO_TRACKING 0x00040000    /**< compare everything, also where changes were tracked */
#define CR_PAUSE_KEEP_SHARED 0x00100000    /**< leave memory that other live processes share as it is */
#define CR_PAUSE_RESTORE_SHARED 0x00200000 /**< rewrite it. With neither, a rollback that must is refused */
/** @} */

/* ----------------------------------------------------------- one's own thread */

/** Names a thread to the critical-section functions. */
typedef int cr_client_id_t;
/** The name to use inside callbacks. */
#define CR_ID_CALLBACK ((cr_client_id_t)(-1))

/**
 * Make the calling thread known to the library; the first call of a process opens
 * /dev/cr and starts the callback thread. Call it once in every thread that uses
 * the library; again it returns the same identifier. Not from a signal handler.
 * @return an identifier >= 0, or -1 with errno:
 *   ENOSYS the module is not loaded · EACCES /dev/cr may not be opened ·
 *   CR_EVERSION the module is of another version · ENOMEM, EAGAIN no thread
 */
extern cr_client_id_t cr_init(void);

/**
 * Keep the library's data of this thread until cr_dec_persist() was called as
 * often, so that destructors of thread-specific data can still use the library.
 * @return the count before, or -1 with errno CR_ENOINIT or ERANGE
 */
extern int cr_inc_persist(void);
extern int cr_dec_persist(void); /**< @see cr_inc_persist */

/* ------------------------------------------------------------------ callbacks */

typedef int (*cr_callback_t)(void *);
typedef int cr_callback_id_t;

/**
 * Have @p func called with @p arg around every checkpoint, restart and pause.
 *
 * CR_THREAD_CONTEXT: on the library's callback thread; anything may be called.
 * CR_SIGNAL_CONTEXT: in the registering thread, possibly in a signal handler; only
 * async-signal-safe functions may be called. Callbacks of a kind run in reverse order
 * of registration, each nested in the one before; signal contexts follow when all
 * thread contexts have called cr_checkpoint().
 * @return identifier for cr_replace_callback(), or -1 with errno CR_ENOINIT,
 *   EINVAL (flags), EBUSY (inside a callback), ENOMEM, ENOSPC
 */
extern cr_callback_id_t cr_register_callback(cr_callback_t func, void *arg, int flags);

/**
 * Replace a callback; @p func NULL turns it off. The context cannot change. A callback in
 * signal context is replaced by the thread that registered it.
 * @return 0, or -1 with errno CR_ENOINIT, EINVAL (id or flags), EBUSY (inside a callback)
 */
extern int cr_replace_callback(cr_callback_id_t id, cr_callback_t func, void *arg, int flags);

/** As cr_replace_callback() for the callback that is running. errno CR_ENOTCB, EINVAL. */
extern int cr_replace_self(cr_callback_t func, void *arg, int flags);

/**
 * Called by a callback when it is ready. What the callback does before the call
 * happens before the checkpoint, what follows happens after it. A callback that
 * returns 0 without calling it counts as ready.
 *
 * A callback that returns something else has failed: before the checkpoint it is as if it
 * had called this with CR_CHECKPOINT_PERM_FAILURE; behind a checkpoint, restart or pause
 * its process is killed, and who has asked for the restart gets CR_ERSTRTABRT.
 * CR_CHECKPOINT_PERM_FAILURE does not return.
 * @param flags CR_CHECKPOINT_*
 * @return CR_CONTINUED, CR_RESTARTED, CR_PAUSED, or the negative of an error: the code
 *   a callback refused with (-CR_ETEMPFAIL, -CR_EPERMFAIL, -CR_EOMITTED or its own),
 *   -ECANCELED when the request was given up, -CR_ENOTCB outside of a callback
 */
extern int cr_checkpoint(int flags);

/** About the request that is being served. */
struct cr_checkpoint_info {
  int signal;       /**< to be sent to the targets afterwards, 0: none */
  const char *dest; /**< path of the image, "" when it goes to no file that has a name */
  pid_t requester;  /**< who asked: the program, not its helper */
  pid_t target;     /**< process, group or session it is about */
  cr_scope_t scope;
};
/** About the restart or pause that has just happened. */
struct cr_restart_info {
  pid_t requester;
  const char *src; /**< path of the image, "" when it has none */
};
/** For callbacks, before cr_checkpoint(). @return NULL with errno CR_ENOTCB elsewhere */
extern const struct cr_checkpoint_info *cr_get_checkpoint_info(void);
/** For callbacks, after cr_checkpoint(). @return NULL with errno CR_ENOTCB elsewhere */
extern const struct cr_restart_info *cr_get_restart_info(void);

/* ---------------------------------------------------------- critical sections */

/**
 * Hold off checkpoints and their callbacks until cr_leave_cs(). Blocks while one is
 * under way. Sections nest. Inside a callback, with CR_ID_CALLBACK, it does nothing.
 * Usable in signal handlers.
 * @return 0, or -1 with errno CR_ENOINIT, EINVAL (id)
 */
extern int cr_enter_cs(cr_client_id_t id);
/** As cr_enter_cs(), but never blocks. @return 0 entered, 1 not entered, -1 as there */
extern int cr_tryenter_cs(cr_client_id_t id);
/**
 * Leave a section. Leaving the last one of the process lets a waiting request
 * proceed before the call returns.
 * @return 0, or -1 with errno CR_ENOINIT, EINVAL (id, or not in a section)
 */
extern int cr_leave_cs(cr_client_id_t id);
/** @return CR_STATE_*, or -1 with errno CR_ENOINIT. Usable in signal handlers. */
extern int cr_status(void);

/* ----------------------------------------------------------------- hooks, hold */

/** Events for cr_register_hook(). */
typedef enum {
  CR_HOOK_CONT_SIGNAL_CONTEXT = 0, /**< going on, in a thread that called cr_init() */
  CR_HOOK_CONT_THREAD_CONTEXT,     /**< going on, in the callback thread */
  CR_HOOK_CONT_NO_CALLBACKS,       /**< going on, in a thread that did not */
  CR_HOOK_RSTRT_SIGNAL_CONTEXT,    /**< restarted, as above */
  CR_HOOK_RSTRT_THREAD_CONTEXT,
  CR_HOOK_RSTRT_NO_CALLBACKS,
  CR_HOOK_PAUSED_SIGNAL_CONTEXT,   /**< new: rolled back in place; unset: as CR_HOOK_RSTRT_* */
  CR_HOOK_PAUSED_THREAD_CONTEXT,
  CR_HOOK_PAUSED_NO_CALLBACKS,
  CR_HOOK_PAUSE_PREPARE,           /**< new: in the callback thread: this state will be lost */
  CR_NUM_HOOKS
} cr_hook_event_t;
typedef void (*cr_hook_fn_t)(cr_hook_event_t);
#define CR_HOOK_FN_ERROR ((cr_hook_fn_t)(~0UL))

/**
 * Set the function that runs at @p event in every thread concerned, when it has run its
 * callbacks; NULL: none. A hook for threads that have no callbacks makes the library
 * interrupt them by CR_SIGNUM.
 * @return the function before, or CR_HOOK_FN_ERROR with errno CR_ENOINIT, EINVAL
 */
extern cr_hook_fn_t cr_register_hook(cr_hook_event_t event, cr_hook_fn_t func);

/** Scopes of cr_hold_ctrl(). */
enum {
  CR_HOLD_SCOPE_THREAD, /**< the calling thread */
  CR_HOLD_SCOPE_INIT,   /**< threads that called cr_init() and have no value of their own */
  CR_HOLD_SCOPE_UNINIT  /**< all other threads */
};
#define CR_HOLD_READ (-1) /**< only tell */
#define CR_HOLD_NONE 0    /**< run on as soon as the thread's own callbacks are through */
#define CR_HOLD_CONT 1    /**< after a checkpoint wait for all callbacks */
#define CR_HOLD_RSTRT 2   /**< after a restart or pause wait for all callbacks */
#define CR_HOLD_BOTH (CR_HOLD_CONT | CR_HOLD_RSTRT)
#define CR_HOLD_DFLT 4    /**< only for a thread: as CR_HOLD_SCOPE_INIT */

/**
 * Which threads wait until all callbacks are through. Defaults: threads DFLT, INIT
 * BOTH, UNINIT NONE. Threads without callbacks in signal context are held only when this
 * was asked for explicitly, because it takes a signal to do so.
 * @return the value before, or -1 with errno CR_ENOINIT, EINVAL
 */
extern int cr_hold_ctrl(int scope, int flags);

/* ------------------------------------------------------------------- spinlocks */

/** A lock for signal handlers. */
typedef unsigned int cr_spinlock_t;
#define CR_SPINLOCK_INITIALIZER 0U
extern void cr_spinlock_init(cr_spinlock_t *lock);
extern void cr_spinlock_lock(cr_spinlock_t *lock);
extern void cr_spinlock_unlock(cr_spinlock_t *lock);
/** @return nonzero when the lock was taken */
extern int cr_spinlock_trylock(cr_spinlock_t *lock);

/* -------------------------------------------------------- checkpoint requests */

typedef struct cr_checkpoint_args {
  cr_version_t cr_version;
  cr_scope_t cr_scope;
  pid_t cr_target;         /**< process, group or session; 0: the caller's */
  int cr_fd;               /**< where to write the image, or CR_DEST_CWD */
  int cr_signal;           /**< sent to the targets afterwards; 0: none */
  unsigned int cr_timeout; /**< seconds for the callbacks; 0: the default of one minute */
  unsigned int cr_flags;   /**< CR_CHKPT_* */
} cr_checkpoint_args_t;
typedef unsigned long cr_checkpoint_handle_t;

extern int cri_init_checkpoint_args_t(cr_version_t version, cr_checkpoint_args_t *args);
/** Set defaults; scope and descriptor must be set after it. @return 0, or -1 with errno EINVAL */
#define cr_initialize_checkpoint_args_t(args_) cri_init_checkpoint_args_t(CR_CHECKPOINT_ARGS_VERSION, (args_))

/**
 * Start a checkpoint and return when the target (of several, the first) knows of it: its
 * callbacks run or are held up by a critical section, or it stands still. A helper process
 * does the work; the caller may be among the targets. Where cr_fd is a regular file that has a name, the image is put under that
 * name when it is complete; otherwise it is written to the descriptor. Of several
 * processes cr_fd must be a directory, which receives one image of each.
 * @return 0, or -1 with errno EINVAL (args), EBADF, ESRCH, EPERM, EACCES, EBUSY (another
 *   request is under way there), CR_EPTRACED, CR_EPTRACER, EDEADLK
 *   (CR_CHKPT_PROHIBIT_SELF), ENOSYS (no module), CR_EHELPER
 */
extern int cr_request_checkpoint(cr_checkpoint_args_t *args, cr_checkpoint_handle_t *handle);
/**
 * Wait until the request has ended, well or not, or @p timeout has passed (NULL: no
 * limit; the time left is written back).
 * @return > 0 ended, 0 not yet, -1 with errno EINVAL (handle), EINTR
 */
extern int cr_wait_checkpoint(cr_checkpoint_handle_t *handle, struct timeval *timeout);
/**
 * Messages of the request, as text of at most @p len bytes with its NUL.
 * @return bytes needed for all of it, 0 if there are none, -1 with errno EINVAL
 */
extern int cr_log_checkpoint(cr_checkpoint_handle_t *handle, unsigned int len, char *msg);
/**
 * Fetch the outcome and free the handle.
 * @return > 0 when taken, or -1 with errno EAGAIN (not ended, handle still valid),
 *   CR_ERESTARTED (taken; this process has since been restarted from it or rolled back),
 *   CR_ETEMPFAIL, CR_EPERMFAIL or a callback's own code, ESRCH (all left out),
 *   CR_EREFUSED, ETIMEDOUT, ENOSPC, EIO, CR_EHELPER …
 */
extern int cr_reap_checkpoint(cr_checkpoint_handle_t *handle);
#define CR_POLL_CHKPT_ERR_PRE (-1)  /**< waiting failed */
#define CR_POLL_CHKPT_ERR_POST (-2) /**< the request failed, errno as of reap */
#define CR_POLL_CHKPT_ERR_LOG (-3)  /**< fetching the messages failed */
/** Wait, then log and reap. @param msg receives a text to free(), may be NULL @return > 0, 0 or CR_POLL_CHKPT_ERR_* */
extern int cr_poll_checkpoint_msg(cr_checkpoint_handle_t *handle, struct timeval *timeout, char **msg);
/** As cr_poll_checkpoint_msg() without messages. */
extern int cr_poll_checkpoint(cr_checkpoint_handle_t *handle, struct timeval *timeout);

/**
 * For callbacks, before cr_checkpoint(): include further processes in the checkpoint
 * that is being made. They are saved while this process stands still at its callbacks.
 * Processes that are in it anyway, the caller for one, are left out: each is saved once.
 * @return 0, or -1 with errno CR_ENOTCB, EINVAL, ESRCH, EPERM, EACCES, EBUSY (another request
 *   is under way there), EDEADLK (CR_CHKPT_PROHIBIT_SELF), ENOSPC (too many)
 */
extern int cr_forward_checkpoint(cr_scope_t scope, pid_t target);

/* ----------------------------------------------------------- restart requests */

struct cr_rstrt_relocate_pair {
  const char *oldpath;
  const char *newpath;
};
/** Paths to replace. Allocate CR_RSTRT_RELOCATE_SIZE(count) bytes. */
struct cr_rstrt_relocate {
  unsigned int count;
#ifdef __GNUC__
  __extension__
#endif
  struct cr_rstrt_relocate_pair path[];
};
#define CR_RSTRT_RELOCATE_SIZE(count_) \
  (sizeof(struct cr_rstrt_relocate) + (count_) * sizeof(struct cr_rstrt_relocate_pair))
#define CR_MAX_RSTRT_RELOC 16

typedef struct cr_restart_args {
  cr_version_t cr_version;
  int cr_fd;             /**< the image */
  int cr_signal;         /**< sent when its callbacks have returned; negative: before it runs; 0: none */
  unsigned int cr_flags; /**< CR_RSTRT_* */
  struct cr_rstrt_relocate *cr_relocate;
} cr_restart_args_t;
typedef unsigned long cr_restart_handle_t;

extern int cri_init_restart_args_t(cr_version_t version, cr_restart_args_t *args);
/** Set defaults (CR_RSTRT_RESTORE_PID). @return 0, or -1 with errno EINVAL */
#define cr_initialize_restart_args_t(args_) cri_init_restart_args_t(CR_RESTART_ARGS_VERSION, (args_))

/**
 * Start a restart and return when there is a process, a child of the caller: it may be waited for by
 * waitpid(), and SIGCHLD comes when it ends. Pipes to processes outside of the image become the
 * caller's standard input and output, unless CR_RSTRT_DEAD_SOCKETS is given. A request that fails
 * reaps its child.
 * errno EBADF, EINVAL, ENOSYS, CR_EHELPER, and those of cr_reap_restart()
 */
extern int cr_request_restart(cr_restart_args_t *args, cr_restart_handle_t *handle);
extern int cr_wait_restart(cr_restart_handle_t *handle, struct timeval *timeout);     /**< as cr_wait_checkpoint() */
extern int cr_log_restart(cr_restart_handle_t *handle, unsigned int len, char *msg);  /**< as cr_log_checkpoint() */
/**
 * Fetch the outcome and free the handle.
 * @return pid of the restarted process, or -1 with errno EAGAIN, CR_EIMAGE, CR_EBADARCH,
 *   CR_EREFUSED, EEXIST (pid in use), EPERM (pids cannot be restored, or somebody else's image
 *   without CR_RSTRT_TRUST), CR_ERSTRTABRT …
 */
extern int cr_reap_restart(cr_restart_handle_t *handle);
#define CR_POLL_RSTRT_ERR_PRE (-1)
#define CR_POLL_RSTRT_ERR_POST (-2)
#define CR_POLL_RSTRT_ERR_LOG (-3)
extern int cr_poll_restart_msg(cr_restart_handle_t *handle, struct timeval *timeout, char **msg);
extern int cr_poll_restart(cr_restart_handle_t *handle, struct timeval *timeout);

/* ------------------------------------------------------- pause requests (new) */

typedef struct cr_pause_args {
  cr_version_t cr_version;
  pid_t cr_target;         /**< the process to roll back; 0: the caller */
  int cr_fd;               /**< its image */
  int cr_signal;           /**< sent to the process afterwards; 0: none */
  unsigned int cr_timeout; /**< seconds to freeze; 0: default */
  unsigned int cr_flags;   /**< CR_PAUSE_* */
} cr_pause_args_t;
typedef unsigned long cr_pause_handle_t;

extern int cri_init_pause_args_t(cr_version_t version, cr_pause_args_t *args);
#define cr_initialize_pause_args_t(args_) cri_init_pause_args_t(CR_PAUSE_ARGS_VERSION, (args_))

/**
 * Start rolling a process back in place and return. When the caller itself is rolled
 * back, it goes on where the image was taken and never reaps this request.
 * errno EBADF, EINVAL, ESRCH, EPERM, EACCES, ENOSYS, CR_EHELPER
 */
extern int cr_request_pause(cr_pause_args_t *args, cr_pause_handle_t *handle);
extern int cr_wait_pause(cr_pause_handle_t *handle, struct timeval *timeout);     /**< as cr_wait_checkpoint() */
extern int cr_log_pause(cr_pause_handle_t *handle, unsigned int len, char *msg);  /**< as cr_log_checkpoint() */
/** Fetch the outcome and free the handle. @return > 0, or -1 with errno as of cr_reap_restart() */
extern int cr_reap_pause(cr_pause_handle_t *handle);
#define CR_POLL_PAUSE_ERR_PRE (-1)
#define CR_POLL_PAUSE_ERR_POST (-2)
#define CR_POLL_PAUSE_ERR_LOG (-3)
extern int cr_poll_pause_msg(cr_pause_handle_t *handle, struct timeval *timeout, char **msg);
extern int cr_poll_pause(cr_pause_handle_t *handle, struct timeval *timeout);

/* -------------------------------------------------- snapshots in memory (new) */

/** A snapshot that stays in the kernel's memory. 0 is never one. */
typedef unsigned long cr_snapshot_t;

#define CR_SNAPSHOT_CALLBACKS 0x1    /**< run the target's callbacks, too */
#define CR_SNAPSHOT_REWIND_FILES 0x2 /**< a rollback cuts files back to the length they had */
#define CR_SNAPSHOT_KEEP_SHARED 0x4    /**< a rollback leaves memory that other live processes share as it is */
#define CR_SNAPSHOT_RESTORE_SHARED 0x8 /**< a rollback rewrites it. With neither, one that must is refused */

/**
 * Take a snapshot of process @p pid, or of the calling process with 0. Copy-on-write:
 * the cost is that of write-protecting, not of copying.
 *
 * Of oneself it works like setjmp(): it returns 0 now, and again after every
 * rollback with the number of rollbacks so far. Everything else, variables included, is
 * as it was; what shall survive must be kept outside of the process.
 * @param handle receives the snapshot
 * @return 0, > 0 as above, or -1 with errno EINVAL, ESRCH, EPERM, EACCES, ENOSYS,
 *   CR_EREFUSED, ETIMEDOUT, ENOMEM, CR_EHELPER
 */
extern int cr_snapshot_take(pid_t pid, unsigned int flags, cr_snapshot_t *handle);
/**
 * Roll back to a snapshot, which stays usable. Of oneself it does not return: all
 * threads are where they were in cr_snapshot_take(). Snapshots that were taken
 * after it are dropped.
 * @return 0 (another process), or -1 with errno EINVAL (handle), ESRCH, CR_EREFUSED, CR_EHELPER
 */
extern int cr_snapshot_rollback(cr_snapshot_t handle);
/** Give the memory back. @return 0, or -1 with errno EINVAL */
extern int cr_snapshot_drop(cr_snapshot_t handle);

/* ---------------------------------------------------------- generations (new) */

/**
 * A number to watch: it is higher than before whenever this memory is an earlier one, after a pause, a restart or
 * a rollback to a snapshot, and in a child after fork(). Whoever keeps what must never come twice (random numbers,
 * nonces, session keys, identifiers) keeps the number beside it, compares before use, and makes it anew when the
 * number differs. Reading it takes no call. It is not rolled back itself, and needs neither cr_init() nor the module.
 *
 * Children made by clone() without the C library see 0 until they call this.
 * @return where the number lies, always the same place; NULL with errno ENOMEM
 */
extern const volatile uint64_t *cr_generation(void);

/* --------------------------------------------------------------- images (new) */

/** An image that is open for reading. */
typedef struct cr_image cr_image_t;

/** A stretch of saved memory. */
struct cr_image_run {
  uint64_t addr; /**< in the process */
  uint64_t len;  /**< bytes */
};

/**
 * Open an image and check its structure.
 * @return 0, or -1 with errno ENOENT, EACCES …, CR_EIMAGE, ENOSYS (libcr-image.so is not installed)
 */
extern int cr_image_open(const char *path, cr_image_t **image);
extern void cr_image_close(cr_image_t *image);
extern pid_t cr_image_pid(const cr_image_t *image);
extern const char *cr_image_name(const cr_image_t *image);     /**< name of the program */
extern int cr_image_threads(const cr_image_t *image);          /**< number of threads */
extern pid_t cr_image_tid(const cr_image_t *image, int index); /**< -1 with errno EINVAL */
extern long cr_image_runs(const cr_image_t *image);            /**< number of stretches of saved memory */
/** Stretch @p index, by address. @return 0, or -1 with errno EINVAL */
extern int cr_image_get_run(const cr_image_t *image, long index, struct cr_image_run *run);
/**
 * Read saved memory at @p addr; memory that the process had not touched reads as zeros
 * only where the image holds it.
 * @return bytes read, fewer where saved memory ends, or -1 with errno EFAULT, EIO, CR_EIMAGE
 */
extern ssize_t cr_image_read(cr_image_t *image, uint64_t addr, void *buf, size_t len);
/** Check every checksum. @return 0, or -1 with errno CR_EIMAGE */
extern int cr_image_verify(cr_image_t *image);
/** @return what the image holds as JSON text, to free(); NULL with errno */
extern char *cr_image_json(cr_image_t *image);

/* --------------------------------------------------- old forms of requests */

#if defined(__GNUC__)
#define CR_DEPRECATED_ __attribute__((__deprecated__))
#else
#define CR_DEPRECATED_
#endif
/** Checkpoint the caller into context.PID and wait. Use cr_request_checkpoint(). */
extern void cr_request(void) CR_DEPRECATED_;
/** Checkpoint the caller into a file and wait. Use cr_request_checkpoint(). */
extern void cr_request_file(const char *filename) CR_DEPRECATED_;
/** Checkpoint the caller into a descriptor and wait. Use cr_request_checkpoint(). */
extern void cr_request_fd(int fd) CR_DEPRECATED_;

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* REPRISE_LIBCR_H */
