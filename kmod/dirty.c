// SPDX-License-Identifier: GPL-2.0-only
/*
 * Report the ranges that may have changed since tracking began, and the guard pages. The
 * mmap lock is dropped before user memory is written; the walk then continues where it was.
 */
#include "internal.h"
#include <linux/bitmap.h>
#include <linux/mmu_notifier.h>

/* A walk over all mappings that reports ranges. Copying to user space is done outside it. */
struct cr_scan {
	struct cr_spans spans;
	struct mm_struct *mm;
	bool (*wants)(struct vm_area_struct *vma);
	int (*vma)(struct cr_scan *scan, struct vm_area_struct *vma, unsigned long from);
	unsigned long upto;	/* end of the scanned addresses */
};

/* Result of a callback: the stream has no room for further ranges. */
#define CR_SCAN_FULL 1

static bool cr_scan_full(struct cr_walk *walk, struct cr_scan *scan, unsigned long addr)
{
	if (!cr_stream_full(&scan->spans.stream))
		return false;
	walk->stopped = addr;
	return true;
}

/* Scan until the stream is full. Return: 0 at the end, CR_SCAN_FULL, or -errno. */
static int cr_scan_some(struct cr_scan *scan)
{
	struct vm_area_struct *vma;
	struct vma_iterator vmi;
	int r = 0;

	vma_iter_init(&vmi, scan->mm, scan->upto);
	if (mmap_read_lock_killable(scan->mm))
		return -EINTR;
	for_each_vma(vmi, vma) {
		if (!scan->wants(vma))
			continue;
		scan->upto = max(scan->upto, vma->vm_start);
		r = cr_stream_full(&scan->spans.stream) ? CR_SCAN_FULL :
		    scan->vma(scan, vma, scan->upto);
		if (r)
			break;
		scan->upto = vma->vm_end;
	}
	mmap_read_unlock(scan->mm);
	return r;
}

static long cr_scan_run(struct cr_scan *scan, struct cr_array *array)
{
	long r = cr_stream_begin(&scan->spans.stream, array, sizeof(struct cr_range));

	if (r)
		return r;
	do {
		r = cr_scan_some(scan);
		if (r >= 0)
			r = cr_stream_flush(&scan->spans.stream) ?: r;
	} while (r == CR_SCAN_FULL);
	cr_spans_close(&scan->spans);
	return cr_stream_end(&scan->spans.stream, array, r);
}

/* -------------------------------------------------------------- changed memory */

/* [addr, end) is clean: report everything since the previous clean page as changed. */
static void cr_dirty_clean(struct cr_scan *scan, unsigned long addr, unsigned long end)
{
	cr_spans_add(&scan->spans, scan->upto, addr);
	scan->upto = end;
}

static int cr_dirty_ptes(struct cr_walk *walk, pte_t *pte, unsigned long addr, unsigned long end)
{
	struct cr_scan *scan = walk->arg;
	struct cr_tracked seen = { };
	unsigned int n, from, upto;
	unsigned long clean;

	for (; addr < end; addr += n * PAGE_SIZE, pte += n) {
		n = min_t(unsigned long, (end - addr) >> PAGE_SHIFT, BITS_PER_LONG);
		clean = cr_clean_ptes(&seen, pte, n);
		for_each_set_bitrange(from, upto, &clean, n) {
			if (cr_scan_full(walk, scan, addr + from * PAGE_SIZE))
				return CR_SCAN_FULL;
			cr_dirty_clean(scan, addr + from * PAGE_SIZE, addr + upto * PAGE_SIZE);
		}
	}
	return 0;
}

static int cr_dirty_huge(struct cr_walk *walk, pmd_t *pmd, unsigned long addr, unsigned long end)
{
	struct cr_scan *scan = walk->arg;

	if (cr_scan_full(walk, scan, addr))
		return CR_SCAN_FULL;
	if (cr_pmd_is_clean(pmdp_get(pmd)))
		cr_dirty_clean(scan, addr, end);
	return 0;
}

static int cr_dirty_vma(struct cr_scan *scan, struct vm_area_struct *vma, unsigned long from)
{
	struct cr_walk walk = {
		.mm = scan->mm, .vma = vma, .arg = scan,
		.ptes = cr_dirty_ptes, .huge = cr_dirty_huge,
	};
	int r = 0;

	if (!(vma->vm_flags & VM_SOFTDIRTY))
		r = cr_walk_range(&walk, from, vma->vm_end);
	if (!r)
		cr_spans_add(&scan->spans, scan->upto, vma->vm_end);
	return r;
}

/**
 * cr_ioc_dirty() - CR_IOC_DIRTY
 * @s: the session
 * @a: its argument
 */
long cr_ioc_dirty(struct cr_session *s, struct cr_dirty *a)
{
	struct cr_scan scan = { .mm = s->mm, .wants = cr_vma_has_pages, .vma = cr_dirty_vma };
	long r;

	if (!cr_track_is(s->mm, a->id))
		return -ESTALE;
	r = cr_scan_run(&scan, &a->ranges);
	/* tracking may have ended during the scan: the result would be wrong */
	if ((!r || r == -ENOBUFS) && !cr_track_is(s->mm, a->id))
		r = -ESTALE;
	return r;
}

/* ---------------------------------------------------------------- guard pages */

static int cr_guard_ptes(struct cr_walk *walk, pte_t *pte, unsigned long addr, unsigned long end)
{
	struct cr_scan *scan = walk->arg;

	for (; addr < end; addr += PAGE_SIZE, pte++) {
		pte_t value = ptep_get(pte);

		/* nearly all entries are present or empty */
		if (pte_flags(value) & _PAGE_PRESENT || cr_pte_kind(value) != CR_PTE_GUARD)
			continue;
		if (cr_scan_full(walk, scan, addr))
			return CR_SCAN_FULL;
		cr_spans_add(&scan->spans, addr, addr + PAGE_SIZE);
		scan->upto = addr + PAGE_SIZE;
	}
	scan->upto = end;
	return 0;
}

static int cr_guard_huge(struct cr_walk *walk, pmd_t *pmd, unsigned long addr, unsigned long end)
{
	return 0;
}

static int cr_guard_vma(struct cr_scan *scan, struct vm_area_struct *vma, unsigned long from)
{
	struct cr_walk walk = {
		.mm = scan->mm, .vma = vma, .arg = scan,
		.ptes = cr_guard_ptes, .huge = cr_guard_huge,
	};
	int r = cr_walk_range(&walk, from, vma->vm_end);

	if (!r)
		cr_spans_close(&scan->spans);
	return r;
}

/* Mappings in which the kernel allows guard pages: private and shared, with or without file. */
static bool cr_vma_may_guard(struct vm_area_struct *vma)
{
	return cr_vma_may_hold_guards(vma) &&
	       !(vma->vm_flags & (VM_IO | VM_PFNMAP | VM_HUGETLB | VM_MIXEDMAP));
}

/**
 * cr_ioc_guards() - CR_IOC_GUARDS
 * @s: the session
 * @a: its argument
 */
long cr_ioc_guards(struct cr_session *s, struct cr_array *a)
{
	struct cr_scan scan = { .mm = s->mm, .wants = cr_vma_may_guard, .vma = cr_guard_vma };

	return cr_scan_run(&scan, a);
}
