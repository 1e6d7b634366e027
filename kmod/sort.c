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
	unsigned int from, upto;
	u64 i;

	sort->job = job;
	sort->base = addr & PMD_MASK;
	sort->chunk = job->source ? (struct cr_chunk){ } : cr_snap_chunk(job->snap, addr);
	sort->in_memory = cr_chunk_has_any(&sort->chunk);
	sort->watched = sort->in_memory ? cr_watch_pmd(job->watch, addr) : NULL;
	sort->visited = false;
	sort->done = 0;
	sort->unchanged = 0;
	if (sort->marked) {	/* by an earlier pmd */
		bitmap_zero(sort->put, PTRS_PER_PTE);
		bitmap_zero(sort->drop, PTRS_PER_PTE);
		bitmap_zero(sort->again, PTRS_PER_PTE);
	}
	sort->marked = false;
	if (!job->source)
		return;
	bitmap_zero(sort->want, PTRS_PER_PTE);
	for (i = cr_run_at(job, addr); i < job->nruns && job->runs[i].addr < end; i++) {
		from = (max_t(u64, job->runs[i].addr, addr) - sort->base) >> PAGE_SHIFT;
		upto = (min_t(u64, job->runs[i].addr + job->runs[i].len, end) - sort->base) >> PAGE_SHIFT;
		bitmap_set(sort->want, from, upto - from);
	}
}

static void cr_sort_mark(struct cr_sort *sort, unsigned long *set, unsigned int k)
{
	__set_bit(k, set);
	sort->marked = true;
}

/* Does the source have content for a page? */
static bool cr_sort_wants(const struct cr_sort *sort, unsigned int k)
{
	return sort->in_memory ? cr_chunk_page(&sort->chunk, k) != NULL : test_bit(k, sort->want);
}

/*
 * Copy content into a page that is exclusive to the program. The page lock is not needed:
 * all threads are parked, and the dirty mark keeps reclaim from dropping the content.
 * @ptep: its entry, which is marked as unchanged at once; NULL: it is a part of a huge page
 */
static void cr_copy_in_place(struct cr_sort *sort, unsigned int k, pte_t *ptep, struct page *to)
{
	struct cr_job *job = sort->job;

	copy_highpage(to, cr_chunk_page(&sort->chunk, k));
	folio_mark_dirty(page_folio(to));
	sort->done++;
	if (!job->dirty_only || !job->track)
		return;
	if (ptep) {
		cr_track_clear_pte(current->mm, sort->base + k * PAGE_SIZE, ptep);
		sort->protected = true;
	} else {
		cr_sort_mark(sort, sort->again, k);
	}
}

/* A page that has content in the source and may have changed; @ptep as above. */
static void cr_sort_changed(struct cr_sort *sort, unsigned int k, pte_t *ptep, struct page *page)
{
	if (sort->in_memory && page == cr_chunk_page(&sort->chunk, k))	/* still shared with the snapshot */
		sort->unchanged++;
	else if (sort->in_memory && cr_page_is_exclusive(page))
		cr_copy_in_place(sort, k, ptep, page);
	else
		cr_sort_mark(sort, sort->put, k);
}

/* A page that is not known to be unchanged. */
static void cr_sort_pte(struct cr_sort *sort, struct mm_struct *mm, unsigned int k, pte_t *ptep)
{
	bool wanted = cr_sort_wants(sort, k);
	pte_t pte = ptep_get(ptep);

	switch (cr_pte_kind(pte)) {
	case CR_PTE_ANON:
		if (wanted)
			cr_sort_changed(sort, k, ptep, pte_page(pte));
		else
			cr_sort_mark(sort, sort->drop, k);
		return;
	case CR_PTE_GUARD:
		/* zapping leaves guard markers; a marker has no page and no counters */
		if (wanted)
			pte_clear(mm, sort->base + k * PAGE_SIZE, ptep);
		break;
	case CR_PTE_LOST:
		cr_sort_mark(sort, sort->drop, k);
		break;
	case CR_PTE_SWAP:
	case CR_PTE_MOVING:
		if (!wanted)
			cr_sort_mark(sort, sort->drop, k);
		break;
	case CR_PTE_NONE:
	case CR_PTE_FILE:	/* page cache below a private mapping */
		break;
	}
	if (wanted)
		cr_sort_mark(sort, sort->put, k);
}

/*
 * Of n entries from page k on, all in one word of a bitmap, those that are shared with the snapshot.
 * Those that the watch knows need not be read. @rest: out: as cr_shared_ptes() has it.
 */
static unsigned long cr_sort_shared(struct cr_sort *sort, unsigned int k, pte_t *ptep,
				    unsigned int n, unsigned long *rest)
{
	unsigned long known = cr_watch_known(sort->watched, k) & GENMASK(n - 1, 0);
	unsigned long shared = known, todo = GENMASK(n - 1, 0) & ~known, one;
	unsigned int i;

	if (!known) {
		shared = cr_shared_ptes(&sort->chunk, k, ptep, n, cr_readonly_mask(), rest);
	} else {
		*rest = 0;
		for_each_set_bit(i, &todo, n) {
			shared |= cr_shared_ptes(&sort->chunk, k + i, ptep + i, 1,
						 cr_readonly_mask(), &one) << i;
			*rest |= one << i;
		}
	}
	cr_watch_note(sort->watched, k, shared & ~known);
	return shared;
}

