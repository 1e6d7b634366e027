// SPDX-License-Identifier: GPL-2.0-only
/*
 * Taking copy-on-write snapshots: the walk takes a reference to every anonymous page and
 * write-protects it, so that the program's next write copies the page. While the threads
 * are parked, only pages pinned for DMA are copied. The same walk starts tracking.
 */
#include "internal.h"
#include "snap.h"
#include <linux/highmem.h>
#include <linux/memcontrol.h>
#include <linux/mmu_notifier.h>
#include <linux/rmap.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/swap.h>

/**
 * struct cr_snap_request - a walk over all pages, by a thread of the target
 * @req: the request
 * @snap: the snapshot to fill, a reference; NULL: track only
 * @memcg: memory cgroup of the caller, which pays for the snapshot because the target may
 *	be at its own limit; a reference
 * @changed: only pages that may have changed since tracking began; all others that are there
 *	are clean
 * @young: the mapping has been made since: all of its pages may have changed
 * @track: clear the soft-dirty bits
 * @split: map huge pages by small pages first
 * @pages: out: pages seen
 * @pinned: of these, pages marked CR_PINNED
 * @bad: out: address that could not be read
 * @full: out: the snapshot would exceed the user's ceiling
 * @base: the newest snapshot of the process before this one, in use; NULL: there is none
 * @spare: a table, empty; taken under ptl, where nothing can be allocated
 * @keeper: owner of @only; a reference, or NULL
 * @only: pages of old mappings that may have changed since the bits were cleared; NULL: unknown
 * @part: with @only, leave mappings that are younger as they are
 */
struct cr_snap_request {
	struct cr_request req;
	struct cr_snap *snap;
	struct mem_cgroup *memcg;
	bool changed, young, track, split, part;
	u64 pages, pinned;
	unsigned long bad;
	bool full;
	struct cr_snap *base;
	struct cr_table *spare;
	struct cr_request *keeper;
	struct cr_pageset *only;
};

static void cr_snap_release(struct cr_request *req)
{
	struct cr_snap_request *sr = container_of(req, struct cr_snap_request, req);

	cr_snap_put(sr->snap);
	if (sr->base) {
		cr_snap_unuse(sr->base);
		cr_snap_put(sr->base);
	}
	cr_table_put(sr->spare);
	mem_cgroup_put(sr->memcg);
	if (sr->keeper)
		cr_request_put(sr->keeper);
	kfree(sr);
}

static int cr_op_snap(struct cr_member *m, struct cr_request *req);

static struct cr_snap_request *cr_snap_request_new(void)
{
	struct cr_snap_request *sr = kzalloc(sizeof(*sr), GFP_KERNEL_ACCOUNT);

	if (sr)
		cr_request_init(&sr->req, cr_op_snap, cr_snap_release);
	return sr;
}

/* ------------------------------------------------------------------- taking */

/* The array for the 2 MB at addr, with ptl held. cr_snap_prepare() has reserved all it takes. */
static struct page **cr_snap_array(struct cr_snap_request *sr, unsigned long addr)
{
	struct cr_chunk chunk = cr_snap_chunk(sr->snap, addr);

	if (cr_chunk_has_any(&chunk) || !sr->spare)
		return chunk.pages;
	if (xa_err(xa_store(&sr->snap->chunks, addr >> PMD_SHIFT, sr->spare, GFP_NOWAIT)))
		return NULL;
	chunk.pages = sr->spare->pages;
	sr->spare = NULL;
	sr->snap->ntables++;
	return chunk.pages;
}

/* Charge pages that the snapshot holds already; freeing the snapshot releases them. */
static int cr_snap_charge(struct cr_snap_request *sr, u64 pages)
{
	if (!cr_account_charge(sr->snap->account, CR_ACCOUNT_PAGES, pages, sr->snap->unlimited)) {
		sr->full = true;
		return -EDQUOT;
	}
	sr->snap->charged += pages;
	return 0;
}

/* Share the page and take a reference to it. Return: the page; CR_PINNED: it is pinned. */
static struct page *cr_snap_share(struct cr_walk *walk, unsigned long addr, pte_t *pte)
{
	struct page *page = pte_page(ptep_get(pte));

	get_page(page);
	if (pte_write(ptep_get(pte)))
		ptep_set_wrprotect(walk->mm, addr, pte);
	if (cr_page_is_exclusive(page) && cr_share_pte(page)) {
		put_page(page);
		return CR_PINNED;
	}
	return page;
}

/*
 * Of n pages from addr on, all in one word of a bitmap, those to visit: all; or those that may have
 * changed; or, if pages are only to be marked as unchanged, those that do not look so already, or
 * that are known not to be.
 */
