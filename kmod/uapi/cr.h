/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * User interface of the Reprise module, /dev/cr.
 *
 * One open descriptor of /dev/cr is one *session*. CR_IOC_ATTACH binds a session
 * to one target process. The session lives until the descriptor is closed; the
 * close, or the death of its owner, thaws the target. The module does not know
 * the format of image files. It freezes a process, reports its state, takes
 * snapshots of its pages, restores pages and registers, and has a parked thread
 * make system calls that the session chooses. libcr decides in user space what
 * to save and in which order to restore it.
 *
 * Conventions
 *  - Every ioctl takes one structure by pointer and returns 0, or -1 with
 *    errno. Where a structure has a member `why`, it is filled in on failure.
 *  - The module writes the members marked "out" and reads all others.
 *  - Reserved members and unknown flags must be 0 (EINVAL).
 *  - An array is described by (buf, count): count is its capacity in elements
 *    on entry and the number of elements that exist on return. When the
 *    capacity is too small, the call fails with ENOBUFS and count is the
 *    capacity that is needed. With a count of 0, buf may be 0.
 *  - Addresses and lengths are in bytes unless a name says pages.
 *  - Every timeout has a ceiling: one day for thaw_after_ms, one hour for all
 *    others. The module reduces a larger value to the ceiling.
 *  - EDQUOT: the user already holds as many sessions, threads or snapshot pages
 *    as the module's parameters allow.
 *
 * ioctls marked [frozen] fail with ENOTCONN unless the target is frozen.
 */
#ifndef _UAPI_CR_H
#define _UAPI_CR_H

#include <linux/types.h>
#include <linux/ioctl.h>

#define CR_DEVICE	"/dev/cr"

/* Raised when the meaning of an ioctl changes; additions raise features. */
#define CR_API_VERSION	3

#define CR_FEAT_COW		(1ULL << 0)	/* CR_SNAP_PAGES */
#define CR_FEAT_TRACK		(1ULL << 1)	/* CR_SNAP_TRACK, CR_IOC_DIRTY */
#define CR_FEAT_RUN		(1ULL << 2)	/* CR_IOC_ARENA, CR_IOC_RUN */
#define CR_FEAT_AGENT		(1ULL << 3)	/* CR_IOC_AGENT_* */
#define CR_FEAT_LEASE		(1ULL << 4)	/* CR_IOC_LEASE */
#define CR_FEAT_GUARDS		(1ULL << 5)	/* CR_IOC_GUARDS, CR_VMA_DROPPABLE */
#define CR_FEAT_ORIGIN		(1ULL << 6)	/* CR_IOC_*ORIGIN, CR_NOTIFY_TELL, CR_PHASE_DONE, CR_AGENT_FAILED */
#define CR_FEAT_THREAD_CREDS	(1ULL << 7)	/* securebits and no_new_privs of every thread */
#define CR_FEAT_SHARERS		(1ULL << 8)	/* CR_IOC_SHARERS */
#define CR_FEAT_LINEAGE		(1ULL << 9)	/* CR_IOC_LINEAGE */
#define CR_FEAT_CHANGED		(1ULL << 10)	/* CR_SNAP_CHANGED */
#define CR_FEAT_DIGEST		(1ULL << 11)	/* CR_IOC_DIGEST */
#define CR_FEAT_SET_THREADS	(1ULL << 12)	/* CR_IOC_SET_THREADS */
#define CR_FEAT_ROLLBACK	(1ULL << 13)	/* CR_IOC_ROLLBACK, CR_AREA_CONTENT */
#define CR_FEAT_ROLLBACK_SELF	(1ULL << 14)	/* CR_IOC_ROLLBACK by a thread of the target */

/* Upper limits of the counts that a caller passes. */
#define CR_MAX_THREADS		32768
#define CR_MAX_RUNS		(1U << 26)
#define CR_MAX_CALLS		1024		/* calls of one CR_IOC_RUN */
#define CR_MAX_REGSET		65536		/* bytes of one register set */
#define CR_ID_SIZE		16		/* bytes of a checkpoint identity */

/**
 * enum cr_reason - why the module refused
 *
 * @arg of struct cr_why is the tid, descriptor, address, pid or number that the
 * comment of each reason names.
 */
enum cr_reason {
	CR_WHY_NONE = 0,
	CR_WHY_NOT_MEM_FD,	/* mem_fd is not an O_RDWR /proc/PID/mem; arg: fd */
	CR_WHY_SELF,		/* target is the caller; arg: pid */
	CR_WHY_GONE,		/* target has exited or exec'd; arg: pid */
	CR_WHY_KTHREAD,		/* kernel thread; arg: pid */
	CR_WHY_INIT,		/* pid 1 of its pid namespace; arg: pid */
	CR_WHY_COMPAT,		/* 32-bit task; arg: tid */
	CR_WHY_IO_URING,	/* uses io_uring; arg: tid */
	CR_WHY_SECCOMP,		/* seccomp filter or strict mode; arg: tid */
	CR_WHY_SHARED_MM,	/* address space shared with process arg */
	CR_WHY_STUCK,		/* thread did not park in time; arg: tid */
	CR_WHY_STOPPED,		/* thread is stopped and does not wake; arg: tid */
	CR_WHY_TRACED,		/* thread is traced (debugger, strace); arg: tid */
	CR_WHY_BUSY,		/* frozen by another session; arg: its owner's pid */
	CR_WHY_TOO_MANY,	/* more threads than CR_MAX_THREADS; arg: count */
	CR_WHY_LEADER_DEAD,	/* thread-group leader has exited; arg: pid */
	CR_WHY_ADDRESS,		/* mapping or address not usable; arg: address */
	CR_WHY_AIO,		/* mm has AIO contexts (io_setup); arg: pid */
	CR_WHY_THREAD,		/* no such parked thread; arg: tid */
	CR_WHY_SHADOW_STACK,	/* user shadow stack in use; arg: tid */
	CR_WHY_DISPATCH,	/* syscall user dispatch in use; arg: tid */
	CR_WHY_LEASE,		/* parked because a lease has expired; arg: pid */
	CR_WHY_SNAPSHOT_LIMIT,	/* the user's snapshots would keep too much; arg: limit in bytes */
};

