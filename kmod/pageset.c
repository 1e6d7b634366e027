// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sets of pages by address: those that a restore has written, which are tracked anew, and those
 * that a snapshot leaves out since they are unchanged. A set costs 64 bytes for each 2 MB with
 * pages in it.
 */
#include "internal.h"
#include <linux/bitmap.h>
#include <linux/slab.h>

/**
 * cr_pageset_init() - an empty set
 * @set: the set
 */
void cr_pageset_init(struct cr_pageset *set)
{
	xa_init(&set->pmds);
	set->all = false;
}

/**
 * cr_pageset_free() - release what a set holds
 * @set: the set
 */
void cr_pageset_free(struct cr_pageset *set)
{
	unsigned long i;
	void *pages;

	xa_for_each(&set->pmds, i, pages) {
		kfree(pages);
		cond_resched();
	}
	xa_destroy(&set->pmds);
}

/**
 * cr_pageset_is_empty() - has nothing been added?
 * @set: the set; nobody adds to it any more
 */
bool cr_pageset_is_empty(const struct cr_pageset *set)
{
	return !READ_ONCE(set->all) && xa_empty(&set->pmds);
}

/* The bitmap of a pmd, made if there is none yet, also by another thread. NULL: no memory. */
static unsigned long *cr_pageset_pmd(struct cr_pageset *set, unsigned long index, gfp_t gfp)
{
	unsigned long *made, *pages = xa_load(&set->pmds, index);
	int r;

	if (pages)
		return pages;
	made = kcalloc(BITS_TO_LONGS(PTRS_PER_PTE), sizeof(long), gfp);
	if (!made)
		return NULL;
	r = xa_insert(&set->pmds, index, made, gfp);
	if (!r)
		return made;
	kfree(made);
	return r == -EBUSY ? xa_load(&set->pmds, index) : NULL;
}

/**
 * cr_pageset_add() - add pages; several threads may add at the same time
 * @set: the set
 * @addr: any address in their 2 MB
 * @pages: bitmap of PTRS_PER_PTE pages
 *
 * Without memory the set is taken to hold all pages.
 */
void cr_pageset_add(struct cr_pageset *set, unsigned long addr, const unsigned long *pages)
{
	unsigned long *have;
	unsigned int k;

	if (bitmap_empty(pages, PTRS_PER_PTE))
		return;
	/* not accounted: after the commit a target at its memcg limit must not fail here */
	have = cr_pageset_pmd(set, addr >> PMD_SHIFT, GFP_KERNEL);
	if (!have) {
		WRITE_ONCE(set->all, true);
		return;
	}
	for_each_set_bit(k, pages, PTRS_PER_PTE)
		set_bit(k, have);
}

/**
 * cr_pageset_reserve() - have room for pages, so that cr_pageset_set() can add them under a spinlock
 * @set: the set
 * @addr: any address in their 2 MB
 *
 * Return: 0 or -ENOMEM.
 */
int cr_pageset_reserve(struct cr_pageset *set, unsigned long addr)
{
	return cr_pageset_pmd(set, addr >> PMD_SHIFT, GFP_KERNEL_ACCOUNT) ? 0 : -ENOMEM;
}

/**
 * cr_pageset_set() - add up to BITS_PER_LONG pages, for which cr_pageset_reserve() has made room
 * @set: the set; nobody else adds to it
 * @addr: address of the first one; all are in one word of the bitmap of its 2 MB
 * @pages: a bit for each of them
 */
void cr_pageset_set(struct cr_pageset *set, unsigned long addr, unsigned long pages)
{
	unsigned long *have = xa_load(&set->pmds, addr >> PMD_SHIFT);
	unsigned int k = (addr & ~PMD_MASK) >> PAGE_SHIFT;

	have[BIT_WORD(k)] |= pages << k % BITS_PER_LONG;
}

/**
 * cr_pageset_report() - report the pages to user space
 * @set: the set, made by cr_pageset_set(); nobody adds to it any more
 * @spans: where to
 *
 * Return: 0 or -errno.
 */
int cr_pageset_report(struct cr_pageset *set, struct cr_spans *spans)
{
	unsigned int from, upto;
	unsigned long i, *pages;
	int r = 0;

	xa_for_each(&set->pmds, i, pages) {
		for_each_set_bitrange(from, upto, pages, PTRS_PER_PTE) {
			cr_spans_add(spans, (i << PMD_SHIFT) + from * PAGE_SIZE,
				     (i << PMD_SHIFT) + upto * PAGE_SIZE);
			if (cr_stream_full(&spans->stream))
				r = cr_stream_flush(&spans->stream);
			if (r)
				return r;
		}
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return cr_stream_flush(&spans->stream);
}

/**
 * cr_pageset_walk() - visit the pages of one mapping that are in a set
 * @set: the set; nobody adds to it any more
 * @walk: the walk, see cr_walk_range(). Its callback for small pages visits those that are in
 *	walk->among, if that is not NULL; bit 0 is the first page of the pmd.
 *
 * Return: as cr_walk_range().
 */
int cr_pageset_walk(struct cr_pageset *set, struct cr_walk *walk)
{
	unsigned long start = walk->vma->vm_start, end = walk->vma->vm_end, base, addr, last, i;
	unsigned long *pages;
	int r = 0;

	if (READ_ONCE(set->all))
		return cr_walk_range(walk, start, end);
	xa_for_each_range(&set->pmds, i, pages, start >> PMD_SHIFT, (end - 1) >> PMD_SHIFT) {
		base = i << PMD_SHIFT;
		addr = max(start, base + find_first_bit(pages, PTRS_PER_PTE) * PAGE_SIZE);
		last = min(end, base + (find_last_bit(pages, PTRS_PER_PTE) + 1) * PAGE_SIZE);
		walk->among = pages;
		if (addr < last)
			r = cr_walk_range(walk, addr, last);
		if (r)
			break;
	}
	walk->among = NULL;
	return r;
}
