// SPDX-License-Identifier: GPL-2.0-only
/*
 * Storage of snapshots: pages by address, their users, reading them, and releasing them
 * when memory runs out.
 *
 * A snapshot is reference counted. The session, requests in progress and readers hold
 * references, so dropping a snapshot never waits. Its pages are ordinary movable pages. The
 * snapshot holds references to them for as long as the session keeps it. The kernel cannot
 * migrate such pages, so they can prevent memory unplug and CMA allocations.
 *
 * Locks: cr_snaps_lock, then a session's lock or a snapshot's lock. No code allocates
 * memory under them, because the OOM notifier takes them in any allocation.
 */
#include "internal.h"
#include "snap.h"
#include "watch.h"
#include <linux/capability.h>
#include <linux/highmem.h>
#include <linux/oom.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

/* Protects the list of the snapshots that belong to sessions, and their ->session. */
static DEFINE_SPINLOCK(cr_snaps_lock);
static LIST_HEAD(cr_snaps);

static atomic64_t cr_snap_ids = ATOMIC64_INIT(0);

/**
 * cr_snap_new() - allocate an empty snapshot, on the account of the session's user
 * @s: the session; a caller with CAP_IPC_LOCK is not bound by the ceiling, as with mlock(2)
 *
 * Return: the caller's reference, or NULL.
 */
struct cr_snap *cr_snap_new(struct cr_session *s)
{
	struct cr_snap *snap = kzalloc(sizeof(*snap), GFP_KERNEL_ACCOUNT);

	if (!snap)
		return NULL;
	snap->account = cr_account_get(s->account);
	snap->unlimited = capable(CAP_IPC_LOCK);
	kref_init(&snap->ref);
	snap->id = atomic64_inc_return(&cr_snap_ids);
	spin_lock_init(&snap->lock);
	INIT_LIST_HEAD(&snap->node);
	INIT_LIST_HEAD(&snap->threads);
	xa_init(&snap->chunks);
	cr_pageset_init(&snap->clean);
	snap->taken = ktime_get();
	return snap;
}

/**
 * cr_table_new() - allocate an empty table
 *
 * Return: the caller's reference, or NULL.
 */
struct cr_table *cr_table_new(void)
{
	struct cr_table *table = kzalloc(sizeof(*table), GFP_KERNEL_ACCOUNT);

	if (!table)
		return NULL;
	refcount_set(&table->ref, 1);
	table->pages = (struct page **)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	if (table->pages)
		return table;
	kfree(table);
	return NULL;
}

/**
 * cr_table_put() - drop a reference
 * @table: the table, may be NULL
 *
 * Return: number of pages freed.
 */
unsigned long cr_table_put(struct cr_table *table)
{
	unsigned long freed = 1;
	struct page *page;
	int k;

	if (!table || !refcount_dec_and_test(&table->ref))
		return 0;
	for (k = 0; k < PTRS_PER_PTE; k++) {
		page = table->pages[k];
		if (!page || page == CR_PINNED)
			continue;
		freed += page_count(page) == 1;
		put_page(page);
	}
	free_page((unsigned long)table->pages);
	kfree(table);
	return freed;
}

static unsigned long cr_snap_release_whole(struct page *whole)
{
	unsigned long freed = page_count(whole) == 1 ? PTRS_PER_PTE : 0;

	put_page(whole);
	return freed;
}

/*
 * Release all pages. Return: number of pages freed. No other code may access the chunks.
 * A page that reclaim has tried to swap out is in the swap cache, too; reclaim frees it
 * later, so it is not counted.
 */
static unsigned long cr_snap_release_pages(struct cr_snap *snap)
{
	unsigned long i, freed = 0;
	struct cr_chunk chunk;
	void *entry;

	xa_for_each(&snap->chunks, i, entry) {
		chunk = cr_chunk_of(entry);
		if (chunk.whole)
			freed += cr_snap_release_whole(chunk.whole);
		else
			freed += cr_table_put(cr_chunk_table(entry));
		cond_resched();
	}
	xa_destroy(&snap->chunks);
	cr_account_uncharge(snap->account, CR_ACCOUNT_PAGES, snap->charged);
	snap->charged = 0;
	return freed;
}

static void cr_snap_free(struct kref *ref)
{
	struct cr_snap *snap = container_of(ref, struct cr_snap, ref);
	struct cr_snap_thread *thread, *next;

	cr_snap_release_pages(snap);
	cr_pageset_free(&snap->clean);
	list_for_each_entry_safe(thread, next, &snap->threads, node) {
		put_task_struct(thread->task);
		kfree(thread);
	}
	cr_account_put(snap->account);
	kfree(snap);
}

