/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Declarations that the files of the module share. See kmod/uapi/cr.h for the
 * interface and docs/architecture.md for the design.
 *
 * The files form layers; a file calls only files of its own layer or below:
 *
 *   main.c                                     /dev/cr, the table of ioctls
 *   lease.c                                    park or kill the descendants of a silent daemon
 *   descent.c                                  which processes these are
 *   rollback.c                                 a rollback in one call
 *   digest.c                                   has the state changed?
 *   grown.c                                    what a process has more than at its snapshot
 *   attach.c agent.c threads.c registers.c     the ioctls of a session
 *   process.c files.c vmas.c restore.c dirty.c
 *   restart.c                                  restart blocks of threads
 *   sort.c                                     which pages to write, drop or keep
 *   snapshot.c                                 take snapshots, start tracking
 *   snapstore.c track.c                        store snapshots and tracking state
 *   watch.c                                    pages that are known to be a snapshot's
 *   pages.c flush.c stream.c                   page tables, TLBs, arrays for user space
 *   run.c  arena.c                             system calls by parked threads
 *   freeze.c                                   all threads of the target: freeze, thaw
 *   self.c                                     a thread of the target as the requester
 *   park.c                                     one thread: parking, requests
 *   session.c                                  lifetimes of sessions and members
 *   lodge.c                                    parking of a thread by a lease
 *   borrow.c                                   save and restore a borrowed thread's state
 *   batch.c  account.c                         a batch of calls; what one user holds
 *
 * Locks, outermost first:
 *
 *   session->ioctl_lock   mutex. One ioctl of a session at a time. Only ioctls of the
 *                         same session wait for it, killably.
 *   mmap lock, and all locks that the kernel takes below it
 *   session->lock         spinlock. Protects the stage, the members and their states.
 *                         No code sleeps, copies or allocates under it.
 *   cr_claims_lock        spinlock in session.c. Which session holds which process.
 *   cr_lease_lock         spinlock in lodge.c. All leases. Beside session->lock.
 *
 * Timers, close, SIGKILL and module unload take only the spinlocks.
 */
#ifndef CR_INTERNAL_H
#define CR_INTERNAL_H

#define pr_fmt(fmt) "cr: " fmt

#include <linux/atomic.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/spinlock.h>
#include <linux/task_work.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include "cr.h"
#include "compat.h"

struct cr_session;
struct cr_member;
struct cr_batch;
struct cr_snap;
struct cr_account;
struct cr_agent_state;
struct cr_lease_state;
struct cr_origin_state;

/* ------------------------------------------------------------------ requests */

/**
 * struct cr_request - work for a parked thread, in the thread's own context
 * @ref:       one reference of the requester and one of each thread that works on it
 * @op:        the work; returns 0 or -errno. The session is member->session.
 * @release:   frees the object that embeds the request, and all that it owns
 * @pending:   number of threads that have not finished
 * @error:     the first error of any of them
 * @abandoned: no requester waits for the result any more, or the target is thawed
 *
 * A requester that is killed returns at once, while the thread may still run @op. So
 * everything that @op reads or writes must belong to the object that embeds the request.
 */
struct cr_request {
	struct kref ref;
	int (*op)(struct cr_member *member, struct cr_request *req);
	void (*release)(struct cr_request *req);
	atomic_t pending;
	int error;
	bool abandoned;
};

/* ------------------------------------------------------------------- members */

/* State of a borrowed thread that cr_give_back() restores. */
struct cr_raw {
	struct pt_regs regs;
	struct restart_block restart;
	sigset_t blocked, saved_sigmask;
	bool restore_sigmask;
	unsigned long stop;	/* its part in a stop by a signal: bits of jobctl */
	u64 rseq_cs;		/* the kernel clears it when the thread leaves its section */
};