struct cr_why {
	__u32 reason;		/* enum cr_reason */
	__u32 reserved;
	__u64 arg;
};

/* ------------------------------------------------------------ the session */

/*
 * CR_IOC_INFO: version and features of this module. Needs no target. Counts as an ioctl
 * of the session for thaw_after_ms, and waits for no other ioctl.
 */
struct cr_info {
	__u32 api_version;	/* out: CR_API_VERSION */
	__u32 page_size;	/* out */
	__u64 features;		/* out: CR_FEAT_* */
	__u64 arena_size;	/* out: bytes of the arena, code and gate included */
	__u64 reserved[4];
};

/*
 * CR_IOC_ATTACH: bind the session to the process whose /proc/PID/mem is mem_fd.
 * mem_fd must be open O_RDWR: the kernel makes its ptrace and LSM checks at that
 * open. An exec of the target invalidates the session.
 * EPERM (NOT_MEM_FD), EDEADLK (SELF), ESRCH (GONE), EISCONN (already bound, or has a lease),
 * EOPNOTSUPP (KTHREAD, INIT, COMPAT, TRACED …).
 */
struct cr_attach {
	__s32 mem_fd;
	__u32 flags;		/* 0 */
	__s32 pid;		/* out: tgid, in the caller's pid namespace */
	__u32 reserved;
	struct cr_why why;	/* out */
};

/*
 * CR_IOC_FREEZE: park every thread of the target. Idempotent when frozen.
 * Threads that a signal has stopped are parked, too; they stop again when they are let
 * go, unless SIGCONT has come. Nobody is told of either.
 * Fails with ETIMEDOUT (STUCK, STOPPED) and everything running on as before,
 * EBUSY (BUSY), EOPNOTSUPP (IO_URING, SECCOMP, COMPAT, SHARED_MM, TRACED …).
 */
struct cr_freeze {
	__u32 timeout_ms;	/* to park all threads; 0: 5000 */
	__u32 thaw_after_ms;	/* thaw after so long without an ioctl of the session; 0: 60000 */
	__u32 nthreads;		/* out */
	__u32 reserved;
	__u64 ns;		/* out: from the call until the last thread is parked */
	struct cr_why why;	/* out */
};

/*
 * CR_IOC_THAW: let the threads run. A thread that only made calls by CR_IOC_RUN
 * continues exactly where it was parked; a thread whose registers were set
 * continues with the new ones. The arena is unmapped. The committed stage ends.
 * CR_IOC_THAW does not wait: a thread that is still in a call of CR_IOC_RUN
 * continues in its old state when that call returns. Until then CR_IOC_FREEZE
 * waits, up to its timeout_ms. It then fails with ETIMEDOUT, or with EBUSY if
 * another session calls it.
 */
#define CR_THAW_KILL	1	/* SIGKILL the target instead */
struct cr_thaw {
	__u32 flags;		/* CR_THAW_* */
	__u32 reserved;
	__u64 frozen_ns;	/* out: how long the threads stood still */
};

/*
 * CR_IOC_COMMIT [frozen]: enter the committed stage, the point of no return. From
 * here on the death of the owner, a close or the thaw_after_ms timeout kills the
 * target, because a half-restored process must not run. Only CR_IOC_THAW lets it
 * run. The module keeps the session's snapshot even when memory runs out. Takes no
 * argument. ENXIO: the module has dropped the snapshot because memory ran out;
 * nothing has changed. To commit without a snapshot, call CR_IOC_SNAP_DROP first.
 */

/* -------------------------------------------------------- the target's state */

#define CR_THREAD_LEADER	1	/* tid == tgid */
#define CR_THREAD_BORN		2	/* made by CR_IOC_RUN (clone) in this freeze */
#define CR_THREAD_CREDS		4	/* has the leader's very credentials */
#define CR_THREAD_NO_NEW_PRIVS	8	/* no_new_privs, which is no part of them */

/* what prctl sets for one thread, and threads that it makes inherit */
#define CR_ATTR_NO_TSC		1	/* PR_SET_TSC: PR_TSC_SIGSEGV */
#define CR_ATTR_IO_FLUSHER	2	/* PR_SET_IO_FLUSHER */
#define CR_ATTR_MCE_POLICY	4	/* PR_MCE_KILL_SET: not the system's default … */
#define CR_ATTR_MCE_EARLY	8	/* … but PR_MCE_KILL_EARLY, else PR_MCE_KILL_LATE */

struct cr_thread {
	__s32 tid;		/* in the caller's pid namespace */
	__u32 flags;		/* CR_THREAD_* */
	__u64 sigmask;		/* blocked set as the program has set it */
	__u64 pending;		/* private pending set */
	__u64 altstack_sp;
	__u64 altstack_size;
	__u32 altstack_flags;
	__u32 rseq_len;
	__u64 rseq_addr;
	__u32 rseq_sig;
	__u32 personality;
	__u64 robust_list;
	__u64 clear_child_tid;
	__u64 restart_left_ns;	/* time left of a call parked with -ERESTART_RESTARTBLOCK;
				 * ~0: no such call, or it has no timeout
				 */
	__u64 timer_slack_ns;
	__s32 pdeath_signal;
	__s32 restart_nr;	/* the real call of one parked with -516; 0: none */
	__u32 securebits;
	__u32 attributes;	/* CR_ATTR_* */
	char  comm[16];
};

