/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file
 * @brief The C interface of Reprise: callbacks around checkpoints, critical
 * sections, requests, in-memory snapshots, and reading of images.
 *
 * The first half keeps the names, types and meanings of the libcr.h of Berkeley
 * Lab Checkpoint/Restart (BLCR) 0.8, so that programs written for BLCR compile
 * unchanged. blcr_common.h includes this header. Additions are marked "new".
 * docs/library.md describes the differences in behaviour, and the use of the
 * library from C, C++ and Fortran.
 *
 * Unless its comment says otherwise, a function returns -1 and sets errno on
 * failure. cr_strerror() also accepts the CR_E* codes. cr_last_error() returns a
 * message that names the descriptor, thread or mapping that caused the failure.
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

/** Version of BLCR with this interface, for programs that check it. */
#define CR_RELEASE_MAJOR 0
#define CR_RELEASE_MINOR 8
#define CR_RELEASE_PATCH 5
#define CR_RELEASE_VERSION "0.8.5"

/** Versions of the library and the module of that BLCR release. */
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

/** Version of an argument structure; cr_initialize_*_args_t() sets it. */
typedef int cr_version_t;
#define CR_CHECKPOINT_ARGS_VERSION 2 /**< 1, BLCR's structure, is accepted, too */
#define CR_RESTART_ARGS_VERSION 3 /**< 1, BLCR's structure, and 2 are accepted, too */
#define CR_PAUSE_ARGS_VERSION 1 /**< new */

/* -------------------------------------------------------------------- errors */

/** Error codes in addition to those of errno.h, in errno or as negative results. */
enum {
  CR_MIN_ERRCODE = 2353,
  CR_ETEMPFAIL,  /**< a callback refused the checkpoint for now */
  CR_EPERMFAIL,  /**< a callback failed for good; its process was killed */
  CR_ENOSUPPORT, /**< the process cannot take part in a checkpoint */
  CR_EVERSION,   /**< library and module are of different versions */
  CR_EOMITTED,   /**< a callback left its process out of the checkpoint */
  CR_EBADARCH,   /**< the image is of another architecture or not an image */
  CR_EPTRACED,   /**< a target is being traced, for example by a debugger */
  CR_EPTRACER,   /**< a target traces another process */
  CR_ERSTRTABRT, /**< a callback failed after the restart; the restarted process was killed */
  CR_ERESTARTED, /**< the request is void: this process was restarted or rolled back since it was made */
  CR_ENOTCB,     /**< only allowed inside a callback */
  CR_ENOINIT,    /**< the calling thread has not called cr_init() */
  CR_EREFUSED,   /**< new: cannot be saved or restored, see cr_last_error(); nothing has changed */
  CR_EIMAGE,     /**< new: the image is damaged or of an unknown format */
  CR_EHELPER,    /**< new: the helper process could not be started or died */
  CR_MAX_ERRCODE
};

/**
 * @param errnum a code of errno.h or CR_E*
 * @return its text, never NULL; static, or valid until the next call in the thread
 */
extern const char *cr_strerror(int errnum);

/**
 * New. @return a message about the last function of requests, snapshots, kept memory or images that
 * failed in the calling thread; "" if none did. Valid until the next such call.
 */
extern const char *cr_last_error(void);

/* ----------------------------------------------------------------- constants */

/** Real-time signal that the library uses for callbacks in signal context. */
#define CR_SIGNUM 64

/** Targets of a request. */
typedef enum {
  CR_SCOPE_PROC, /**< one process with all its threads */
  CR_SCOPE_PGRP, /**< a process group */
  CR_SCOPE_SESS, /**< a session */
  CR_SCOPE_TREE  /**< a process and its descendants */
} cr_scope_t;

/** Results of cr_status(). */
enum {
  CR_STATE_IDLE,    /**< no request in progress */
  CR_STATE_PENDING, /**< a request waits for critical sections to end */
  CR_STATE_ACTIVE   /**< callbacks run, or the checkpoint is being taken */
};

/** Argument of cr_checkpoint(). */
enum {
  CR_CHECKPOINT_READY = 0,        /**< the callback is ready for the checkpoint */
  CR_CHECKPOINT_TEMP_FAILURE = 1, /**< refuse the checkpoint; all processes continue */
  CR_CHECKPOINT_PERM_FAILURE = 2, /**< refuse the checkpoint; this process is killed */
  CR_CHECKPOINT_OMIT = 4          /**< leave this process out of the checkpoint */
};
/** As above, with an error code of the program's own, 1 to 65535; 0: no code. */
#define CR_CHECKPOINT_TEMP_FAILURE_CODE(code_) (CR_CHECKPOINT_TEMP_FAILURE | ((code_) << 16))
#define CR_CHECKPOINT_PERM_FAILURE_CODE(code_) (CR_CHECKPOINT_PERM_FAILURE | ((code_) << 16))
#define CR_CHECKPOINT_ABORT_MASK (CR_CHECKPOINT_TEMP_FAILURE | CR_CHECKPOINT_PERM_FAILURE | CR_CHECKPOINT_OMIT)

/** New: results of cr_checkpoint(); failures are negative. */
enum {
  CR_CONTINUED = 0, /**< the checkpoint was taken; this is the same process */
  CR_RESTARTED = 1, /**< this is a new process, restarted from the image; or one that was rolled back in place to an image from before
                         its restart. Its sockets are not those of the image */
  CR_PAUSED = 2     /**< this is the same process, rolled back in place; its sockets are still open */
};

/** Context of a callback. The flags of cr_register_callback() must contain exactly one of them. */
#define CR_SIGNAL_CONTEXT 0x2000000
#define CR_THREAD_CONTEXT 0x4000000

#define CR_MAX_CALLBACKS 0x1FFFFFF

/** @name Flags of a checkpoint request
 * @{ */