/*
 * States of one thread, changed under session->lock:
 *
 *   state        until                                          next state
 *   CR_QUEUED    it returns to user mode and runs the work      PARKED, SERVING, GONE
 *   CR_PARKED    a request comes, a thaw, or it is killed       SERVING, GONE
 *   CR_SERVING   the request's work is done, or it has left     PARKED, RUNNING, GONE
 *   CR_RUNNING   it faults at the gate or is interrupted        QUEUED, GONE
 *   CR_GONE      final: it left, exited, or has another mm
 */
enum cr_state {
	CR_QUEUED,
	CR_PARKED,
	CR_SERVING,
	CR_RUNNING,
	CR_GONE,
};

/**
 * struct cr_member - one thread of a target
 * @ref:      one reference of the session's index (until CR_GONE), one of the thread
 *            from cr_queue() until it leaves, and one of each current user
 * @session:  a counted reference: no member outlives its session
 * @task:     a counted reference
 *
 * session->lock protects the first block of fields, from @state on. The second block,
 * from @borrowed on, belongs to the thread while it is SERVING, RUNNING or QUEUED, and
 * to the session's ioctl while it is PARKED.
 */
struct cr_member {
	struct kref ref;
	struct cr_session *session;
	struct task_struct *task;
	pid_t tid;		/* key in the index; task->pid may change by exec */
	struct callback_head work;
	wait_queue_head_t wake;

	enum cr_state state;
	bool leave;		/* thawed: the thread leaves as soon as it can */
	bool awaited;		/* counted in session->nawaited */
	bool leaving;		/* counted in session->nleaving */
	bool born;		/* created by CR_IOC_RUN, registers not set yet */
	unsigned int users;	/* ioctls that access its registers, see cr_pin() */
	struct cr_request *req;	/* handed over, not started */
	struct cr_request *serving;	/* started, not done */

	bool borrowed;		/* raw is to be put back */
	bool roused;		/* raw was kept by the session, see stop.c; not all of it */
	bool to_user;		/* the work asks to leave for the stub */
	struct cr_raw raw;
	struct cr_batch *batch;	/* the calls that it is making; a reference */
	struct cr_member *spares;	/* for threads that it creates; in a spare: the next */
};

/* ------------------------------------------------------------------ sessions */

/*
 * stage          threads                      close or silence     ends by
 * CR_THAWED      run                          no effect            FREEZE
 * CR_FREEZING    are being parked             thaws                all parked: FROZEN
 * CR_FROZEN      are parked                   thaws                THAW, COMMIT
 * CR_COMMITTED   are parked, half restored    kills                THAW
 * CR_THAWING     run on; some are still in    no effect            the last one gone: THAWED
 *                a call made for the session
 */
enum cr_stage {
	CR_THAWED,
	CR_FREEZING,
	CR_FROZEN,
	CR_COMMITTED,
	CR_THAWING,
};

#define CR_ARENA_DATA	64			/* data pages */
#define CR_ARENA_PAGES	(2 + CR_ARENA_DATA)	/* code, gate, data */
#define CR_ARENA_SIZE	((unsigned long)CR_ARENA_PAGES << PAGE_SHIFT)

/* All pages are allocated before session->pages is set; freed with the session. */
struct cr_arena_pages {
	struct page *code;
	struct page *data[CR_ARENA_DATA];
};

/**
 * struct cr_session - state of one open description of /dev/cr
 * @ref: one reference of the file, of each member, of each armed timer and of the
 *       arena's file
 */
struct cr_session {
	struct kref ref;
	struct file *file;	/* no reference: only ioctls use it, and they hold the file */
	struct cr_account *account;
	struct pid *owner;	/* process that opened the session; its close thaws */
	struct mutex ioctl_lock;
	struct cr_member *self;	/* under ioctl_lock: the target's thread that makes the ioctl */

	/* set once by CR_IOC_ATTACH; leader is published last */
	struct task_struct *leader;
	struct mm_struct *mm;	/* mmgrab: keeps the structure, not the memory */