/* CR_IOC_THREADS [frozen]: array of struct cr_thread, leader first */
struct cr_array {
	__u64 buf;
	__u64 count;
};

/*
 * CR_IOC_GET_REGS, CR_IOC_SET_REGS [frozen]: one register set of one thread, in
 * the layout of its ELF core note (NT_PRSTATUS: struct user_regs_struct,
 * NT_PRFPREG, NT_X86_XSTATE). ax and orig_ax are as ptrace shows them: a parked
 * system call has orig_ax >= 0 and ax = -512, -513, -514 or -516.
 * GET: len is the capacity, out: size. ENOBUFS when too small.
 * SET: the kernel's regset code validates the set, which replaces the saved one.
 */
struct cr_regs {
	__s32 tid;
	__u32 type;		/* NT_* */
	__u64 buf;
	__u64 len;
	struct cr_why why;	/* out */
};

/* CR_IOC_SET_SIGMASK [frozen]: the blocked set of tid after the thaw */
struct cr_sigmask {
	__s32 tid;
	__u32 reserved;
	__u64 mask;
	struct cr_why why;	/* out */
};

/*
 * CR_IOC_SET_THREADS [frozen]: as CR_IOC_SET_REGS with NT_PRSTATUS and NT_X86_XSTATE and then
 * CR_IOC_SET_SIGMASK, for one thread after the other, up to the first that fails.
 * CR_REGS_RESTART: and then CR_IOC_SET_RESTART.
 */
#define CR_REGS_RESTART	1
struct cr_thread_regs {
	__s32 tid;
	__u32 flags;		/* CR_REGS_* */
	__u64 sigmask;
	__u64 general;		/* address of a struct user_regs_struct */
	__u64 extended;		/* address of its NT_X86_XSTATE */
	__u64 extended_len;	/* bytes; 0: leave them as they are */
};
struct cr_set_threads {
	__u64 threads;		/* address of struct cr_thread_regs[count] */
	__u32 count;		/* at most CR_MAX_THREADS */
	__u32 room;		/* the largest extended_len, at most CR_MAX_REGSET */
	__u32 done;		/* out: threads that are set, in their order */
	__u32 reserved;
	struct cr_why why;	/* out */
};

/*
 * CR_IOC_SET_RESTART [frozen]: restore the restart block of tid from the session's
 * snapshot, with the time that was left when the snapshot was taken. The registers
 * of tid must be set to a call parked with -ERESTART_RESTARTBLOCK (-516) before.
 * ENOENT: the snapshot has no restart block of this thread. Issue the call again
 * by CR_IOC_RUN with CR_RUN_BLOCK instead.
 */
struct cr_restart {
	__s32 tid;
	__u32 reserved;
	struct cr_why why;	/* out */
};

struct cr_sigaction {		/* struct kernel sigaction of x86-64 */
	__u64 handler;
	__u64 flags;
	__u64 restorer;
	__u64 mask;
};

/* CR_IOC_PROCESS [frozen]: state of the process that user space cannot read elsewhere */
struct cr_process {
	__u64 start_code, end_code, start_data, end_data;
	__u64 start_brk, brk, start_stack;
	__u64 arg_start, arg_end, env_start, env_end;
	__u64 vdso;		/* address of the vdso, 0 if none */
	__u64 shared_pending;	/* pending set of the process */
	__u64 itimer_value_ns[3];	/* ITIMER_REAL, _VIRTUAL, _PROF; 0: not armed */
	__u64 itimer_interval_ns[3];
	__u64 mm_flags_thp_disabled;
	__u32 dumpable;
	__u32 auxv_words;	/* number of valid words in auxv */
	__u64 auxv[64];
	struct cr_sigaction action[64];	/* [signal - 1] */
	__u32 child_subreaper;	/* 0 or 1 */
	__u32 securebits;
	__u32 stopped;		/* 1: by a signal (job control), or about to be */
	__u32 ldt_entries;	/* of its local descriptor table, 0: it has none */
	__u32 pkeys;		/* protection keys that are allocated, as bits; 0: no such thing */
	__u32 mdwe;		/* as PR_GET_MDWE tells */
	/* CR_VMA_* that new mappings get: LOCKED, LOCKONFAULT (mlockall), MERGEABLE (prctl) */
	__u64 future;
	__u32 membarrier;	/* MEMBARRIER_CMD_REGISTER_* that are in force */
	__u32 reserved0;
	__u64 reserved[3];
};

/* stable names for the kernel's vm_flags */
#define CR_VMA_READ		(1ULL << 0)
#define CR_VMA_WRITE		(1ULL << 1)
#define CR_VMA_EXEC		(1ULL << 2)
#define CR_VMA_SHARED		(1ULL << 3)
#define CR_VMA_GROWSDOWN	(1ULL << 4)
#define CR_VMA_LOCKED		(1ULL << 5)
#define CR_VMA_LOCKONFAULT	(1ULL << 6)
#define CR_VMA_NORESERVE	(1ULL << 7)
#define CR_VMA_HUGEPAGE		(1ULL << 8)	/* MADV_HUGEPAGE */
#define CR_VMA_NOHUGEPAGE	(1ULL << 9)
#define CR_VMA_MERGEABLE	(1ULL << 10)	/* KSM */
#define CR_VMA_DONTFORK		(1ULL << 11)
#define CR_VMA_WIPEONFORK	(1ULL << 12)
#define CR_VMA_DONTDUMP		(1ULL << 13)
#define CR_VMA_SEQ_READ		(1ULL << 14)
#define CR_VMA_RAND_READ	(1ULL << 15)
#define CR_VMA_FILE		(1ULL << 16)	/* has a file; shared anonymous memory has one, too */
#define CR_VMA_SHMEM		(1ULL << 17)	/* that file is shmem: anonymous, memfd, tmpfs */
#define CR_VMA_SPECIAL		(1ULL << 18)	/* vdso, vvar, vsyscall and similar */
#define CR_VMA_DEVICE		(1ULL << 19)	/* VM_IO, VM_PFNMAP or VM_MIXEDMAP: cannot be saved */
#define CR_VMA_HUGETLB		(1ULL << 20)
#define CR_VMA_UFFD		(1ULL << 21)	/* userfaultfd registered */
#define CR_VMA_SHADOW_STACK	(1ULL << 22)
#define CR_VMA_SEALED		(1ULL << 23)	/* mseal */
#define CR_VMA_MAYWRITE		(1ULL << 24)
#define CR_VMA_PAGES		(1ULL << 25)	/* private and plain: CR_IOC_SNAPSHOT saves its pages */
#define CR_VMA_ARENA		(1ULL << 26)	/* the session's own arena */
#define CR_VMA_DROPPABLE	(1ULL << 27)	/* MAP_DROPPABLE: the kernel may drop its pages any time */
#define CR_VMA_POLICY		(1ULL << 28)	/* has a NUMA policy of its own (mbind) */
#define CR_VMA_ELSEWHERE	(1ULL << 29)	/* shared, and another process maps it, too */

