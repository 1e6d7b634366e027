// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flushing the TLBs of every CPU that runs a process, without
 * flush_tlb_mm_range(), which is not exported.
 *
 * Every change of page tables in the kernel ends in tlb_finish_mmu(). When others
 * have announced changes of their own that are not flushed yet, by
 * inc_tlb_flush_pending(), it flushes everything, and the secondary TLBs of
 * devices with it. That is just what is wanted: our changes are announced, and
 * then a page is zapped of which nobody will miss anything. This needs no mapping
 * of our own, so no limit of the process can be in its way, and does not depend on
 * how many pages a CPU flushes one by one.
 */
#include "internal.h"
#include <linux/mm_inline.h>
#include <linux/mman.h>
#include <linux/uaccess.h>
#include <linux/userfaultfd_k.h>

struct cr_blank {
	bool refaults;		/* pages of the mapping's file come back as they were */
	unsigned long upto;	/* looked at so far */
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

/* A page of the mapping that can be zapped without anybody's noticing; false: none. */
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
 * cr_flush_mm() - make every CPU and device look at the page tables anew
 * @mm: whose; its mmap lock is held for writing, so that nothing is faulted in
 *	between the look for a page and its zap
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
		return;		/* nothing is mapped that could be cached */
	if (!len)
		addr = any->vm_end - PAGE_SIZE;	/* nothing at all is zapped there */
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

/* Write-protect a page of our own. Return: 1 when it was writable, 0 or -errno. */
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
 * cr_flush_init() - see that the flush works on this kernel, in the loader's memory
 *
 * Return: 0, -EOPNOTSUPP when a CPU wrote to a page by an entry that should have been
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
		/* must fault, and so become writable again */
		r = put_user(2L, (long __user *)addr) ? -EFAULT : cr_protect_own(addr);
		if (!r) {
			pr_err("a page that was write-protected could still be written: flushing does not work on this kernel\n");
			r = -EOPNOTSUPP;
		}
	} else if (!r) {
		r = -EAGAIN;	/* taken away by reclaim at once: load it again */
	}
	vm_munmap(addr, PAGE_SIZE);
	return min(r, 0);
}