/* cr_shared_ptes() of pages that are not in memory: none is shared. */
static unsigned long cr_filled_ptes(const struct cr_sort *sort, unsigned int k, pte_t *ptep,
				    unsigned int n)
{
	unsigned long empty = 0;
	unsigned int i;

	for (i = 0; i < n; i++)
		if (pte_none(ptep_get(ptep + i)))
			empty |= 1UL << i;
	empty &= ~(sort->want[BIT_WORD(k)] >> k % BITS_PER_LONG);
	return GENMASK(n - 1, 0) & ~empty;
}

/* Of up to BITS_PER_LONG pages from page k on: those that have content in the source. */
static unsigned long cr_sort_wanted(const struct cr_sort *sort, unsigned int k, unsigned long among)
{
	unsigned long wanted = among;
	unsigned int i;

	if (!sort->in_memory)
		return among & (sort->want[BIT_WORD(k)] >> k % BITS_PER_LONG);
	if (sort->chunk.whole)
		return among;
	for_each_set_bit(i, &among, BITS_PER_LONG)
		if (!sort->chunk.pages[k + i])
			__clear_bit(i, &wanted);
	return wanted;
}

/* Of the pages in @among, those that have content in the source and are known to be as it is. */
static unsigned long cr_sort_clean(const struct cr_sort *sort, struct cr_tracked *seen,
				   unsigned int k, pte_t *ptep, unsigned int n, unsigned long among)
{
	unsigned long clean = 0;
	unsigned int i;

	if (hweight_long(among) > n / 4)
		clean = cr_clean_ptes(seen, ptep, n) & among;
	else
		for_each_set_bit(i, &among, n)
			clean |= cr_clean_ptes(seen, ptep + i, 1) << i;
	return cr_sort_wanted(sort, k, clean);
}

static int cr_sort_ptes(struct cr_walk *walk, pte_t *ptep, unsigned long addr, unsigned long end)
{
	struct cr_sort *sort = walk->arg;
	bool believe = sort->job->dirty_only && !(walk->vma->vm_flags & VM_SOFTDIRTY);
	unsigned int k = (addr - sort->base) >> PAGE_SHIFT;
	unsigned int upto = k + ((end - addr) >> PAGE_SHIFT);
	struct cr_tracked seen = { };
	unsigned long unchanged, rest;
	unsigned int n, i;

	sort->visited = true;
	for (; k < upto; k += n, ptep += n) {
		n = min_t(unsigned int, upto - k, BITS_PER_LONG - k % BITS_PER_LONG);
		unchanged = 0;
		if (sort->in_memory)
			unchanged = cr_sort_shared(sort, k, ptep, n, &rest);
		else
			rest = cr_filled_ptes(sort, k, ptep, n);
		if (believe && rest)
			unchanged |= cr_sort_clean(sort, &seen, k, ptep, n, rest);
		sort->unchanged += hweight_long(unchanged);
		rest &= ~unchanged;
		for_each_set_bit(i, &rest, n)
			cr_sort_pte(sort, walk->mm, k + i, ptep + i);
	}
	return 0;
}

/* Is a huge page the one that the snapshot holds? */
static bool cr_huge_is_shared(const struct cr_sort *sort, pmd_t pmd)
{
	return !pmd_write(pmd) && pmd_page(pmd) == sort->chunk.whole;
}

/* Note pages of a huge page that the snapshot holds. */
static void cr_sort_note_huge(struct cr_sort *sort, unsigned int k, unsigned int upto)
{
	unsigned int n;

	for (; k < upto; k += n) {
		n = min_t(unsigned int, upto - k, BITS_PER_LONG - k % BITS_PER_LONG);
		cr_watch_note(sort->watched, k, GENMASK(n - 1, 0));
	}
}

static int cr_sort_huge(struct cr_walk *walk, pmd_t *pmdp, unsigned long addr, unsigned long end)
{
	struct cr_sort *sort = walk->arg;
	bool believe = sort->job->dirty_only && !(walk->vma->vm_flags & VM_SOFTDIRTY);
	pmd_t pmd = pmdp_get(pmdp);
	struct page *head = pmd_page(pmd);
	unsigned int k = (addr - sort->base) >> PAGE_SHIFT;
	unsigned int upto = k + ((end - addr) >> PAGE_SHIFT);
	bool clean, shared, anon = PageAnon(head);	/* the huge zero page reads as never written */

	sort->visited = true;
	clean = anon && believe && cr_pmd_is_clean(pmd);
	shared = anon && cr_huge_is_shared(sort, pmd);
	if (shared)
		cr_sort_note_huge(sort, k, upto);
	if (shared || (clean && sort->chunk.whole)) {
		sort->unchanged += upto - k;
		return 0;
	}
	for (; k < upto; k++) {
		if (!cr_sort_wants(sort, k)) {
			if (anon)
				cr_sort_mark(sort, sort->drop, k);
		} else if (!anon) {
			cr_sort_mark(sort, sort->put, k);
		} else if (clean) {
			sort->unchanged++;
		} else {
			cr_sort_changed(sort, k, NULL, head + k);
		}
	}
	return 0;
}

/* Nothing is mapped: all that the source has must be written. */
static void cr_sort_unmapped(struct cr_sort *sort, unsigned long addr, unsigned long end)
{
	unsigned int k;

	for (k = (addr - sort->base) >> PAGE_SHIFT; k < (end - sort->base) >> PAGE_SHIFT; k++)
		if (cr_sort_wants(sort, k))
			cr_sort_mark(sort, sort->put, k);
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

	int r;

	cr_sort_begin(sort, job, addr, end);
	r = cr_walk_range(&walk, addr, end);
	if (!r && !sort->visited)
		cr_sort_unmapped(sort, addr, end);
	return r;
}