#define CR_CHKPT_PROHIBIT_SELF 0x00000001  /**< fail with EDEADLK when the caller is a target */
#define CR_CHKPT_PTRACED_ALLOW 0x00000002  /**< accepted without effect; a traced process is refused (CR_EPTRACED) */
#define CR_CHKPT_PTRACED_SKIP 0x00000004   /**< leave traced processes out; without it CR_EPTRACED */
#define CR_CHKPT_PTRACER_SKIP 0x00000008   /**< leave tracing processes out; without it CR_EPTRACER */
#define CR_CHKPT_ASYNC_ERR 0x00000010      /**< report also early errors only in cr_reap_checkpoint() */
/* CR_CHKPT_DUMP_* are accepted without effect: an image holds what differs from the program's files, but not the
 * files. A message of the request says so. */
#define CR_CHKPT_DUMP_EXEC 0x0200          /**< accepted without effect */
#define CR_CHKPT_DUMP_PRIVATE 0x0400       /**< accepted without effect */
#define CR_CHKPT_DUMP_SHARED 0x0800        /**< accepted without effect */
#define CR_CHKPT_DUMP_ALL (CR_CHKPT_DUMP_EXEC | CR_CHKPT_DUMP_PRIVATE | CR_CHKPT_DUMP_SHARED)
#define CR_CHKPT_NO_SYNC 0x00020000        /**< new: do not fsync the image */
#define CR_CHKPT_DELTA 0x00040000          /**< new: the image refers to cr_parent for what has not changed, and needs it */
/** @} */

/** Value of cr_fd in a checkpoint request: write context.PID in the caller's working directory. */
#define CR_DEST_CWD (-4096)

/** @name Flags of a restart request
 * @{ */
#define CR_RSTRT_ASYNC_ERR 0x00000001      /**< report also early errors only in cr_reap_restart() */
#define CR_RSTRT_RESTORE_PID 0x00000002    /**< restore pid and thread ids, or fail */
#define CR_RSTRT_RESTORE_PGID 0x00000004   /**< join the process group of the image, or fail */
#define CR_RSTRT_RESTORE_SID 0x00000008    /**< restore the session (its own, or the caller's), or fail */
#define CR_RSTRT_DEAD_SOCKETS 0x00010000   /**< new: replace sockets and pipes that cannot be restored by closed ones */
#define CR_RSTRT_REWIND_FILES 0x00020000   /**< new: truncate files that have grown to their old length */
#define CR_RSTRT_TRUST 0x00040000          /**< new: as root, accept any user's image and open its files as root */
#define CR_RSTRT_PID_NAMESPACE 0x00080000  /**< new: restore the ids in a new pid namespace, of each copy's own; root only */
#define CR_RSTRT_KEEP_SHARED 0x00100000    /**< new: leave mapped files that other processes map too unchanged */
#define CR_RSTRT_RESTORE_SHARED 0x00200000 /**< new: restore their content. With neither flag, a change is refused */
/** @} */

/** @name Flags of a pause request (new)
 * @{ */
#define CR_PAUSE_ASYNC_ERR 0x00000001      /**< report all errors in cr_reap_pause() */
#define CR_PAUSE_REWIND_FILES 0x00020000   /**< truncate files that have grown to their old length */
#define CR_PAUSE_NO_TRACKING 0x00040000    /**< ignore tracked changes: treat every page as changed */
#define CR_PAUSE_KEEP_SHARED 0x00100000    /**< leave memory that other live processes share unchanged */
#define CR_PAUSE_RESTORE_SHARED 0x00200000 /**< restore its content. With neither flag, a change is refused */
/** @} */

/* -------------------------------------------------------- the calling thread */

/** Identifies a thread in the functions of critical sections. */
typedef int cr_client_id_t;
/** Identifier of the running callback's thread. */
#define CR_ID_CALLBACK ((cr_client_id_t)(-1))

/**
 * Register the calling thread with the library. The first call of a process opens
 * /dev/cr and starts the callback thread. Call it once in every thread that uses
 * the library; later calls return the same identifier. Not async-signal-safe.
 * @return an identifier >= 0, or -1 with errno:
 *   ENOSYS the module is not loaded · EACCES no permission to open /dev/cr ·
 *   CR_EVERSION the module is of another version · ENOMEM, EAGAIN the callback
 *   thread cannot be created
 */
extern cr_client_id_t cr_init(void);

/**
 * Keep the library's data of this thread at its exit until cr_dec_persist() was
 * called the same number of times, so that destructors of thread-specific data can
 * still use the library.
 * @return the previous count, or -1 with errno CR_ENOINIT or ERANGE
 */
extern int cr_inc_persist(void);
/** Undo one cr_inc_persist(). @return the previous count, or -1 with errno CR_ENOINIT or ERANGE (the count is 0) */
extern int cr_dec_persist(void);

/* ------------------------------------------------------------------ callbacks */

typedef int (*cr_callback_t)(void *);
typedef int cr_callback_id_t;

/**
 * Register a callback that runs around every checkpoint, restart and pause.
 *
 * CR_THREAD_CONTEXT: @p func runs in the library's callback thread and may call any
 * function. CR_SIGNAL_CONTEXT: @p func runs in the registering thread, possibly in a
 * signal handler, and may call only async-signal-safe functions. The callbacks of a
 * context run in reverse order of registration, each nested in the previous one.
 * Callbacks in signal context run when all in thread context have called
 * cr_checkpoint().
 * @param func  the callback; NULL: none
 * @param arg   its argument
 * @param flags CR_THREAD_CONTEXT or CR_SIGNAL_CONTEXT
 * @return identifier for cr_replace_callback(), or -1 with errno CR_ENOINIT,
 *   EINVAL (flags), EBUSY (inside a callback), ENOMEM, ENOSPC, or as cr_init()
 */
extern cr_callback_id_t cr_register_callback(cr_callback_t func, void *arg, int flags);

