// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which pages of a process are still those of a snapshot, so that a rollback need not look at
 * their entries.
 *
 * A page that a process shares with a snapshot is write-protected, and the snapshot holds a
 * reference. So its entry changes only in ways of which the kernel tells MMU notifiers: a write
 * copies the page, and reclaim, mprotect(), munmap(), KSM and so on announce what they do. A
 * rollback that finds an entry as the snapshot has it notes the page. The notifier strikes it
 * out, and the next rollback to the same snapshot takes for unchanged what is still noted.
 * An entry that is empty changes without a notification, so empty ones are never noted.
 *
 * The notifier comes before and after a change. Reclaim announces a change before it takes the
 * lock of the page table: the page may be noted in between, and is struck out afterwards. What
 * is noted is under that lock, so the note is seen by whoever changes the entry later.
 *
 * Two events are ignored, since they neither put another page there nor allow writes: the
 * clearing of soft-dirty bits, and the write protection that a fork or writeback makes.
 *
 * There is one watch for each mm, for the snapshot to which it was rolled back last. It costs
 * 80 bytes for each 2 MB of which the snapshot has pages.
 */
#include "snap.h"
#include "watch.h"
#include <linux/bitmap.h>
#include <linux/slab.h>

/* The pages of 2 MB. The notifier reads it under RCU. */
struct cr_watched {
	struct rcu_head rcu;
	atomic_long_t pages[BITS_TO_LONGS(PTRS_PER_PTE)];
};

/**
 * cr_watch_init() - a watch that belongs to no snapshot
 * @watch: the watch
 */
void cr_watch_init(struct cr_watch *watch)
{
	watch->snap = 0;
	xa_init(&watch->pmds);
}

/**
 * cr_watch_free() - release what a watch holds
 * @watch: the watch; no notification comes any more
 */
void cr_watch_free(struct cr_watch *watch)
{
	struct cr_watched *watched;
	unsigned long i;

	xa_for_each(&watch->pmds, i, watched)
		kfree(watched);
	xa_destroy(&watch->pmds);
}

static void cr_watched_clear(struct cr_watched *watched)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(watched->pages); i++)
		atomic_long_set(&watched->pages[i], 0);
}

/**
 * cr_watch_begin() - watch the pages of a snapshot
 * @watch: the watch; the caller serializes calls, and no thread of the target notes pages
 * @snap: the snapshot, in use
 *
 * If the watch was another snapshot's, nothing is noted afterwards. What the snapshot has no
 * pages for is freed, so that a watch does not grow with the addresses that a process uses
 * in its life.
 */
void cr_watch_begin(struct cr_watch *watch, struct cr_snap *snap)
{
	struct cr_watched *watched;
	unsigned long i;

	if (READ_ONCE(watch->snap) == snap->id)
		return;
	xa_for_each(&watch->pmds, i, watched) {
		if (xa_load(&snap->chunks, i)) {
			cr_watched_clear(watched);
		} else {
			xa_erase(&watch->pmds, i);
			kfree_rcu(watched, rcu);
		}
		cond_resched();
	}
	WRITE_ONCE(watch->snap, snap->id);
}

/**
 * cr_watch_end() - stop watching the pages of a snapshot, so that changes of memory cost nothing
 * @watch: the watch; the caller serializes calls
 * @snap: number of the snapshot
 */
void cr_watch_end(struct cr_watch *watch, u64 snap)
{
	if (READ_ONCE(watch->snap) == snap)
		WRITE_ONCE(watch->snap, 0);
}

/**
 * cr_watch_pmd() - the notes of 2 MB, made if there are none yet
 * @watch: the watch, or NULL
 * @addr: any address in the 2 MB
 *
 * Return: the notes; NULL: there is no watch or no memory, so nothing is noted.
 */
struct cr_watched *cr_watch_pmd(struct cr_watch *watch, unsigned long addr)
{
	/* a target at its memcg limit does without */
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_NORETRY;
	struct cr_watched *watched;
	int r;

	if (!watch)
		return NULL;
	watched = xa_load(&watch->pmds, addr >> PMD_SHIFT);
	if (watched)
		return watched;
	watched = kzalloc(sizeof(*watched), gfp);
	if (!watched)
		return NULL;
	r = xa_insert(&watch->pmds, addr >> PMD_SHIFT, watched, gfp);
	if (!r)
		return watched;
	kfree(watched);
	/* ranges of a scope can share 2 MB: another worker was faster */
	return r == -EBUSY ? xa_load(&watch->pmds, addr >> PMD_SHIFT) : NULL;
}