	spinlock_t lock;	/* guards the following */
	enum cr_stage stage;
	bool kill;		/* a member that leaves is killed */
	bool closed;		/* the file is released: no freeze or timer starts */
	struct xarray members;	/* by tid in the initial namespace */
	unsigned int nawaited;	/* members that a freeze waits for */
	unsigned int nleaving;	/* members that have not left yet after a thaw */
	struct list_head claim;	/* session.c */
	unsigned long arena;	/* its address in the target, 0: not mapped */
	struct file *arena_file;	/* a reference while it is mapped */
	bool keep_arena;	/* a thread exits from the stub: leave the arena mapped */
	struct cr_snap *snap;	/* a reference */

	wait_queue_head_t coord;	/* the ioctl waits here for members */

	ktime_t frozen_at;
	unsigned long thaw_after;	/* thaw after so many jiffies without an ioctl */
	unsigned long alive;		/* jiffies at the latest cr_session_alive(), WRITE_ONCE */
	struct delayed_work timeout;

	struct cr_lease_state *lease;	/* a reference; by cr_lease_lock */

	struct cr_arena_pages *pages;	/* smp_store_release() when complete */
	struct task_struct *mapper;	/* the thread that is mapping the arena */

	struct cr_agent_state *agent;

	/* for the agent of the target, by agent.c's lock; both a reference */
	struct cr_origin_state *origin;
	struct cr_agent_state *heard;	/* the agent that was told an outcome */
	unsigned long heard_turn;	/* its turn then */
};

static inline void cr_why(struct cr_why *why, u32 reason, u64 arg)
{
	why->reason = reason;
	why->arg = arg;
}

/* current->sighand needs no RCU: only the thread itself replaces or drops it. */
static inline struct sighand_struct *cr_own_sighand(void)
{
	return rcu_dereference_protected(current->sighand, true);
}

/* Convert a timeout of the interface to jiffies: 0 means @standard, @most is the ceiling. */
static inline unsigned long cr_timeout_jiffies(u32 ms, u32 standard, u32 most)
{
	return msecs_to_jiffies(min(ms ? ms : standard, most));
}

/* account.c: resources that a user holds in all sessions */
enum cr_account_kind {
	CR_ACCOUNT_SESSIONS,
	CR_ACCOUNT_THREADS,
	CR_ACCOUNT_PAGES,
	CR_ACCOUNT_LEASES,
	CR_ACCOUNTS,
};

struct cr_account *cr_account_mine(void);
struct cr_account *cr_account_get(struct cr_account *account);
void cr_account_put(struct cr_account *account);
bool cr_account_charge(struct cr_account *account, enum cr_account_kind kind, u64 n,
		       bool unlimited);
void cr_account_uncharge(struct cr_account *account, enum cr_account_kind kind, u64 n);
u64 cr_snapshot_limit(void);

/* session.c */
extern struct workqueue_struct *cr_workqueue;
struct cr_session *cr_session_new(void);
void cr_session_get(struct cr_session *s);
void cr_session_put(struct cr_session *s);
void cr_arena_pages_free(struct cr_arena_pages *pages);
struct cr_member *cr_member_add(struct cr_session *s, struct task_struct *t, bool born);
int cr_member_reserve(struct cr_member *m, unsigned int n);
void cr_member_unreserve(struct cr_member *m);
struct cr_member *cr_member_adopt(struct cr_member *m, struct task_struct *t);
struct cr_member *cr_member_of(struct cr_session *s, struct task_struct *t);
void cr_member_get(struct cr_member *m);
void cr_member_put(struct cr_member *m);
void cr_member_gone(struct cr_member *m);
struct cr_member *cr_member_next(struct cr_session *s, struct cr_member *last,
				 unsigned long *index);
int cr_claim(struct cr_session *s, unsigned long end, struct cr_why *why);
void cr_unclaim(struct cr_session *s);
void cr_thaw_end(struct cr_session *s);

