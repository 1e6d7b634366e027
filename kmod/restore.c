// SPDX-License-Identifier: GPL-2.0-only
/*
 * Putting pages back, by the parked threads themselves and in parallel: from a
 * file (an image) or from the session's snapshot. The mappings are right already.
 */
#include "internal.h"
#include <linux/bitmap.h>
#include <linux/bvec.h>
#include <linux/file.h>
#include <linux/highmem.h>
#include <linux/mmu_notifier.h>
#include <linux/rmap.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#define CR_CHUNK_SIZE	(8UL << 20)	/* what a worker takes at a time */
#define CR_IO_PAGES	128		/* pages of one read */

struct cr_job {
	struct file *source;		/* NULL: the snapshot */
	struct cr_snap *snap;
	struct cr_page_run *runs;
	u64 nruns;
	struct cr_range *scope;
	u64 nscope;
	bool dirty_only;		/* soft-dirty bits are to be believed */
	atomic64_t next;		/* chunk to take next */
	atomic64_t restored, dropped, unchanged;
	int error;			/* first one, WRITE_ONCE */
};

/* One pmd's worth of pages being sorted: what to restore, what to drop. */
struct cr_sort {
	struct cr_job *job;
	unsigned long base;
	struct page **chunk;		/* of the snapshot, may be NULL */
	DECLARE_BITMAP(want, PTRS_PER_PTE);	/* has content in the source */
	DECLARE_BITMAP(put, PTRS_PER_PTE);	/* must get it */
	DECLARE_BITMAP(drop, PTRS_PER_PTE);	/* must go */
	u64 done;			/* restored on the spot */
};

