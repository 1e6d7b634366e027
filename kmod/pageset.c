// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sets of pages by address: those that a restore has written, which are tracked anew. A
 * set costs 64 bytes for each 2 MB with pages in it.
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
static unsigned long *cr_pageset_pmd(struct cr_pageset *set, unsigned long index)
{
	unsigned long *made, *pages = xa_load(&set->pmds, index);
	int r;

	if (pages)
		return pages;
	/* not accounted: after the commit a target at its memcg limit must not fail here */
	made = kcalloc(BITS_TO_LONGS(PTRS_PER_PTE), sizeof(long), GFP_KERNEL);
	if (!made)
		return NULL;
	r = xa_insert(&set->pmds, index, made, GFP_KERNEL);
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
	have = cr_pageset_pmd(set, addr >> PMD_SHIFT);
	if (!have) {
		WRITE_ONCE(set->all, true);
		return;
	}
	for_each_set_bit(k, pages, PTRS_PER_PTE)
		set_bit(k, have);
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