/**
 * Replace a callback. Only the thread that registered it can replace a callback in
 * signal context.
 * @param id    result of cr_register_callback()
 * @param func  the new callback; NULL: none
 * @param arg   its argument
 * @param flags the context with which it was registered
 * @return 0, or -1 with errno CR_ENOINIT, EINVAL (id or flags), EBUSY (inside a callback)
 */
extern int cr_replace_callback(cr_callback_id_t id, cr_callback_t func, void *arg, int flags);

/**
 * As cr_replace_callback(), for the running callback.
 * @return 0, or -1 with errno CR_ENOTCB, EINVAL (flags)
 */
extern int cr_replace_self(cr_callback_t func, void *arg, int flags);

/**
 * A callback calls this function when it is ready. The code before the call runs before
 * the checkpoint, the code after it runs after the checkpoint. A callback that returns 0
 * without calling it counts as ready.
 *
 * A callback that returns another value has failed. Before the checkpoint this is
 * equivalent to a call with CR_CHECKPOINT_PERM_FAILURE. After a checkpoint, restart or
 * pause the process is killed, and the requester of a restart gets CR_ERSTRTABRT.
 * A call with CR_CHECKPOINT_PERM_FAILURE does not return.
 * @param flags CR_CHECKPOINT_*
 * @return CR_CONTINUED, CR_RESTARTED, CR_PAUSED, or a negative error: the code with
 *   which a callback refused (-CR_ETEMPFAIL, -CR_EPERMFAIL, -CR_EOMITTED or its own),
 *   -ECANCELED when the request was cancelled, -CR_ENOTCB outside of a callback
 */
extern int cr_checkpoint(int flags);

/** The request that is being served. */
struct cr_checkpoint_info {
  int signal;       /**< signal that is sent to the targets afterwards, 0: none */
  const char *dest; /**< path of the image, "" when the image file has no name */
  pid_t requester;  /**< pid of the requesting program (not of its helper) */
  pid_t target;     /**< process, process group or session that scope refers to */
  cr_scope_t scope;
};
/** The restart or pause that has just happened. */
struct cr_restart_info {
  pid_t requester; /**< pid of the requesting program */
  const char *src; /**< path of the image, "" when it has none */
};
/** For callbacks, before cr_checkpoint(). @return the request; NULL with errno CR_ENOTCB outside of a callback */
extern const struct cr_checkpoint_info *cr_get_checkpoint_info(void);
/** For callbacks, after cr_checkpoint(). @return the restart; NULL with errno CR_ENOTCB outside of a callback */
extern const struct cr_restart_info *cr_get_restart_info(void);

/* ---------------------------------------------------------- critical sections */

/**
 * Enter a critical section: checkpoints and their callbacks wait until cr_leave_cs().
 * Blocks while a checkpoint is in progress. Sections nest. Does nothing inside a
 * callback. Async-signal-safe.
 * @param id result of cr_init() in this thread, or CR_ID_CALLBACK inside a callback
 * @return 0, or -1 with errno CR_ENOINIT, EINVAL (id)
 */
extern int cr_enter_cs(cr_client_id_t id);
/** As cr_enter_cs(), but never blocks. @return 0 entered, 1 not entered, -1 with errno as cr_enter_cs() */
extern int cr_tryenter_cs(cr_client_id_t id);
/**
 * Leave a section. If it is the last one of the process and a request waits, the
 * call returns when the request is over. Async-signal-safe.
 * @param id as for cr_enter_cs()
 * @return 0, or -1 with errno CR_ENOINIT, EINVAL (id, or not in a section)
 */
extern int cr_leave_cs(cr_client_id_t id);
/** @return CR_STATE_*, or -1 with errno CR_ENOINIT. Async-signal-safe. */
extern int cr_status(void);

/* ----------------------------------------------------------------- hooks, hold */

/** Events for cr_register_hook(). */
typedef enum {
  CR_HOOK_CONT_SIGNAL_CONTEXT = 0, /**< after a checkpoint, in a thread that called cr_init() */
  CR_HOOK_CONT_THREAD_CONTEXT,     /**< after a checkpoint, in the callback thread */
  CR_HOOK_CONT_NO_CALLBACKS,       /**< after a checkpoint, in a thread that did not call cr_init() */
  CR_HOOK_RSTRT_SIGNAL_CONTEXT,    /**< after a restart, in a thread that called cr_init() */
  CR_HOOK_RSTRT_THREAD_CONTEXT,    /**< after a restart, in the callback thread */
  CR_HOOK_RSTRT_NO_CALLBACKS,      /**< after a restart, in a thread that did not call cr_init() */
  CR_HOOK_PAUSED_SIGNAL_CONTEXT,   /**< new: after a pause; if unset, CR_HOOK_RSTRT_SIGNAL_CONTEXT runs */
  CR_HOOK_PAUSED_THREAD_CONTEXT,   /**< new: after a pause; if unset, CR_HOOK_RSTRT_THREAD_CONTEXT runs */
  CR_HOOK_PAUSED_NO_CALLBACKS,     /**< new: after a pause; if unset, CR_HOOK_RSTRT_NO_CALLBACKS runs */
  CR_HOOK_PAUSE_PREPARE,           /**< new: before a pause, in the callback thread; the current state will be lost */
  CR_NUM_HOOKS
} cr_hook_event_t;
typedef void (*cr_hook_fn_t)(cr_hook_event_t);
#define CR_HOOK_FN_ERROR ((cr_hook_fn_t)(~0UL))

/**
 * Set the function that runs at @p event in each thread of that kind, after its callbacks.
 * A hook for threads without callbacks makes the library interrupt them with CR_SIGNUM.
 * @param event the event
 * @param func  the function; NULL: none
 * @return the previous function, or CR_HOOK_FN_ERROR with errno CR_ENOINIT, EINVAL
 */
