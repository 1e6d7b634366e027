/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * User interface of the Reprise module, /dev/cr.
 *
 * One open descriptor of /dev/cr is one *session*. A session is bound to one
 * target process by CR_IOC_ATTACH and lives until the descriptor is closed;
 * closing it (or the death of its owner) thaws the target. The module knows
 * nothing of image files: it freezes, tells, takes snapshots of pages, puts
 * pages and registers back, and lets a parked thread make system calls of the
 * session's choosing. What to save and in which order to restore is decided in
 * user space by libcr.
 *
 * Conventions
 *  - Every ioctl takes one structure by pointer and returns 0, or -1 with
 *    errno. Where a structure has a member `why`, it is filled in on failure.
 *  - "out" members are written by the module, all others are read by it.
 *  - Reserved members and unknown flags must be 0 (EINVAL).
 *  - An array is described by (buf, count): count is its capacity in elements
 *    on entry and the number of elements that exist on return. When the
 *    capacity is too small the call fails with ENOBUFS and count says how many
 *    are needed; buf may be 0 then.
 *  - Addresses and lengths are in bytes unless a name says pages.
 *  - Every timeout has a ceiling, and what is above is taken as that: an hour, or a
 *    day for thaw_after_ms.
 *  - EDQUOT: the user holds as much as the module's parameters allow (sessions,
 *    threads, snapshot pages).
 *
 * ioctls marked [frozen] fail with ENOTCONN unless the target is frozen.
 */
#ifndef _UAPI_CR_H
#define _UAPI_CR_H

#include <linux/types.h>
#include <linux/ioctl.h>

#define CR_DEVICE	"/dev/cr"

/* Raised when the meaning of an ioctl changes; additions raise features. */
#define CR_API_VERSION	2

#define CR_FEAT_COW		(1ULL << 0)	/* CR_SNAP_PAGES */
#define CR_FEAT_TRACK		(1ULL << 1)	/* CR_SNAP_TRACK, CR_IOC_DIRTY */
#define CR_FEAT_RUN		(1ULL << 2)	/* CR_IOC_ARENA, CR_IOC_RUN */
#define CR_FEAT_AGENT		(1ULL << 3)	/* CR_IOC_AGENT_* */
#define CR_FEAT_LEASE		(1ULL << 4)	/* CR_IOC_LEASE */
#define CR_FEAT_GUARDS		(1ULL << 5)	/* CR_IOC_GUARDS, CR_VMA_DROPPABLE */
#define CR_FEAT_ORIGIN		(1ULL << 6)	/* CR_IOC_*ORIGIN, CR_NOTIFY_TELL, CR_PHASE_DONE, CR_AGENT_FAILED */
#define CR_FEAT_THREAD_CREDS	(1ULL << 7)	/* securebits and no_new_privs of every thread */
#define CR_FEAT_SHARERS		(1ULL << 8)	/* CR_IOC_SHARERS */

/* limits, so that no count from outside is unbounded */
#define CR_MAX_THREADS		32768
#define CR_MAX_RUNS		(1U << 26)
#define CR_MAX_CALLS		1024		/* calls of one CR_IOC_RUN */
#define CR_MAX_REGSET		65536		/* bytes of one register set */
#define CR_ID_SIZE		16		/* bytes of a checkpoint identity */

/**
 * enum cr_reason - why the module refused
 *
 * @arg of struct cr_why is the tid, descriptor, address or pid it is about.
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
	CR_WHY_LEASE,		/* parked because its lease has run out; arg: pid */
	CR_WHY_SNAPSHOT_LIMIT,	/* the user's snapshots would keep too much; arg: bytes allowed */
};

struct cr_why {
	__u32 reason;		/* enum cr_reason */
	__u32 reserved;
	__u64 arg;
};

/* ------------------------------------------------------------ the session */

/* CR_IOC_INFO: what this module offers. Needs no target. */
struct cr_info {
	__u32 api_version;	/* out: CR_API_VERSION */
	__u32 page_size;	/* out */
	__u64 features;		/* out: CR_FEAT_* */
	__u64 arena_size;	/* out: bytes of the arena, code and gate included */
	__u64 reserved[4];
};

