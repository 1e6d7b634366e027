/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the module share. See kmod/uapi/cr.h for what it does and
 * docs/architecture.md for how the parts play together.
 */
#ifndef CR_INTERNAL_H
#define CR_INTERNAL_H

#define pr_fmt(fmt) "cr: " fmt

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/kref.h>
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

/* Work done by a parked thread in its own context; 0 or -errno. */
typedef int (*cr_op)(struct cr_session *s, struct cr_member *m, void *arg);

/* What must be put back when a thread that we borrowed runs on. */
struct cr_raw {
	struct pt_regs regs;
	struct restart_block restart;
	sigset_t blocked, saved_sigmask;
	bool restore_sigmask;
	u64 rseq_cs;		/* the kernel clears it when we leave its section */
};

enum cr_state {
	CR_QUEUED,		/* notified, has not come yet */
	CR_PARKED,
	CR_RUNNING,		/* in user mode, on the stub, until it reaches the gate */
	CR_GONE,		/* left or exited */
};

/**
 * struct cr_member - one thread of a frozen target
 *
 * Referenced by the session's index and, while queued or parked, by the thread.
 */
struct cr_member {
	struct kref ref;
	struct callback_head cb;
	struct cr_session *s;
	struct file *file;	/* held while the thread is in our code; see cr_park() */
	struct task_struct *task;
	wait_queue_head_t wake;
	/* the following are guarded by s->plock */
	enum cr_state state;
	bool cancelled;		/* thawed before it came: the callback does nothing */
	bool leave;		/* run on */
	bool born;		/* made by CR_IOC_RUN */
	/* handed over by release/acquire on op and done */
	cr_op op;
	void *arg;
	int ret;
	bool done;
	/* used by the thread itself, or by the session while it is parked */
	bool have_raw;
	bool to_user;		/* op asks to leave for the stub */
	bool blocked_run;	/* parked in the last call of a CR_RUN_BLOCK */
	struct cr_raw raw;
	unsigned long left;	/* calls of the batch that were not made */
};

struct cr_snap;
struct cr_agent_state;

struct cr_session {
	struct file *file;	/* the descriptor's file; not a reference */
	fl_owner_t owner;	/* whose close means that the owner is gone */
	pid_t owner_pid;

	/*
	 * Serialises the ioctls, the timeout and the close; guards everything
	 * below that has no other guard. May sleep. Taken before plock.
	 */
	struct mutex lock;
	struct task_struct *leader;
	struct mm_struct *mm;	/* mmgrab: keeps the structure, not the memory */

	bool frozen, committed;
	struct list_head frozen_node;	/* in the list of frozen sessions */
	ktime_t frozen_at;
	u32 thaw_after_ms;
	struct delayed_work timeout;
	bool abort;		/* tells long operations to stop, READ_ONCE */

	/* Guards members' state, npending, holding and the flags of struct cr_member. */
	spinlock_t plock;
	bool holding;		/* an ioctl looks at members' registers, on their stacks */
	struct xarray members;	/* by tid in the initial namespace */
	unsigned int npending;	/* queued and not yet parked; plock */
	wait_queue_head_t coord;	/* the session waits here for its members */

	/* arena */
	struct page **arena_pages;	/* the data pages, CR_ARENA_DATA of them */
	unsigned long arena;	/* its address in the target, 0: not mapped */
	struct task_struct *mapping;	/* the thread that maps it just now */

	/* Guards the pointer to the snapshot; those who use it hold a reference. */
	spinlock_t snap_lock;
	struct cr_snap *snap;

	struct cr_agent_state *agent;
};

#define CR_ARENA_DATA	64			/* data pages */
#define CR_ARENA_PAGES	(2 + CR_ARENA_DATA)	/* code, gate, data */
#define CR_ARENA_PGOFF	0x10000			/* file offset of the target's part, in pages */

static inline void cr_why(struct cr_why *why, u32 reason, u64 arg)
{
	why->reason = reason;
	why->arg = arg;
}

/* In a thread's own context its signal handling cannot go away. */
static inline struct sighand_struct *cr_own_sighand(void)
{
	return rcu_dereference_protected(current->sighand, true);
}

/* main.c */
void cr_session_touch(struct cr_session *s);

/* attach.c */
long cr_ioc_attach(struct cr_session *s, struct cr_attach *a);
int cr_check_task(struct task_struct *t, struct cr_why *why);
int cr_check_shared_mm(struct cr_session *s, struct cr_why *why);