extern cr_hook_fn_t cr_register_hook(cr_hook_event_t event, cr_hook_fn_t func);

/** Scopes of cr_hold_ctrl(). */
enum {
  CR_HOLD_SCOPE_THREAD, /**< the calling thread */
  CR_HOLD_SCOPE_INIT,   /**< threads that called cr_init() and have no value of their own */
  CR_HOLD_SCOPE_UNINIT  /**< all other threads */
};
#define CR_HOLD_READ (-1) /**< return the value without changing it */
#define CR_HOLD_NONE 0    /**< continue when the thread's own callbacks have returned */
#define CR_HOLD_CONT 1    /**< after a checkpoint, wait for all callbacks */
#define CR_HOLD_RSTRT 2   /**< after a restart or pause, wait for all callbacks */
#define CR_HOLD_BOTH (CR_HOLD_CONT | CR_HOLD_RSTRT)
#define CR_HOLD_DFLT 4    /**< for CR_HOLD_SCOPE_THREAD only: use the value of CR_HOLD_SCOPE_INIT */

/**
 * Set which threads are held until all callbacks have returned. Defaults: THREAD DFLT,
 * INIT BOTH, UNINIT NONE. Threads without callbacks in signal context are held only if
 * the program has set this explicitly, because the library must interrupt them by a
 * signal for that.
 * @param scope CR_HOLD_SCOPE_*
 * @param flags CR_HOLD_NONE … CR_HOLD_BOTH, CR_HOLD_DFLT or CR_HOLD_READ
 * @return the previous value, or -1 with errno CR_ENOINIT, EINVAL
 */
extern int cr_hold_ctrl(int scope, int flags);

/* ------------------------------------------------------------------- spinlocks */

/** A spinlock. Its functions are async-signal-safe. */
typedef unsigned int cr_spinlock_t;
#define CR_SPINLOCK_INITIALIZER 0U
extern void cr_spinlock_init(cr_spinlock_t *lock);   /**< set the lock to unlocked */
extern void cr_spinlock_lock(cr_spinlock_t *lock);   /**< spin until the lock is taken */
extern void cr_spinlock_unlock(cr_spinlock_t *lock); /**< release the lock */
/** Take the lock without waiting. @return nonzero if it was taken, 0 if another holder has it */
extern int cr_spinlock_trylock(cr_spinlock_t *lock);

/* -------------------------------------------------------- checkpoint requests */

/** Arguments of cr_request_checkpoint(). */
typedef struct cr_checkpoint_args {
  cr_version_t cr_version;
  cr_scope_t cr_scope;     /**< must be set */
  pid_t cr_target;         /**< process, process group or session; 0: the caller's */
  int cr_fd;               /**< descriptor of the image file or directory, or CR_DEST_CWD; must be set */
  int cr_signal;           /**< sent to each target after its checkpoint; 0: none */
  unsigned int cr_timeout; /**< most seconds for the callbacks; 0: 60 */
  unsigned int cr_flags;   /**< CR_CHKPT_* */
  /**
   * New: path of an earlier image of the same process, or of the directory with the images context.PID of several. Only
   * what has changed since is read from the process. If that is not known, all is, and a message says so. NULL: all is.
   */
  const char *cr_parent;
  const char *cr_compress; /**< new: how to compress the image: "lz4", "zstd", with a level "zstd:19"; NULL: not */
} cr_checkpoint_args_t;
typedef unsigned long cr_checkpoint_handle_t;

/** Use cr_initialize_checkpoint_args_t(). */
extern int cri_init_checkpoint_args_t(cr_version_t version, cr_checkpoint_args_t *args);
/** Set the defaults. The caller must then set cr_scope and cr_fd. @return 0, or -1 with errno EINVAL */
#define cr_initialize_checkpoint_args_t(args_) cri_init_checkpoint_args_t(CR_CHECKPOINT_ARGS_VERSION, (args_))

/**
 * Start a checkpoint. Returns when the target (of several, the first) is notified: its
 * callbacks run or wait for a critical section, or it is frozen. A helper process takes
 * the checkpoint, so the caller may be one of the targets.
 *
 * If cr_fd refers to a regular file that has a name, the complete image replaces that
 * file. Otherwise the image is written to the descriptor. For several processes cr_fd must
 * be a directory or CR_DEST_CWD; each process gets an image context.PID.
 * @param args   arguments, initialised by cr_initialize_checkpoint_args_t()
 * @param handle receives the handle of the request
 *
 * With cr_parent the image stands alone, as any other: the pages that have not changed are
 * taken from the parent, which may be the file that the image replaces. With CR_CHKPT_DELTA it
 * refers to the parent's pages instead: it takes the room of what has changed, and needs the
 * parent, which must be in the same directory under another name.
 * @return 0, or -1 with errno EINVAL (args), EBADF, ESRCH (also: cr_parent is of another
 *   process), ENOENT (cr_parent), EPERM, EACCES, EBUSY (another request of the target is in
 *   progress), CR_EPTRACED, CR_EPTRACER, EDEADLK (CR_CHKPT_PROHIBIT_SELF), ENOSYS (no
 *   module), CR_EHELPER
 */
extern int cr_request_checkpoint(cr_checkpoint_args_t *args, cr_checkpoint_handle_t *handle);
/**
 * Wait until the request has ended, with or without success.
 * @param handle  the request
 * @param timeout longest time to wait, NULL: no limit; receives the remaining time
 * @return > 0 ended, 0 after the timeout, -1 with errno EINVAL (handle), EINTR
 */
extern int cr_wait_checkpoint(cr_checkpoint_handle_t *handle, struct timeval *timeout);
/**
 * Copy the messages of the request.
 * @param handle the request
 * @param len    bytes of @p msg
 * @param msg    receives at most @p len bytes of text with the terminating NUL; may be NULL
 * @return bytes needed for the whole text with the NUL, 0 if there is none, or -1 with
 *   errno EINVAL (handle)
 */