static unsigned long cr_snap_wanted(const struct cr_walk *walk, struct cr_tracked *seen,
				    pte_t *pte, unsigned long addr, unsigned int n)
{
	struct cr_snap_request *sr = walk->arg;
	unsigned int k = cr_snap_slot(addr);
	unsigned long clean, all = GENMASK(n - 1, 0);

	if (walk->among)
		return all & (walk->among[BIT_WORD(k)] >> k % BITS_PER_LONG);
	if (sr->snap && (!sr->changed || sr->young))
		return all;
	clean = cr_clean_ptes(seen, pte, n);
	if (sr->changed)
		cr_pageset_set(&sr->snap->clean, addr, clean);
	else
		sr->pages += hweight_long(clean);
	return all & ~clean;
}

/* Return: 0; -EAGAIN: the page must be brought in first; -ENOMEM. */
static int cr_snap_pte(struct cr_walk *walk, pte_t *pte, unsigned long addr, struct page ***array)
{
	struct cr_snap_request *sr = walk->arg;
	struct page *page;

	switch (cr_pte_kind(ptep_get(pte))) {
	case CR_PTE_ANON:
		if (sr->snap && !*array)
			*array = cr_snap_array(sr, addr);
		if (sr->snap && !*array)
			return -ENOMEM;
		sr->pages++;
		if (!sr->snap)
			break;
		page = cr_snap_share(walk, addr, pte);
		(*array)[cr_snap_slot(addr)] = page;
		sr->pinned += page == CR_PINNED;
		break;
	case CR_PTE_MOVING:
		/*
		 * Wait for its end, also to mark the page only: an entry that was writable becomes
		 * writable again, and writes to it would go unnoticed.
		 */
		walk->stopped = addr;
		return -EAGAIN;
	case CR_PTE_SWAP:
	case CR_PTE_LOST:
		if (!sr->snap) {
			sr->pages++;
			break;
		}
		/* bring the page in; for a lost page this fails with an error */
		walk->stopped = addr;
		return -EAGAIN;
	default:
		return 0;
	}
	if (sr->track)
		cr_track_clear_pte(walk->mm, addr, pte);
	return 0;
}

/*
 * Share the table of the base for 2 MB of which no entry differs from it. Its pages are
 * write-protected and shared already, so nothing else is to be done for them.
 * Return: 1: it is shared; 0: there is none, or an entry differs; -errno.
 */
static int cr_snap_inherit(struct cr_walk *walk, pte_t *pte, unsigned long addr, unsigned long end)
{
	struct cr_snap_request *sr = walk->arg;
	pteval_t mask = cr_readonly_mask() | (sr->track ? _PAGE_SOFT_DIRTY : 0);
	unsigned long rest = 0, shared, pages = 0;
	struct cr_table *table;
	struct cr_chunk chunk;
	unsigned int k;
	void *old;

	/* only whole tables: another mapping in these 2 MB has a call of its own */
	if (!sr->base || end - addr != PMD_SIZE)
		return 0;
	table = cr_chunk_table(xa_load(&sr->base->chunks, addr >> PMD_SHIFT));
	if (!table)
		return 0;
	chunk = (struct cr_chunk){ .pages = table->pages };
	for (k = 0; k < PTRS_PER_PTE; k += BITS_PER_LONG) {
		shared = cr_shared_ptes(&chunk, k, pte + k, BITS_PER_LONG, mask, &rest);
		if (rest)
			return 0;
		pages += hweight_long(shared);
	}
	refcount_inc(&table->ref);
	old = xa_store(&sr->snap->chunks, addr >> PMD_SHIFT, table, GFP_NOWAIT);
	if (xa_is_err(old)) {
		cr_table_put(table);
		return xa_err(old);
	}
	sr->pages += pages;
	return cr_snap_charge(sr, pages) ?: 1;
}

static int cr_snap_ptes(struct cr_walk *walk, pte_t *pte, unsigned long addr, unsigned long end)
{
	struct cr_snap_request *sr = walk->arg;
	struct cr_tracked seen = { };
	struct page **array = NULL;
	u64 before = sr->pages;
	unsigned long wanted;
	unsigned int n, i;
	int r = cr_snap_inherit(walk, pte, addr, end), full;

	if (r)
		return min(r, 0);
	for (; addr < end && !r; addr += n * PAGE_SIZE, pte += n) {
		n = min_t(unsigned long, (end - addr) >> PAGE_SHIFT,
			  BITS_PER_LONG - cr_snap_slot(addr) % BITS_PER_LONG);
		wanted = cr_snap_wanted(walk, &seen, pte, addr, n);
		for_each_set_bit(i, &wanted, n) {
			r = cr_snap_pte(walk, pte + i, addr + i * PAGE_SIZE, &array);
			if (r)
				break;
		}
	}
	full = sr->snap ? cr_snap_charge(sr, sr->pages - before) : 0;
	return full ? full : r;
}