/* freeze.c */
long cr_ioc_freeze(struct cr_session *s, struct cr_freeze *a);
int cr_thaw(struct cr_session *s, bool kill);
struct cr_member *cr_member_new(struct cr_session *s, struct task_struct *t, gfp_t gfp);
void cr_member_put(struct cr_member *m);
struct cr_member *cr_find(struct cr_session *s, pid_t vtid, struct cr_why *why);
struct cr_member *cr_any(struct cr_session *s);
int cr_queue(struct cr_member *m);
int cr_run_on(struct cr_session *s, struct cr_member *m, cr_op op, void *arg);
int cr_run_workers(struct cr_session *s, unsigned int max, cr_op op, void *arg,
		   unsigned int *workers);
int cr_wait_parked(struct cr_session *s, struct cr_member *m, unsigned long timeout);
int cr_wait_born(struct cr_session *s, unsigned long timeout);
void cr_wait_off_cpu(struct cr_session *s, struct cr_member *m);
void cr_reap(struct cr_session *s);
void cr_hold(struct cr_session *s);
void cr_release_hold(struct cr_session *s);

#include "request_shim.h"

/* threads.c */
void cr_sync_rseq(void);
long cr_ioc_threads(struct cr_session *s, struct cr_array *a);
long cr_ioc_get_regs(struct cr_session *s, struct cr_regs *a);
long cr_ioc_set_regs(struct cr_session *s, struct cr_regs *a);
long cr_ioc_set_sigmask(struct cr_session *s, struct cr_sigmask *a);
long cr_ioc_set_restart(struct cr_session *s, struct cr_restart *a);
struct pt_regs *cr_member_regs(struct cr_member *m);
struct restart_block *cr_member_restart(struct cr_member *m);

/* process.c */
long cr_ioc_process(struct cr_session *s, struct cr_process *a);
long cr_ioc_sigpending(struct cr_session *s, struct cr_sigpending *a);

/* files.c */
long cr_ioc_fds(struct cr_session *s, struct cr_array *a);
long cr_ioc_get_file(struct cr_session *s, struct cr_get_file *a);
long cr_ioc_put_file(struct cr_session *s, struct cr_put_file *a);

/* vmas.c */
long cr_ioc_vmas(struct cr_session *s, struct cr_array *a);
bool cr_vma_has_pages(struct vm_area_struct *vma);
bool cr_vma_is_volatile(struct vm_area_struct *vma);

/* arena.c */
long cr_ioc_arena(struct cr_session *s, struct cr_arena *a);
long cr_ioc_run(struct cr_session *s, struct cr_run *a);
int cr_mmap(struct file *file, struct vm_area_struct *vma);
int cr_arena_unmap(struct cr_session *s);
void cr_arena_free(struct cr_session *s);
bool cr_vma_is_arena(struct vm_area_struct *vma);
int cr_arena_init(void);
void cr_arena_exit(void);

/* pages.c: walking page tables */

