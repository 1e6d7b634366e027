// SPDX-License-Identifier: GPL-2.0-only
/*
 * Walking page tables without walk_page_range(), which is not exported, and
 * flushing the TLB without flush_tlb_mm_range(), which is not either.
 */
#include "internal.h"
#include <linux/hugetlb.h>
#include <linux/mman.h>
#include <linux/rmap.h>
#include <linux/swap.h>
#include <linux/uaccess.h>

/* The pmd that maps addr, or NULL; *next is where the next one begins. */
static pmd_t *cr_pmd(struct mm_struct *mm, unsigned long addr, unsigned long *next)
{
	pgd_t *pgd = pgd_offset(mm, addr);
	p4d_t *p4d;
	pud_t *pud;
	pmd_t *pmd;

	*next = (addr + PGDIR_SIZE) & PGDIR_MASK;
	if (pgd_none(*pgd) || pgd_bad(*pgd))
		return NULL;
	p4d = p4d_offset(pgd, addr);
	*next = (addr + P4D_SIZE) & P4D_MASK;
	if (p4d_none(*p4d) || p4d_bad(*p4d))
		return NULL;
	pud = pud_offset(p4d, addr);
	*next = (addr + PUD_SIZE) & PUD_MASK;
	if (pud_none(*pud) || pud_devmap(*pud) || pud_trans_huge(*pud) || pud_bad(*pud))
		return NULL;
	pmd = pmd_offset(pud, addr);
	*next = (addr + PMD_SIZE) & PMD_MASK;
	return pmd_none(*pmd) ? NULL : pmd;
}

/* The table's lock is the pmd's own on kernels without split locks. */
static int cr_walk_table(struct cr_walk *w, pmd_t *pmd, spinlock_t *held, unsigned long addr,
			 unsigned long end)
{
	spinlock_t *ptl = pte_lockptr(w->mm, pmd);
	int r;

	if (ptl == held)
		return w->ptes(w, pte_offset_kernel(pmd, addr), addr, end);
	spin_lock_nested(ptl, SINGLE_DEPTH_NESTING);
	r = w->ptes(w, pte_offset_kernel(pmd, addr), addr, end);
	spin_unlock(ptl);
	return r;
}

static int cr_walk_pmd(struct cr_walk *w, pmd_t *pmd, unsigned long addr, unsigned long end)
{
	spinlock_t *ptl;
	int r = 0;

	/* a table may be retracted under us: look again under its lock */
	rcu_read_lock();
	ptl = pmd_lockptr(w->mm, pmd);
	spin_lock(ptl);
	if (pmd_trans_huge(*pmd))
		r = w->huge(w, pmd, addr, end);
	else if (pmd_present(*pmd) && !pmd_bad(*pmd))	/* not: a huge page under migration */
		r = cr_walk_table(w, pmd, ptl, addr, end);
	spin_unlock(ptl);
	rcu_read_unlock();
	return r;
}

/*
 * Visit what is mapped in [start, end) of w->vma, mmap lock held. Stops at the
 * first result that is not 0 and returns it.
 */
int cr_walk_range(struct cr_walk *w, unsigned long start, unsigned long end)
{
	unsigned long addr, next;
	pmd_t *pmd;
	int r;

	for (addr = start; addr < end; addr = next) {
		pmd = cr_pmd(w->mm, addr, &next);
		if (next > end || next <= addr)
			next = end;
		if (!pmd)
			continue;
		if (w->prepare) {
			r = w->prepare(w, addr, next);
			if (r)
				return r;
			pmd = cr_pmd(w->mm, addr, &(unsigned long){ 0 });
			if (!pmd)
				continue;
		}
		r = cr_walk_pmd(w, pmd, addr, next);
		if (r)
			return r;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/* Unchanged since tracking began? The caller knows that it is on, and the mapping's age. */
bool cr_page_is_clean(pte_t pte)
{
	struct page *page;

	if (!pte_present(pte))
		return !pte_none(pte) && !pte_swp_soft_dirty(pte);
	/* writable: a write would not be noticed */
	if (pte_soft_dirty(pte) || pte_write(pte) || pte_special(pte))
		return false;
	page = pte_page(pte);
	/* lazily freed pages may vanish any time; DMA writes are seen by nobody */
	return PageAnon(page) && folio_test_swapbacked(page_folio(page)) &&
	       !folio_maybe_dma_pinned(page_folio(page));
}

#define CR_FLUSH_PAGES 128UL

/*
 * Flush the TLBs of every CPU that runs this mm: unmapping a range wider than the
 * kernel's ceiling for single pages makes it flush everything. In the target's
 * context, no mmap lock held.
 */
int cr_flush_mm(void)
{
	unsigned long len = CR_FLUSH_PAGES << PAGE_SHIFT;
	unsigned long at = vm_mmap(NULL, 0, len, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, 0);
	int r = 0;

	if (IS_ERR_VALUE(at))
		return (int)at;
	if (put_user(1, (int __user *)at) || put_user(1, (int __user *)(at + len - PAGE_SIZE)))
		r = -ENOMEM;
	return vm_munmap(at, len) ?: r;
}
