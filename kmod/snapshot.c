// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copy-on-write snapshots: a reference to every anonymous page, and write
 * protection, so that the program's next write makes a copy of its own. Nothing
 * is copied while the threads stand still but pages pinned for DMA.
 */
#include "internal.h"
#include <linux/highmem.h>
#include <linux/mmu_notifier.h>
#include <linux/rmap.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <linux/uaccess.h>

struct cr_snap_thread {
	struct list_head node;
	struct task_struct *task;
	struct restart_block restart;
};

/* Pages by address: one array of PTRS_PER_PTE pages for each populated 2 MB. */
struct cr_snap {
	struct xarray chunks;
	u64 pages, copied, nchunks;
	ktime_t taken;
	struct list_head threads;	/* those parked with a restart block */
};

/* Marks a page that could not be shared; never leaves cr_snap_take(). */
#define CR_PINNED ((struct page *)1UL)

struct page **cr_snap_chunk(struct cr_snap *snap, unsigned long addr)
{
	return xa_load(&snap->chunks, addr >> PMD_SHIFT);
}

/* Start of the first populated 2 MB in [addr, end), or end. */
unsigned long cr_snap_next(struct cr_snap *snap, unsigned long addr, unsigned long end)
{
	unsigned long index = addr >> PMD_SHIFT;

	if (!xa_find(&snap->chunks, &index, (end - 1) >> PMD_SHIFT, XA_PRESENT))
		return end;
	return max(index << PMD_SHIFT, addr);
}

static unsigned int cr_slot(unsigned long addr)
{
	return (addr & ~PMD_MASK) >> PAGE_SHIFT;
}

struct restart_block *cr_snap_restart(struct cr_snap *snap, struct task_struct *t, ktime_t *taken)
{
	struct cr_snap_thread *st;

	*taken = snap->taken;
	list_for_each_entry(st, &snap->threads, node)
		if (st->task == t)
			return &st->restart;
	return NULL;
}

static void cr_snap_free(struct cr_snap *snap)
{
	struct cr_snap_thread *st, *next;
	struct page **chunk;
	unsigned long i;
	int k;

	xa_for_each(&snap->chunks, i, chunk) {
		for (k = 0; k < PTRS_PER_PTE; k++)
			if (chunk[k] && chunk[k] != CR_PINNED)
				put_page(chunk[k]);
		free_page((unsigned long)chunk);
		cond_resched();
	}
	xa_destroy(&snap->chunks);
	list_for_each_entry_safe(st, next, &snap->threads, node) {
		put_task_struct(st->task);
		kfree(st);
	}
	kfree(snap);
}

void cr_snap_drop(struct cr_session *s)
{
	struct cr_snap *snap;

	down_write(&s->snap_sem);
	snap = s->snap;
	s->snap = NULL;
	up_write(&s->snap_sem);
	if (snap)
		cr_snap_free(snap);
}

/* ------------------------------------------------------------------- taking */

struct cr_snap_arg {
	struct cr_snap *snap;	/* NULL: track only */
	bool track, split;
	u64 pages, pinned;
	unsigned long bad;	/* address that could not be read */
	/* track: what was changed since, sorted; NULL: unknown */
	const struct cr_range *only;
	u64 nonly, next;	/* all before next end below the mapping */
};

static void cr_snap_add(struct cr_snap_arg *sa, unsigned long addr, struct page *page)
{
	struct page **chunk = cr_snap_chunk(sa->snap, addr);

	if (page == CR_PINNED)
		sa->pinned++;
	chunk[cr_slot(addr)] = page;
}

static int cr_snap_ptes(struct cr_walk *w, pte_t *pte, unsigned long addr, unsigned long end)
{
	struct cr_snap_arg *sa = w->arg;
	struct page *page;

	for (; addr < end; addr += PAGE_SIZE, pte++) {
		if (pte_none(*pte))
			continue;
		if (!pte_present(*pte)) {
			if (sa->snap)
				return -EAGAIN;	/* swapped out again since prepare */
			cr_track_clear_pte(w->mm, addr, pte);
			continue;
		}
		if (pte_special(*pte) || !PageAnon(pte_page(*pte)))
			continue;
		page = pte_page(*pte);
		sa->pages++;
		if (sa->snap) {
			get_page(page);
			if (pte_write(*pte))
				ptep_set_wrprotect(w->mm, addr, pte);
			if (PageAnonExclusive(page) && cr_share_pte(page)) {
				put_page(page);
				page = CR_PINNED;
			}
			cr_snap_add(sa, addr, page);
		}
		if (sa->track)
			cr_track_clear_pte(w->mm, addr, pte);
	}
	return 0;
}