/* First run that ends after addr. */
static u64 cr_run_at(struct cr_job *j, unsigned long addr)
{
	u64 lo = 0, hi = j->nruns;

	while (lo < hi) {
		u64 mid = lo + (hi - lo) / 2;

		if (j->runs[mid].addr + j->runs[mid].len <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void cr_sort_begin(struct cr_sort *so, struct cr_job *j, unsigned long addr,
			  unsigned long end)
{
	unsigned int k, from, upto;
	u64 i;

	so->job = j;
	so->base = addr & PMD_MASK;
	so->chunk = NULL;
	so->done = 0;
	bitmap_zero(so->want, PTRS_PER_PTE);
	bitmap_zero(so->drop, PTRS_PER_PTE);
	if (!j->source) {
		so->chunk = cr_snap_chunk(j->snap, addr);
		for (k = (addr - so->base) >> PAGE_SHIFT;
		     so->chunk && k < (end - so->base) >> PAGE_SHIFT; k++)
			if (so->chunk[k])
				__set_bit(k, so->want);
	} else {
		for (i = cr_run_at(j, addr); i < j->nruns && j->runs[i].addr < end; i++) {
			from = (max_t(u64, j->runs[i].addr, addr) - so->base) >> PAGE_SHIFT;
			upto = (min_t(u64, j->runs[i].addr + j->runs[i].len, end) - so->base)
			       >> PAGE_SHIFT;
			bitmap_set(so->want, from, upto - from);
		}
	}
	/* what is not even mapped must be put; the walk strikes out what may stay */
	bitmap_copy(so->put, so->want, PTRS_PER_PTE);
}

/*
 * Content straight into a page that is the program's alone. The page lock is not
 * needed: nobody runs, and marking it dirty keeps reclaim from losing it.
 */
static void cr_copy_in_place(struct page *to, struct page *from)
{
	copy_highpage(to, from);
	folio_mark_dirty(page_folio(to));
}

static void cr_sort_page(struct cr_sort *so, unsigned int k, pte_t pte, bool young_vma)
{
	struct cr_job *j = so->job;
	bool clean = j->dirty_only && !young_vma && cr_page_is_clean(pte);
	struct page *page;

	if (!test_bit(k, so->want)) {
		/* pages of the file below a private mapping are not the program's */
		if (!pte_present(pte) || (!pte_special(pte) && PageAnon(pte_page(pte))))
			__set_bit(k, so->drop);
		return;
	}
	if (clean) {
		__clear_bit(k, so->put);
		return;
	}
	if (j->source || !pte_present(pte) || pte_special(pte))
		return;
	page = pte_page(pte);
	if (page == so->chunk[k]) {	/* still shared with the snapshot */
		__clear_bit(k, so->put);
	} else if (PageAnon(page) && PageAnonExclusive(page)) {
		cr_copy_in_place(page, so->chunk[k]);
		__clear_bit(k, so->put);
		so->done++;
	}
}

static int cr_sort_ptes(struct cr_walk *w, pte_t *pte, unsigned long addr, unsigned long end)
{
	struct cr_sort *so = w->arg;
	bool young = w->vma->vm_flags & VM_SOFTDIRTY;

	for (; addr < end; addr += PAGE_SIZE, pte++)
		if (!pte_none(*pte))
			cr_sort_page(so, (addr - so->base) >> PAGE_SHIFT, *pte, young);
	return 0;
}

static int cr_sort_huge(struct cr_walk *w, pmd_t *pmd, unsigned long addr, unsigned long end)
{
	bool young = w->vma->vm_flags & VM_SOFTDIRTY;
	struct page *head = pmd_page(*pmd);
	struct folio *folio = page_folio(head);
	struct cr_sort *so = w->arg;
	struct cr_job *j = so->job;
	unsigned int k;
	bool clean;

	if (!PageAnon(head))	/* the huge zero page reads as untouched */
		return 0;
	clean = j->dirty_only && !young && cr_pmd_is_clean(*pmd) &&
		!folio_maybe_dma_pinned(folio) && folio_test_swapbacked(folio);
	for (; addr < end; addr += PAGE_SIZE) {
		k = (addr - so->base) >> PAGE_SHIFT;
		if (!test_bit(k, so->want)) {
			__set_bit(k, so->drop);
		} else if (clean) {
			__clear_bit(k, so->put);
		} else if (!j->source && head + k == so->chunk[k]) {
			__clear_bit(k, so->put);
		} else if (!j->source && PageAnonExclusive(head)) {
			cr_copy_in_place(head + k, so->chunk[k]);
			__clear_bit(k, so->put);
			so->done++;
		}
	}
	return 0;
}

/* Have n pages at addr present and private. Up to n; mmap lock held. */
static long cr_fault_in(struct mm_struct *mm, unsigned long addr, unsigned int n,
			struct page **pages)
{
	long got = cr_gup(mm, addr, n, FOLL_WRITE | FOLL_FORCE, pages, NULL);

	return got > 0 ? got : got ? got : -EFAULT;
}

static void cr_put_dirty(struct page **pages, long n)
{
	while (n--) {
		set_page_dirty_lock(pages[n]);
		put_page(pages[n]);
	}
}

static int cr_read_pages(struct cr_job *j, struct page **pages, long n, loff_t pos,
			 struct bio_vec *bv)
{
	size_t left = (size_t)n << PAGE_SHIFT;
	struct iov_iter it;
	ssize_t r = 0;
	long i;

	for (i = 0; i < n; i++)
		bvec_set_page(&bv[i], pages[i], PAGE_SIZE, 0);
	iov_iter_bvec(&it, ITER_DEST, bv, n, left);
	while (left) {
		r = vfs_iter_read(j->source, &it, &pos, 0);
		if (r <= 0)
			return r ? (int)r : -ENODATA;	/* shorter than it was when checked */
		left -= r;
	}
	return 0;
}

struct cr_worker {
	struct page *pages[CR_IO_PAGES];
	struct bio_vec bv[CR_IO_PAGES];
	struct cr_sort so;
};

/* Pages [from, upto) of the sorted pmd, all to be put. */
static int cr_put_pages(struct cr_walk *w, struct cr_worker *wk, unsigned int from,
			unsigned int upto)
{
	struct cr_sort *so = &wk->so;
	struct cr_job *j = so->job;
	unsigned long addr;
	unsigned int n, i;
	u64 run;
	long got;
	int r = 0;

	while (from < upto && !r) {
		addr = so->base + ((unsigned long)from << PAGE_SHIFT);
		n = min_t(unsigned int, upto - from, CR_IO_PAGES);
		run = 0;
		if (j->source) {	/* contiguous in the file, too */
			run = cr_run_at(j, addr);
			n = min_t(u64, n, (j->runs[run].addr + j->runs[run].len - addr)
					  >> PAGE_SHIFT);
		}
		got = cr_fault_in(w->mm, addr, n, wk->pages);
		if (got < 0)
			return got;
		if (j->source) {
			r = cr_read_pages(j, wk->pages, got,
					  j->runs[run].offset + (addr - j->runs[run].addr), wk->bv);
		} else {
			for (i = 0; i < got; i++)
				if (wk->pages[i] != so->chunk[from + i])
					copy_highpage(wk->pages[i], so->chunk[from + i]);
		}
		cr_put_dirty(wk->pages, got);
		from += got;
		atomic64_add(got, &j->restored);
		if (fatal_signal_pending(current))
			return -EINTR;
	}
	return r;
}

static int cr_restore_pmd(struct cr_walk *w, struct cr_worker *wk, struct cr_job *j,
			  unsigned long addr, unsigned long end)
{
	struct cr_sort *so = &wk->so;
	unsigned int from, upto;
	int r;

	cr_sort_begin(so, j, addr, end);
	r = cr_walk_range(w, addr, end);
	if (r)
		return r;
	atomic64_add(so->done, &j->restored);
	atomic64_add(bitmap_weight(so->want, PTRS_PER_PTE) -
		     bitmap_weight(so->put, PTRS_PER_PTE) - so->done, &j->unchanged);
	for_each_set_bitrange(from, upto, so->drop, PTRS_PER_PTE) {
		cr_zap(w->vma, so->base + ((unsigned long)from << PAGE_SHIFT),
		       (unsigned long)(upto - from) << PAGE_SHIFT);
		atomic64_add(upto - from, &j->dropped);
	}
	for_each_set_bitrange(from, upto, so->put, PTRS_PER_PTE) {
		r = cr_put_pages(w, wk, from, upto);
		if (r)
			return r;
	}
	return 0;
}

/* Where in [addr, end) the source has content first. */
static unsigned long cr_source_next(struct cr_job *j, unsigned long addr, unsigned long end)
{
	u64 run;

	if (!j->source)
		return cr_snap_next(j->snap, addr, end);
	run = cr_run_at(j, addr);
	if (run == j->nruns || j->runs[run].addr >= end)
		return end;
	return max_t(u64, j->runs[run].addr, addr);
}

/* Where the target has page tables first: a walk that stops at once. */
static int cr_probe_ptes(struct cr_walk *w, pte_t *pte, unsigned long addr, unsigned long end)
{
	*(unsigned long *)w->arg = addr;
	return 1;
}

static int cr_probe_huge(struct cr_walk *w, pmd_t *pmd, unsigned long addr, unsigned long end)
{
	*(unsigned long *)w->arg = addr;
	return 1;
}

/* The first address in [addr, end) at which either side has something: skips holes. */
static int cr_skip_hole(struct cr_job *j, struct vm_area_struct *vma, unsigned long *addr,
			unsigned long end)
{
	unsigned long found = cr_source_next(j, *addr, end);
	struct cr_walk probe = {
		.mm = vma->vm_mm, .vma = vma, .arg = &found,
		.ptes = cr_probe_ptes, .huge = cr_probe_huge,
	};
	int r = cr_walk_range(&probe, *addr, found);

	*addr = found;
	return min(r, 0);
}

static int cr_restore_range(struct cr_job *j, struct cr_worker *wk, struct vm_area_struct *vma,
			    unsigned long addr, unsigned long end)
{
	struct cr_walk w = {
		.mm = vma->vm_mm, .vma = vma, .arg = &wk->so,
		.ptes = cr_sort_ptes, .huge = cr_sort_huge,
	};
	unsigned long next;
	int r;

	for (; addr < end; addr = next) {
		r = cr_skip_hole(j, vma, &addr, end);
		if (r || addr >= end)
			return r;
		next = min(end, (addr + PMD_SIZE) & PMD_MASK);
		r = cr_restore_pmd(&w, wk, j, addr, next);
		if (r)
			return r;
		cond_resched();
	}
	return 0;
}

static int cr_restore_chunk(struct cr_job *j, struct cr_worker *wk, unsigned long addr,
			    unsigned long end)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	int r = 0;

	if (mmap_read_lock_killable(mm))
		return -EINTR;
	while (addr < end && !r) {
		unsigned long upto;

		vma = find_vma(mm, addr);
		if (!vma || vma->vm_start > addr || !cr_vma_has_pages(vma)) {
			r = -EFAULT;
			break;
		}
		upto = min(end, vma->vm_end);
		r = cr_restore_range(j, wk, vma, addr, upto);
		addr = upto;
	}
	mmap_read_unlock(mm);
	return r;
}

/* Chunks of the scope are numbered; each worker takes the next one. */
static int cr_op_restore(struct cr_session *s, struct cr_member *m, void *arg)
{
	struct cr_worker *wk = kvmalloc(sizeof(*wk), GFP_KERNEL);
	struct cr_job *j = arg;
	u64 mine, number = 0, i;
	int r = 0;

	if (!wk)
		return -ENOMEM;
	mine = atomic64_inc_return(&j->next) - 1;
	for (i = 0; i < j->nscope && !r; i++) {
		unsigned long addr = j->scope[i].addr, end = addr + j->scope[i].len, upto;
		u64 n = ((end - 1) / CR_CHUNK_SIZE) - addr / CR_CHUNK_SIZE + 1;

		while (mine < number + n && !r) {
			addr = j->scope[i].addr;
			if (mine > number)
				addr = (addr / CR_CHUNK_SIZE + (mine - number)) * CR_CHUNK_SIZE;
			upto = min(end, (addr / CR_CHUNK_SIZE + 1) * CR_CHUNK_SIZE);
			if (READ_ONCE(j->error) || READ_ONCE(s->abort))
				r = -EINTR;
			else
				r = cr_restore_chunk(j, wk, addr, upto);
			mine = atomic64_inc_return(&j->next) - 1;
		}
		number += n;
	}
	kvfree(wk);
	if (r && !READ_ONCE(j->error))
		WRITE_ONCE(j->error, r);
	return r;
}

/* ------------------------------------------------------------ what was asked */

/* Sorted, aligned, not overlapping, in user memory's range. */
static bool cr_range_ok(u64 addr, u64 len, u64 after)
{
	return len && !((addr | len) & ~PAGE_MASK) && addr >= after &&
	       len <= TASK_SIZE_MAX && addr <= TASK_SIZE_MAX - len;
}

static bool cr_job_ok(struct cr_job *j)
{
	u64 i, k = 0, after = 0;

	for (i = 0; i < j->nscope; i++) {
		if (!cr_range_ok(j->scope[i].addr, j->scope[i].len, after))
			return false;
		after = j->scope[i].addr + j->scope[i].len;
	}
	after = 0;
	for (i = 0; i < j->nruns; i++) {
		u64 addr = j->runs[i].addr, len = j->runs[i].len;

		if (!cr_range_ok(addr, len, after) || j->runs[i].offset & ~PAGE_MASK ||
		    j->runs[i].offset > (u64)LLONG_MAX - len)
			return false;
		after = addr + len;
		while (k < j->nscope && j->scope[k].addr + j->scope[k].len <= addr)
			k++;
		if (k == j->nscope || addr < j->scope[k].addr)
			return false;
		/* it may reach over mappings that lie side by side */
		while (after > j->scope[k].addr + j->scope[k].len) {
			if (k + 1 == j->nscope ||
			    j->scope[k + 1].addr != j->scope[k].addr + j->scope[k].len)
				return false;
			k++;
		}
	}
	return true;
}

static void *cr_get_table(u64 user, u64 n, size_t size)
{
	void *table;

	if (n > CR_MAX_RUNS)
		return ERR_PTR(-E2BIG);
	table = kvmalloc_array(n + 1, size, GFP_KERNEL_ACCOUNT);
	if (!table)
		return ERR_PTR(-ENOMEM);
	if (copy_from_user(table, u64_to_user_ptr(user), n * size)) {
		kvfree(table);
		return ERR_PTR(-EFAULT);
	}
	return table;
}

static int cr_restore_job(struct cr_session *s, struct cr_restore *a, struct cr_job *j)
{
	int r = cr_run_workers(s, a->max_workers, cr_op_restore, j, &a->workers);

	a->restored = atomic64_read(&j->restored);
	a->dropped = atomic64_read(&j->dropped);
	a->unchanged = atomic64_read(&j->unchanged);
	if (j->error)
		r = j->error;
	return r;
}

long cr_ioc_restore(struct cr_session *s, struct cr_restore *a)
{
	ktime_t t0 = ktime_get();
	struct cr_job j = { };
	long r;

	if (a->flags & ~(CR_RESTORE_DIRTY | CR_RESTORE_TRACK) || (a->source_fd < 0 && a->nruns))
		return -EINVAL;
	j.dirty_only = a->source_fd < 0 || a->flags & CR_RESTORE_DIRTY;
	if (j.dirty_only && !cr_track_is(s->mm, a->id)) {
		if (a->flags & CR_RESTORE_DIRTY)
			return -ESTALE;
		j.dirty_only = false;	/* a snapshot can do without: it compares pages */
	}
	j.nruns = a->nruns;
	j.nscope = a->nscope;
	j.runs = cr_get_table(a->runs, a->nruns, sizeof(*j.runs));
	if (IS_ERR(j.runs))
		return PTR_ERR(j.runs);
	j.scope = cr_get_table(a->scope, a->nscope, sizeof(*j.scope));
	if (IS_ERR(j.scope)) {
		r = PTR_ERR(j.scope);
		goto out_runs;
	}
	r = -EINVAL;
	if (!cr_job_ok(&j))
		goto out_scope;
	r = -EBADF;
	if (a->source_fd >= 0) {
		j.source = fget(a->source_fd);
		if (!j.source || !(j.source->f_mode & FMODE_CAN_READ))
			goto out_file;
	}
	down_read(&s->snap_sem);
	r = -ENXIO;
	j.snap = s->snap;
	if (j.source || j.snap)
		r = cr_restore_job(s, a, &j);
	up_read(&s->snap_sem);
	/* what the bits say of pages out of the scope goes on being true */
	if (!r && a->flags & CR_RESTORE_TRACK)
		r = cr_track_again(s, a->id, j.dirty_only ? j.scope : NULL, j.nscope);
	a->ns = ktime_to_ns(ktime_sub(ktime_get(), t0));
out_file:
	if (j.source)
		fput(j.source);
out_scope:
	kvfree(j.scope);
out_runs:
	kvfree(j.runs);
	return r;
}