struct cr_vma {
	__u64 start, end;
	__u64 flags;		/* CR_VMA_* */
	__u64 offset;		/* in the file, bytes */
	__u64 ino;
	__u32 dev_major, dev_minor;
	__u32 pkey;
	__u32 reserved;
};
/* CR_IOC_VMAS [frozen]: struct cr_array of struct cr_vma, by address */

#define CR_FD_CLOEXEC	1
#define CR_FD_CR	2	/* a descriptor of /dev/cr */
struct cr_fd {
	__s32 fd;
	__u32 flags;		/* CR_FD_* */
	__s32 same_as;		/* lowest descriptor with the same open file description */
	__u32 f_flags;		/* O_* as F_GETFL shows them */
	__u64 pos;
	__u64 ino;
	__u64 refs;		/* reference count of the description, system-wide */
	__u32 refs_here;	/* of these: descriptors of this process */
	__u32 mode;		/* S_IF* and permissions of the inode */
	__u64 serial;		/* identifies the description while it exists, never 0 */
	__s32 owner_pid;	/* F_SETOWN, in the target's pid namespace; < 0: a process group */
	__u32 owner_signal;	/* F_SETSIG */
};
/* CR_IOC_FDS [frozen]: struct cr_array of struct cr_fd, by number */

/* CR_IOC_SIGPENDING [frozen]: siginfo_t (128 bytes each) of pending signals */
struct cr_sigpending {
	__s32 tid;		/* 0: shared by the process */
	__u32 reserved;
	struct cr_array infos;
};

/*
 * CR_IOC_GET_FILE [frozen]: install an open file of the target in the caller. For
 * CR_FILE_FD the new descriptor refers to the target's description. For a mapping
 * or the executable it refers to a new description with the access of the mapping:
 * O_RDWR if the mapping is shared and may become writable, otherwise O_RDONLY.
 * A mapped file that is not regular is opened with O_PATH.
 */
enum cr_file_kind {
	CR_FILE_FD = 0,		/* which: descriptor number */
	CR_FILE_VMA = 1,	/* which: any address in the mapping */
	CR_FILE_EXE = 2,	/* the executable */
};
struct cr_get_file {
	__u32 kind;
	__s32 fd;		/* out: close-on-exec */
	__u64 which;
};

/*
 * CR_IOC_PUT_FILE [frozen]: install the caller's descriptor fd in the target. The
 * kernel chooses the number; use dup3 through CR_IOC_RUN to move it.
 * fd -1: a new, unbound descriptor of /dev/cr, for a process that uses libcr.
 */
struct cr_put_file {
	__s32 fd;
	__u32 flags;		/* CR_FD_CLOEXEC */
	__s32 target_fd;	/* out */
	__u32 reserved;
};

/*
 * CR_IOC_SHARERS [frozen]: do other processes than the target map the caller's file fd as
 * shared memory? It is a regular file (EINVAL), memfds and shared anonymous memory included.
 * Whoever only holds a descriptor of it is not counted.
 */
struct cr_sharers {
	__s32 fd;
	__u32 flags;		/* 0 */
	__u64 mappings;		/* out: their shared mappings of it, read-only ones included */
	__s32 pid;		/* out: one such process, 0: none that the caller may know of */
	__u32 reserved;
};

/* ------------------------------------------------------------ system calls */

/*
 * CR_IOC_ARENA [frozen]: map the arena into the target. The arena is one page of
 * code, one gate page on which a thread parks again, and data pages. The caller
 * maps the data pages too (mmap of the session, offset 0) and writes the data
 * that the arguments of calls point to. The target sees them at data_addr. addr
 * must be page aligned and arena_size bytes from there must be unmapped; with 0
 * the kernel chooses the address. A second call moves the arena. CR_IOC_THAW
 * unmaps it. The target can neither change its protection nor move or split it.
 */
struct cr_arena {
	__u64 addr;		/* in: requested address or 0; out: address */
	__u64 data_addr;	/* out: address of the data pages in the target */
	__u64 data_size;	/* out */
	struct cr_why why;	/* out: ADDRESS */
};

#define CR_CALL_STOP	(1U << 0)	/* a result < 0 ends the batch after this call */
struct cr_call {		/* 64 bytes */
	__u32 nr;
	__u32 flags;		/* CR_CALL_* */
	__u64 arg[6];
	__s64 ret;		/* out: result or -errno */
};