/*
 * Iterate over all members by tid. The body holds a reference to each. A body that leaves
 * the loop early must put this reference or keep it.
 */
#define cr_for_each_member(s, i, m)					\
	for ((i) = 0, (m) = cr_member_next(s, NULL, &(i)); (m);		\
	     (m) = cr_member_next(s, m, &(i)))

int cr_lives_init(void);
void cr_lives_exit(void);

/* borrow.c */
void cr_borrow(struct cr_member *m);
void cr_give_back(struct cr_member *m);
void cr_put_rseq_cs(struct cr_member *m);
void cr_sync_rseq(void);
void cr_hide_eintr(struct pt_regs *regs);
void cr_hold_signals(sigset_t *saved);
void cr_release_signals(const sigset_t *saved);
void cr_note_rseq_cs(struct cr_member *m);
struct pt_regs *cr_member_regs(struct cr_member *m);
struct restart_block *cr_member_restart(struct cr_member *m);

/* stop.c */
void cr_rouse_stopped(struct cr_session *s);
bool cr_is_stopped(void);
void cr_put_off_stop(struct cr_member *m);
void cr_stop_again(struct cr_member *m);

/**
 * struct cr_batch - system calls that a borrowed thread makes, one after the other
 * @ref:    one reference of the ioctl and one of the thread
 * @calls:  copy of the caller's table; holds the results until they are copied back
 * @stub:   address of the code page in the target
 * @pages:  the session's; the session outlives the batches of its threads
 *
 * Only the thread writes to the batch until the ioctl has seen the thread parked.
 */
struct cr_batch {
	struct kref ref;
	struct cr_call *calls;
	unsigned long stub;
	struct cr_arena_pages *pages;
	bool block;		/* CR_RUN_BLOCK: interrupt the only call when it sleeps */
	u32 n;
	u32 done;		/* calls with a result; calls[done] is the next one */
	bool in_call;		/* registers of calls[done] are loaded */
	bool stopped;		/* CR_CALL_STOP: the remaining calls are not made */
	bool interrupted;	/* parked in calls[done]; see code */
	bool cloned;		/* a call has created a thread */
	pid_t born;		/* tid of the latest created thread until it is a member */
	s64 code;		/* -ERESTART… in ax of the interrupted call */
	int error;		/* -EIO: the thread was not at the stub */
};

/* batch.c */
struct cr_batch *cr_batch_new(struct cr_call *calls, u32 n, unsigned long stub,
			      struct cr_arena_pages *pages);
void cr_batch_put(struct cr_batch *b);
u32 cr_batch_clones(const struct cr_batch *b);
bool cr_batch_load(struct cr_batch *b);
bool cr_batch_at_gate(struct cr_batch *b, struct pt_regs *regs);
void cr_batch_parked(struct cr_batch *b, struct pt_regs *regs);
void cr_load_exit(unsigned long stub);

/* park.c */
void cr_request_init(struct cr_request *req,
		     int (*op)(struct cr_member *member, struct cr_request *req),
		     void (*release)(struct cr_request *req));
void cr_request_put(struct cr_request *req);
bool cr_request_abandoned(struct cr_request *req);
int cr_call(struct cr_session *s, struct cr_member *m, struct cr_request *req);
int cr_call_any(struct cr_session *s, struct cr_request *req);
void cr_pass_on(struct cr_member *mine, struct cr_request *req, unsigned int most);
int cr_queue(struct cr_member *m);
void cr_park(struct callback_head *work);
void cr_leave_here(struct cr_member *m);
void cr_adopt(struct cr_member *m);
bool cr_lost(struct cr_member *m);
bool cr_is_dying(struct cr_session *s);
bool cr_arena_needed(struct cr_session *s, bool to_end);
int cr_wait_parked(struct cr_member *m, unsigned long timeout);
struct cr_member *cr_find(struct cr_session *s, pid_t vtid, struct cr_why *why);
struct cr_member *cr_any(struct cr_session *s);
void cr_nap(unsigned int *naps);
int cr_pin(struct cr_member *m);
void cr_unpin(struct cr_member *m);
void cr_unmap_arena_here(struct cr_session *s);
int cr_unmap_arena(struct cr_session *s);

