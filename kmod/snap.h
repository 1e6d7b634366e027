/* SPDX-License-Identifier: GPL-2.0-only */
/* Internals of a snapshot, for snapstore.c (storage) and snapshot.c (taking it). */
#ifndef CR_SNAP_H
#define CR_SNAP_H

#include <linux/kref.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/restart_block.h>
#include <linux/xarray.h>

struct cr_snap_thread {
	struct list_head node;
	struct task_struct *task;
	struct restart_block restart;
};

/**
 * struct cr_snap - pages by address
 * @ref: references of its session, of requests and of readers
 * @node: in the list of the snapshots that belong to sessions
 * @session: the session it belongs to while in the list; protected by the list's lock
 * @lock: protects @evicted and @users. @chunks may be read under the lock if @evicted is
 *	not set, or between cr_snap_use() and cr_snap_unuse()
 * @evicted: the pages were released because memory ran out
 * @users: number of cr_snap_use() without cr_snap_unuse(); prevents eviction
 * @chunks: one array of PTRS_PER_PTE pages for each populated 2 MB
 * @account: the account that @charged pages are charged to
 * @unlimited: the ceiling of the account does not apply
 * @charged: pages charged to @account
 * @pages: pages in the snapshot when it was taken
 * @copied: of these, copied at once because pinned for DMA
 * @nchunks: number of @chunks
 * @taken: time of the snapshot
 * @threads: restart blocks of threads parked in a call that has one
 */
struct cr_snap {
	struct kref ref;
	struct list_head node;
	struct cr_session *session;
	spinlock_t lock;
	bool evicted;
	unsigned int users;
	struct xarray chunks;
	struct cr_account *account;
	bool unlimited;
	u64 charged;
	u64 pages, copied, nchunks;
	ktime_t taken;
	struct list_head threads;
};

/* Marks a pinned page that cannot be shared, until cr_snap_copy_pinned() has copied it. */
#define CR_PINNED ((struct page *)1UL)

/* Marks 2 MB whose pages are all those of one huge page, in order. */
#define CR_SNAP_WHOLE XA_MARK_0

static inline void cr_snap_set_whole(struct cr_snap *snap, unsigned long addr)
{
	xa_set_mark(&snap->chunks, addr >> PMD_SHIFT, CR_SNAP_WHOLE);
}

static inline unsigned int cr_snap_slot(unsigned long addr)
{
	return (addr & ~PMD_MASK) >> PAGE_SHIFT;
}

#endif /* CR_SNAP_H */