/*
 * CR_IOC_RUN [frozen]: tid makes ncalls system calls, one after the other, and parks
 * again. It makes them in user mode, in its own context, with its own rights, and with
 * all signals but SIGKILL blocked. The module stores each result and loads the next
 * call; it copies the results to calls when the thread has parked.
 * - clone or clone3 with CLONE_THREAD creates a thread that parks at its first
 *   instruction (CR_THREAD_BORN). If it is thawed before its registers are set, it exits.
 *   The arguments of clone3 must lie in the arena.
 * - exit ends the thread: `gone` is 1 on return.
 * - execve, execveat, rt_sigreturn, fork, vfork and a clone without CLONE_THREAD or with
 *   CLONE_VFORK are not made; their result is EPERM.
 * CR_RUN_BLOCK: the only call of the batch is expected to block. As soon as it sleeps the
 * module interrupts it, so that the thread parks in this call. Set its registers by
 * CR_IOC_SET_REGS afterwards, with ax = `ret`.
 * EINTR: the target was killed. ETIMEDOUT: a call did not return in time; the module has
 * interrupted the thread. EIO: the thread ran other code than the arena's. EDQUOT: the
 * batch may create more threads than max_threads allows; no call was made.
 */
#define CR_RUN_BLOCK	1
struct cr_run {
	__s32 tid;
	__u32 ncalls;
	__u64 calls;		/* pointer to struct cr_call[ncalls], in the caller */
	__u32 flags;		/* CR_RUN_* */
	__u32 timeout_ms;	/* 0: 10000 */
	__u32 done;		/* out: calls that were made */
	__u32 gone;		/* out: 1 when the thread has ended */
	__s64 ret;		/* out: result of the last call that was made */
	struct cr_why why;	/* out */
};

/*
 * CR_IOC_DIGEST [frozen]: digests of the target's state. Two equal ones of the same process and
 * area mean that this state has not changed. 0: the area has state that the module cannot
 * compare: a lock on a file, a pending signal, a timer, a NUMA policy, a pipe that is not empty, an
 * epoll set that others have open, an upper layer protocol of a TCP connection (TLS) …. Digests
 * say nothing after the module was loaded anew. No digest covers pages, guard pages, the content
 * of shared memory, registers, signal masks and restart blocks, nor the state of sockets,
 * terminals, other devices, and of other files that the kernel makes for calls, as inotify.
 */
enum cr_area {
	CR_AREA_MAPPINGS = 0,	/* CR_IOC_VMAS, and which files are mapped */
	CR_AREA_DESCRIPTORS,	/* CR_IOC_FDS, size and time of files that it may write to */
	CR_AREA_PROCESS,	/* CR_IOC_PROCESS, limits, directories, umask, OOM score … */
	CR_AREA_THREADS,	/* CR_IOC_THREADS, credentials, scheduling, CPUs */
	CR_AREA_CONTENT,	/* pipes and FIFOs; eventfds, timerfds, signalfds, epoll sets */
	CR_AREAS,
};
struct cr_digest {
	__u64 area[CR_AREAS];	/* out: by enum cr_area */
	__u64 reserved[3];	/* out: 0 */
};

/* ------------------------------------------------------------------- pages */

#define CR_SNAP_PAGES	1	/* keep the pages, copy-on-write: pread(2), CR_IOC_RESTORE */
#define CR_SNAP_TRACK	2	/* track written pages from now on, under this id */
#define CR_SNAP_SPLIT	4	/* with TRACK: map huge pages by small pages first, so that
				 * writes are tracked in pages and not in units of 2 MB
				 */
#define CR_SNAP_CHANGED	8	/* with PAGES: only what CR_IOC_DIRTY reports under this id */
/*
 * CR_IOC_SNAPSHOT [frozen]: take a snapshot of every mapping with CR_VMA_PAGES. A
 * session has at most one snapshot; a new one replaces it. Memory with
 * CR_VMA_DROPPABLE or CR_VMA_WIPEONFORK never has CR_VMA_PAGES: random number
 * generators keep their state there, and the same state must not be used twice.
 * EDQUOT (SNAPSHOT_LIMIT): the user's snapshots would keep more memory than the
 * module parameter snapshot_limit allows a user without CAP_IPC_LOCK. When memory
 * runs out, the module drops snapshots before the kernel kills a process, those of
 * ended processes first. A dropped snapshot gives ENXIO. Tracking belongs to the
 * process, not to the session: it outlives the descriptor. It ends with the process,
 * with another CR_SNAP_TRACK or CR_RESTORE_TRACK, or when another process clears the
 * soft-dirty bits. pread(2) of the session reads snapshot pages, also after
 * CR_IOC_THAW; the offset is the address. It reads whole pages, and fails with ENXIO
 * for a page that the snapshot does not hold.
 * CR_SNAP_CHANGED: the snapshot holds only pages that may have changed since tracking began
 * under `id`. With CR_SNAP_TRACK the same walk begins the next period, under `next`. ESTALE:
 * the process is not, or no longer, tracked under this id; a snapshot of before may be gone.
 */
struct cr_snapshot {
	__u32 flags;		/* CR_SNAP_* */
	__u32 reserved;
	__u8  id[CR_ID_SIZE];
	__u8  next[CR_ID_SIZE];	/* with CR_SNAP_CHANGED and CR_SNAP_TRACK; else 0 */
	__u64 pages;		/* out: pages held; without CR_SNAP_PAGES: present or swapped */
	__u64 copied;		/* out: of these, copied at once because pinned for DMA */
	__u64 overhead;		/* out: bytes of kernel memory, pages not included */
	__u64 ns;		/* out */
	struct cr_why why;	/* out */
};

