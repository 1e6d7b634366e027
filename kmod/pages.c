// SPDX-License-Identifier: GPL-2.0-only
/*
 * Walking page tables without walk_page_range(), which is not exported, and
 * telling the states that an entry can be in.
 */
#include "internal.h"
#include <linux/hugetlb.h>
#include <linux/mman.h>
#include <linux/rmap.h>
#include <linux/swap.h>

/* How often a page is brought in that is gone again when we look: reclaim may be fast. */
#define CR_SETTLE_TRIES 100

/* The pmd that maps addr, or NULL; *next is where the next one begins. */
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

/* The table's lock is the pmd's own on kernels without split locks. */
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

	/* a table may be retracted under us: look again under its lock */
	rcu_read_lock();
	ptl = pmd_lockptr(walk->mm, pmd);
	spin_lock(ptl);
	value = pmdp_get(pmd);
	if (pmd_none(value))
		r = 0;
	else if (pmd_trans_huge(value))
		r = walk->huge(walk, pmd, addr, end);
	else if (pmd_present(value) && pmd_leaf(value))
		r = 0;		/* a file's memory, mapped directly: nobody's private pages */
	else if (pmd_present(value) && !pmd_bad(value))
		r = cr_walk_table(walk, pmd, ptl, addr, end);
	else
		r = -EAGAIN;	/* a huge page on its way to somewhere else */
	spin_unlock(ptl);
	rcu_read_unlock();
	return r;
}

/* Bring in what a walk has stopped at, or wait until it has arrived where it moves to. */
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
 * cr_walk_range() - visit what is mapped in a range of one mapping
 * @walk: what to call, and for what. A callback that answers -EAGAIN, after it has
 *	set walk->stopped, has the page there brought in and goes on from there.
 * @start: page aligned, in walk->vma
 * @end: page aligned, in walk->vma
 *
 * The mmap lock is held. Return: the first result of a callback that is not 0, with
 * walk->stopped as the callback has set it, or -errno with the address that could not
 * be brought in.
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

/* Is it sure that the content of an anonymous page changes by write faults alone? */
static bool cr_folio_is_tracked(struct folio *folio)
{
	/*
	 * KSM maps a merged page without the bit that the old one had. Lazily freed
	 * pages may vanish any time. DMA writes are seen by nobody.
	 */
	return folio_test_anon(folio) && !folio_test_ksm(folio) &&
	       folio_test_swapbacked(folio) && !folio_maybe_dma_pinned(folio);
}

/**
 * cr_pte_is_clean() - is a page surely unchanged since tracking began?
 * @pte: its entry
 *
 * The caller knows that tracking is on, and the mapping older than it.
 */
bool cr_pte_is_clean(pte_t pte)
{
	if (!pte_present(pte))
		return cr_pte_kind(pte) == CR_PTE_SWAP && !pte_swp_soft_dirty(pte);
	/* writable: a write would not be noticed */
	if (pte_soft_dirty(pte) || pte_write(pte) || pte_special(pte))
		return false;
	return cr_folio_is_tracked(page_folio(pte_page(pte)));
}

/**
 * cr_pmd_is_clean() - cr_pte_is_clean() of a huge page
 * @pmd: its entry, present
 */
bool cr_pmd_is_clean(pmd_t pmd)
{
	return !pmd_soft_dirty(pmd) && !pmd_write(pmd) &&
	       cr_folio_is_tracked(page_folio(pmd_page(pmd)));
}