/* self.c */
bool cr_is_of_target(struct cr_session *s);
int cr_self_enter(struct cr_session *s);
void cr_self_leave(struct cr_session *s);

/* freeze.c */
enum cr_thaw_how {
	CR_THAW_TO_RUN,		/* the threads run on */
	CR_THAW_TO_DEATH,	/* the process is half restored: each thread that leaves is killed */
	CR_THAW_BY_STAGE,	/* killed if committed, else they run on */
};

long cr_ioc_freeze(struct cr_session *s, struct cr_freeze *a);
int cr_freeze(struct cr_session *s, struct cr_freeze *a);
long cr_ioc_thaw(struct cr_session *s, struct cr_thaw *a);
int cr_commit(struct cr_session *s);
int cr_check_task(struct task_struct *t, struct cr_why *why);
void cr_freeze_init(struct cr_session *s);
bool cr_thaw_begin(struct cr_session *s, enum cr_thaw_how how);
int cr_wait_born(struct cr_session *s, unsigned long timeout);
void cr_blame(struct cr_session *s, struct cr_why *why);
void cr_owner_gone(struct cr_session *s);
void cr_freeze_close(struct cr_session *s);
bool cr_is_frozen(struct cr_session *s);

/* Restart the thaw_after_ms timeout. */
static inline void cr_session_alive(struct cr_session *s)
{
	WRITE_ONCE(s->alive, jiffies);
}

/* lease.c */
long cr_ioc_lease(struct cr_session *s, struct cr_lease *a);
void cr_lease_close(struct cr_session *s, bool all);
int cr_leases_init(void);
void cr_leases_exit(void);

/* lodge.c */
bool cr_lease_parks(struct task_struct *t);

/* arena.c */
long cr_ioc_arena(struct cr_session *s, struct cr_arena *a);
int cr_mmap(struct file *file, struct vm_area_struct *vma);
bool cr_vma_is_arena(struct vm_area_struct *vma);

/* run.c */
long cr_ioc_run(struct cr_session *s, struct cr_run *a);

/* attach.c */
long cr_ioc_attach(struct cr_session *s, struct cr_attach *a);

/* digest.c */
long cr_ioc_digest(struct cr_session *s, struct cr_digest *a);

/* rollback.c */
long cr_ioc_rollback(struct cr_session *s, struct cr_rollback *a);

/* threads.c */
void cr_fill_thread(struct cr_session *s, struct cr_member *m, struct cr_thread *c);
long cr_ioc_threads(struct cr_session *s, struct cr_array *a);

/* registers.c */
long cr_ioc_get_regs(struct cr_session *s, struct cr_regs *a);
long cr_ioc_set_regs(struct cr_session *s, struct cr_regs *a);
long cr_ioc_set_sigmask(struct cr_session *s, struct cr_sigmask *a);
bool cr_set_threads_ok(const struct cr_set_threads *a);
long cr_ioc_set_threads(struct cr_session *s, struct cr_set_threads *a);
struct cr_saved_threads;
struct cr_saved_threads *cr_take_threads(struct cr_session *s, const struct cr_set_threads *a);
int cr_put_threads(struct cr_session *s, const struct cr_saved_threads *all,
		   struct cr_set_threads *a);
void cr_free_threads(struct cr_saved_threads *all);

/* restart.c */
u64 cr_restart_left(struct cr_member *m);
int cr_set_restart(struct cr_session *s, struct cr_member *m);
s32 cr_restart_call(struct cr_member *m);
long cr_ioc_set_restart(struct cr_session *s, struct cr_restart *a);

