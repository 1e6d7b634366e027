/* SPDX-License-Identifier: GPL-2.0-only */
/* Internals of a snapshot, for snapstore.c (storage) and snapshot.c (taking it). */
#ifndef CR_SNAP_H
#define CR_SNAP_H

#include "internal.h"
#include <linux/kref.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/restart_block.h>
#include <linux/xarray.h>

/**
 * struct cr_table - the small pages of 2 MB
 * @ref: snapshots that hold it: those of one process share what has not changed between them
 * @pages: PTRS_PER_PTE of them, some of them NULL; a reference to each. They stay the same
 *	once the snapshot that has made the table is taken
 */
struct cr_table {
	refcount_t ref;
	struct page **pages;
};

struct cr_snap_thread {
	struct list_head node;
	struct task_struct *task;
	struct restart_block restart;
};

/**
 * struct cr_snap - pages by address
 * @ref: references of its session, of requests and of readers
 * @id: a number that no other snapshot has had
 * @node: in the list of the snapshots that belong to sessions
 * @session: the session it belongs to while in the list; protected by the list's lock
 * @lock: protects @evicted and @users. @chunks may be read under the lock if @evicted is
 *	not set, or between cr_snap_use() and cr_snap_unuse()
 * @evicted: the pages were released because memory ran out
 * @users: number of cr_snap_use() without cr_snap_unuse(); prevents eviction
 * @chunks: for each populated 2 MB a struct cr_table, of which the snapshot holds one reference; or
 *	the first page of a huge page, tagged with CR_SNAP_WHOLE, of which it holds one, too
 * @account: the account that @charged pages are charged to
 * @unlimited: the ceiling of the account does not apply
 * @charged: pages charged to @account
 * @pages: pages in the snapshot when it was taken
 * @copied: of these, copied at once because pinned for DMA
 * @ntables: number of tables in @chunks that the snapshot has made itself
 * @clean: of one of changed pages: those that it does not hold since they are unchanged; fixed
 *	once it is taken
 * @taken: time of the snapshot
 * @threads: restart blocks of threads parked in a call that has one
 */
struct cr_snap {
	struct kref ref;
	u64 id;
	struct list_head node;
	struct cr_session *session;
	spinlock_t lock;
	bool evicted;
	unsigned int users;
	struct xarray chunks;
	struct cr_account *account;
	bool unlimited;
	u64 charged;
	u64 pages, copied, ntables;
	struct cr_pageset clean;
	ktime_t taken;
	struct list_head threads;
};

/* Marks a pinned page that cannot be shared, until cr_snap_copy_pinned() has copied it. */
#define CR_PINNED ((struct page *)1UL)

/* Tag of an entry of @chunks that is a huge page. */
#define CR_SNAP_WHOLE 1UL

/* The table of an entry of @chunks; NULL: it has none. */
static inline struct cr_table *cr_chunk_table(void *entry)
{
	return entry && xa_pointer_tag(entry) == CR_SNAP_WHOLE ? NULL : entry;
}

static inline struct cr_chunk cr_chunk_of(void *entry)
{
	struct cr_table *table = cr_chunk_table(entry);
	struct cr_chunk chunk = { };

	if (table)
		chunk.pages = table->pages;
	else if (entry)
		chunk.whole = xa_untag_pointer(entry);
	return chunk;
}

struct cr_table *cr_table_new(void);
unsigned long cr_table_put(struct cr_table *table);

static inline unsigned int cr_snap_slot(unsigned long addr)
{
	return (addr & ~PMD_MASK) >> PAGE_SHIFT;
}

#endif /* CR_SNAP_H */