/*
 * CR_IOC_ATTACH: bind the session to the process whose memory mem_fd is.
 * mem_fd is an O_RDWR descriptor of /proc/PID/mem: the kernel has made its
 * ptrace and LSM checks at that open. An exec of the target voids the session.
 * EPERM (NOT_MEM_FD), EDEADLK (SELF), ESRCH (GONE), EISCONN (already bound),
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
	__u32 thaw_after_ms;	/* thaw by itself after this; 0: 60000 */
	__u32 nthreads;		/* out */
	__u32 reserved;
	__u64 ns;		/* out: from the call to the last thread parked */
	struct cr_why why;	/* out */
};

/*
 * CR_IOC_THAW: let the threads run. Threads that only made calls by CR_IOC_RUN
 * go on exactly where they were parked; those whose registers were set go on
 * with the new ones. The arena is unmapped. Ends the committed stage. Waits for
 * nobody: a thread that is still in a call of CR_IOC_RUN goes on as it was when
 * that ends; until then the session's next CR_IOC_FREEZE waits, and one by
 * another session fails with EBUSY.
 */
#define CR_THAW_KILL	1	/* SIGKILL the target instead */
struct cr_thaw {
	__u32 flags;		/* CR_THAW_* */
	__u32 reserved;
	__u64 frozen_ns;	/* out: how long the threads stood still */
};

/*
 * CR_IOC_COMMIT [frozen]: past the point of no return. From here on any thaw
 * but CR_IOC_THAW (owner's death, close, timeout) kills the target rather than
 * let a half-restored process run. The session's snapshot is kept from here on, however
 * short memory becomes. Takes no argument. ENXIO: the snapshot was dropped because memory
 * ran out; nothing has changed, and after CR_IOC_SNAP_DROP it can be done without.
 */

/* ------------------------------------------------------------ what it holds */

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
	__u64 sigmask;		/* blocked set the program believes in */
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
				 * ~0: it had no timeout or none is parked
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
 * NT_PRFPREG, NT_X86_XSTATE). ax and orig_ax are as ptrace would show them: a
 * parked system call has orig_ax >= 0 and ax = -512, -513, -514 or -516.
 * GET: len is the capacity, out: size. ENOBUFS when too small.
 * SET: validated by the kernel's own regset code. Replaces what was saved.
 */
struct cr_regs {
	__s32 tid;
	__u32 type;		/* NT_* */
	__u64 buf;
	__u64 len;
	struct cr_why why;	/* out */
};

/* CR_IOC_SET_SIGMASK [frozen]: the blocked set with which tid will run on */
struct cr_sigmask {
	__s32 tid;
	__u32 reserved;
	__u64 mask;
	struct cr_why why;	/* out */
};

/*
 * CR_IOC_SET_RESTART [frozen]: give tid, whose registers were set to a call
 * parked with -ERESTART_RESTARTBLOCK (-516), its restart block from the
 * session's snapshot, with the time that was left then. ENOENT when the
 * snapshot has none for this very thread: make the call anew by CR_IOC_RUN
 * with CR_RUN_BLOCK instead.
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

/* CR_IOC_PROCESS [frozen]: data of the process that has no other source */
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
#define CR_VMA_FILE		(1ULL << 16)	/* has a file (shared anonymous too) */
#define CR_VMA_SHMEM		(1ULL << 17)	/* that file is shmem: anonymous, memfd, tmpfs */
#define CR_VMA_SPECIAL		(1ULL << 18)	/* vdso, vvar and their like */
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
	__u64 refs;		/* references to the description anywhere in the system */
	__u32 refs_here;	/* of these: descriptors of this process */
	__u32 mode;		/* S_IF* and permissions of the inode */
	__u64 serial;		/* unchanged for as long as the description lives, never 0 */
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
 * CR_IOC_GET_FILE [frozen]: a descriptor for an open file of the target. Of a
 * descriptor the same description; of a mapping and the executable a new one, with the
 * mapping's access (O_RDWR where it is shared and may be made writable), and O_PATH
 * when it is no regular file.
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
 * CR_IOC_PUT_FILE [frozen]: install the caller's descriptor fd in the target,
 * at a number of the kernel's choosing (move it by dup3 through CR_IOC_RUN).
 * fd -1: a fresh, unbound descriptor of /dev/cr (for a process that uses libcr).
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
 * maps the data pages itself (mmap of the session, offset 0) and writes what the
 * calls' arguments point to there; the target sees it at data_addr. addr must be
 * page aligned with arena_size bytes unmapped; 0 lets the kernel choose.
 * Moving it is done by calling again. Unmapped by CR_IOC_THAW. The target can neither
 * change its protection nor move or split it.
 */