struct cr_range { __u64 addr, len; };		/* bytes, page aligned */
/* CR_IOC_SNAP_RUNS: struct cr_array of struct cr_range: the snapshot's pages, by address */
/* CR_IOC_SNAP_DROP: drop the snapshot. No argument; tracking continues */
/*
 * CR_IOC_SNAP_CLEAN: struct cr_array of struct cr_range: the pages that a snapshot with
 * CR_SNAP_CHANGED does not hold since they are there and unchanged, by address. Those of adjacent
 * mappings may be one range. Of another snapshot: none.
 */

/*
 * CR_IOC_GUARDS [frozen]: struct cr_array of struct cr_range: guard pages
 * (MADV_GUARD_INSTALL) in mappings of every kind, by address. A range never crosses
 * the end of a mapping. A snapshot does not hold guard pages; install and remove
 * them by madvise.
 */

/*
 * CR_IOC_DIRTY [frozen]: all memory in mappings with CR_VMA_PAGES that may have
 * changed since tracking under id began: pages written, added or dropped since, and
 * memory that never had pages (a hole is one range, whatever its size).
 * ESTALE: the process is not, or no longer, tracked under this id. Treat all memory
 * as changed.
 */
struct cr_dirty {
	__u8  id[CR_ID_SIZE];
	struct cr_array ranges;	/* struct cr_range */
};

/*
 * CR_IOC_LINEAGE [frozen or not]: a value by which a restarted process is recognized as
 * the process that was saved. The module keeps it until the process ends or execs; a
 * forked child does not inherit it. Get: ENODATA if none was set.
 */
#define CR_LINEAGE_SET	1
struct cr_lineage {
	__u8  id[CR_ID_SIZE];	/* set: in; get: out */
	__u32 flags;		/* CR_LINEAGE_SET, 0: get */
	__u32 reserved;
};

struct cr_page_run {
	__u64 addr;		/* in the target */
	__u64 len;		/* bytes, page aligned */
	__u64 offset;		/* of the content, in source_fd; page aligned */
};

/*
 * CR_IOC_RESTORE [frozen]: restore pages. The parked threads do it in parallel.
 * `scope` lists ranges of private mappings, sorted and not overlapping; `runs` lists
 * pages with content, sorted and inside the scope. The pages of `runs` get their
 * content from source_fd. With source_fd -1 `runs` must be empty and the content
 * comes from the session's snapshot. All other anonymous pages in the scope are
 * dropped, so that they read as never written. source_fd must be of a regular file
 * (else EINVAL). ENODATA: the file is shorter than the runs need. A guard page is
 * removed where there is content, and stays where there is none. Memory with
 * CR_VMA_DROPPABLE or CR_VMA_WIPEONFORK loses all its pages, inside and outside of
 * the scope, as in a child after fork.
 * CR_RESTORE_DIRTY: skip pages that are unchanged according to tracking under `id`.
 * ESTALE: the process is not tracked under `id`; nothing has changed.
 * CR_RESTORE_TRACK: track from now on under `id`. A restore from the snapshot that fails ends the
 * tracking. With CR_RESTORE_DIRTY the scope may be the result of CR_IOC_DIRTY. Memory outside the
 * scope then keeps its content. A mapping that is younger than the tracking counts as unchanged
 * from then on, also outside the scope. An older one keeps its tracking state there.
 * CR_RESTORE_PART, only with both others: the scope is a part of that result. Calls for the rest
 * follow, and the last has no such flag. Until then younger mappings keep their tracking state.
 */
#define CR_RESTORE_DIRTY	1
#define CR_RESTORE_TRACK	2
#define CR_RESTORE_PART		4
struct cr_restore {
	__s32 source_fd;
	__u32 flags;		/* CR_RESTORE_* */
	__u8  id[CR_ID_SIZE];
	__u64 runs, nruns;	/* struct cr_page_run[] */
	__u64 scope, nscope;	/* struct cr_range[] */
	__u32 max_workers;	/* threads to use; 0: as many as there are online CPUs */
	__u32 workers;		/* out: threads used */
	__u64 restored, dropped, unchanged;	/* out: pages */
	__u64 ns;		/* out */
	struct cr_why why;	/* out */
};

/*
 * CR_IOC_ROLLBACK [not frozen]: roll a process back to the session's snapshot in one call, if
 * nothing but what this call restores has changed: CR_IOC_FREEZE, CR_IOC_DIGEST, CR_IOC_COMMIT,
 * CR_IOC_RESTORE, CR_IOC_SET_THREADS, CR_IOC_THAW. `area` are the digests of the time of the
 * snapshot. `counter` is not rolled back: it gets a value higher than it had, and than `value`.
 *
 * It takes away what the process has more than in the snapshot, if it is told what it had:
 * `mappings` with each mapping and `brk` with the end of the heap, `fds` with each open descriptor
 * and the position of its file. Memory elsewhere is unmapped, the heap is cut back, other
 * descriptors are closed, and regular files get their position back. Without `mappings` or `fds`,
 * these must be as they were. Some cannot be taken away: special, huge, sealed and device memory,
 * descriptors of /dev/cr, files with locks, and more than 64 of one kind.
 *
 * result	ioctl	target
 * DONE		0	rolled back, runs
 * DIFFERS	0	unchanged, frozen: a digest differs or is 0, there are guard pages, the tag
 *			of the counter is not there, or the counter would exceed 2^63 - 1
 * NONE		fails	unchanged, runs or is frozen as before. EINVAL: it is frozen, or a member is
 *			wrong. Else the error of one of these ioctls
 * BROKEN	fails	half restored, frozen: an error after the commit, for example EINVAL for
 *			registers that the processor does not take
 *
 * A thread of the target can make the call, too, by a descriptor of the session that it has
 * inherited or got from another process. It goes on behind the call with the memory of the
 * snapshot and with its own registers; of its entry in `threads` only the signal mask is used. The
 * argument and what it points to must be in memory that is not restored, as shared memory outside
 * of `pages.scope`. The target is never left frozen: DIFFERS is unchanged and runs, BROKEN is killed.
 * EBUSY: another thread makes an ioctl of the session. EINTR: another freeze waits for the caller.
 */