static int cr_snap_huge(struct cr_walk *w, pmd_t *pmd, unsigned long addr, unsigned long end)
{
	struct page *head = pmd_page(*pmd);
	struct cr_snap_arg *sa = w->arg;
	bool pinned = false;

	if (!PageAnon(head))	/* the huge zero page */
		return 0;
	if (sa->snap) {
		if (pmd_write(*pmd))
			pmdp_set_wrprotect(w->mm, addr & PMD_MASK, pmd);
		pinned = PageAnonExclusive(head) && cr_share_pmd(head);
	}
	for (; addr < end; addr += PAGE_SIZE) {
		struct page *page = head + cr_slot(addr);

		sa->pages++;
		if (!sa->snap)
			continue;
		if (!pinned)
			get_page(page);
		cr_snap_add(sa, addr, pinned ? CR_PINNED : page);
	}
	if (sa->track)
		cr_track_clear_pmd(w->mm, end - PAGE_SIZE, pmd);
	return 0;
}

/* Have the chunk ready and everything that is swapped out or migrating present. */
static int cr_snap_prepare(struct cr_walk *w, unsigned long addr, unsigned long end)
{
	struct cr_snap_arg *sa = w->arg;
	struct page *page;
	void *chunk;
	pmd_t *pmd;
	long r;

	if (!cr_snap_chunk(sa->snap, addr)) {
		chunk = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
		if (!chunk)
			return -ENOMEM;
		r = xa_err(xa_store(&sa->snap->chunks, addr >> PMD_SHIFT, chunk, GFP_KERNEL_ACCOUNT));
		if (r) {
			free_page((unsigned long)chunk);
			return r;
		}
		sa->snap->nchunks++;
	}
	for (; addr < end; addr += PAGE_SIZE) {
		pte_t pte;

		/* the mmap lock is held for writing: tables stay, entries may change */
		pmd = pmd_offset(pud_offset(p4d_offset(pgd_offset(w->mm, addr), addr), addr), addr);
		if (pmd_none(*pmd) || (pmd_present(*pmd) && pmd_trans_huge(*pmd)))
			return 0;
		if (pmd_present(*pmd)) {
			pte = *pte_offset_kernel(pmd, addr);
			if (pte_none(pte) || pte_present(pte))
				continue;
		}
		r = cr_gup(w->mm, addr, 1, FOLL_FORCE, &page, NULL);
		if (r != 1) {
			sa->bad = addr;
			return r < 0 ? r : -EFAULT;
		}
		put_page(page);
	}
	return 0;
}

/* Pages that DMA may write any time: our copy is made now. mmap lock held. */
static int cr_snap_copy_pinned(struct mm_struct *mm, struct cr_snap_arg *sa)
{
	struct page **chunk, *page, *copy;
	unsigned long i, addr;
	long r;
	int k;

	xa_for_each(&sa->snap->chunks, i, chunk) {
		for (k = 0; k < PTRS_PER_PTE; k++) {
			if (chunk[k] != CR_PINNED)
				continue;
			addr = (i << PMD_SHIFT) + ((unsigned long)k << PAGE_SHIFT);
			copy = alloc_page(GFP_HIGHUSER | __GFP_ACCOUNT);
			if (!copy)
				return -ENOMEM;
			r = cr_gup(mm, addr, 1, FOLL_FORCE, &page, NULL);
			if (r != 1) {
				__free_page(copy);
				sa->bad = addr;
				return r < 0 ? r : -EFAULT;
			}
			copy_highpage(copy, page);
			put_page(page);
			chunk[k] = copy;
			sa->snap->copied++;
		}
	}
	return 0;
}

/* Give back what was taken in a range, to take it again. */
static void cr_snap_forget(struct cr_snap_arg *sa, unsigned long start, unsigned long end)
{
	unsigned long addr, next;
	struct page **chunk;

	for (addr = start; addr < end; addr = next) {
		next = min(end, (addr + PMD_SIZE) & PMD_MASK);
		chunk = cr_snap_chunk(sa->snap, addr);
		for (; chunk && addr < next; addr += PAGE_SIZE) {
			struct page **slot = &chunk[cr_slot(addr)];

			if (!*slot)
				continue;
			sa->pages--;
			if (*slot == CR_PINNED)
				sa->pinned--;
			else
				put_page(*slot);
			*slot = NULL;
		}
	}
}