/* process.c */
void cr_fill_process(struct cr_session *s, struct cr_process *a);
long cr_ioc_process(struct cr_session *s, struct cr_process *a);
long cr_ioc_sigpending(struct cr_session *s, struct cr_sigpending *a);

/* files.c */
#define CR_FDS_AT_ONCE 1024	/* descriptor numbers checked before the table's lock is dropped */
void cr_fill_file(struct file *file, struct cr_fd *c);
long cr_ioc_fds(struct cr_session *s, struct cr_array *a);
long cr_ioc_get_file(struct cr_session *s, struct cr_get_file *a);
long cr_ioc_put_file(struct cr_session *s, struct cr_put_file *a);
void cr_undo_get_file(struct cr_session *s, struct cr_get_file *a);
void cr_undo_put_file(struct cr_session *s, struct cr_put_file *a);

/* sharers.c */
long cr_ioc_sharers(struct cr_session *s, struct cr_sharers *a);

/* vmas.c */
void cr_fill_vma(struct vm_area_struct *vma, struct cr_vma *c);
long cr_ioc_vmas(struct cr_session *s, struct cr_array *a);
bool cr_vma_has_pages(struct vm_area_struct *vma);
bool cr_vma_is_volatile(struct vm_area_struct *vma);

/* pages.c: walking page tables */

/* State of the page that a page table entry maps. */
enum cr_pte_kind {
	CR_PTE_NONE,	/* never accessed, or dropped */
	CR_PTE_ANON,	/* anonymous, present */
	CR_PTE_FILE,	/* present, but a page of a file or of the kernel */
	CR_PTE_SWAP,	/* swapped out */
	CR_PTE_GUARD,	/* MADV_GUARD_INSTALL: an access raises SIGSEGV */
	CR_PTE_LOST,	/* content lost (hwpoison): an access raises SIGBUS */
	CR_PTE_MOVING,	/* under migration, or in device memory */
};

static inline enum cr_pte_kind cr_pte_kind(pte_t pte)
{
	if (pte_none(pte))
		return CR_PTE_NONE;
	if (pte_present(pte))
		return !pte_special(pte) && PageAnon(pte_page(pte)) ? CR_PTE_ANON : CR_PTE_FILE;
	switch (cr_absent_pte(pte)) {
	case CR_ABSENT_SWAP:
		return CR_PTE_SWAP;
	case CR_ABSENT_GUARD:
		return CR_PTE_GUARD;
	case CR_ABSENT_LOST:
		return CR_PTE_LOST;
	case CR_ABSENT_NONE:
		return CR_PTE_NONE;
	default:
		return CR_PTE_MOVING;
	}
}

/*
 * Walks look at millions of entries, most of which are of one kind. So they read the flags and
 * the frame of a present entry directly: pte_pfn() and pte_write() are several times as long.
 */
static inline struct page *cr_present_page(pte_t pte)
{
	return pfn_to_page((native_pte_val(pte) & PTE_PFN_MASK) >> PAGE_SHIFT);
}

/* The flags of which a page that is present and cannot be written has only _PAGE_PRESENT. */
static inline pteval_t cr_readonly_mask(void)
{
#ifdef CONFIG_X86_USER_SHADOW_STACK
	/* a dirty entry that is not writable is one of a shadow stack, which calls write */
	if (cpu_feature_enabled(X86_FEATURE_SHSTK))
		return _PAGE_PRESENT | _PAGE_RW | _PAGE_DIRTY;
#endif
	return _PAGE_PRESENT | _PAGE_RW;
}

/* Is an anonymous page exclusive to this mapping? A page merged by KSM never is. */
static inline bool cr_page_is_exclusive(struct page *page)
{
	return !folio_test_ksm(page_folio(page)) && PageAnonExclusive(page);
}