/**
 * cr_watch_known() - which pages are known to be those of the snapshot?
 * @watched: the notes of 2 MB, or NULL
 * @k: number of a page in the 2 MB
 *
 * Return: a bit for each page of a word of the bitmap, from page @k on.
 */
unsigned long cr_watch_known(struct cr_watched *watched, unsigned int k)
{
	if (!watched)
		return 0;
	return atomic_long_read(&watched->pages[BIT_WORD(k)]) >> k % BITS_PER_LONG;
}

/**
 * cr_watch_note() - note pages that are those of the snapshot, write-protected
 * @watched: the notes of 2 MB, or NULL
 * @k: number of the first page; all are in one word of the bitmap
 * @pages: a bit for each page. The lock of their entries has been held since they were read
 */
void cr_watch_note(struct cr_watched *watched, unsigned int k, unsigned long pages)
{
	if (watched && pages)
		atomic_long_or(pages << k % BITS_PER_LONG, &watched->pages[BIT_WORD(k)]);
}

static bool cr_watched_is_full(struct cr_watched *watched)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(watched->pages); i++)
		if (~atomic_long_read(&watched->pages[i]))
			return false;
	return true;
}

/**
 * cr_watch_skip() - skip memory all of whose pages are known to be those of the snapshot
 * @watch: the watch, or NULL
 * @addr: begin of memory in one mapping
 * @end: its end
 *
 * Return: the first address in [@addr, @end) that has to be looked at; or @end.
 */
unsigned long cr_watch_skip(struct cr_watch *watch, unsigned long addr, unsigned long end)
{
	XA_STATE(xas, watch ? &watch->pmds : NULL, addr >> PMD_SHIFT);
	struct cr_watched *watched;

	if (!watch || addr & ~PMD_MASK || end - addr < PMD_SIZE)
		return addr;
	rcu_read_lock();
	watched = xas_load(&xas);
	/* other workers may be changing the array: what cannot be read now is looked at */
	while (watched && !xa_is_internal(watched) && cr_watched_is_full(watched)) {
		addr += PMD_SIZE;
		if (end - addr < PMD_SIZE)
			break;
		watched = xas_next(&xas);
	}
	rcu_read_unlock();
	return addr;
}

/* Pages [from, upto) of 2 MB may change. */
static void cr_watched_strike(struct cr_watched *watched, unsigned int from, unsigned int upto)
{
	unsigned int n;

	for (; from < upto; from += n) {
		n = min_t(unsigned int, upto - from, BITS_PER_LONG - from % BITS_PER_LONG);
		atomic_long_andnot(GENMASK(n - 1, 0) << from % BITS_PER_LONG,
				   &watched->pages[BIT_WORD(from)]);
	}
}

/**
 * cr_watch_changed() - memory may change, or has changed
 * @watch: the watch
 * @start: begin of the memory
 * @end: its end
 *
 * Called by the MMU notifier, in any context.
 */
void cr_watch_changed(struct cr_watch *watch, unsigned long start, unsigned long end)
{
	unsigned long i, first = start >> PMD_SHIFT, last = (end - 1) >> PMD_SHIFT, base;
	struct cr_watched *watched;

	if (!READ_ONCE(watch->snap) || start >= end)
		return;
	rcu_read_lock();
	if (first == last) {	/* nearly always: a page that is written first costs this twice */
		watched = xa_load(&watch->pmds, first);
		if (watched)
			cr_watched_strike(watched, (start & ~PMD_MASK) >> PAGE_SHIFT,
					  (((end - 1) & ~PMD_MASK) >> PAGE_SHIFT) + 1);
	} else {
		xa_for_each_range(&watch->pmds, i, watched, first, last) {
			base = i << PMD_SHIFT;
			cr_watched_strike(watched, (max(start, base) - base) >> PAGE_SHIFT,
					  ((min(end - 1, base + PMD_SIZE - 1) - base) >> PAGE_SHIFT) + 1);
		}
	}
	rcu_read_unlock();
}
