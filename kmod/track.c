// SPDX-License-Identifier: GPL-2.0-only
/*
 * What has changed since a checkpoint: soft-dirty bits, which we clear ourselves,
 * and an MMU notifier that tells us when somebody else clears them (a write to
 * /proc/PID/clear_refs), so that tracking is never believed when it is broken.
 *
 * Tracking belongs to the mm and outlives the session. The notifier keeps the
 * structure of the mm, not its memory.
 */
#include "internal.h"
#include <linux/mmu_notifier.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

struct cr_track {
	struct mmu_notifier mn;
	struct list_head node;	/* cr_track_lock */
	u8 id[CR_ID_SIZE];
	bool valid;		/* READ_ONCE/WRITE_ONCE: cleared by the notifier */
};

/* Guards the list and the ids. May sleep. Never held while calling into mm. */
static DEFINE_MUTEX(cr_track_lock);
static LIST_HEAD(cr_tracks);

static int cr_mn_start(struct mmu_notifier *mn, const struct mmu_notifier_range *range)
{
	struct cr_track *t = container_of(mn, struct cr_track, mn);

	if (range->event == MMU_NOTIFY_SOFT_DIRTY)
		WRITE_ONCE(t->valid, false);
	return 0;
}

/* The process ends: so does tracking. */
static void cr_mn_release(struct mmu_notifier *mn, struct mm_struct *mm)
{
	struct cr_track *t = container_of(mn, struct cr_track, mn);
	bool mine;

	mutex_lock(&cr_track_lock);
	mine = !list_empty(&t->node);
	list_del_init(&t->node);
	mutex_unlock(&cr_track_lock);
	if (mine)
		mmu_notifier_put(mn);
}

static struct mmu_notifier *cr_mn_alloc(struct mm_struct *mm)
{
	struct cr_track *t = kzalloc(sizeof(*t), GFP_KERNEL);

	if (!t)
		return ERR_PTR(-ENOMEM);
	INIT_LIST_HEAD(&t->node);
	return &t->mn;
}

static void cr_mn_free(struct mmu_notifier *mn)
{
	kfree(container_of(mn, struct cr_track, mn));
}

static const struct mmu_notifier_ops cr_mn_ops = {
	.invalidate_range_start = cr_mn_start,
	.release = cr_mn_release,
	.alloc_notifier = cr_mn_alloc,
	.free_notifier = cr_mn_free,
};

static struct cr_track *cr_track_find(struct mm_struct *mm)
{
	struct cr_track *t;

	lockdep_assert_held(&cr_track_lock);
	list_for_each_entry(t, &cr_tracks, node)
		if (t->mn.mm == mm)
			return t;
	return NULL;
}

bool cr_track_is(struct mm_struct *mm, const u8 *id)
{
	struct cr_track *t;
	bool is;

	mutex_lock(&cr_track_lock);
	t = cr_track_find(mm);
	is = t && READ_ONCE(t->valid) && !memcmp(t->id, id, CR_ID_SIZE);
	mutex_unlock(&cr_track_lock);
	return is;
}

void cr_track_stop(struct mm_struct *mm)
{
	struct cr_track *t;

	mutex_lock(&cr_track_lock);
	t = cr_track_find(mm);
	if (t)
		WRITE_ONCE(t->valid, false);
	mutex_unlock(&cr_track_lock);
}

/*
 * Begin tracking; the caller clears the bits, or stops it again. Everybody is
 * parked, so nobody writes; the caller has the mm's memory in use. EINTR when a
 * signal is pending for the caller.
 */
int cr_track_begin(struct mm_struct *mm, const u8 *id)
{
	struct mmu_notifier *mn = NULL;
	struct cr_track *t;

	mutex_lock(&cr_track_lock);
	t = cr_track_find(mm);
	mutex_unlock(&cr_track_lock);
	if (!t) {
		mn = mmu_notifier_get(&cr_mn_ops, mm);
		if (IS_ERR(mn))
			return PTR_ERR(mn);
		t = container_of(mn, struct cr_track, mn);
	}
	mutex_lock(&cr_track_lock);
	if (mn)
		list_add(&t->node, &cr_tracks);
	memcpy(t->id, id, CR_ID_SIZE);
	WRITE_ONCE(t->valid, true);
	mutex_unlock(&cr_track_lock);
	return 0;
}

/* ptl held, nobody runs; the TLB is flushed later */
void cr_track_clear_pte(struct mm_struct *mm, unsigned long addr, pte_t *ptep)
{
	pte_t pte = *ptep;

	if (pte_none(pte))
		return;
	if (!pte_present(pte)) {
		if (pte_swp_soft_dirty(pte))
			set_pte_at(mm, addr, ptep, pte_swp_clear_soft_dirty(pte));
		return;
	}
	/* mprotect() makes clean pages writable while VM_SOFTDIRTY is set */
	if (!pte_soft_dirty(pte) && !pte_write(pte))
		return;
	pte = ptep_get_and_clear(mm, addr, ptep);
	set_pte_at(mm, addr, ptep, pte_clear_soft_dirty(pte_wrprotect(pte)));
}

void cr_track_clear_pmd(struct mm_struct *mm, unsigned long addr, pmd_t *pmdp)
{
	pmd_t pmd = *pmdp;

	if (!pmd_soft_dirty(pmd) && !pmd_write(pmd))
		return;
	pmd = pmdp_huge_get_and_clear(mm, addr & PMD_MASK, pmdp);
	set_pmd_at(mm, addr & PMD_MASK, pmdp, pmd_clear_soft_dirty(pmd_wrprotect(pmd)));
}