struct cr_walk {
	struct mm_struct *mm;
	struct vm_area_struct *vma;
	void *arg;
	struct cr_request *req;	/* the walk ends when it is abandoned; may be NULL */
	/* ptl held, [addr, end) under one table of ptes */
	int (*ptes)(struct cr_walk *walk, pte_t *pte, unsigned long addr, unsigned long end);
	/* ptl held, a huge page; only [addr, end) of it is in the range */
	int (*huge)(struct cr_walk *walk, pmd_t *pmd, unsigned long addr, unsigned long end);
	/* called before ptl is taken, may sleep; may be NULL */
	int (*prepare)(struct cr_walk *walk, unsigned long addr, unsigned long end);
	unsigned long stopped;	/* where a callback ended the walk, see cr_walk_range() */
	const unsigned long *among;	/* bitmap of the pages of a pmd to visit, see cr_pageset_walk() */
};

int cr_walk_range(struct cr_walk *walk, unsigned long start, unsigned long end);

/* The pages of a folio that change only by write faults; zeroed at the beginning */
struct cr_tracked {
	struct page *first;
	unsigned long pages;
};

/* The pages that a snapshot holds of 2 MB; none: both are NULL. */
struct cr_chunk {
	struct page **pages;	/* PTRS_PER_PTE of them, some of them NULL */
	struct page *whole;	/* the first page of a huge page that is all of them */
};

static inline bool cr_chunk_has_any(const struct cr_chunk *chunk)
{
	return chunk->whole || chunk->pages;
}

/* Page @k of a chunk that has any, or NULL. */
static inline struct page *cr_chunk_page(const struct cr_chunk *chunk, unsigned int k)
{
	return chunk->whole ? chunk->whole + k : chunk->pages[k];
}

unsigned long cr_clean_ptes(struct cr_tracked *seen, pte_t *pte, unsigned int n);
unsigned long cr_shared_ptes(const struct cr_chunk *chunk, unsigned int k, pte_t *ptep,
			     unsigned int n, pteval_t mask, unsigned long *rest);
bool cr_pmd_is_clean(pmd_t pmd);

/* pageset.c: sets of pages by address */
struct cr_spans;

struct cr_pageset {
	struct xarray pmds;	/* a bitmap of PTRS_PER_PTE pages for each 2 MB */
	bool all;		/* memory ran out: it is taken to hold all pages */
};

void cr_pageset_init(struct cr_pageset *set);
void cr_pageset_free(struct cr_pageset *set);
bool cr_pageset_is_empty(const struct cr_pageset *set);
void cr_pageset_add(struct cr_pageset *set, unsigned long addr, const unsigned long *pages);
int cr_pageset_reserve(struct cr_pageset *set, unsigned long addr);
void cr_pageset_set(struct cr_pageset *set, unsigned long addr, unsigned long pages);
int cr_pageset_report(struct cr_pageset *set, struct cr_spans *spans);
int cr_pageset_walk(struct cr_pageset *set, struct cr_walk *walk);

/* flush.c */
void cr_flush_mm(struct mm_struct *mm);
int cr_flush_init(void);

/* stream.c: arrays of user space, written in pieces */
void *cr_get_table(u64 user, u64 n, size_t size);

struct cr_stream {
	u64 to, room, count;	/* user address of the next element; capacity; elements so far */
	size_t size;		/* bytes of one element */
	unsigned int most, held;	/* capacity of page, and elements in it, not yet copied */
	void *page;
};

int cr_stream_begin(struct cr_stream *stream, const struct cr_array *array, size_t size);
void cr_stream_add(struct cr_stream *stream, const void *element);
int cr_stream_flush(struct cr_stream *stream);
long cr_stream_end(struct cr_stream *stream, struct cr_array *array, int error);

/* Must the caller call cr_stream_flush()? If not, the page has room for two elements. */
static inline bool cr_stream_full(const struct cr_stream *stream)
{
	return stream->held + 2 > stream->most;
}