/**
 * cr_snap_put() - drop a reference
 * @snap: the snapshot, may be NULL
 */
void cr_snap_put(struct cr_snap *snap)
{
	if (snap)
		kref_put(&snap->ref, cr_snap_free);
}

/**
 * cr_snap_get() - get the session's snapshot
 * @s: the session
 *
 * Return: a reference, or NULL.
 */
struct cr_snap *cr_snap_get(struct cr_session *s)
{
	struct cr_snap *snap;

	spin_lock(&s->lock);
	snap = s->snap;
	if (snap)
		kref_get(&snap->ref);
	spin_unlock(&s->lock);
	return snap;
}

/**
 * cr_snap_newest() - get the newest snapshot of a process, of whichever session
 * @mm: the mm of the process
 *
 * Return: a reference to a snapshot in use, see cr_snap_use(), or NULL.
 */
struct cr_snap *cr_snap_newest(const struct mm_struct *mm)
{
	struct cr_snap *snap, *found = NULL;

	spin_lock(&cr_snaps_lock);
	list_for_each_entry_reverse(snap, &cr_snaps, node) {
		if (snap->session->mm != mm)
			continue;
		if (cr_snap_use(snap)) {
			kref_get(&snap->ref);
			found = snap;
		}
		break;
	}
	spin_unlock(&cr_snaps_lock);
	return found;
}

/**
 * cr_snap_install() - replace the session's snapshot
 * @s: the session
 * @snap: the new snapshot or NULL; the session takes over the caller's reference
 */
void cr_snap_install(struct cr_session *s, struct cr_snap *snap)
{
	struct cr_snap *old;

	spin_lock(&cr_snaps_lock);
	spin_lock(&s->lock);
	old = s->snap;
	s->snap = snap;
	spin_unlock(&s->lock);
	if (old)
		list_del_init(&old->node);
	if (snap) {
		snap->session = s;
		list_add_tail(&snap->node, &cr_snaps);
	}
	spin_unlock(&cr_snaps_lock);
	if (old)
		cr_track_unwatch(s->mm, old->id);
	cr_snap_put(old);
}

/**
 * cr_snap_drop() - drop the session's snapshot, if any
 * @s: the session
 */
void cr_snap_drop(struct cr_session *s)
{
	cr_snap_install(s, NULL);
}

/**
 * cr_snap_use() - prevent eviction of the pages until cr_snap_unuse()
 * @snap: the snapshot; the caller holds a reference
 *
 * Return: false if the pages have been released already.
 */
bool cr_snap_use(struct cr_snap *snap)
{
	bool there;

	spin_lock(&snap->lock);
	there = !snap->evicted;
	snap->users += there;
	spin_unlock(&snap->lock);
	return there;
}

/**
 * cr_snap_unuse() - end a successful cr_snap_use()
 * @snap: the snapshot
 */
void cr_snap_unuse(struct cr_snap *snap)
{
	spin_lock(&snap->lock);
	snap->users--;
	spin_unlock(&snap->lock);
}

/**
 * cr_snap_chunk() - the pages of the 2 MB around an address
 * @snap: a snapshot that is in use or whose lock is held
 * @addr: any address
 *
 * Return: the pages, see struct cr_chunk.
 */
struct cr_chunk cr_snap_chunk(struct cr_snap *snap, unsigned long addr)
{
	return cr_chunk_of(xa_load(&snap->chunks, addr >> PMD_SHIFT));
}

/**
 * cr_snap_next() - find the next populated 2 MB
 * @snap: a snapshot that is in use or whose lock is held
 * @addr: start of the search
 * @end: end of the search
 *
 * Return: start of the first populated 2 MB in [@addr, @end), not before @addr; or @end.
 */
unsigned long cr_snap_next(struct cr_snap *snap, unsigned long addr, unsigned long end)
{
	unsigned long index = addr >> PMD_SHIFT;

	if (!xa_find(&snap->chunks, &index, (end - 1) >> PMD_SHIFT, XA_PRESENT))
		return end;
	return max(index << PMD_SHIFT, addr);
}

/**
 * cr_snap_next_page() - find the next page
 * @snap: a snapshot that is in use or whose lock is held
 * @addr: start of the search
 * @end: end of the search
 *
 * Return: address of the first page in [@addr, @end); or @end.
 */