extern int cr_log_checkpoint(cr_checkpoint_handle_t *handle, unsigned int len, char *msg);
/**
 * Fetch the outcome and free the handle.
 * @return > 0 when the checkpoint was taken, or -1 with errno EAGAIN (not ended, the handle
 *   stays valid), CR_ERESTARTED (taken; this process was since restarted from it or rolled
 *   back), CR_ETEMPFAIL, CR_EPERMFAIL or a callback's own code, ESRCH (all processes were
 *   left out), CR_EREFUSED, ETIMEDOUT, ENOSPC, EIO, CR_EHELPER …
 */
extern int cr_reap_checkpoint(cr_checkpoint_handle_t *handle);
#define CR_POLL_CHKPT_ERR_PRE (-1)  /**< waiting failed, errno as of cr_wait_checkpoint() */
#define CR_POLL_CHKPT_ERR_POST (-2) /**< the request failed, errno as of cr_reap_checkpoint() */
#define CR_POLL_CHKPT_ERR_LOG (-3)  /**< fetching the messages failed, errno ENOMEM */
/**
 * Wait as cr_wait_checkpoint(). If the request has ended, fetch its messages and reap it.
 * @param handle  the request
 * @param timeout as for cr_wait_checkpoint()
 * @param msg     receives a text that the caller must free(), or NULL if there is none; may be NULL
 * @return result of cr_reap_checkpoint(), 0 after the timeout, or CR_POLL_CHKPT_ERR_*
 */
extern int cr_poll_checkpoint_msg(cr_checkpoint_handle_t *handle, struct timeval *timeout, char **msg);
/** As cr_poll_checkpoint_msg() without messages. */
extern int cr_poll_checkpoint(cr_checkpoint_handle_t *handle, struct timeval *timeout);

/**
 * For callbacks, before cr_checkpoint(): include further processes in the checkpoint in
 * progress. They are saved while this process waits in its callbacks. A process that is
 * part of the checkpoint anyway, such as the caller, is saved only once.
 * @param scope  CR_SCOPE_*
 * @param target process, process group or session; 0: the caller's
 * @return 0, or -1 with errno CR_ENOTCB, EINVAL, ESRCH, EPERM, EACCES, EBUSY (another request
 *   of the target is in progress), EDEADLK (CR_CHKPT_PROHIBIT_SELF), ENOSPC (too many calls)
 */
extern int cr_forward_checkpoint(cr_scope_t scope, pid_t target);

/* ----------------------------------------------------------- restart requests */

/** Replaces paths below oldpath by paths below newpath. */
struct cr_rstrt_relocate_pair {
  const char *oldpath;
  const char *newpath;
};
/** Paths to replace; the first match counts. Allocate CR_RSTRT_RELOCATE_SIZE(count) bytes. */
struct cr_rstrt_relocate {
  unsigned int count; /**< at most CR_MAX_RSTRT_RELOC */
#ifdef __GNUC__
  __extension__
#endif
  struct cr_rstrt_relocate_pair path[];
};
#define CR_RSTRT_RELOCATE_SIZE(count_) \
  (sizeof(struct cr_rstrt_relocate) + (count_) * sizeof(struct cr_rstrt_relocate_pair))
#define CR_MAX_RSTRT_RELOC 16

/** New: a descriptor of the caller that takes the place of one of the image, and of its duplicates unless it was a terminal. */
struct cr_rstrt_fd {
  unsigned int copy; /**< 1 to cr_copies; 0: in each */
  int fd;            /**< number in the image. What one copy has a descriptor for, all must have one for */
  int with;          /**< descriptor of the caller */
};
/** New: the descriptors to replace. Allocate CR_RSTRT_FDS_SIZE(count) bytes. */
struct cr_rstrt_fds {
  unsigned int count; /**< at most CR_MAX_RSTRT_FDS */
#ifdef __GNUC__
  __extension__
#endif
  struct cr_rstrt_fd fd[];
};
#define CR_RSTRT_FDS_SIZE(count_) (sizeof(struct cr_rstrt_fds) + (count_) * sizeof(struct cr_rstrt_fd))
#define CR_MAX_RSTRT_FDS 4096
/** New: memory that takes the place of kept memory of the image, see cr_kept_alloc(). */
struct cr_rstrt_kept_one {
  const char *name; /**< of the image's memory */
  int with;         /**< descriptor of the caller: of kept memory with that name and of that size */
};
/** New: the kept memory to give, in each copy the same. Allocate CR_RSTRT_KEPT_SIZE(count) bytes. */
struct cr_rstrt_kept {
  unsigned int count; /**< at most CR_MAX_RSTRT_KEPT */
#ifdef __GNUC__
  __extension__
#endif
  struct cr_rstrt_kept_one memory[];
};
#define CR_RSTRT_KEPT_SIZE(count_) (sizeof(struct cr_rstrt_kept) + (count_) * sizeof(struct cr_rstrt_kept_one))
#define CR_MAX_RSTRT_KEPT 256
#define CR_MAX_RSTRT_COPIES 1000

/** Arguments of cr_request_restart(). */
typedef struct cr_restart_args {
  cr_version_t cr_version;
  int cr_fd;             /**< descriptor of the image; must be set */
  int cr_signal;         /**< sent when the process's callbacks have returned; negative: before it runs; 0: none */
  unsigned int cr_flags; /**< CR_RSTRT_* */
  struct cr_rstrt_relocate *cr_relocate; /**< paths to replace; NULL: none */
  /* Since version 2: */
  const struct cr_rstrt_fds *cr_fds; /**< descriptors to replace; NULL: none */
  /**
   * Number of processes to create, at most CR_MAX_RSTRT_COPIES, which share the pages of their private memory until they
   * write to them; either all run or none does. They need CR_RSTRT_PID_NAMESPACE, or new ids (no CR_RSTRT_RESTORE_PID).
   * 0: one process, of which nothing is refused that only one process can have
   */
  unsigned int cr_copies;
  /* Since version 3: */
  const struct cr_rstrt_kept *cr_kept; /**< kept memory to give; NULL: it comes back new, see cr_kept_alloc() */
} cr_restart_args_t;
typedef unsigned long cr_restart_handle_t;