/* A stream of address ranges; adjacent ranges are merged. */
struct cr_spans {
	struct cr_stream stream;
	unsigned long start, end;	/* the latest range, which may still grow */
};

void cr_spans_add(struct cr_spans *spans, unsigned long addr, unsigned long end);
void cr_spans_close(struct cr_spans *spans);

/* snapstore.c */

struct cr_snap *cr_snap_new(struct cr_session *s);
struct cr_snap *cr_snap_get(struct cr_session *s);
struct cr_snap *cr_snap_newest(const struct mm_struct *mm);
void cr_snap_put(struct cr_snap *snap);
bool cr_snap_use(struct cr_snap *snap);
void cr_snap_unuse(struct cr_snap *snap);
void cr_snap_install(struct cr_session *s, struct cr_snap *snap);
void cr_snap_drop(struct cr_session *s);
struct cr_chunk cr_snap_chunk(struct cr_snap *snap, unsigned long addr);
unsigned long cr_snap_next(struct cr_snap *snap, unsigned long addr, unsigned long end);
unsigned long cr_snap_next_page(struct cr_snap *snap, unsigned long addr, unsigned long end);
bool cr_snap_restart(struct cr_session *s, struct task_struct *task, struct restart_block *rb,
		     ktime_t *taken);
long cr_ioc_snap_runs(struct cr_session *s, struct cr_array *a);
long cr_ioc_snap_clean(struct cr_session *s, struct cr_array *a);
ssize_t cr_read(struct file *file, char __user *buf, size_t len, loff_t *pos);
int cr_snapstore_init(void);
void cr_snapstore_exit(void);

/* snapshot.c */
long cr_ioc_snapshot(struct cr_session *s, struct cr_snapshot *a);
int cr_track_again(struct cr_session *s, const u8 *id, struct cr_request *keeper,
		   struct cr_pageset *only, bool part);

/* track.c */
void cr_track_exit(void);
int cr_track_begin(struct mm_struct *mm, const u8 *id);
int cr_track_next(struct mm_struct *mm, const u8 *id, const u8 *next);
void cr_track_stop(struct mm_struct *mm);
bool cr_track_is(struct mm_struct *mm, const u8 *id);
long cr_ioc_lineage(struct cr_session *s, struct cr_lineage *a);
int cr_split_huge(struct vm_area_struct *vma);
void cr_track_clear_pte(struct mm_struct *mm, unsigned long addr, pte_t *ptep);
void cr_track_clear_pmd(struct mm_struct *mm, unsigned long addr, pmd_t *pmdp);

/* dirty.c */
long cr_ioc_dirty(struct cr_session *s, struct cr_dirty *a);
long cr_ioc_guards(struct cr_session *s, struct cr_array *a);

/* restore.c */
long cr_ioc_restore(struct cr_session *s, struct cr_restore *a);
long cr_ioc_commit(struct cr_session *s, void *unused);

/* agent.c */
long cr_ioc_agent_wait(struct cr_session *s, struct cr_agent *a);
long cr_ioc_agent_ready(struct cr_session *s, struct cr_agent *a);
void cr_undo_agent_wait(struct cr_session *s, struct cr_agent *a);
void cr_undo_agent_ready(struct cr_session *s, struct cr_agent *a);
long cr_ioc_notify(struct cr_session *s, struct cr_notify *a);
long cr_ioc_outcome(struct cr_session *s, struct cr_notify *a);
long cr_ioc_origin(struct cr_session *s, struct cr_origin *a);
long cr_ioc_agent_origin(struct cr_session *s, struct cr_origin *a);
int cr_agent_register(struct cr_session *s);
void cr_agent_release(struct cr_session *s);
void cr_agent_forget(struct cr_session *s);

/* session.c: copy an array to the caller; cr.h describes struct cr_array */
long cr_put_array(struct cr_array *a, const void *elems, u64 count, size_t size);

#endif /* CR_INTERNAL_H */