/* The whole of a huge page is one entry and one reference. */
static int cr_snap_whole(struct cr_snap_request *sr, unsigned long addr, struct page *head)
{
	void *entry = xa_tag_pointer(head, CR_SNAP_WHOLE);
	void *old = xa_store(&sr->snap->chunks, addr >> PMD_SHIFT, entry, GFP_NOWAIT);

	if (xa_is_err(old))
		return xa_err(old);
	get_page(head);
	return 0;
}

/* A huge page that is pinned, or of which only a part is asked for. */
static int cr_snap_part(struct cr_snap_request *sr, unsigned long addr, unsigned long end,
			struct page *head, bool pinned)
{
	struct page **array = cr_snap_array(sr, addr);

	if (!array)
		return -ENOMEM;
	for (; addr < end; addr += PAGE_SIZE) {
		struct page *page = head + cr_snap_slot(addr);

		if (!pinned)
			get_page(page);
		sr->pinned += pinned;
		array[cr_snap_slot(addr)] = pinned ? CR_PINNED : page;
	}
	return 0;
}

static int cr_snap_huge(struct cr_walk *walk, pmd_t *pmd, unsigned long addr, unsigned long end)
{
	struct page *head = pmd_page(pmdp_get(pmd));
	struct cr_snap_request *sr = walk->arg;
	u64 pages = (end - addr) >> PAGE_SHIFT;
	unsigned int n;
	bool pinned;
	int r;

	if (!PageAnon(head))	/* the huge zero page */
		return 0;
	if (sr->changed && !sr->young && cr_pmd_is_clean(pmdp_get(pmd))) {
		for (; addr < end; addr += n * PAGE_SIZE) {
			n = min_t(unsigned long, (end - addr) >> PAGE_SHIFT,
				  BITS_PER_LONG - cr_snap_slot(addr) % BITS_PER_LONG);
			cr_pageset_set(&sr->snap->clean, addr, GENMASK(n - 1, 0));
		}
		return 0;
	}
	if (sr->snap) {
		if (pmd_write(pmdp_get(pmd)))
			pmdp_set_wrprotect(walk->mm, addr & PMD_MASK, pmd);
		pinned = cr_page_is_exclusive(head) && cr_share_pmd(head);
		if (pages == PTRS_PER_PTE && !pinned)
			r = cr_snap_whole(sr, addr, head);
		else
			r = cr_snap_part(sr, addr, end, head, pinned);
		if (!r)
			r = cr_snap_charge(sr, pages);
		if (r)
			return r;
	}
	sr->pages += pages;
	if (sr->track)
		cr_track_clear_pmd(walk->mm, end - PAGE_SIZE, pmd);
	return 0;
}

/* Under ptl nothing can be allocated: have a table at hand, and room in the table. */
static int cr_snap_prepare(struct cr_walk *walk, unsigned long addr, unsigned long end)
{
	struct cr_snap_request *sr = walk->arg;
	struct mem_cgroup *before = set_active_memcg(sr->memcg);
	int r = xa_reserve(&sr->snap->chunks, addr >> PMD_SHIFT, GFP_KERNEL_ACCOUNT);

	if (!r && !sr->spare) {
		sr->spare = cr_table_new();
		if (!sr->spare)
			r = -ENOMEM;
	}
	if (!r && sr->changed)
		r = cr_pageset_reserve(&sr->snap->clean, addr);
	set_active_memcg(before);
	return r;
}

static int cr_snap_copy(struct cr_snap_request *sr, struct mm_struct *mm, struct page **slot,
			unsigned long addr)
{
	struct mem_cgroup *before = set_active_memcg(sr->memcg);
	struct page *page, *copy = alloc_page(GFP_HIGHUSER | __GFP_ACCOUNT);
	long r;

	set_active_memcg(before);
	if (!copy)
		return -ENOMEM;
	r = cr_gup(mm, addr, 1, FOLL_FORCE, &page, NULL);
	if (r != 1) {
		__free_page(copy);
		sr->bad = addr;
		return r < 0 ? r : -EFAULT;
	}
	copy_highpage(copy, page);
	put_page(page);
	*slot = copy;
	sr->snap->copied++;
	return 0;
}