/** Use cr_initialize_restart_args_t(). */
extern int cri_init_restart_args_t(cr_version_t version, cr_restart_args_t *args);
/** Set the defaults (CR_RSTRT_RESTORE_PID). The caller must then set cr_fd. @return 0, or -1 with errno EINVAL */
#define cr_initialize_restart_args_t(args_) cri_init_restart_args_t(CR_RESTART_ARGS_VERSION, (args_))

/**
 * Start a restart. Returns when the new process exists, or all copies do. It is a child of the caller: waitpid()
 * waits for it, and its end raises SIGCHLD. So does the end of the process that makes copies or is the first in a pid
 * namespace; this function reaps it. Without CR_RSTRT_DEAD_SOCKETS, pipes to processes
 * outside of the image become the caller's standard input and output. If the restart fails, the
 * library reaps the child.
 * @param args   arguments, initialised by cr_initialize_restart_args_t()
 * @param handle receives the handle of the request
 * @return 0, or -1 with errno EBADF, EINVAL, ENOSYS (no module), CR_EHELPER, or as
 *   cr_reap_restart()
 */
extern int cr_request_restart(cr_restart_args_t *args, cr_restart_handle_t *handle);
extern int cr_wait_restart(cr_restart_handle_t *handle, struct timeval *timeout);     /**< as cr_wait_checkpoint() */
extern int cr_log_restart(cr_restart_handle_t *handle, unsigned int len, char *msg);  /**< as cr_log_checkpoint() */
/**
 * Fetch the outcome and free the handle.
 * @return pid of the restarted process, or -1 with errno EAGAIN (not ended, the handle stays
 *   valid), CR_EIMAGE, CR_EBADARCH, CR_EREFUSED, EEXIST (pid in use), EPERM (no permission to
 *   restore pids, or another user's image without CR_RSTRT_TRUST), CR_ERSTRTABRT …
 */
extern int cr_reap_restart(cr_restart_handle_t *handle);
/**
 * New: fetch the pids of the new processes, between the end of the request and cr_reap_restart().
 * @param handle the request
 * @param pids   receives at most len pids, of copy 1, 2, …
 * @param len    number of elements of pids
 * @return the number of processes, or -1 with errno EAGAIN (not ended), EINVAL, or as cr_reap_restart()
 */
extern int cr_restart_pids(cr_restart_handle_t *handle, pid_t *pids, unsigned int len);
#define CR_POLL_RSTRT_ERR_PRE (-1)  /**< as CR_POLL_CHKPT_ERR_PRE */
#define CR_POLL_RSTRT_ERR_POST (-2) /**< as CR_POLL_CHKPT_ERR_POST */
#define CR_POLL_RSTRT_ERR_LOG (-3)  /**< as CR_POLL_CHKPT_ERR_LOG */
/** As cr_poll_checkpoint_msg(), for a restart. */
extern int cr_poll_restart_msg(cr_restart_handle_t *handle, struct timeval *timeout, char **msg);
/** As cr_poll_restart_msg() without messages. */
extern int cr_poll_restart(cr_restart_handle_t *handle, struct timeval *timeout);

/* ------------------------------------------------------- pause requests (new) */

/** Arguments of cr_request_pause(). */
typedef struct cr_pause_args {
  cr_version_t cr_version;
  pid_t cr_target;         /**< the process to roll back; 0: the caller */
  int cr_fd;               /**< descriptor of its image; must be set */
  int cr_signal;           /**< sent to the process before it runs again; 0: none */
  unsigned int cr_timeout; /**< most seconds to stop all threads; 0: 5 */
  unsigned int cr_flags;   /**< CR_PAUSE_* */
} cr_pause_args_t;
typedef unsigned long cr_pause_handle_t;

/** Use cr_initialize_pause_args_t(). */
extern int cri_init_pause_args_t(cr_version_t version, cr_pause_args_t *args);
/** Set the defaults. The caller must then set cr_fd. @return 0, or -1 with errno EINVAL */
#define cr_initialize_pause_args_t(args_) cri_init_pause_args_t(CR_PAUSE_ARGS_VERSION, (args_))

/**
 * Start to roll a process back in place, and return. If the caller itself is rolled back,
 * it continues where the image was taken and cannot reap this request.
 * @param args   arguments, initialised by cr_initialize_pause_args_t()
 * @param handle receives the handle of the request
 * @return 0, or -1 with errno EBADF, EINVAL, ESRCH, EPERM, EACCES, ENOSYS (no module), CR_EHELPER
 */
extern int cr_request_pause(cr_pause_args_t *args, cr_pause_handle_t *handle);
extern int cr_wait_pause(cr_pause_handle_t *handle, struct timeval *timeout);     /**< as cr_wait_checkpoint() */
extern int cr_log_pause(cr_pause_handle_t *handle, unsigned int len, char *msg);  /**< as cr_log_checkpoint() */
/**
 * Fetch the outcome and free the handle.
 * @return > 0 when rolled back, or -1 with errno EAGAIN (not ended, the handle stays valid), CR_EIMAGE, CR_EBADARCH,
 *   CR_EREFUSED, CR_ETEMPFAIL, CR_EPERMFAIL or a callback's own code, ESRCH, ETIMEDOUT, CR_EHELPER …
 */
