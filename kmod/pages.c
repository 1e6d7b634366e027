// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page table walks without walk_page_range(), which is not exported, and the states of
 * entries.
 */
#include "internal.h"
#include <linux/hugetlb.h>
#include <linux/mman.h>
#include <linux/rmap.h>
#include <linux/swap.h>

/* How often to fault in a page that reclaim swaps out again before the walk sees it. */
#define CR_SETTLE_TRIES 100

/* The pmd that maps addr, or NULL; *next is the start of the next one. */
static pmd_t *cr_pmd(struct mm_struct *mm, unsigned long addr, unsigned long *next)
{
	pgd_t *pgd = pgd_offset(mm, addr);
	p4d_t *p4d;
	pud_t *pud, pudval;
	pmd_t *pmd;

	*next = (addr + PGDIR_SIZE) & PGDIR_MASK;
	if (pgd_none(READ_ONCE(*pgd)) || pgd_bad(READ_ONCE(*pgd)))
		return NULL;
	p4d = p4d_offset(pgd, addr);
	*next = (addr + P4D_SIZE) & P4D_MASK;
	if (p4d_none(READ_ONCE(*p4d)) || p4d_bad(READ_ONCE(*p4d)))
		return NULL;
	pud = pud_offset(p4d, addr);
	pudval = pudp_get(pud);
	*next = (addr + PUD_SIZE) & PUD_MASK;
	if (pud_none(pudval) || pud_devmap(pudval) || pud_trans_huge(pudval) || pud_bad(pudval))
		return NULL;
	pmd = pmd_offset(pud, addr);
	*next = (addr + PMD_SIZE) & PMD_MASK;
	return pmd_none(pmdp_get(pmd)) ? NULL : pmd;
}

/* @held is the pmd's lock. On kernels without split locks it is the table's lock, too. */
static int cr_walk_table(struct cr_walk *walk, pmd_t *pmd, spinlock_t *held, unsigned long addr,
			 unsigned long end)
{
	spinlock_t *ptl = pte_lockptr(walk->mm, pmd);
	int r;

	lockdep_assert_held(held);
	if (ptl == held)
		return walk->ptes(walk, pte_offset_kernel(pmd, addr), addr, end);
	spin_lock_nested(ptl, SINGLE_DEPTH_NESTING);
	r = walk->ptes(walk, pte_offset_kernel(pmd, addr), addr, end);
	spin_unlock(ptl);
	return r;
}

static int cr_walk_pmd(struct cr_walk *walk, pmd_t *pmd, unsigned long addr, unsigned long end)
{
	spinlock_t *ptl;
	pmd_t value;
	int r;

	/* a page table may be retracted meanwhile: read the pmd again under its lock */
	rcu_read_lock();
	ptl = pmd_lockptr(walk->mm, pmd);
	spin_lock(ptl);
	value = pmdp_get(pmd);
	if (pmd_none(value))
		r = 0;
	else if (pmd_trans_huge(value))
		r = walk->huge(walk, pmd, addr, end);
	else if (pmd_present(value) && pmd_leaf(value))
		r = 0;		/* a leaf of a file mapping (DAX): no private pages */
	else if (pmd_present(value) && !pmd_bad(value))
		r = cr_walk_table(walk, pmd, ptl, addr, end);
	else
		r = -EAGAIN;	/* a huge page under migration */
	spin_unlock(ptl);
	rcu_read_unlock();
	return r;
}

/* Fault in the page at which a walk has stopped, or wait for the end of its migration. */
static int cr_settle(struct cr_walk *walk)
{
	struct page *page;
	long r = cr_gup(walk->mm, walk->stopped, 1, FOLL_FORCE, &page, NULL);

	if (r == 1) {
		put_page(page);
		return 0;
	}
	return r < 0 ? r : -EFAULT;
}

/**
 * cr_walk_range() - visit the page table entries in a range of one mapping
 * @walk: the callbacks and their argument. When a callback sets walk->stopped and returns
 *	-EAGAIN, the page there is faulted in and the walk continues from there.
 * @start: page aligned, in walk->vma
 * @end: page aligned, in walk->vma
 *
 * The mmap lock is held.
 *
 * Return: 0, or the first result of a callback that is not 0, with walk->stopped as the
 * callback has set it. -errno: walk->stopped is the address that could not be faulted in.
 */