/* ---------------------------------------------------------------- splitting */

static int cr_split_pass(struct cr_walk *w, pte_t *pte, unsigned long addr, unsigned long end)
{
	return 0;
}

static int cr_split_found(struct cr_walk *w, pmd_t *pmd, unsigned long addr, unsigned long end)
{
	*(unsigned long *)w->arg = addr;
	return 1;
}

/*
 * Map the huge pages of a mapping by single ones; mmap lock held. One that cannot
 * be split stays, and what is told of it is as coarse as before.
 */
int cr_split_huge(struct vm_area_struct *vma)
{
	unsigned long addr, found;
	struct cr_walk w = {
		.mm = vma->vm_mm, .vma = vma, .arg = &found,
		.ptes = cr_split_pass, .huge = cr_split_found,
	};
	struct page *page;
	int r;

	for (addr = vma->vm_start; addr < vma->vm_end; addr = (found + PMD_SIZE) & PMD_MASK) {
		r = cr_walk_range(&w, addr, vma->vm_end);
		if (r <= 0)
			return r;
		if (cr_gup(vma->vm_mm, found, 1, FOLL_SPLIT_PMD | FOLL_FORCE, &page, NULL) == 1)
			put_page(page);
	}
	return 0;
}

/* ------------------------------------------------------------------- asking */

struct cr_dirty_scan {
	struct cr_range *out;
	u64 n, room;
	unsigned long start, end;	/* the range that is being grown */
};

static void cr_dirty_flush(struct cr_dirty_scan *d)
{
	if (d->start == d->end)
		return;
	if (d->n < d->room) {
		d->out[d->n].addr = d->start;
		d->out[d->n].len = d->end - d->start;
	}
	d->n++;
	d->start = 0;
	d->end = 0;
}

static void cr_dirty_add(struct cr_dirty_scan *d, unsigned long addr, unsigned long end)
{
	if (addr == end)
		return;
	if (d->end != addr || d->start == d->end) {
		cr_dirty_flush(d);
		d->start = addr;
	}
	d->end = end;
}

/* everything between known-clean pages is not known to be unchanged */
struct cr_dirty_walk {
	struct cr_dirty_scan *d;
	unsigned long upto;	/* looked at so far */
};

static void cr_dirty_clean(struct cr_dirty_walk *dw, unsigned long addr, unsigned long end)
{
	cr_dirty_add(dw->d, dw->upto, addr);
	dw->upto = end;
}

static int cr_dirty_ptes(struct cr_walk *w, pte_t *pte, unsigned long addr, unsigned long end)
{
	for (; addr < end; addr += PAGE_SIZE, pte++)
		if (cr_page_is_clean(*pte))
			cr_dirty_clean(w->arg, addr, addr + PAGE_SIZE);
	return 0;
}

static int cr_dirty_huge(struct cr_walk *w, pmd_t *pmd, unsigned long addr, unsigned long end)
{
	struct folio *folio = page_folio(pmd_page(*pmd));

	if (cr_pmd_is_clean(*pmd) && folio_test_anon(folio) && folio_test_swapbacked(folio) &&
	    !folio_maybe_dma_pinned(folio))
		cr_dirty_clean(w->arg, addr, end);
	return 0;
}

long cr_ioc_dirty(struct cr_session *s, struct cr_dirty *a)
{
	struct cr_dirty_scan d = { .room = min_t(u64, a->ranges.count, CR_MAX_RUNS) };
	struct cr_dirty_walk dw = { .d = &d };
	struct cr_walk w = {
		.mm = s->mm, .arg = &dw, .ptes = cr_dirty_ptes, .huge = cr_dirty_huge,
	};
	VMA_ITERATOR(vmi, s->mm, 0);
	struct vm_area_struct *vma;
	long r = 0;

	if (!cr_track_is(s->mm, a->id))
		return -ESTALE;
	d.out = kvcalloc(d.room + 1, sizeof(*d.out), GFP_KERNEL_ACCOUNT);
	if (!d.out)
		return -ENOMEM;
	if (mmap_read_lock_killable(s->mm)) {
		r = -EINTR;
		goto out;
	}
	for_each_vma(vmi, vma) {
		if (!cr_vma_has_pages(vma))
			continue;
		w.vma = vma;
		dw.upto = vma->vm_start;
		if (!(vma->vm_flags & VM_SOFTDIRTY))
			r = cr_walk_range(&w, vma->vm_start, vma->vm_end);
		if (r)
			break;
		cr_dirty_add(&d, dw.upto, vma->vm_end);
	}
	mmap_read_unlock(s->mm);
	cr_dirty_flush(&d);
	if (!r)
		r = cr_put_array(&a->ranges, d.out, d.n, sizeof(*d.out));
out:
	kvfree(d.out);
	return r;
}

/* ------------------------------------------------------------------- unload */

void cr_track_exit(void)
{
	struct cr_track *t;

	for (;;) {
		mutex_lock(&cr_track_lock);
		t = list_first_entry_or_null(&cr_tracks, struct cr_track, node);
		if (t)
			list_del_init(&t->node);
		mutex_unlock(&cr_track_lock);
		if (!t)
			break;
		mmu_notifier_put(&t->mn);
	}
	mmu_notifier_synchronize();
}