extern int cr_reap_pause(cr_pause_handle_t *handle);
#define CR_POLL_PAUSE_ERR_PRE (-1)  /**< as CR_POLL_CHKPT_ERR_PRE */
#define CR_POLL_PAUSE_ERR_POST (-2) /**< as CR_POLL_CHKPT_ERR_POST */
#define CR_POLL_PAUSE_ERR_LOG (-3)  /**< as CR_POLL_CHKPT_ERR_LOG */
/** As cr_poll_checkpoint_msg(), for a pause. */
extern int cr_poll_pause_msg(cr_pause_handle_t *handle, struct timeval *timeout, char **msg);
/** As cr_poll_pause_msg() without messages. */
extern int cr_poll_pause(cr_pause_handle_t *handle, struct timeval *timeout);

/* -------------------------------------------------- snapshots in memory (new) */

/** Handle of a snapshot in the kernel's memory. 0 is never a valid handle. */
typedef unsigned long cr_snapshot_t;

#define CR_SNAPSHOT_CALLBACKS 0x1    /**< run the target's callbacks */
#define CR_SNAPSHOT_REWIND_FILES 0x2 /**< a rollback truncates files that have grown to their old length */
#define CR_SNAPSHOT_KEEP_SHARED 0x4    /**< a rollback leaves memory that other live processes share unchanged */
#define CR_SNAPSHOT_RESTORE_SHARED 0x8 /**< a rollback restores its content. With neither, a change is refused */

/**
 * Take a snapshot of a process. It is copy-on-write: it write-protects the pages and does
 * not copy them.
 *
 * With the calling process as target it works like setjmp(): it returns 0 now, and again
 * after every rollback with the number of rollbacks so far. The rollback restores all
 * memory of the process but kept memory, see cr_kept_alloc().
 *
 * A snapshot belongs to the process that took it: a child made by fork() does not inherit it. In a callback the
 * functions of snapshots fail with EBUSY while another call of them is under way, since it may wait for the callback.
 * @param pid    the process; 0: the calling process
 * @param flags  CR_SNAPSHOT_*
 * @param handle receives the snapshot
 * @return 0, > 0 as above, or -1 with errno EINVAL, ESRCH, EPERM, EACCES, ENOSYS (no module),
 *   CR_EREFUSED, ETIMEDOUT, ENOMEM, EBUSY (in a callback), CR_EHELPER
 */
extern int cr_snapshot_take(pid_t pid, unsigned int flags, cr_snapshot_t *handle);
/**
 * Roll another process back to an image of it, as a pause does, and keep the restored state as a snapshot. A rollback to
 * the snapshot is a pause to the image that reads nothing and restores only what has changed.
 * @param pid    the process, not the caller
 * @param fd     the image, open for reading; it can be closed afterwards
 * @param flags  CR_SNAPSHOT_*. They apply to this rollback, too. The target's callbacks run in any case
 * @param handle receives the snapshot
 * @return 0, or -1 with errno as cr_snapshot_take(); EBADF (fd); CR_EBADARCH, CR_EIMAGE (no image, or a damaged one). With
 *   ENOMEM or EDQUOT the process may have been rolled back without its state being kept: cr_last_error() says so
 */
extern int cr_snapshot_load(pid_t pid, int fd, unsigned int flags, cr_snapshot_t *handle);
/**
 * Roll back, or forward, to a snapshot, which stays valid. The snapshots of another process
 * are a tree of states: any of them can be gone to, in any order. A rollback of the calling
 * process drops its later snapshots, of which it knows nothing any more, and does not return:
 * all threads are where they were in cr_snapshot_take().
 * @return 0 (target is another process), or -1 with errno EINVAL (handle), ESRCH,
 *   CR_EREFUSED, EBUSY (in a callback), CR_EHELPER
 */
extern int cr_snapshot_rollback(cr_snapshot_t handle);
/** Drop a snapshot and free its memory. @return 0, or -1 with errno EINVAL (handle), EBUSY (in a callback) */
extern int cr_snapshot_drop(cr_snapshot_t handle);

/* ---------------------------------------------------------- generations (new) */

/**
 * The generation number of the process's memory. It increases whenever the memory returns to an earlier state (pause,
 * restart, rollback to a snapshot), and in a child after fork(). The number itself is not rolled back.
 *
 * A program that holds values which must never be used twice (random numbers, nonces, session keys, identifiers) stores
 * the number with them, compares it before each use, and creates the values again when it differs. Reading the number
 * needs no call. The function needs neither cr_init() nor the module.
 *
 * A child that was created by clone() without the C library reads 0 until it calls this function.
 * @return address of the number, the same for all calls; NULL with errno ENOMEM
 */
extern const volatile uint64_t *cr_generation(void);

/* ---------------------------------------------------------- kept memory (new) */

/** Most characters of a name of kept memory: letters, digits, and . _ - */
#define CR_KEPT_NAME_MAX 200
/** Images have the content of the memory: a restart that is given no memory begins with what it was at the checkpoint. */
#define CR_KEPT_COPIED 1

/**
 * Allocate memory that no rollback changes: for logs, statistics, rings, stores of results. Images hold its content only with
 * CR_KEPT_COPIED.
 *
 * It is a shared mapping of a memfd named reprise.keep.NAME, or reprise.keep+NAME with CR_KEPT_COPIED. A pause and a rollback to a
 * snapshot leave its content as it is then, and it is at its old address. If the process has freed it since, the same address has new memory; if it has
 * allocated it since, the rollback takes mapping and descriptor away, and the memory with them unless another process holds it.
 * In a restart it is new at its old address, unless the caller of the restart gives memory (cr_restart_args_t.cr_kept,
 * cr_restart --kept-memory). New memory is empty (zeros), or, with CR_KEPT_COPIED, as at the checkpoint, which copies it while the
 * process stands still. A child of fork() shares it. A page that is allocated when memory has run
 * out raises SIGBUS, as in any shared memory.
 *
 * Pointers from kept memory into other memory are wrong after a rollback, and so are locks whose owner is rolled back: keep
 * values, indexes and atomic counters there.
 *
 * The functions of kept memory need neither cr_init() nor the module, and are not async-signal-safe. Two threads must not
 * allocate the same name at the same time.
 * @param name  1 to CR_KEPT_NAME_MAX letters, digits, or . _ -
 * @param size  bytes; rounded up to whole pages. It never changes
 * @param flags 0 or CR_KEPT_COPIED
 * @param addr  receives the address
 * @return a descriptor of the memory (close-on-exec), for another process to hold it. It belongs to the caller, who may close
 *   it: the mapping keeps the memory. -1 with errno EINVAL, EEXIST (the process has memory of that name), ENOMEM, EMFILE,
 *   EFBIG …
 */