static int cr_snap_vma(struct cr_walk *w)
{
	struct vm_area_struct *vma = w->vma;
	struct cr_snap_arg *sa = w->arg;
	int r, tries = 0;

	while ((r = cr_walk_range(w, vma->vm_start, vma->vm_end)) == -EAGAIN && ++tries < 16)
		cr_snap_forget(sa, vma->vm_start, vma->vm_end);
	return r;
}

/* What of a mapping was changed since the bits were cleared: all else is as it was. */
static int cr_snap_changed(struct cr_walk *w)
{
	struct vm_area_struct *vma = w->vma;
	struct cr_snap_arg *sa = w->arg;
	u64 addr, end;
	int r = 0;

	while (sa->next < sa->nonly && !r) {
		addr = max_t(u64, sa->only[sa->next].addr, vma->vm_start);
		end = sa->only[sa->next].addr + sa->only[sa->next].len;
		if (addr >= vma->vm_end)
			break;
		if (addr < end)
			r = cr_walk_range(w, addr, min_t(u64, end, vma->vm_end));
		if (end > vma->vm_end)
			break;
		sa->next++;
	}
	return r;
}

static int cr_op_snap(struct cr_session *s, struct cr_member *m, void *arg)
{
	struct cr_snap_arg *sa = arg;
	struct mm_struct *mm = s->mm;
	struct cr_walk w = {
		.mm = mm, .arg = sa, .ptes = cr_snap_ptes, .huge = cr_snap_huge,
		.prepare = sa->snap ? cr_snap_prepare : NULL,
	};
	VMA_ITERATOR(vmi, mm, 0);
	struct vm_area_struct *vma;
	int r = 0, e;

	if (mmap_write_lock_killable(mm))
		return -EINTR;
	if (sa->split) {
		for_each_vma(vmi, vma) {
			r = cr_vma_has_pages(vma) ? cr_split_huge(vma) : 0;
			if (r) {
				mmap_write_unlock(mm);
				return r;
			}
		}
		vma_iter_init(&vmi, mm, 0);
	}
	/* as fork does: fast GUP must not slip in between */
	raw_write_seqcount_begin(&mm->write_protect_seq);
	for_each_vma(vmi, vma) {
		if (!cr_vma_has_pages(vma))
			continue;
		w.vma = vma;
		if (sa->only && !(vma->vm_flags & VM_SOFTDIRTY)) {
			r = cr_snap_changed(&w);
		} else {
			if (sa->track && vma->vm_flags & VM_SOFTDIRTY)
				cr_vm_flags_clear(vma, VM_SOFTDIRTY);
			r = cr_snap_vma(&w);
		}
		if (r)
			break;
	}
	raw_write_seqcount_end(&mm->write_protect_seq);
	if (!r && sa->pinned)
		r = cr_snap_copy_pinned(mm, sa);
	mmap_write_unlock(mm);
	e = cr_flush_mm();
	return r ? r : e;
}

/*
 * Track from here on under id. only: a mapping that is not new has changed in
 * these ranges at most, since the bits were cleared last; NULL: anywhere.
 */
int cr_track_again(struct cr_session *s, const u8 *id, const struct cr_range *only, u64 nonly)
{
	struct cr_snap_arg sa = { .track = true, .only = only, .nonly = nonly };
	int r = cr_track_begin(s->mm, id);

	if (!r)
		r = cr_run_on(s, cr_any(s), cr_op_snap, &sa);
	if (r)
		cr_track_stop(s->mm);
	return r;
}

static int cr_snap_threads(struct cr_session *s, struct cr_snap *snap)
{
	struct cr_snap_thread *st;
	struct cr_member *m;
	unsigned long i;

	xa_for_each(&s->members, i, m) {
		if (READ_ONCE(m->state) != CR_PARKED ||
		    (long)cr_member_regs(m)->ax != -ERESTART_RESTARTBLOCK)
			continue;
		st = kmalloc(sizeof(*st), GFP_KERNEL);
		if (!st)
			return -ENOMEM;
		st->task = get_task_struct(m->task);
		st->restart = *cr_member_restart(m);
		list_add(&st->node, &snap->threads);
	}
	return 0;
}