unsigned long cr_snap_next_page(struct cr_snap *snap, unsigned long addr, unsigned long end)
{
	struct cr_chunk chunk;
	struct page **from, **found;
	unsigned long upto;

	while ((addr = cr_snap_next(snap, addr, end)) < end) {
		chunk = cr_snap_chunk(snap, addr);
		if (chunk.whole)
			return addr;
		upto = min(end, (addr | ~PMD_MASK) + 1);
		from = chunk.pages + cr_snap_slot(addr);
		found = memchr_inv(from, 0, ((upto - addr) >> PAGE_SHIFT) * sizeof(*from));
		if (found) {
			found = PTR_ALIGN_DOWN(found, sizeof(*found));	/* its first byte may be 0 */
			return addr + ((found - from) << PAGE_SHIFT);
		}
		addr = upto;
	}
	return end;
}

/**
 * cr_snap_restart() - get a thread's restart block from the session's snapshot
 * @s: the session
 * @task: the thread
 * @rb: out: the restart block
 * @taken: out: time of the snapshot
 *
 * Return: false if there is no snapshot, or none of this thread in it.
 */
bool cr_snap_restart(struct cr_session *s, struct task_struct *task, struct restart_block *rb,
		     ktime_t *taken)
{
	struct cr_snap *snap = cr_snap_get(s);
	struct cr_snap_thread *thread;
	bool found = false;

	if (!snap)
		return false;
	list_for_each_entry(thread, &snap->threads, node) {
		if (thread->task != task)
			continue;
		*rb = thread->restart;
		*taken = snap->taken;
		found = true;
		break;
	}
	cr_snap_put(snap);
	return found;
}

/* ------------------------------------------------------------------ reading */

/* Add runs to the stream until it is full. Return: address to continue at; 0: at the end. */
static unsigned long cr_snap_some_runs(struct cr_snap *snap, struct cr_spans *spans,
				       unsigned long from)
{
	unsigned long addr = from;
	struct cr_chunk chunk;

	spin_lock(&snap->lock);
	while (!snap->evicted && addr < TASK_SIZE_MAX) {
		addr = cr_snap_next(snap, addr, TASK_SIZE_MAX);
		if (addr >= TASK_SIZE_MAX)
			break;
		chunk = cr_snap_chunk(snap, addr);
		do {
			if (cr_stream_full(&spans->stream)) {
				spin_unlock(&snap->lock);
				return addr;
			}
			if (cr_chunk_page(&chunk, cr_snap_slot(addr)))
				cr_spans_add(spans, addr, addr + PAGE_SIZE);
			addr += PAGE_SIZE;
		} while (addr & ~PMD_MASK);
		if (need_resched()) {
			spin_unlock(&snap->lock);
			return addr;
		}
	}
	spin_unlock(&snap->lock);
	return 0;
}

/**
 * cr_ioc_snap_runs() - CR_IOC_SNAP_RUNS
 * @s: the session
 * @a: its argument
 */
long cr_ioc_snap_runs(struct cr_session *s, struct cr_array *a)
{
	struct cr_snap *snap = cr_snap_get(s);
	struct cr_spans spans = { };
	unsigned long addr = 0;
	long r;

	if (!snap)
		return -ENXIO;
	r = cr_stream_begin(&spans.stream, a, sizeof(struct cr_range));
	if (r)
		goto out;
	do {
		addr = cr_snap_some_runs(snap, &spans, addr);
		if (cr_stream_full(&spans.stream) || !addr)
			r = cr_stream_flush(&spans.stream);
		if (!r && fatal_signal_pending(current))
			r = -EINTR;
		cond_resched();
	} while (addr && !r);
	cr_spans_close(&spans);
	if (!r && READ_ONCE(snap->evicted))
		r = -ENXIO;
	r = cr_stream_end(&spans.stream, a, r);
out:
	cr_snap_put(snap);
	return r;
}

/**
 * cr_ioc_snap_clean() - CR_IOC_SNAP_CLEAN
 * @s: the session
 * @a: its argument
 */
long cr_ioc_snap_clean(struct cr_session *s, struct cr_array *a)
{
	struct cr_snap *snap = cr_snap_get(s);
	struct cr_spans spans = { };
	long r;

	if (!snap)
		return -ENXIO;
	r = cr_stream_begin(&spans.stream, a, sizeof(struct cr_range));
	if (!r) {
		r = cr_pageset_report(&snap->clean, &spans);
		cr_spans_close(&spans);
		r = cr_stream_end(&spans.stream, a, r);
	}
	cr_snap_put(snap);
	return r;
}