extern int cr_kept_alloc(const char *name, size_t size, unsigned int flags, void **addr);
/**
 * Find kept memory again that the process has mapped or open, after a restart for instance; or map what another process has
 * handed over. Memory that is mapped already is not mapped again.
 * @param name the name. With fd it may be NULL: any name
 * @param fd   a descriptor of the memory, which stays the caller's; -1: what the process has
 * @param addr receives the address
 * @param size receives the size; may be NULL
 * @return 0, or -1 with errno ENOENT (the process does not have it), EBADF, EINVAL (name; fd is not of kept memory of this
 *   name), EEXIST (other memory of that name is mapped), EACCES (fd cannot be written), ENOMEM
 */
extern int cr_kept_attach(const char *name, int fd, void **addr, size_t *size);
/**
 * @return a new descriptor of kept memory (close-on-exec), which belongs to the caller; -1 with errno EINVAL (name), ENOENT
 *   (the process has no descriptor of it any more), EMFILE
 */
extern int cr_kept_fd(const char *name);
/**
 * Unmap kept memory. It exists until its last mapping and descriptor, in any process, are gone: close its descriptors, too.
 * @return 0, or -1 with errno EINVAL (name), ENOENT (it is not mapped)
 */
extern int cr_kept_free(const char *name);

/**
 * Copy kept memory that was allocated with CR_KEPT_COPIED to another node, now. Returns when that is done: if this node is lost, a
 * restart of the process begins with this content, or with what is newer. For ranks under crrun --redundancy partner with the
 * transport crtcp, after MPI_Init; MPI makes progress meanwhile. The process needs a descriptor of the memory. Other threads must not
 * write to the memory meanwhile.
 * @return 0, or -1 with errno EINVAL (name; it was allocated without CR_KEPT_COPIED), ENOENT (the process has no descriptor of it),
 *   EOPNOTSUPP (this is no such rank), EHOSTUNREACH (no other node can keep a copy now; a later call may succeed), EIO, ENOSPC
 */
extern int cr_kept_copy(const char *name);

/* --------------------------------------------------------------- images (new) */

/** An image that is open for reading. */
typedef struct cr_image cr_image_t;

/** A contiguous range of saved memory. */
struct cr_image_run {
  uint64_t addr; /**< address in the process */
  uint64_t len;  /**< bytes */
};

/**
 * Open an image and check its structure.
 * @param path  the image file
 * @param image receives the open image, which the caller must close with cr_image_close()
 * @return 0, or -1 with errno ENOENT, EACCES …, CR_EBADARCH, CR_EIMAGE, ENOSYS (libcr-image.so is not installed)
 */
extern int cr_image_open(const char *path, cr_image_t **image);
extern void cr_image_close(cr_image_t *image);                 /**< close an image and free its memory; may be NULL */
extern pid_t cr_image_pid(const cr_image_t *image);            /**< @return pid of the saved process */
extern const char *cr_image_name(const cr_image_t *image);     /**< @return name of the program, owned by the image */
extern int cr_image_threads(const cr_image_t *image);          /**< @return number of threads */
/** @return id of thread @p index (0: the leader), or -1 with errno EINVAL */
extern pid_t cr_image_tid(const cr_image_t *image, int index);
extern long cr_image_runs(const cr_image_t *image);            /**< @return number of ranges of saved memory */
/** Fetch range @p index of saved memory. The ranges are sorted by address. @return 0, or -1 with errno EINVAL */
extern int cr_image_get_run(const cr_image_t *image, long index, struct cr_image_run *run);
/**
 * Read saved memory. Memory that the process has not touched reads as zeros only if the
 * image contains it.
 * @param image the image
 * @param addr  address in the process
 * @param buf   receives the content
 * @param len   bytes to read
 * @return bytes read, less than @p len where saved memory ends, or -1 with errno EFAULT
 *   (no saved memory at @p addr), EIO, CR_EIMAGE
 */
extern ssize_t cr_image_read(cr_image_t *image, uint64_t addr, void *buf, size_t len);
/** Verify all checksums of the image. @return 0, or -1 with errno CR_EIMAGE */
extern int cr_image_verify(cr_image_t *image);
/** @return the saved state as JSON text, which the caller must free(); NULL with errno */
extern char *cr_image_json(cr_image_t *image);

/* --------------------------------------------------- old forms of requests */

#if defined(__GNUC__)
#define CR_DEPRECATED_ __attribute__((__deprecated__))
#else
#define CR_DEPRECATED_
#endif
/** Checkpoint the caller to context.PID and wait. Reports no error: use cr_request_checkpoint() instead. */
extern void cr_request(void) CR_DEPRECATED_;
/** Checkpoint the caller to a file and wait. Reports no error: use cr_request_checkpoint() instead. */
extern void cr_request_file(const char *filename) CR_DEPRECATED_;
/** Checkpoint the caller to a descriptor and wait. Reports no error: use cr_request_checkpoint() instead. */
extern void cr_request_fd(int fd) CR_DEPRECATED_;

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* REPRISE_LIBCR_H */
