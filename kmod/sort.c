// SPDX-License-Identifier: GPL-2.0-only
/*
 * Decide for each page of 2 MB whether a restore writes content, drops the page or leaves
 * it unchanged. Content of a snapshot is copied here already if it can be done in place.
 */
#include "restore.h"
#include <linux/highmem.h>
#include <linux/rmap.h>
#include <linux/swap.h>

/**
 * cr_run_at() - find the run of an address
 * @job: a job whose source is a file
 * @addr: the address
 *
 * Return: index of the first run that ends after @addr.
 */
u64 cr_run_at(const struct cr_job *job, unsigned long addr)
{
	u64 lo = 0, hi = job->nruns;

	while (lo < hi) {
		u64 mid = lo + (hi - lo) / 2;

		if (job->runs[mid].addr + job->runs[mid].len <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void cr_sort_begin(struct cr_sort *sort, struct cr_job *job, unsigned long addr,
			  unsigned long end)
{
	unsigned int k, from, upto;
	u64 i;

	sort->job = job;
	sort->base = addr & PMD_MASK;
	sort->chunk = NULL;
	sort->done = 0;
	bitmap_zero(sort->want, PTRS_PER_PTE);
	bitmap_zero(sort->drop, PTRS_PER_PTE);
	if (!job->source) {
		sort->chunk = cr_snap_chunk(job->snap, addr);
		for (k = (addr - sort->base) >> PAGE_SHIFT;
		     sort->chunk && k < (end - sort->base) >> PAGE_SHIFT; k++)
			if (sort->chunk[k])
				__set_bit(k, sort->want);
	} else {
		for (i = cr_run_at(job, addr); i < job->nruns && job->runs[i].addr < end; i++) {
			from = (max_t(u64, job->runs[i].addr, addr) - sort->base) >> PAGE_SHIFT;
			upto = (min_t(u64, job->runs[i].addr + job->runs[i].len, end) - sort->base)
			       >> PAGE_SHIFT;
			bitmap_set(sort->want, from, upto - from);
		}
	}
	/* write all wanted pages, also unmapped ones; the walk clears those that may stay */
	bitmap_copy(sort->put, sort->want, PTRS_PER_PTE);
}

/*
 * Copy content into a page that is exclusive to the program. The page lock is not needed:
 * all threads are parked, and the dirty mark keeps reclaim from dropping the content.
 */
static void cr_copy_in_place(struct cr_sort *sort, unsigned int k, struct page *to)
{
	copy_highpage(to, sort->chunk[k]);
	folio_mark_dirty(page_folio(to));
	__clear_bit(k, sort->put);
	sort->done++;
}

/* A page that has content in the source and may have changed. */
static void cr_sort_wanted(struct cr_sort *sort, unsigned int k, struct page *page)
{
	if (sort->job->source)
		return;
	if (page == sort->chunk[k])	/* still shared with the snapshot */
		__clear_bit(k, sort->put);
	else if (cr_page_is_exclusive(page))
		cr_copy_in_place(sort, k, page);
}

static int cr_sort_ptes(struct cr_walk *walk, pte_t *ptep, unsigned long addr, unsigned long end)
{
	struct cr_sort *sort = walk->arg;
	bool believe = sort->job->dirty_only && !(walk->vma->vm_flags & VM_SOFTDIRTY);
	unsigned int k = (addr - sort->base) >> PAGE_SHIFT;
	pte_t pte;

	for (; addr < end; addr += PAGE_SIZE, ptep++, k++) {
		bool wanted = test_bit(k, sort->want);

		pte = ptep_get(ptep);
		switch (cr_pte_kind(pte)) {
		case CR_PTE_ANON:
			if (!wanted)
				__set_bit(k, sort->drop);
			else if (believe && cr_pte_is_clean(pte))
				__clear_bit(k, sort->put);
			else
				cr_sort_wanted(sort, k, pte_page(pte));
			break;
		case CR_PTE_SWAP:
			if (!wanted)
				__set_bit(k, sort->drop);
			else if (believe && cr_pte_is_clean(pte))
				__clear_bit(k, sort->put);
			break;
		case CR_PTE_GUARD:
			/* zapping leaves guard markers; a marker has no page and no counters */
			if (wanted)
				pte_clear(walk->mm, addr, ptep);
			break;
		case CR_PTE_LOST:
			__set_bit(k, sort->drop);
			break;
		case CR_PTE_MOVING:
			if (!wanted)
				__set_bit(k, sort->drop);
			break;
		case CR_PTE_NONE:
		case CR_PTE_FILE:	/* page cache below a private mapping */
			break;
		}
	}
	return 0;
}

static int cr_sort_huge(struct cr_walk *walk, pmd_t *pmdp, unsigned long addr, unsigned long end)
{
	struct cr_sort *sort = walk->arg;
	bool believe = sort->job->dirty_only && !(walk->vma->vm_flags & VM_SOFTDIRTY);
	pmd_t pmd = pmdp_get(pmdp);
	struct page *head = pmd_page(pmd);
	unsigned int k = (addr - sort->base) >> PAGE_SHIFT;
	unsigned int upto = k + ((end - addr) >> PAGE_SHIFT);
	bool clean;

	if (!PageAnon(head))	/* the huge zero page reads as never written */
		return 0;
	clean = believe && cr_pmd_is_clean(pmd);
	for (; k < upto; k++) {
		if (!test_bit(k, sort->want))
			__set_bit(k, sort->drop);
		else if (clean || (!sort->job->source && head + k == sort->chunk[k]))
			__clear_bit(k, sort->put);
		else if (!sort->job->source && cr_page_is_exclusive(head))
			cr_copy_in_place(sort, k, head + k);
	}
	return 0;
}

/**
 * cr_sort_pmd() - sort the pages of one pmd
 * @sort: out: the result
 * @job: the restore
 * @vma: their mapping, mmap lock held
 * @addr: start of the first page
 * @end: end of the last page, under the same pmd
 *
 * Return: 0 or -errno, see cr_walk_range().
 */
int cr_sort_pmd(struct cr_sort *sort, struct cr_job *job, struct vm_area_struct *vma,
		unsigned long addr, unsigned long end)
{
	struct cr_walk walk = {
		.mm = vma->vm_mm, .vma = vma, .arg = sort, .req = &job->req,
		.ptes = cr_sort_ptes, .huge = cr_sort_huge,
	};

	cr_sort_begin(sort, job, addr, end);
	return cr_walk_range(&walk, addr, end);
}