struct cr_arena {
	__u64 addr;		/* in: wish or 0, out: where it is */
	__u64 data_addr;	/* out: first data byte, in the target */
	__u64 data_size;	/* out */
	struct cr_why why;	/* out: ADDRESS */
};

#define CR_CALL_STOP	(1U << 0)	/* a result < 0 ends the batch here */
struct cr_call {		/* 64 bytes */
	__u32 nr;
	__u32 flags;		/* CR_CALL_* */
	__u64 arg[6];
	__s64 ret;		/* out: result or -errno */
};

/*
 * CR_IOC_RUN [frozen]: tid makes ncalls system calls, one after the other, in
 * user mode, in its own context and with its own rights, with all signals but SIGKILL
 * held back, and is parked again. The module takes each result and loads the next
 * call; results are copied back to calls when the thread is parked. A clone or clone3
 * with CLONE_THREAD makes a thread that is parked from its first instruction on
 * (CR_THREAD_BORN) and ends when it is let go before its registers are set; the
 * arguments of clone3 lie in the arena. A call to exit ends the thread: it is gone on
 * return. execve, execveat, rt_sigreturn, fork, vfork and a clone without CLONE_THREAD or
 * with CLONE_VFORK are not made: EPERM is their result. CR_RUN_BLOCK: the one call is
 * expected to block; as soon as it does, it is interrupted, so that the thread is parked
 * in it (its registers must be set by CR_IOC_SET_REGS afterwards, with ax as `ret` says).
 * EINTR: the target was killed. ETIMEDOUT: a call did not end in time; the thread is
 * called back. EIO: the thread did something else than it was told. EDQUOT: it would make
 * more threads than max_threads allows; no call was made.
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

/* ------------------------------------------------------------------- pages */

#define CR_SNAP_PAGES	1	/* keep the pages, copy-on-write: read(2), CR_IOC_RESTORE */
#define CR_SNAP_TRACK	2	/* note from now on what is written, under this id */
#define CR_SNAP_SPLIT	4	/* with TRACK: map huge pages by single ones first, so that what is
				 * written is known by the page and not by 2 MB
				 */
/*
 * CR_IOC_SNAPSHOT [frozen]: of every mapping with CR_VMA_PAGES. A session has at
 * most one; a new one replaces it. Memory that is dropped or wiped behind a
 * program's back anyhow (CR_VMA_DROPPABLE, CR_VMA_WIPEONFORK) has no CR_VMA_PAGES:
 * what a random number generator keeps there must never come twice.
 * EDQUOT (SNAPSHOT_LIMIT): the caller's snapshots would keep more memory than the
 * module's parameter snapshot_limit allows a user who has no CAP_IPC_LOCK. When
 * memory runs out the kernel has snapshots dropped, those of ended processes first,
 * rather than kill a process: they are ENXIO from then on. Tracking belongs to the
 * process, not to the session: it outlives the descriptor, ends with the process, with
 * another CR_SNAP_TRACK or CR_RESTORE_TRACK, or when anybody else clears soft-dirty bits.
 * After CR_IOC_THAW pread(2) of the session at an address reads snapshot pages
 * (whole pages; ENXIO for a page it does not hold).
 */
struct cr_snapshot {
	__u32 flags;		/* CR_SNAP_* */
	__u32 reserved;
	__u8  id[CR_ID_SIZE];
	__u64 pages;		/* out: pages held or, without PAGES, present */
	__u64 copied;		/* out: of these, copied at once (pinned for DMA) */
	__u64 overhead;		/* out: bytes of kernel memory beside the pages */
	__u64 ns;		/* out */
	struct cr_why why;	/* out */
};

struct cr_range { __u64 addr, len; };		/* bytes, page aligned */
/* CR_IOC_SNAP_RUNS: struct cr_array of struct cr_range: what the snapshot holds, by address */
/* CR_IOC_SNAP_DROP: no argument; tracking goes on */