struct cr_counter {		/* a __u64 in the target's memory, with the tag behind it */
	__u64 addr;		/* 0: none */
	__u64 value;
	__u8  tag[24];
};
struct cr_fd_pos {
	__s32 fd;
	__u32 reserved;
	__u64 pos;
};
#define CR_ROLLBACK_NONE	0
#define CR_ROLLBACK_DONE	1
#define CR_ROLLBACK_DIFFERS	2
#define CR_ROLLBACK_BROKEN	3
struct cr_rollback {
	struct cr_freeze freeze;
	__u64 area[CR_AREAS];		/* in: by enum cr_area */
	struct cr_restore pages;	/* source_fd is -1 */
	struct cr_set_threads threads;
	struct cr_counter counter;
	__u64 mappings, nmappings;	/* struct cr_range[], by address, not overlapping */
	__u64 fds, nfds;		/* struct cr_fd_pos[], by number */
	__u64 brk;
	__u64 frozen_ns;		/* out: as CR_IOC_THAW */
	__u32 result;			/* out: CR_ROLLBACK_* */
	__u32 reserved;
};

/* ------------------------------------------------------------------ agents */
/*
 * An agent is a thread of a process that uses libcr. It waits in the module for
 * requests to its process and runs the registered callbacks before and after them.
 *
 *   agent: AGENT_WAIT -> CHECKPOINT, runs callbacks, AGENT_READY -> (parked here,
 *   part of the image) -> CONTINUE | PAUSED | RESTARTED, runs callbacks, AGENT_WAIT
 *   session: NOTIFY(CHECKPOINT), waits for READY, FREEZE … OUTCOME, THAW
 */
enum cr_phase {
	CR_PHASE_NONE = 0,
	CR_PHASE_CHECKPOINT = 1,	/* prepare: a checkpoint will be taken */
	CR_PHASE_CONTINUE = 2,		/* the checkpoint was taken: continue */
	CR_PHASE_RESTARTED = 3,		/* this is a new process, restarted from the image */
	CR_PHASE_PAUSED = 4,		/* this process was rolled back in place */
	CR_PHASE_ABORTED = 5,		/* no checkpoint was taken, go on */
	CR_PHASE_PAUSE = 6,		/* prepare: a rollback will follow; state is about to be lost */
	CR_PHASE_DONE = 7,		/* NOTIFY: wait until what follows the outcome is over */
};

/*
 * CR_IOC_AGENT_WAIT: block until a session notifies this process. flags 0; with
 * CR_AGENT_FAILED it returns at once: a callback has failed behind the outcome, and
 * status (a positive errno) is for the session that waits for CR_PHASE_DONE.
 * CR_IOC_AGENT_READY: callbacks have run (status 0) or refuse (status: a positive
 * errno, given to the session); blocks until the outcome. When called on a
 * session that never waited (a restarted process: libcr's descriptor was made
 * anew) it registers the caller and takes the outcome that the restorer set.
 * Both are restarted after being parked. `phase` is the outcome.
 */
#define CR_AGENT_FAILED	1
struct cr_agent {
	__u32 flags;		/* CR_AGENT_* */
	__s32 status;
	__u32 phase;		/* out: enum cr_phase */
	__u32 request_flags;	/* out: as given to CR_IOC_NOTIFY or CR_IOC_OUTCOME */
	__s32 requester;	/* out: pid; see CR_IOC_ORIGIN */
	__u32 reserved;
};

/*
 * CR_IOC_NOTIFY: tell the target's agent (not frozen) and wait until it is ready;
 * while it still runs what callbacks of an earlier request do behind the outcome, that
 * is waited for, too. ENOENT: the process has no agent (nothing to wait for).
 * EBUSY: another session's request is under way, or the callbacks of an earlier one
 * have not returned in time. ETIMEDOUT. ECANCELED: the callbacks refused; status says
 * how. After an error, and when the session ends without an outcome, an agent that
 * has been told hears ABORTED.
 * With CR_NOTIFY_TELL: return when it has been told. The next call waits for the rest.
 * Phase NONE: ask whether it could be told now, and tell nothing. 0, ENOENT, EBUSY.
 * Phase DONE: wait until the agent waits again that has heard the outcome from this
 * session. ENOENT: its process has ended, or there is none. ECANCELED: a callback has
 * failed; status says how.
 * CR_IOC_OUTCOME [frozen or not]: what the agent's AGENT_READY shall return.
 * EBUSY: another session has notified the agent.
 */
#define CR_NOTIFY_TELL	0x100
struct cr_notify {
	__u32 phase;		/* CHECKPOINT, PAUSE (and CR_NOTIFY_TELL), NONE, DONE; outcome: CONTINUE, PAUSED, … */
	__u32 flags;		/* passed on */
	__u32 timeout_ms;	/* 0: 60000 */
	__s32 status;		/* out: as passed to CR_IOC_AGENT_READY */
};

/*
 * CR_IOC_ORIGIN: for the agent that this session will notify, or tell the outcome: the
 * path of the image, and on whose behalf the session acts (0: the caller). Whoever may
 * attach may say what he likes here: it is for the program to read, nobody relies on it.
 * CR_IOC_AGENT_ORIGIN: the same, for an agent, of the last one that it was told of. The
 * path is empty when there is none, and cut at len.
 */
struct cr_origin {
	__u64 path;		/* address of a string */
	__u32 len;		/* bytes there with its NUL; ORIGIN: 0 for none. out: bytes needed */
	__s32 requester;	/* pid */
};