/* What an entry says of the program's own page at that place. */
enum cr_pte_kind {
	CR_PTE_NONE,	/* never touched, or dropped */
	CR_PTE_ANON,	/* in memory */
	CR_PTE_FILE,	/* in memory, but that of a file or the kernel: not the program's */
	CR_PTE_SWAP,	/* swapped out */
	CR_PTE_GUARD,	/* MADV_GUARD_INSTALL: whoever touches it gets SIGSEGV */
	CR_PTE_LOST,	/* its content was lost: whoever touches it gets SIGBUS */
	CR_PTE_MOVING,	/* under migration, or in a device's memory */
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

/* Is an anonymous page this mapping's alone? What KSM has merged never is. */
static inline bool cr_page_is_exclusive(struct page *page)
{
	return !folio_test_ksm(page_folio(page)) && PageAnonExclusive(page);
}

struct cr_walk {
	struct mm_struct *mm;
	struct vm_area_struct *vma;
	void *arg;
	struct cr_request *req;	/* asked whether it is abandoned, may be NULL */
	/* ptl held, [addr, end) under one table of ptes */
	int (*ptes)(struct cr_walk *walk, pte_t *pte, unsigned long addr, unsigned long end);
	/* ptl held, a huge page; only [addr, end) of it concerns us */
	int (*huge)(struct cr_walk *walk, pmd_t *pmd, unsigned long addr, unsigned long end);
	/* called before a table's lock is taken, may sleep; may be NULL */
	int (*prepare)(struct cr_walk *walk, unsigned long addr, unsigned long end);
	unsigned long stopped;	/* where a callback ended the walk, see cr_walk_range() */
};

int cr_walk_range(struct cr_walk *walk, unsigned long start, unsigned long end);
bool cr_pte_is_clean(pte_t pte);
bool cr_pmd_is_clean(pmd_t pmd);

/* flush.c */
void cr_flush_mm(struct mm_struct *mm);
int cr_flush_init(void);

/* stream.c: arrays for user space, piece by piece */
struct cr_stream {
	u64 to, room, count;	/* where the next ones go; how many may; how many there are */
	size_t size;		/* of one */
	unsigned int most, held;	/* how many the page holds at most, and just now */
	void *page;
};

int cr_stream_begin(struct cr_stream *stream, const struct cr_array *array, size_t size);
void cr_stream_add(struct cr_stream *stream, const void *element);
int cr_stream_flush(struct cr_stream *stream);
long cr_stream_end(struct cr_stream *stream, struct cr_array *array, int error);

/* Is it time for cr_stream_flush()? Otherwise there is room for two more. */
static inline bool cr_stream_full(const struct cr_stream *stream)
{
	return stream->held + 2 > stream->most;
}

/* Ranges of addresses that become one where they touch. */
struct cr_spans {
	struct cr_stream stream;
	unsigned long start, end;	/* the one that may still grow */
};

void cr_spans_add(struct cr_spans *spans, unsigned long addr, unsigned long end);
void cr_spans_close(struct cr_spans *spans);

/* account.c: what a user's snapshots may keep */
struct cr_account *cr_account_get(void);
void cr_account_put(struct cr_account *account);
bool cr_account_charge(struct cr_account *account, u64 pages);
void cr_account_uncharge(struct cr_account *account, u64 pages);
u64 cr_account_limit(void);

/* snapstore.c */
struct cr_snap *cr_snap_new(void);
struct cr_snap *cr_snap_get(struct cr_session *s);
void cr_snap_put(struct cr_snap *snap);
bool cr_snap_use(struct cr_snap *snap);
void cr_snap_unuse(struct cr_snap *snap);
void cr_snap_install(struct cr_session *s, struct cr_snap *snap);
void cr_snap_drop(struct cr_session *s);
struct page **cr_snap_chunk(struct cr_snap *snap, unsigned long addr);
unsigned long cr_snap_next(struct cr_snap *snap, unsigned long addr, unsigned long end);
bool cr_snap_restart(struct cr_session *s, struct task_struct *task, struct restart_block *rb,
		     ktime_t *taken);
long cr_ioc_snap_runs(struct cr_session *s, struct cr_array *a);
ssize_t cr_read(struct file *file, char __user *buf, size_t len, loff_t *pos);
int cr_snapstore_init(void);
void cr_snapstore_exit(void);

/* snapshot.c */
long cr_ioc_snapshot(struct cr_session *s, struct cr_snapshot *a);
int cr_track_again(struct cr_session *s, const u8 *id, struct cr_request *keeper,
		   const struct cr_range *only, u64 nonly);

/* track.c */
void cr_track_exit(void);
int cr_track_begin(struct mm_struct *mm, const u8 *id);
void cr_track_stop(struct mm_struct *mm);
bool cr_track_is(struct mm_struct *mm, const u8 *id);
int cr_split_huge(struct vm_area_struct *vma);
void cr_track_clear_pte(struct mm_struct *mm, unsigned long addr, pte_t *ptep);
void cr_track_clear_pmd(struct mm_struct *mm, unsigned long addr, pmd_t *pmdp);

/* dirty.c */
long cr_ioc_dirty(struct cr_session *s, struct cr_dirty *a);
long cr_ioc_guards(struct cr_session *s, struct cr_array *a);

/* restore.c */
long cr_ioc_restore(struct cr_session *s, struct cr_restore *a);

/* agent.c */
long cr_ioc_agent_wait(struct cr_session *s, struct cr_agent *a);
long cr_ioc_agent_ready(struct cr_session *s, struct cr_agent *a);
long cr_ioc_notify(struct cr_session *s, struct cr_notify *a);
long cr_ioc_outcome(struct cr_session *s, struct cr_notify *a);
struct cr_agent_state *cr_agent_get(struct cr_session *s);
void cr_agent_release(struct cr_session *s);
void cr_agent_forget(struct cr_session *s);

/* copy an array to the caller as struct cr_array says; see cr.h */
long cr_put_array(struct cr_array *a, const void *elems, u64 count, size_t size);

#endif /* CR_INTERNAL_H */
