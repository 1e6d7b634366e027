// SPDX-License-Identifier: GPL-2.0-only
/*
 * Noting what changes since a checkpoint: soft-dirty bits, which we clear ourselves,
 * and an MMU notifier that tells us when the bits get lost, so that tracking is never
 * believed when it is broken: when somebody else clears them (a write to
 * /proc/PID/clear_refs), and when KSM may have merged pages, which drops the bits of
 * those that were written, for good: also a page that it takes apart again has none.
 *
 * Tracking belongs to the mm and outlives the session. The notifier keeps the
 * structure of the mm, not its memory.
 *
 * Others who follow the page tables by notifiers of their own, with a copy of them
 * (KVM, RDMA on demand), cannot be told of our write protection, since nothing that
 * does so is exported, and go on writing to pages as they did. The flush reaches
 * devices that use the CPU's own tables, no others. Whoever uses one has a device's
 * descriptor, by which the library refuses it; a caller who does not look at
 * descriptors must not take snapshots of such processes.
 */
#include "internal.h"
#include <linux/mmu_notifier.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

struct cr_track {
	struct mmu_notifier mn;
	struct list_head node;	/* cr_track_lock */
	u8 id[CR_ID_SIZE];
	bool valid;		/* READ_ONCE/WRITE_ONCE: cleared by the notifier */
};

/* Guards the list and the ids. May sleep. Never held while calling into mm. */
static DEFINE_MUTEX(cr_track_lock);
static LIST_HEAD(cr_tracks);

/* Notifiers that are not freed yet: their end comes by a callback, in code of ours. */
static atomic_t cr_tracks_alive = ATOMIC_INIT(0);

static int cr_mn_start(struct mmu_notifier *mn, const struct mmu_notifier_range *range)
{
	struct cr_track *t = container_of(mn, struct cr_track, mn);

	if (range->event == MMU_NOTIFY_SOFT_DIRTY ||
	    (range->event == MMU_NOTIFY_CLEAR && current->flags & PF_KTHREAD &&
	     cr_mm_is_mergeable(range->mm)))
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
	atomic_inc(&cr_tracks_alive);
	return &t->mn;
}

static void cr_mn_free(struct mmu_notifier *mn)
{
	kfree(container_of(mn, struct cr_track, mn));
	if (atomic_dec_and_test(&cr_tracks_alive))
		wake_up_var(&cr_tracks_alive);
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

/**
 * cr_track_is() - are the bits to be believed?
 * @mm: whose
 * @id: for what they were cleared
 */
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

/**
 * cr_track_stop() - do not believe the bits any more
 * @mm: whose
 */
void cr_track_stop(struct mm_struct *mm)
{
	struct cr_track *t;

	mutex_lock(&cr_track_lock);
	t = cr_track_find(mm);
	if (t)
		WRITE_ONCE(t->valid, false);
	mutex_unlock(&cr_track_lock);
}

/**
 * cr_track_begin() - begin tracking
 * @mm: whose; the caller has its memory in use
 * @id: what for
 *
 * The caller clears the bits, or stops it again. Everybody is parked, so nobody writes.
 * Return: 0, -EINTR when a signal is pending for the caller, or -errno.
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

/**
 * cr_track_clear_pte() - take a page as unchanged from here on
 * @mm: whose
 * @addr: its address
 * @ptep: its entry; the table's lock is held, nobody runs, and the TLB is flushed later
 *
 * A page that is pinned stays changed: a device may write to it, now and until it is
 * unpinned, without anybody's noticing.
 */
void cr_track_clear_pte(struct mm_struct *mm, unsigned long addr, pte_t *ptep)
{
	pte_t pte = ptep_get(ptep);
	bool pinned;

	if (pte_none(pte))
		return;
	if (!pte_present(pte)) {
		if (pte_swp_soft_dirty(pte))
			set_pte_at(mm, addr, ptep, pte_swp_clear_soft_dirty(pte));
		return;
	}
	pinned = folio_maybe_dma_pinned(page_folio(pte_page(pte)));
	/* mprotect() makes clean pages writable while VM_SOFTDIRTY is set */
	if (pte_soft_dirty(pte) == pinned && !pte_write(pte))
		return;
	pte = pte_wrprotect(ptep_get_and_clear(mm, addr, ptep));
	pte = pinned ? pte_mksoft_dirty(pte) : pte_clear_soft_dirty(pte);
	set_pte_at(mm, addr, ptep, pte);
}

/**
 * cr_track_clear_pmd() - cr_track_clear_pte() of a huge page
 * @mm: whose
 * @addr: any address in it
 * @pmdp: its entry
 */
void cr_track_clear_pmd(struct mm_struct *mm, unsigned long addr, pmd_t *pmdp)
{
	pmd_t pmd = pmdp_get(pmdp);
	bool pinned = folio_maybe_dma_pinned(page_folio(pmd_page(pmd)));

	if (pmd_soft_dirty(pmd) == pinned && !pmd_write(pmd))
		return;
	pmd = pmd_wrprotect(pmdp_huge_get_and_clear(mm, addr & PMD_MASK, pmdp));
	pmd = pinned ? pmd_mksoft_dirty(pmd) : pmd_clear_soft_dirty(pmd);
	set_pmd_at(mm, addr & PMD_MASK, pmdp, pmd);
}

/* ---------------------------------------------------------------- splitting */

static int cr_split_pass(struct cr_walk *walk, pte_t *pte, unsigned long addr, unsigned long end)
{
	return 0;
}

static int cr_split_found(struct cr_walk *walk, pmd_t *pmd, unsigned long addr, unsigned long end)
{
	*(unsigned long *)walk->arg = addr;
	return 1;
}

/**
 * cr_split_huge() - map the huge pages of a mapping by single ones
 * @vma: the mapping; mmap lock held
 *
 * One that cannot be split stays, and what is told of it is as coarse as before.
 */
int cr_split_huge(struct vm_area_struct *vma)
{
	unsigned long addr, found;
	struct cr_walk walk = {
		.mm = vma->vm_mm, .vma = vma, .arg = &found,
		.ptes = cr_split_pass, .huge = cr_split_found,
	};
	struct page *page;
	int r;

	for (addr = vma->vm_start; addr < vma->vm_end; addr = (found + PMD_SIZE) & PMD_MASK) {
		r = cr_walk_range(&walk, addr, vma->vm_end);
		if (r <= 0)
			return r;
		if (cr_gup(vma->vm_mm, found, 1, FOLL_SPLIT_PMD | FOLL_FORCE, &page, NULL) == 1)
			put_page(page);
	}
	return 0;
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
	/* that waits for a grace period, not for the callbacks that come at its end */
	wait_var_event(&cr_tracks_alive, !atomic_read(&cr_tracks_alive));
}