/* ------------------------------------------------------------------- leases */
/*
 * CR_IOC_LEASE: the descendants of the calling process, the holder, may run until until_ns
 * (CLOCK_BOOTTIME, at most one day from now). Needs a descriptor without a target, and no
 * descriptor has both (EISCONN). Only the holder may renew the lease (a later until_ns) or end
 * it (until_ns 0). If it does not, because it hangs, is stopped or gets no CPU time, the module
 * parks every thread of every descendant that the holder could send a signal when it began the
 * lease, see kill(2), also threads that CR_IOC_FREEZE refuses. A thread that signals have
 * stopped parks when it is continued. All run on when the lease is renewed or ended.
 *
 * A close of the descriptor by the holder ends the lease, also when other processes have copies
 * of it, and so does the end of the holder. With CR_LEASE_KILL the module then kills these
 * descendants.
 *
 * The descendants are the children of the holder's threads, their children, and so on. A process
 * whose parent has ended stays one if the holder, or a descendant, is its next parent
 * (PR_SET_CHILD_SUBREAPER), if the lease had expired before, or with CR_LEASE_KILL. A child
 * that shares the holder's memory (vfork) is not parked before its exec. The holder must not
 * wait without a time limit for anything that only its descendants do.
 */
#define CR_LEASE_KILL	1	/* the holder's close or end kills its descendants */
struct cr_lease {
	__u64 until_ns;
	__u32 flags;		/* CR_LEASE_* */
	__u32 expired;		/* out: 1 if the lease had expired */
};

#define CR_IOC_MAGIC		0xC7
#define CR_IOC_INFO		_IOR(CR_IOC_MAGIC, 0, struct cr_info)
#define CR_IOC_ATTACH		_IOWR(CR_IOC_MAGIC, 1, struct cr_attach)
#define CR_IOC_FREEZE		_IOWR(CR_IOC_MAGIC, 2, struct cr_freeze)
#define CR_IOC_THAW		_IOWR(CR_IOC_MAGIC, 3, struct cr_thaw)
#define CR_IOC_COMMIT		_IO(CR_IOC_MAGIC, 4)
#define CR_IOC_THREADS		_IOWR(CR_IOC_MAGIC, 5, struct cr_array)
#define CR_IOC_GET_REGS		_IOWR(CR_IOC_MAGIC, 6, struct cr_regs)
#define CR_IOC_SET_REGS		_IOWR(CR_IOC_MAGIC, 7, struct cr_regs)
#define CR_IOC_SET_SIGMASK	_IOWR(CR_IOC_MAGIC, 8, struct cr_sigmask)
#define CR_IOC_SET_RESTART	_IOWR(CR_IOC_MAGIC, 9, struct cr_restart)
#define CR_IOC_PROCESS		_IOR(CR_IOC_MAGIC, 10, struct cr_process)
#define CR_IOC_VMAS		_IOWR(CR_IOC_MAGIC, 11, struct cr_array)
#define CR_IOC_FDS		_IOWR(CR_IOC_MAGIC, 12, struct cr_array)
#define CR_IOC_SIGPENDING	_IOWR(CR_IOC_MAGIC, 13, struct cr_sigpending)
#define CR_IOC_GET_FILE		_IOWR(CR_IOC_MAGIC, 14, struct cr_get_file)
#define CR_IOC_PUT_FILE		_IOWR(CR_IOC_MAGIC, 15, struct cr_put_file)
#define CR_IOC_ARENA		_IOWR(CR_IOC_MAGIC, 16, struct cr_arena)
#define CR_IOC_RUN		_IOWR(CR_IOC_MAGIC, 17, struct cr_run)
#define CR_IOC_SNAPSHOT		_IOWR(CR_IOC_MAGIC, 18, struct cr_snapshot)
#define CR_IOC_SNAP_RUNS	_IOWR(CR_IOC_MAGIC, 19, struct cr_array)
#define CR_IOC_SNAP_DROP	_IO(CR_IOC_MAGIC, 20)
#define CR_IOC_DIRTY		_IOWR(CR_IOC_MAGIC, 21, struct cr_dirty)
#define CR_IOC_RESTORE		_IOWR(CR_IOC_MAGIC, 22, struct cr_restore)
#define CR_IOC_AGENT_WAIT	_IOWR(CR_IOC_MAGIC, 23, struct cr_agent)
#define CR_IOC_AGENT_READY	_IOWR(CR_IOC_MAGIC, 24, struct cr_agent)
#define CR_IOC_NOTIFY		_IOWR(CR_IOC_MAGIC, 25, struct cr_notify)
#define CR_IOC_OUTCOME		_IOWR(CR_IOC_MAGIC, 26, struct cr_notify)
#define CR_IOC_LEASE		_IOWR(CR_IOC_MAGIC, 27, struct cr_lease)
#define CR_IOC_GUARDS		_IOWR(CR_IOC_MAGIC, 28, struct cr_array)
#define CR_IOC_ORIGIN		_IOW(CR_IOC_MAGIC, 29, struct cr_origin)
#define CR_IOC_AGENT_ORIGIN	_IOWR(CR_IOC_MAGIC, 30, struct cr_origin)
#define CR_IOC_SHARERS		_IOWR(CR_IOC_MAGIC, 31, struct cr_sharers)
#define CR_IOC_LINEAGE		_IOWR(CR_IOC_MAGIC, 32, struct cr_lineage)
#define CR_IOC_DIGEST		_IOR(CR_IOC_MAGIC, 33, struct cr_digest)
#define CR_IOC_SET_THREADS	_IOWR(CR_IOC_MAGIC, 34, struct cr_set_threads)
#define CR_IOC_ROLLBACK		_IOWR(CR_IOC_MAGIC, 35, struct cr_rollback)
#define CR_IOC_SNAP_CLEAN	_IOWR(CR_IOC_MAGIC, 36, struct cr_array)

#endif /* _UAPI_CR_H */