/*
 * CR_IOC_GUARDS [frozen]: struct cr_array of struct cr_range: guard pages
 * (MADV_GUARD_INSTALL) in mappings of every kind, by address; a range ends with its
 * mapping. A snapshot does not hold them; putting them in and out is done by madvise.
 */

/*
 * CR_IOC_DIRTY [frozen]: what is not known to be unchanged since tracking under
 * id began, in mappings with CR_VMA_PAGES: pages written, added or dropped since,
 * and what never had pages (one range, however large the hole).
 * ESTALE: not tracked under this id (any more): take everything as changed.
 */
struct cr_dirty {
	__u8  id[CR_ID_SIZE];
	struct cr_array ranges;	/* struct cr_range */
};

struct cr_page_run {
	__u64 addr;		/* in the target */
	__u64 len;		/* bytes, page aligned */
	__u64 offset;		/* of the content, in source_fd; page aligned */
};

/*
 * CR_IOC_RESTORE [frozen]: put pages back, by the parked threads in parallel.
 * In every range of scope (private mappings, sorted, not overlapping) the pages
 * of `runs` (sorted, inside the scope) get their content from source_fd, or
 * from the session's snapshot when source_fd is -1 (runs must be empty then),
 * and all other anonymous pages are dropped, so that they read as untouched.
 * source_fd is of a regular file (EINVAL; ENODATA: it is shorter than the runs say).
 * A guard page gives way to content and stays where there is none. Whatever the scope
 * is, memory with CR_VMA_DROPPABLE or CR_VMA_WIPEONFORK loses all its pages, as in a
 * child after fork.
 * CR_RESTORE_DIRTY: leave pages alone that tracking under `id` knows to be
 * unchanged (ESTALE when it does not, nothing has changed then).
 * CR_RESTORE_TRACK: track from here on under `id`. With CR_RESTORE_DIRTY the
 * scope may be what CR_IOC_DIRTY told: what lies outside stays as it is, and what
 * tracking knows of it.
 */
#define CR_RESTORE_DIRTY	1
#define CR_RESTORE_TRACK	2
struct cr_restore {
	__s32 source_fd;
	__u32 flags;		/* CR_RESTORE_* */
	__u8  id[CR_ID_SIZE];
	__u64 runs, nruns;	/* struct cr_page_run[] */
	__u64 scope, nscope;	/* struct cr_range[] */
	__u32 max_workers;	/* threads to use; 0: as many as CPUs */
	__u32 workers;		/* out */
	__u64 restored, dropped, unchanged;	/* out: pages */
	__u64 ns;		/* out */
	struct cr_why why;	/* out */
};

/* ------------------------------------------------------------------ agents */
/*
 * An agent is a thread of a process that uses libcr: it waits in the module for
 * requests to its process and runs the registered callbacks around them.
 *
 *   agent: AGENT_WAIT -> CHECKPOINT, runs callbacks, AGENT_READY -> (parked here,
 *   part of the image) -> CONTINUE | PAUSED | RESTARTED, runs the rest, AGENT_WAIT
 *   session: NOTIFY(CHECKPOINT), waits for READY, FREEZE … OUTCOME, THAW
 */
enum cr_phase {
	CR_PHASE_NONE = 0,
	CR_PHASE_CHECKPOINT = 1,	/* prepare: a checkpoint will be taken */
	CR_PHASE_CONTINUE = 2,		/* it was taken, go on */
	CR_PHASE_RESTARTED = 3,		/* this is a new process, made from the image */
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
	__s32 status;		/* out */
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
 * CR_IOC_LEASE: the target may run until until_ns (CLOCK_BOOTTIME, at most a day from
 * now). When that passes and the lease was not renewed, the module parks every thread,
 * whatever it is: no daemon that hangs, is stopped or starves leaves its processes
 * running. They stand still until the lease is renewed (a later until_ns) or ended
 * (until_ns 0), or the session is closed. A session that had frozen its target itself
 * goes on holding it, and is not thawed for being silent. A CR_IOC_THAW ends its hold, not
 * the lease's: the target stands still until one of the three above.
 */
#define CR_LEASE_KILL	1	/* a close kills the target, unless the lease was ended */
struct cr_lease {
	__u64 until_ns;
	__u32 flags;		/* CR_LEASE_* */
	__u32 expired;		/* out: 1 when the lease before had run out */
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

#endif /* _UAPI_CR_H */
