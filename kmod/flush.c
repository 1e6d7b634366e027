// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flush the TLBs of every CPU that runs a process, without flush_tlb_mm_range(), which is
 * not exported.
 *
 * Every change of page tables in the kernel ends in tlb_finish_mmu(). If other code has
 * announced changes by inc_tlb_flush_pending() and not flushed them yet, tlb_finish_mmu()
 * flushes the whole mm, and the secondary TLBs of devices. So the module announces its
 * changes and then zaps a page whose loss has no effect. This needs no extra mapping, which
 * a limit of the process could prevent. It does not depend on the number of pages up to
 * which a CPU flushes single pages either.
 */
#include "internal.h"
#include <linux/mm_inline.h>
#include <linux/mman.h>
#include <linux/uaccess.h>
#include <linux/userfaultfd_k.h>

struct cr_blank {
	bool refaults;		/* a zapped file page is faulted in again unchanged */
	unsigned long upto;	/* end of the searched addresses */
	unsigned long found;
};

static int cr_blank_found(struct cr_blank *blank, unsigned long addr)
{
	blank->found = addr;
	return 1;
}

static int cr_blank_ptes(struct cr_walk *walk, pte_t *pte, unsigned long addr, unsigned long end)
{
	struct cr_blank *blank = walk->arg;
	enum cr_pte_kind kind;

	if (addr > blank->upto)
		return cr_blank_found(blank, blank->upto);
	for (; addr < end; addr += PAGE_SIZE, pte++) {
		kind = cr_pte_kind(ptep_get(pte));
		if (kind == CR_PTE_NONE || (kind == CR_PTE_FILE && blank->refaults))
			return cr_blank_found(blank, addr);
	}
	blank->upto = end;
	return 0;
}

static int cr_blank_huge(struct cr_walk *walk, pmd_t *pmd, unsigned long addr, unsigned long end)
{
	struct cr_blank *blank = walk->arg;

	if (addr > blank->upto)
		return cr_blank_found(blank, blank->upto);
	blank->upto = end;
	return 0;
}

/* Find a page of the mapping that can be zapped without a visible effect; false: none. */
static bool cr_find_blank(struct vm_area_struct *vma, unsigned long *addr)
{
	struct cr_blank blank = {
		.refaults = vma->vm_file && S_ISREG(file_inode(vma->vm_file)->i_mode) &&
			    !(vma->vm_flags & VM_LOCKED) && !userfaultfd_armed(vma),
		.upto = vma->vm_start,
	};
	struct cr_walk walk = {
		.mm = vma->vm_mm, .vma = vma, .arg = &blank,
		.ptes = cr_blank_ptes, .huge = cr_blank_huge,
	};
	int r;

	if (vma->vm_flags & (VM_HUGETLB | VM_IO | VM_PFNMAP | VM_MIXEDMAP))
		return false;
	r = cr_walk_range(&walk, vma->vm_start, vma->vm_end);
	if (!r && blank.upto < vma->vm_end)
		r = cr_blank_found(&blank, blank.upto);
	*addr = blank.found;
	return r == 1;
}

/**
 * cr_flush_mm() - flush the TLBs of all CPUs and devices for an mm
 * @mm: the mm; its mmap lock is held for writing, so that no page is faulted in
 *	between the search for a page and its zap
 */
void cr_flush_mm(struct mm_struct *mm)
{
	struct vm_area_struct *vma, *any = NULL;
	unsigned long addr = 0, len = 0;
	struct vma_iterator vmi;

	vma_iter_init(&vmi, mm, 0);
	mmap_assert_write_locked(mm);
	for_each_vma(vmi, vma) {
		if (vma->vm_flags & VM_HUGETLB)
			continue;
		any = vma;
		if (!cr_find_blank(vma, &addr))
			continue;
		len = PAGE_SIZE;
		break;
	}
	if (!any)
		return;		/* no mapping, so no TLB entries */
	if (!len)
		addr = any->vm_end - PAGE_SIZE;	/* zap an empty range */
	inc_tlb_flush_pending(mm);
	cr_zap(any, addr, len);
	dec_tlb_flush_pending(mm);
}

/* ------------------------------------------------------------------ self-test */

static int cr_protect_ptes(struct cr_walk *walk, pte_t *pte, unsigned long addr, unsigned long end)
{
	*(bool *)walk->arg = pte_present(ptep_get(pte)) && pte_write(ptep_get(pte));
	if (*(bool *)walk->arg)
		ptep_set_wrprotect(walk->mm, addr, pte);
	return 0;
}

static int cr_protect_huge(struct cr_walk *walk, pmd_t *pmd, unsigned long addr, unsigned long end)
{
	return 0;
}

/* Write-protect a page of current. Return: 1 if it was writable, 0 if not, or -errno. */
static int cr_protect_own(unsigned long addr)
{
	struct mm_struct *mm = current->mm;
	bool was_writable = false;
	struct cr_walk walk = {
		.mm = mm, .arg = &was_writable,
		.ptes = cr_protect_ptes, .huge = cr_protect_huge,
	};
	int r;

	if (mmap_write_lock_killable(mm))
		return -EINTR;
	walk.vma = find_vma(mm, addr);
	r = cr_walk_range(&walk, addr, addr + PAGE_SIZE);
	cr_flush_mm(mm);
	mmap_write_unlock(mm);
	return r ? r : was_writable;
}

/**
 * cr_flush_init() - test the flush on this kernel, in the memory of the loading process
 *
 * Return: 0, -EOPNOTSUPP if a CPU wrote to a page through a TLB entry that should have been
 * flushed, or -errno.
 */
int cr_flush_init(void)
{
	unsigned long addr;
	int r;

	if (!current->mm)
		return 0;
	addr = vm_mmap(NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, 0);
	if (IS_ERR_VALUE(addr))
		return (int)addr;
	r = put_user(1L, (long __user *)addr) ? -EFAULT : cr_protect_own(addr);
	if (r == 1) {
		/* after a working flush the write faults and makes the page writable again */
		r = put_user(2L, (long __user *)addr) ? -EFAULT : cr_protect_own(addr);
		if (!r) {
			pr_err("a page that was write-protected could still be written: flushing does not work on this kernel\n");
			r = -EOPNOTSUPP;
		}
	} else if (!r) {
		r = -EAGAIN;	/* reclaim took the page: load the module again */
	}
	vm_munmap(addr, PAGE_SIZE);
	return min(r, 0);
}