/* The page at addr with a reference, or NULL if the snapshot does not hold it. */
static struct page *cr_snap_page(struct cr_snap *snap, unsigned long addr)
{
	struct page *page = NULL;
	struct cr_chunk chunk;

	spin_lock(&snap->lock);
	if (!snap->evicted) {
		chunk = cr_snap_chunk(snap, addr);
		if (cr_chunk_has_any(&chunk))
			page = cr_chunk_page(&chunk, cr_snap_slot(addr));
	}
	if (page)
		get_page(page);
	spin_unlock(&snap->lock);
	return page;
}

/**
 * cr_read() - pread(session, buf, len, address): whole pages of the snapshot
 * @file: the session's file
 * @buf: buffer in user space; the copy may block for any time, so no lock is held
 * @len: bytes, a multiple of the page size
 * @pos: the address, page aligned
 *
 * Return: bytes read, or -EINVAL, -ENXIO, -EFAULT, -EINTR.
 */
ssize_t cr_read(struct file *file, char __user *buf, size_t len, loff_t *pos)
{
	struct cr_session *s = file->private_data;
	unsigned long addr = *pos;
	struct cr_snap *snap;
	struct page *page;
	size_t done = 0;
	ssize_t r = 0;

	if (*pos < 0 || addr & ~PAGE_MASK || len & ~PAGE_MASK)
		return -EINVAL;
	snap = cr_snap_get(s);
	if (!snap)
		return len ? -ENXIO : 0;
	while (done < len && !r) {
		page = cr_snap_page(snap, addr + done);
		if (!page) {
			r = -ENXIO;
			break;
		}
		if (copy_to_user(buf + done, page_address(page), PAGE_SIZE))
			r = -EFAULT;
		else
			done += PAGE_SIZE;
		put_page(page);
		if (!r && fatal_signal_pending(current))
			r = -EINTR;
		cond_resched();
	}
	cr_snap_put(snap);
	if (!done)
		return r;
	*pos += done;
	return done;
}

/* --------------------------------------------------------- memory runs out */

/* Mark a snapshot as evicted if its pages may be released. cr_snap_use() fails then. */
static bool cr_snap_try_evict(struct cr_snap *snap, bool dead)
{
	bool may;

	lockdep_assert_held(&cr_snaps_lock);
	spin_lock(&snap->lock);
	/* after the commit a lost snapshot would kill the target, see cr_ioc_commit() */
	may = !snap->evicted && !snap->users &&
	      READ_ONCE(snap->session->stage) != CR_COMMITTED &&
	      (!dead || !atomic_read(&snap->session->mm->mm_users));
	snap->evicted |= may;
	spin_unlock(&snap->lock);
	return may;
}

/* Mark a snapshot as evicted and take a reference; @dead: only one of an ended process. */
static struct cr_snap *cr_snap_victim(bool dead)
{
	struct cr_snap *snap, *found = NULL;

	spin_lock(&cr_snaps_lock);
	list_for_each_entry(snap, &cr_snaps, node) {
		if (!cr_snap_try_evict(snap, dead))
			continue;
		kref_get(&snap->ref);
		found = snap;
		break;
	}
	spin_unlock(&cr_snaps_lock);
	return found;
}

/* Called before the OOM killer kills a process: release pages that only snapshots keep. */
static int cr_snap_oom(struct notifier_block *nb, unsigned long unused, void *parm)
{
	unsigned long *freed = parm, got = 0;
	struct cr_snap *snap;
	int dead;

	for (dead = 1; dead >= 0 && !got; dead--) {
		while (!got) {
			snap = cr_snap_victim(dead);
			if (!snap)
				break;
			got = cr_snap_release_pages(snap);
			cr_snap_put(snap);
		}
	}
	if (got)
		pr_warn_ratelimited("out of memory: a snapshot that kept %lu pages was dropped\n", got);
	*freed += got;
	return NOTIFY_OK;
}

static struct notifier_block cr_snap_oom_block = { .notifier_call = cr_snap_oom };

/**
 * cr_snapstore_init() - register the OOM notifier
 *
 * Return: 0 or -errno.
 */
int cr_snapstore_init(void)
{
	return register_oom_notifier(&cr_snap_oom_block);
}

/**
 * cr_snapstore_exit() - undo cr_snapstore_init()
 */
void cr_snapstore_exit(void)
{
	unregister_oom_notifier(&cr_snap_oom_block);
}