/* Copy the pinned pages now: DMA may write to them at any time. */
static int cr_snap_copy_pinned(struct cr_snap_request *sr, struct mm_struct *mm)
{
	struct page **pages;
	unsigned long i;
	void *entry;
	int r, k;

	mmap_assert_write_locked(mm);
	xa_for_each(&sr->snap->chunks, i, entry) {
		pages = cr_chunk_of(entry).pages;
		for (k = 0; pages && k < PTRS_PER_PTE; k++) {
			if (pages[k] != CR_PINNED)
				continue;
			r = cr_snap_copy(sr, mm, &pages[k],
					 (i << PMD_SHIFT) + ((unsigned long)k << PAGE_SHIFT));
			if (r)
				return r;
		}
	}
	return 0;
}

static int cr_snap_vma(struct cr_walk *walk)
{
	struct vm_area_struct *vma = walk->vma;
	struct cr_snap_request *sr = walk->arg;

	sr->young = vma->vm_flags & VM_SOFTDIRTY;
	if (sr->only && (!sr->young || sr->part))
		return cr_pageset_walk(sr->only, walk);
	if (sr->track && sr->young)
		cr_vm_flags_clear(vma, VM_SOFTDIRTY);
	return cr_walk_range(walk, vma->vm_start, vma->vm_end);
}

static int cr_snap_split(struct mm_struct *mm)
{
	struct vm_area_struct *vma;
	struct vma_iterator vmi;
	int r = 0;

	vma_iter_init(&vmi, mm, 0);
	for_each_vma(vmi, vma) {
		if (cr_vma_has_pages(vma))
			r = cr_split_huge(vma);
		if (r)
			break;
	}
	return r;
}

static int cr_snap_mm(struct cr_snap_request *sr, struct mm_struct *mm)
{
	struct cr_walk walk = {
		.mm = mm, .arg = sr, .req = &sr->req,
		.ptes = cr_snap_ptes, .huge = cr_snap_huge,
		.prepare = sr->snap ? cr_snap_prepare : NULL,
	};
	VMA_ITERATOR(vmi, mm, 0);
	struct vm_area_struct *vma;
	int r = 0;

	mmap_assert_write_locked(mm);
	/* as in fork(): makes fast GUP fall back to the slow path during the walk */
	raw_write_seqcount_begin(&mm->write_protect_seq);
	for_each_vma(vmi, vma) {
		if (!cr_vma_has_pages(vma))
			continue;
		walk.vma = vma;
		r = cr_snap_vma(&walk);
		if (r)
			break;
	}
	raw_write_seqcount_end(&mm->write_protect_seq);
	if (r && r != -EINTR && r != -ENOMEM && r != -EDQUOT)
		sr->bad = walk.stopped;
	return r;
}

static int cr_op_snap(struct cr_member *m, struct cr_request *req)
{
	struct cr_snap_request *sr = container_of(req, struct cr_snap_request, req);
	struct mm_struct *mm = current->mm;
	int r = 0;

	if (mmap_write_lock_killable(mm))
		return -EINTR;
	if (sr->split)
		r = cr_snap_split(mm);
	if (!r)
		r = cr_snap_mm(sr, mm);
	if (!r && sr->pinned)
		r = cr_snap_copy_pinned(sr, mm);
	cr_flush_mm(mm);
	mmap_write_unlock(mm);
	return r;
}

/* ------------------------------------------------------------------ the ioctl */

/**
 * cr_track_again() - track from now on
 * @s: the session
 * @id: identity of the checkpoint; with @only, tracking is under it already
 * @keeper: owner of @only
 * @only: the only pages of old mappings that can have changed since the bits were cleared
 *	last; NULL: all memory can have changed
 * @part: with @only, more pages may have changed: leave mappings that are younger as they are
 *
 * Return: 0 or -errno.
 */
int cr_track_again(struct cr_session *s, const u8 *id, struct cr_request *keeper,
		   struct cr_pageset *only, bool part)
{
	struct cr_snap_request *sr = cr_snap_request_new();
	int r;

	if (!sr)
		return -ENOMEM;
	kref_get(&keeper->ref);
	sr->keeper = keeper;
	sr->track = true;
	sr->only = only;
	sr->part = part;
	/* with @only it goes on, unless the bits were lost meanwhile: to begin anew would hide that */
	r = only ? 0 : cr_track_begin(s->mm, id);
	if (!r)
		r = cr_call_any(s, &sr->req);
	if (r)
		cr_track_stop(s->mm);
	cr_request_put(&sr->req);
	return r;
}

