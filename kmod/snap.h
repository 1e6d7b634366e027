/* SPDX-License-Identifier: GPL-2.0-only */
/* A snapshot's inside: for snapstore.c, which keeps it, and snapshot.c, which fills it. */
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
 * @ref: of the session that has it, of requests and of readers
 * @node: in the list of those that sessions have
 * @session: that has it, for as long as it is in the list; guarded by the list's lock
 * @lock: guards @evicted and @users; who holds it, having seen that it is not evicted, or
 *	has made himself a user, may look at @chunks
 * @evicted: the pages were given up
 * @users: of the pages, who cannot do without
 * @chunks: one array of PTRS_PER_PTE pages for each populated 2 MB
 * @account: who pays
 * @unlimited: he is not bound by the ceiling
 * @charged: pages on it
 * @pages: how many were there
 * @copied: of these, copied at once
 * @nchunks: number of @chunks
 * @taken: when
 * @threads: those parked with a restart block
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

/* Marks a page that could not be shared; not there any more once the snapshot is taken. */
#define CR_PINNED ((struct page *)1UL)

static inline unsigned int cr_snap_slot(unsigned long addr)
{
	return (addr & ~PMD_MASK) >> PAGE_SHIFT;
}

#endif /* CR_SNAP_H */