long cr_ioc_snapshot(struct cr_session *s, struct cr_snapshot *a)
{
	struct cr_snap_arg sa = {
		.track = a->flags & CR_SNAP_TRACK, .split = a->flags & CR_SNAP_SPLIT,
	};
	ktime_t t0 = ktime_get();
	int r = 0;

	if (a->reserved || a->flags & ~(CR_SNAP_PAGES | CR_SNAP_TRACK | CR_SNAP_SPLIT) ||
	    !a->flags || (sa.split && !sa.track))
		return -EINVAL;
	if (a->flags & CR_SNAP_PAGES) {
		cr_snap_drop(s);
		sa.snap = kzalloc(sizeof(*sa.snap), GFP_KERNEL);
		if (!sa.snap)
			return -ENOMEM;
		xa_init(&sa.snap->chunks);
		INIT_LIST_HEAD(&sa.snap->threads);
		sa.snap->taken = t0;
		r = cr_snap_threads(s, sa.snap);
	}
	/* here and not in cr_op_snap(): a pending signal of the target would stop it */
	if (!r && sa.track)
		r = cr_track_begin(s->mm, a->id);
	if (!r)
		r = cr_run_on(s, cr_any(s), cr_op_snap, &sa);
	if (r) {
		cr_track_stop(s->mm);
		if (sa.snap)
			cr_snap_free(sa.snap);
		if (sa.bad)
			cr_why(&a->why, CR_WHY_ADDRESS, sa.bad);
		return r;
	}
	a->pages = sa.pages;
	if (sa.snap) {
		sa.snap->pages = sa.pages;
		a->copied = sa.snap->copied;
		a->overhead = sa.snap->nchunks * PAGE_SIZE + sizeof(*sa.snap);
		down_write(&s->snap_sem);
		s->snap = sa.snap;
		up_write(&s->snap_sem);
	}
	a->ns = ktime_to_ns(ktime_sub(ktime_get(), t0));
	return 0;
}

/* ------------------------------------------------------------------ reading */

long cr_ioc_snap_runs(struct cr_session *s, struct cr_array *a)
{
	u64 n = 0, room = min_t(u64, a->count, CR_MAX_RUNS);
	unsigned long i, addr, upto = 0;
	struct cr_range *out;
	struct page **chunk;
	long r;
	int k;

	if (!s->snap)
		return -ENXIO;
	out = kvcalloc(room + 1, sizeof(*out), GFP_KERNEL);
	if (!out)
		return -ENOMEM;
	xa_for_each(&s->snap->chunks, i, chunk) {
		for (k = 0; k < PTRS_PER_PTE; k++) {
			if (!chunk[k])
				continue;
			addr = (i << PMD_SHIFT) + ((unsigned long)k << PAGE_SHIFT);
			if (!n || addr != upto) {
				n++;
				if (n <= room)
					out[n - 1].addr = addr;
			}
			if (n <= room)
				out[n - 1].len += PAGE_SIZE;
			upto = addr + PAGE_SIZE;
		}
		cond_resched();
	}
	r = cr_put_array(a, out, n, sizeof(*out));
	kvfree(out);
	return r;
}

/* pread(session, buf, len, address): whole pages of the snapshot */
ssize_t cr_read(struct file *file, char __user *buf, size_t len, loff_t *pos)
{
	struct cr_session *s = file->private_data;
	unsigned long addr = *pos;
	struct page **chunk, *page;
	size_t done = 0;
	ssize_t r = 0;

	if (*pos < 0 || addr & ~PAGE_MASK || len & ~PAGE_MASK)
		return -EINVAL;
	if (down_read_killable(&s->snap_sem))
		return -EINTR;
	while (done < len) {
		chunk = s->snap ? cr_snap_chunk(s->snap, addr + done) : NULL;
		if (!chunk || !chunk[cr_slot(addr + done)]) {
			r = -ENXIO;
			break;
		}
		page = chunk[cr_slot(addr + done)];
		if (copy_to_user(buf + done, page_address(page), PAGE_SIZE)) {
			r = -EFAULT;
			break;
		}
		done += PAGE_SIZE;
		if (fatal_signal_pending(current)) {
			r = -EINTR;
			break;
		}
		cond_resched();
	}
	up_read(&s->snap_sem);
	if (!done)
		return r;
	*pos += done;
	return done;
}