static int cr_snap_threads(struct cr_session *s, struct cr_snap *snap)
{
	struct cr_snap_thread *thread;
	struct cr_member *m;
	bool in_call = false;
	unsigned long i;
	int r;

	cr_for_each_member(s, i, m) {
		thread = kmalloc(sizeof(*thread), GFP_KERNEL_ACCOUNT);
		r = thread ? cr_pin(m) : -ENOMEM;
		if (!r) {
			in_call = (long)cr_member_regs(m)->ax == -ERESTART_RESTARTBLOCK;
			thread->restart = *cr_member_restart(m);
			cr_unpin(m);
		}
		if (!r && in_call) {
			thread->task = get_task_struct(m->task);
			list_add(&thread->node, &snap->threads);
		} else {
			kfree(thread);
		}
		if (r && r != -ESRCH) {
			cr_member_put(m);
			return r;
		}
	}
	return 0;
}

static int cr_snap_begin(struct cr_session *s, struct cr_snap_request *sr)
{
	struct cr_snap *snap = cr_snap_new(s);

	if (!snap)
		return -ENOMEM;
	sr->snap = snap;
	if (!sr->changed)
		sr->base = cr_snap_newest(s->mm);
	sr->memcg = get_mem_cgroup_from_mm(current->mm);
	return cr_snap_threads(s, snap);
}

static void cr_snap_done(struct cr_session *s, struct cr_snap_request *sr, struct cr_snapshot *a)
{
	struct cr_snap *snap = sr->snap;

	a->pages = sr->pages;
	if (!snap)
		return;
	snap->pages = sr->pages;
	a->copied = snap->copied;
	a->overhead = snap->ntables * (PAGE_SIZE + sizeof(struct cr_table)) + sizeof(*snap);
	sr->snap = NULL;
	cr_snap_install(s, snap);
}

static bool cr_snap_flags_ok(u32 flags)
{
	if (flags & CR_SNAP_CHANGED && !(flags & CR_SNAP_PAGES))
		return false;
	if (flags & CR_SNAP_SPLIT && !(flags & CR_SNAP_TRACK))
		return false;
	return flags && !(flags & ~(CR_SNAP_PAGES | CR_SNAP_TRACK | CR_SNAP_SPLIT | CR_SNAP_CHANGED));
}

/**
 * cr_ioc_snapshot() - CR_IOC_SNAPSHOT
 * @s: the session
 * @a: its argument
 */
long cr_ioc_snapshot(struct cr_session *s, struct cr_snapshot *a)
{
	const bool goes_on = a->flags & CR_SNAP_CHANGED && a->flags & CR_SNAP_TRACK;
	const u8 *id = goes_on ? a->next : a->id;
	struct cr_snap_request *sr;
	ktime_t t0 = ktime_get();
	bool begun = false;
	int r = 0;

	if (a->reserved || !cr_snap_flags_ok(a->flags) ||
	    (!goes_on && memchr_inv(a->next, 0, CR_ID_SIZE)))
		return -EINVAL;
	if (a->flags & CR_SNAP_CHANGED && !cr_track_is(s->mm, a->id))
		return -ESTALE;
	sr = cr_snap_request_new();
	if (!sr)
		return -ENOMEM;
	sr->changed = a->flags & CR_SNAP_CHANGED;
	sr->track = a->flags & CR_SNAP_TRACK;
	sr->split = a->flags & CR_SNAP_SPLIT;
	if (a->flags & CR_SNAP_PAGES) {
		cr_snap_drop(s);
		r = cr_snap_begin(s, sr);
	}
	/* not in cr_op_snap(): a pending signal of the target would make it fail */
	if (!r && sr->track) {
		r = goes_on ? cr_track_next(s->mm, a->id, id) : cr_track_begin(s->mm, id);
		begun = !r;
	}
	if (!r)
		r = cr_call_any(s, &sr->req);
	/* tracking may have ended during the walk: pages would be missing */
	if (!r && sr->changed && !cr_track_is(s->mm, id))
		r = -ESTALE;
	if (!r) {
		cr_snap_done(s, sr, a);
	} else {
		if (begun)
			cr_track_stop(s->mm);
		if (r == -EDQUOT)
			cr_why(&a->why, CR_WHY_SNAPSHOT_LIMIT, cr_snapshot_limit());
		else if (r != -EINTR && sr->bad)
			cr_why(&a->why, CR_WHY_ADDRESS, sr->bad);
	}
	cr_request_put(&sr->req);
	a->ns = ktime_to_ns(ktime_sub(ktime_get(), t0));
	return r;
}