int cr_walk_range(struct cr_walk *walk, unsigned long start, unsigned long end)
{
	unsigned int tries = 0;
	unsigned long addr, next;
	pmd_t *pmd;
	int r;

	mmap_assert_locked(walk->mm);
	for (addr = start; addr < end; addr = next) {
		pmd = cr_pmd(walk->mm, addr, &next);
		if (next > end || next <= addr)
			next = end;
		if (!pmd)
			continue;
		r = walk->prepare ? walk->prepare(walk, addr, next) : 0;
		if (r)
			return r;
		walk->stopped = addr;
		r = cr_walk_pmd(walk, pmd, addr, next);
		if (r == -EAGAIN) {
			if (walk->stopped != addr)
				tries = 0;
			r = ++tries > CR_SETTLE_TRIES ? -EAGAIN : cr_settle(walk);
			next = walk->stopped;
		} else {
			tries = 0;
		}
		if (r)
			return r;
		if (fatal_signal_pending(current) || (walk->req && cr_request_abandoned(walk->req)))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/*
 * Is it certain that the content of a page changes only by write faults? Inline: a walk asks for
 * each small page.
 */
static __always_inline bool cr_folio_is_tracked(struct folio *folio)
{
	/*
	 * KSM maps a merged page without the soft-dirty bit of the old one. Reclaim
	 * may drop lazily freed pages (MADV_FREE). DMA sets no soft-dirty bit.
	 */
	return folio_test_anon(folio) && !folio_test_ksm(folio) &&
	       folio_test_swapbacked(folio) && !folio_maybe_dma_pinned(folio);
}

static __always_inline bool cr_page_is_tracked(struct cr_tracked *seen, struct page *page)
{
	struct folio *folio;

	if (seen->pages && (unsigned long)(page - seen->first) < seen->pages)
		return true;
	folio = page_folio(page);
	/* what cr_folio_is_tracked() asks, without asking several times whether it is large */
	if (!folio_test_large(folio))
		return folio_test_anon(folio) && !folio_test_ksm(folio) &&
		       folio_test_swapbacked(folio) &&
		       (unsigned int)folio_ref_count(folio) < GUP_PIN_COUNTING_BIAS;
	if (!cr_folio_is_tracked(folio))
		return false;
	seen->first = folio_page(folio, 0);
	seen->pages = folio_nr_pages(folio);
	return true;
}

/* An entry that the processor does not use. */
static bool cr_absent_is_clean(struct cr_tracked *seen, pte_t pte)
{
	if (!pte_present(pte))
		return cr_pte_kind(pte) == CR_PTE_SWAP && !pte_swp_soft_dirty(pte);
	return !pte_soft_dirty(pte) && !pte_write(pte) && !pte_special(pte) &&
	       cr_page_is_tracked(seen, pte_page(pte));
}

/**
 * cr_clean_ptes() - of which pages is it certain that they are unchanged since tracking began?
 * @seen: the folio of an earlier page, seen under the same lock
 * @pte: their entries; ptl is held
 * @n: number of entries, up to BITS_PER_LONG
 *
 * The caller has checked that tracking is valid and that the mapping is older than it.
 *
 * Return: a bit for each entry.
 */
unsigned long cr_clean_ptes(struct cr_tracked *seen, pte_t *pte, unsigned int n)
{
	/* a write to a writable page does not fault, so it may have changed */
	const pteval_t mask = cr_readonly_mask() | _PAGE_SOFT_DIRTY | _PAGE_SPECIAL;
	unsigned long clean = 0, bit = 1;
	pte_t *end = pte + n;

	for (; pte < end; pte++, bit <<= 1) {
		pte_t value = ptep_get(pte);
		pteval_t flags = native_pte_val(value) & mask;

		if (flags == _PAGE_PRESENT ? cr_page_is_tracked(seen, cr_present_page(value)) :
		    !(flags & _PAGE_PRESENT) && cr_absent_is_clean(seen, value))
			clean |= bit;
	}
	return clean;
}

/* The entry of a page, without its flags but _PAGE_PRESENT. */
static __always_inline pteval_t cr_frame(const struct page *page)
{
	return ((pteval_t)page_to_pfn(page) << PAGE_SHIFT) | _PAGE_PRESENT;
}

/* One comparison tells both that it is this frame and that it has only those flags of @mask. */
static __always_inline bool cr_pte_shares(pte_t pte, pteval_t frame, pteval_t mask)
{
	return !((native_pte_val(pte) ^ frame) & mask);
}

/**
 * cr_shared_ptes() - which pages are those of a snapshot, shared and unchanged, since a write copies them?
 * @chunk: pages of the snapshot
 * @k: the first page in the chunk
 * @ptep: their entries; ptl is held
 * @n: number of entries, up to BITS_PER_LONG
 * @mask: flags of which an entry has only _PAGE_PRESENT: cr_readonly_mask() and further ones
 * @rest: out: those that need a closer look: all others but the ones that are empty here as in
 *	the snapshot
 *
 * There are millions of entries, so each kind of chunk has its loop.
 *
 * Return: a bit for each entry.
 */
unsigned long cr_shared_ptes(const struct cr_chunk *chunk, unsigned int k, pte_t *ptep,
			     unsigned int n, pteval_t mask, unsigned long *rest)
{
	unsigned long shared = 0, empty = 0, bit = 1;
	pte_t *end = ptep + n;
	struct page **pages;
	pteval_t frame;

	mask |= PTE_PFN_MASK;
	if (chunk->whole) {
		frame = cr_frame(chunk->whole + k);
		for (; ptep < end; ptep++, bit <<= 1, frame += PAGE_SIZE)
			if (cr_pte_shares(ptep_get(ptep), frame, mask))
				shared |= bit;
	} else {
		for (pages = chunk->pages + k; ptep < end; ptep++, bit <<= 1, pages++) {
			if (!*pages) {
				if (pte_none(ptep_get(ptep)))
					empty |= bit;
			} else if (cr_pte_shares(ptep_get(ptep), cr_frame(*pages), mask)) {
				shared |= bit;
			}
		}
	}
	*rest = GENMASK(n - 1, 0) & ~(shared | empty);
	return shared;
}

/**
 * cr_pmd_is_clean() - cr_clean_ptes() of a huge page
 * @pmd: its entry, present
 */
bool cr_pmd_is_clean(pmd_t pmd)
{
	return !pmd_soft_dirty(pmd) && !pmd_write(pmd) &&
	       cr_folio_is_tracked(page_folio(pmd_page(pmd)));
}
