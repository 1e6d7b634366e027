// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the module keeps about an mm beyond a session: tracking, the lineage that a restart
 * has set, and the watch over pages of a snapshot.
 *
 * Tracking of the pages that change after a checkpoint: the module clears the soft-dirty
 * bits. An MMU notifier invalidates tracking when the bits are lost. There are two cases:
 * - another process clears them (a write to /proc/PID/clear_refs);
 * - KSM may have merged pages. A merge drops the soft-dirty bit of a written page, and the
 *   bit stays lost when KSM breaks the page up again.
 *
 * Tracking belongs to the mm and outlives the session. The notifier holds mm_count, which
 * keeps the mm_struct but not the memory.
 *
 * Other users of MMU notifiers (KVM, RDMA with on-demand paging) keep a copy of the page
 * tables. The module cannot make them write-protect their copy, because no function that
 * does this is exported. So they continue to write to pages, unseen. The TLB flush reaches
 * only devices that use the CPU's page tables. A process that uses such a device has a
 * descriptor of it, and libcr refuses the process for this descriptor. A caller that does
 * not check descriptors must not take snapshots of such processes.
 */
#include "internal.h"
#include "watch.h"
#include <linux/mmu_notifier.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

struct cr_track {
	struct mmu_notifier mn;
	struct list_head node;	/* protected by cr_track_lock */
	u8 id[CR_ID_SIZE];
	u8 lineage[CR_ID_SIZE];	/* with has_lineage, protected by cr_track_lock */
	bool has_lineage;
	bool valid;		/* READ_ONCE/WRITE_ONCE: the notifier clears it */
	struct cr_watch watch;
};

/* Protects the list and the ids. Never held during a call of a memory management function. */
static DEFINE_MUTEX(cr_track_lock);
static LIST_HEAD(cr_tracks);

/* Notifiers that are not freed yet. They are freed by a callback in this module's code. */
static atomic_t cr_tracks_alive = ATOMIC_INIT(0);

/* Before and after a change, see watch.c. */
static void cr_mn_watch(struct cr_track *t, const struct mmu_notifier_range *range)
{
	if (range->event != MMU_NOTIFY_SOFT_DIRTY && range->event != MMU_NOTIFY_PROTECTION_PAGE)
		cr_watch_changed(&t->watch, range->start, range->end);
}

static int cr_mn_start(struct mmu_notifier *mn, const struct mmu_notifier_range *range)
{
	struct cr_track *t = container_of(mn, struct cr_track, mn);

	if (range->event == MMU_NOTIFY_SOFT_DIRTY ||
	    (range->event == MMU_NOTIFY_CLEAR && current->flags & PF_KTHREAD &&
	     cr_mm_is_mergeable(range->mm)))
		WRITE_ONCE(t->valid, false);
	cr_mn_watch(t, range);
	return 0;
}

static void cr_mn_end(struct mmu_notifier *mn, const struct mmu_notifier_range *range)
{
	cr_mn_watch(container_of(mn, struct cr_track, mn), range);
}

/* The process ends, and tracking with it. */
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
	cr_watch_init(&t->watch);
	atomic_inc(&cr_tracks_alive);
	return &t->mn;
}

static void cr_mn_free(struct mmu_notifier *mn)
{
	struct cr_track *t = container_of(mn, struct cr_track, mn);

	cr_watch_free(&t->watch);
	kfree(t);
	if (atomic_dec_and_test(&cr_tracks_alive))
		wake_up_var(&cr_tracks_alive);
}

static const struct mmu_notifier_ops cr_mn_ops = {
	.invalidate_range_start = cr_mn_start,
	.invalidate_range_end = cr_mn_end,
	.release = cr_mn_release,
	.alloc_notifier = cr_mn_alloc,
	.free_notifier = cr_mn_free,
};

static struct cr_track *cr_track_find(const struct mm_struct *mm)
{
	struct cr_track *t;

	lockdep_assert_held(&cr_track_lock);
	list_for_each_entry(t, &cr_tracks, node)
		if (t->mn.mm == mm)
			return t;
	return NULL;
}

/**
 * cr_track_is() - are the soft-dirty bits valid?
 * @mm: the mm
 * @id: identity of the checkpoint for which they were cleared
 *
 * Return: true if tracking under @id has been valid until now.
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
 * cr_track_stop() - invalidate tracking
 * @mm: the mm
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

/*
 * The state of @mm, made if there is none yet, with cr_track_lock held. ERR_PTR(-errno) on
 * failure, without the lock. The caller holds mm_users, so the notifier stays registered.
 */
static struct cr_track *cr_track_get_locked(struct mm_struct *mm)
{
	struct mmu_notifier *mn;
	struct cr_track *t;

	mutex_lock(&cr_track_lock);
	t = cr_track_find(mm);
	if (t)
		return t;
	mutex_unlock(&cr_track_lock);
	/* takes mmap_lock, so not under cr_track_lock */
	mn = mmu_notifier_get(&cr_mn_ops, mm);
	if (IS_ERR(mn))
		return ERR_CAST(mn);
	t = container_of(mn, struct cr_track, mn);
	mutex_lock(&cr_track_lock);
	if (list_empty(&t->node)) {
		list_add(&t->node, &cr_tracks);
		return t;
	}
	/* somebody else was faster, and the list holds their reference */
	mutex_unlock(&cr_track_lock);
	mmu_notifier_put(mn);
	mutex_lock(&cr_track_lock);
	return t;
}

/**
 * cr_track_begin() - begin tracking
 * @mm: the mm; the caller holds mm_users
 * @id: identity of the checkpoint
 *
 * The caller must then clear the bits, or call cr_track_stop() if that fails. All threads
 * are parked, so no thread writes meanwhile.
 *
 * Return: 0, -EINTR when a signal is pending for the caller, or -errno.
 */
int cr_track_begin(struct mm_struct *mm, const u8 *id)
{
	struct cr_track *t = cr_track_get_locked(mm);

	if (IS_ERR(t))
		return PTR_ERR(t);
	memcpy(t->id, id, CR_ID_SIZE);
	WRITE_ONCE(t->valid, true);
	mutex_unlock(&cr_track_lock);
	return 0;
}

/**
 * cr_track_next() - go on with tracking under another id
 * @mm: the mm
 * @id: identity until now
 * @next: identity from now on
 *
 * The caller must then clear the bits, or call cr_track_stop() if that fails. All threads are
 * parked. Unlike cr_track_begin(), this does not hide that the bits were lost meanwhile.
 *
 * Return: 0; -ESTALE: the mm is not, or no longer, tracked under @id.
 */
int cr_track_next(struct mm_struct *mm, const u8 *id, const u8 *next)
{
	struct cr_track *t;
	int r = -ESTALE;

	mutex_lock(&cr_track_lock);
	t = cr_track_find(mm);
	if (t && READ_ONCE(t->valid) && !memcmp(t->id, id, CR_ID_SIZE)) {
		memcpy(t->id, next, CR_ID_SIZE);
		r = 0;
	}
	mutex_unlock(&cr_track_lock);
	return r;
}

/**
 * cr_track_watch() - watch which pages are those of a snapshot
 * @mm: the mm; all its threads are parked, and none of them restores pages yet
 * @snap: the snapshot, in use; the process is being rolled back to it
 *
 * Return: the watch; NULL: there is none. It is there as long as a thread has the mm.
 */
struct cr_watch *cr_track_watch(struct mm_struct *mm, struct cr_snap *snap)
{
	struct cr_track *t;

	mutex_lock(&cr_track_lock);
	t = cr_track_find(mm);
	if (t)
		cr_watch_begin(&t->watch, snap);
	mutex_unlock(&cr_track_lock);
	return t ? &t->watch : NULL;
}

/**
 * cr_track_unwatch() - a snapshot is dropped: stop watching its pages
 * @mm: the mm, to compare only
 * @snap: number of the snapshot
 */
void cr_track_unwatch(const struct mm_struct *mm, u64 snap)
{
	struct cr_track *t;

	mutex_lock(&cr_track_lock);
	t = cr_track_find(mm);
	if (t)
		cr_watch_end(&t->watch, snap);
	mutex_unlock(&cr_track_lock);
}

/**
 * cr_ioc_lineage() - CR_IOC_LINEAGE
 * @s: the session
 * @a: its argument
 *
 * The lineage belongs to the mm, as tracking does: a fork does not copy it, and an exec
 * loses it.
 *
 * Return: 0, -EINVAL, -ENODATA, -EINTR when a signal is pending for the caller, or -ENOMEM.
 */
long cr_ioc_lineage(struct cr_session *s, struct cr_lineage *a)
{
	struct cr_track *t;
	long r = 0;

	if (a->flags & ~CR_LINEAGE_SET || a->reserved)
		return -EINVAL;
	if (a->flags & CR_LINEAGE_SET) {
		t = cr_track_get_locked(s->mm);
		if (IS_ERR(t))
			return PTR_ERR(t);
		memcpy(t->lineage, a->id, CR_ID_SIZE);
		t->has_lineage = true;
	} else {
		mutex_lock(&cr_track_lock);
		t = cr_track_find(s->mm);
		if (t && t->has_lineage)
			memcpy(a->id, t->lineage, CR_ID_SIZE);
		else
			r = -ENODATA;
	}
	mutex_unlock(&cr_track_lock);
	return r;
}

/**
 * cr_track_clear_pte() - mark a page as unchanged: clear its soft-dirty bit
 * @mm: the mm
 * @addr: address of the page
 * @ptep: its entry; ptl is held, all threads are parked, the caller flushes the TLB later
 *
 * A pinned page stays marked as changed: until it is unpinned, a device may write to it
 * without setting the soft-dirty bit.
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
	/* a clean page can be writable: mprotect() does that while VM_SOFTDIRTY is set */
	if (pte_soft_dirty(pte) == pinned && !pte_write(pte))
		return;
	pte = pte_wrprotect(ptep_get_and_clear(mm, addr, ptep));
	pte = pinned ? pte_mksoft_dirty(pte) : pte_clear_soft_dirty(pte);
	set_pte_at(mm, addr, ptep, pte);
}

/**
 * cr_track_clear_pmd() - cr_track_clear_pte() of a huge page
 * @mm: the mm
 * @addr: any address in the huge page
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
 * cr_split_huge() - map the huge pages of a mapping by small pages
 * @vma: the mapping; mmap lock held
 *
 * A huge page that cannot be split stays mapped as one and is tracked as one page.
 *
 * Return: 0 or -errno.
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
	/* mmu_notifier_synchronize() waits for a grace period, not for the callbacks after it */
	wait_var_event(&cr_tracks_alive, !atomic_read(&cr_tracks_alive));
}
