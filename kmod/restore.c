// SPDX-License-Identifier: GPL-2.0-only
/*
 * Restoring pages from a file (an image) or from the session's snapshot. The parked
 * threads do it themselves, in parallel. The mappings have been restored before.
 *
 * Files are read without the mmap lock: it nests inside the locks of file systems, and
 * readers of /proc/PID wait for it. So the worker faults pages in under the mmap lock,
 * takes references, drops the lock and then fills the pages.
 */
#include "restore.h"
#include <linux/bvec.h>
#include <linux/file.h>
#include <linux/highmem.h>
#include <linux/mmu_notifier.h>
#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#define CR_CHUNK_SIZE	(8UL << 20)	/* bytes that a worker takes at a time */
#define CR_IO_PAGES	128		/* pages of one read */

/* More than this is worth waking other threads. */
#define CR_ALONE_PAGES	256		/* restored */
#define CR_ALONE_SIZE	(64UL << 20)	/* bytes looked at */

struct cr_worker {
	struct cr_job *job;
	struct cr_member *member;	/* current */
	struct mm_struct *mm;
	bool locked;		/* the mmap lock is held for reading */
	bool moved;		/* the mmap lock was dropped: look up mappings again */
	struct page *pages[CR_IO_PAGES];
	struct bio_vec bv[CR_IO_PAGES];
	struct cr_sort sort;
	u64 restored, dropped, unchanged;	/* pages, see struct cr_job */
	u64 seen;				/* bytes */
};

static int cr_worker_lock(struct cr_worker *worker)
{
	if (mmap_read_lock_killable(worker->mm))
		return -EINTR;
	worker->locked = true;
	return 0;
}

static void cr_worker_unlock(struct cr_worker *worker)
{
	if (worker->locked)
		mmap_read_unlock(worker->mm);
	worker->locked = false;
	worker->moved = true;
}

/* ------------------------------------------------------------- reading files */

static int cr_read_once(struct cr_worker *worker, struct iov_iter *it, loff_t *pos)
{
	ssize_t r = vfs_iter_read(worker->job->source, it, pos, 0);

	if (r > 0)
		return 0;
	if (!r)
		return -ENODATA;	/* the file has become shorter, or was too short */
	if (r != -EINTR && r != -ERESTARTSYS)
		return (int)r;
	if (fatal_signal_pending(current) || cr_request_abandoned(&worker->job->req))
		return -EINTR;
	/* signals are blocked, so a task work's notification interrupted the read: retry */
	clear_notify_signal();
	return 0;
}

static int cr_read_pages(struct cr_worker *worker, long n, loff_t pos)
{
	struct iov_iter it;
	int r = 0;
	long i;

	for (i = 0; i < n; i++)
		bvec_set_page(&worker->bv[i], worker->pages[i], PAGE_SIZE, 0);
	iov_iter_bvec(&it, ITER_DEST, worker->bv, n, (size_t)n << PAGE_SHIFT);
	while (!r && iov_iter_count(&it))
		r = cr_read_once(worker, &it, &pos);
	return r;
}

/* ------------------------------------------------------------- writing pages */

/* Fault in up to n private pages at addr and take references. Their number, or -errno. */
static long cr_fault_in(struct cr_worker *worker, unsigned long addr, unsigned int n)
{
	struct vm_area_struct *vma;
	long got;

	mmap_assert_locked(worker->mm);
	if (worker->moved) {
		vma = find_vma(worker->mm, addr);
		if (!vma || vma->vm_start > addr || !cr_vma_has_pages(vma))
			return -EFAULT;
		n = min_t(unsigned long, n, (vma->vm_end - addr) >> PAGE_SHIFT);
	}
	got = cr_gup(worker->mm, addr, n, FOLL_WRITE | FOLL_FORCE, worker->pages, NULL);
	return got ? got : -EFAULT;
}

static void cr_put_dirty(struct page **pages, long n)
{
	while (n--) {
		set_page_dirty_lock(pages[n]);
		put_page(pages[n]);
	}
}

/* Fill n pages at addr, to which we hold references, from the file. Retakes the mmap lock. */
static int cr_fill_from_file(struct cr_worker *worker, unsigned long addr, long n,
			     const struct cr_page_run *run)
{
	int r;

	cr_worker_unlock(worker);
	r = cr_read_pages(worker, n, run->offset + (addr - run->addr));
	cr_put_dirty(worker->pages, n);
	return r ? r : cr_worker_lock(worker);
}

static void cr_fill_from_snap(struct cr_worker *worker, unsigned int from, long n)
{
	struct page *page;
	long i;

	for (i = 0; i < n; i++) {
		page = cr_chunk_page(&worker->sort.chunk, from + i);
		if (worker->pages[i] != page)
			copy_highpage(worker->pages[i], page);
	}
	cr_put_dirty(worker->pages, n);
}

/* Write pages [from, upto) of the sorted pmd. */
static int cr_put_pages(struct cr_worker *worker, unsigned int from, unsigned int upto)
{
	struct cr_job *job = worker->job;
	const struct cr_page_run *run = NULL;
	unsigned long addr;
	unsigned int n;
	long got;
	int r = 0;

	while (from < upto && !r) {
		addr = worker->sort.base + ((unsigned long)from << PAGE_SHIFT);
		n = min_t(unsigned int, upto - from, CR_IO_PAGES);
		if (job->source) {	/* one read must be contiguous in the file, too */
			run = &job->runs[cr_run_at(job, addr)];
			n = min_t(u64, n, (run->addr + run->len - addr) >> PAGE_SHIFT);
		}
		got = cr_fault_in(worker, addr, n);
		if (got < 0)
			return got;
		if (job->source)
			r = cr_fill_from_file(worker, addr, got, run);
		else
			cr_fill_from_snap(worker, from, got);
		from += got;
		worker->restored += got;
		if (fatal_signal_pending(current))
			return -EINTR;
	}
	return r;
}

static int cr_restore_pmd(struct cr_worker *worker, struct vm_area_struct *vma,
			  unsigned long addr, unsigned long end)
{
	struct cr_sort *sort = &worker->sort;
	struct cr_job *job = worker->job;
	unsigned int from, upto;
	int r;

	r = cr_sort_pmd(sort, job, vma, addr, end);
	if (r)
		return r;
	worker->restored += sort->done;
	worker->unchanged += sort->unchanged;
	if (!sort->marked)
		return 0;
	for_each_set_bitrange(from, upto, sort->drop, PTRS_PER_PTE) {
		cr_zap(vma, sort->base + ((unsigned long)from << PAGE_SHIFT),
		       (unsigned long)(upto - from) << PAGE_SHIFT);
		worker->dropped += upto - from;
	}
	for_each_set_bitrange(from, upto, sort->put, PTRS_PER_PTE) {
		r = cr_put_pages(worker, from, upto);
		if (r)
			return r;
	}
	if (job->dirty_only && job->track) {
		bitmap_or(sort->again, sort->again, sort->put, PTRS_PER_PTE);
		cr_pageset_add(&job->again, addr, sort->again);
	}
	return 0;
}

/* ------------------------------------------------------------ sharing the work */

/*
 * An address in [addr, end) before which the source has no content, or end: the first page, or with
 * @roughly in memory, the first 2 MB with one.
 */
static unsigned long cr_source_next(struct cr_job *job, unsigned long addr, unsigned long end,
				    bool roughly)
{
	u64 run;

	if (!job->source)
		return roughly ? cr_snap_next(job->snap, addr, end) :
				 cr_snap_next_page(job->snap, addr, end);
	run = cr_run_at(job, addr);
	if (run == job->nruns || job->runs[run].addr >= end)
		return end;
	return max_t(u64, job->runs[run].addr, addr);
}

/* Find the first address with a page table in the target: stop the walk at once. */
static int cr_probe_ptes(struct cr_walk *walk, pte_t *pte, unsigned long addr, unsigned long end)
{
	*(unsigned long *)walk->arg = addr;
	return 1;
}

static int cr_probe_huge(struct cr_walk *walk, pmd_t *pmd, unsigned long addr, unsigned long end)
{
	*(unsigned long *)walk->arg = addr;
	return 1;
}

/* Advance *addr over holes, to the first address that the source or the target populates. */
static int cr_skip_hole(struct cr_job *job, struct vm_area_struct *vma, unsigned long *addr,
			unsigned long end)
{
	/*
	 * A private mapping without anon_vma has no page that could be dropped. Such mappings are
	 * code and constants, with thousands of pages of their files in the page tables.
	 */
	unsigned long found = cr_source_next(job, *addr, end, vma->anon_vma);
	struct cr_walk probe = {
		.mm = vma->vm_mm, .vma = vma, .arg = &found, .req = &job->req,
		.ptes = cr_probe_ptes, .huge = cr_probe_huge,
	};
	int r = 0;

	if (vma->anon_vma)
		r = cr_walk_range(&probe, *addr, found);
	*addr = found;
	return min(r, 0);
}

/* Restore up to end, or until the mapping must be looked up again. */
static int cr_restore_range(struct cr_worker *worker, struct vm_area_struct *vma,
			    unsigned long *addr, unsigned long end)
{
	unsigned long next;
	int r;

	while (*addr < end && !worker->moved) {
		next = cr_watch_skip(worker->job->watch, *addr, end);
		worker->unchanged += (next - *addr) >> PAGE_SHIFT;
		*addr = next;
		if (next >= end)
			return 0;
		r = cr_skip_hole(worker->job, vma, addr, end);
		if (r || *addr >= end)
			return r;
		next = min(end, (*addr + PMD_SIZE) & PMD_MASK);
		r = cr_restore_pmd(worker, vma, *addr, next);
		if (r)
			return r;
		*addr = next;
		cond_resched();
	}
	return 0;
}

static int cr_restore_chunk(struct cr_worker *worker, unsigned long addr, unsigned long end)
{
	struct vm_area_struct *vma;
	unsigned long upto;
	int r = cr_worker_lock(worker);

	while (addr < end && !r) {
		worker->moved = false;
		vma = find_vma(worker->mm, addr);
		r = -EFAULT;
		if (!vma || vma->vm_start > addr)
			break;
		upto = min(end, vma->vm_end);
		if (cr_vma_is_volatile(vma)) {	/* cr_wipe_volatile() drops all its pages */
			addr = upto;
			r = 0;
		} else if (cr_vma_has_pages(vma)) {
			if (vma->vm_flags & VM_SOFTDIRTY)
				WRITE_ONCE(worker->job->younger, true);
			r = cr_restore_range(worker, vma, &addr, upto);
		}
	}
	cr_worker_unlock(worker);
	return r;
}

/* Drop all pages of volatile mappings, inside and outside of the scope. */
static int cr_wipe_volatile(struct mm_struct *mm)
{
	struct vm_area_struct *vma;
	struct vma_iterator vmi;

	vma_iter_init(&vmi, mm, 0);
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	for_each_vma(vmi, vma)
		if (cr_vma_is_volatile(vma))
			cr_zap(vma, vma->vm_start, vma->vm_end - vma->vm_start);
	mmap_read_unlock(mm);
	return 0;
}

/* Have other threads work, too, if there is enough to do. */
static void cr_share_work(struct cr_worker *worker, unsigned long len)
{
	struct cr_job *job = worker->job;

	worker->seen += len;
	if (worker->restored + worker->dropped < CR_ALONE_PAGES && worker->seen < CR_ALONE_SIZE)
		return;
	if (atomic_read(&job->alone) && atomic_xchg(&job->alone, 0))
		cr_pass_on(worker->member, &job->req, job->most - 1);
}

/* The chunks of the scope are numbered. Each worker takes the next number. */
static int cr_restore_chunks(struct cr_worker *worker)
{
	struct cr_job *job = worker->job;
	u64 mine, number = 0, i;
	int r = 0;

	mine = atomic64_inc_return(&job->next) - 1;
	for (i = 0; i < job->nscope && !r; i++) {
		unsigned long addr = job->scope[i].addr, end = addr + job->scope[i].len, upto;
		u64 n = ((end - 1) / CR_CHUNK_SIZE) - addr / CR_CHUNK_SIZE + 1;

		while (mine < number + n && !r) {
			addr = job->scope[i].addr;
			if (mine > number)
				addr = (addr / CR_CHUNK_SIZE + (mine - number)) * CR_CHUNK_SIZE;
			upto = min(end, (addr / CR_CHUNK_SIZE + 1) * CR_CHUNK_SIZE);
			/* return 0: another worker reports its error, -EINTR would mean a kill */
			if (READ_ONCE(job->error))
				return 0;
			if (cr_request_abandoned(&job->req))
				r = -EINTR;
			else
				r = cr_restore_chunk(worker, addr, upto);
			cr_session_alive(worker->member->session);
			cr_share_work(worker, upto - addr);
			mine = atomic64_inc_return(&job->next) - 1;
		}
		number += n;
	}
	return r;
}

/* Before a thread writes to a page that was marked as unchanged in its entry only. */
static int cr_flush_marked(struct mm_struct *mm)
{
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	cr_flush_mm(mm);
	mmap_write_unlock(mm);
	return 0;
}

/**
 * cr_restore_work() - restore pages until all are restored
 * @m: current, working on @job->req
 * @job: the job
 *
 * Return: 0 or -errno; 0 also when another thread has failed.
 */
int cr_restore_work(struct cr_member *m, struct cr_job *job)
{
	/* not accounted: after the commit a target at its memcg limit must not fail here */
	struct cr_worker *worker = kvzalloc(sizeof(*worker), GFP_KERNEL);
	sigset_t before;
	int r = 0;

	if (!worker)
		return -ENOMEM;
	worker->job = job;
	worker->mm = current->mm;
	worker->member = m;
	atomic_inc(&job->workers);
	if (!atomic_xchg(&job->wiped, 1))
		r = cr_wipe_volatile(worker->mm);
	if (job->source)
		/* after the commit a pending signal must not interrupt a read */
		cr_hold_signals(&before);
	if (!r)
		r = cr_restore_chunks(worker);
	if (job->source)
		cr_release_signals(&before);
	if (!r && worker->sort.protected)
		r = cr_flush_marked(worker->mm);
	atomic64_add(worker->restored, &job->restored);
	atomic64_add(worker->dropped, &job->dropped);
	atomic64_add(worker->unchanged, &job->unchanged);
	kvfree(worker);
	if (r && !READ_ONCE(job->error))
		WRITE_ONCE(job->error, r);
	return r;
}

/* --------------------------------------------------------- the ioctl's argument */

/* Check one range: aligned, not empty, in user address space, behind the previous range. */
static bool cr_range_ok(u64 addr, u64 len, u64 after)
{
	return len && !((addr | len) & ~PAGE_MASK) && addr >= after &&
	       len <= TASK_SIZE_MAX && addr <= TASK_SIZE_MAX - len;
}

static bool cr_job_ok(struct cr_job *job)
{
	u64 i, k = 0, after = 0;

	for (i = 0; i < job->nscope; i++) {
		if (!cr_range_ok(job->scope[i].addr, job->scope[i].len, after))
			return false;
		after = job->scope[i].addr + job->scope[i].len;
	}
	after = 0;
	for (i = 0; i < job->nruns; i++) {
		u64 addr = job->runs[i].addr, len = job->runs[i].len;

		if (!cr_range_ok(addr, len, after) || job->runs[i].offset & ~PAGE_MASK ||
		    job->runs[i].offset > (u64)LLONG_MAX - len)
			return false;
		after = addr + len;
		while (k < job->nscope && job->scope[k].addr + job->scope[k].len <= addr)
			k++;
		if (k == job->nscope || addr < job->scope[k].addr)
			return false;
		/* a run may span several adjacent ranges of the scope */
		while (after > job->scope[k].addr + job->scope[k].len) {
			if (k + 1 == job->nscope ||
			    job->scope[k + 1].addr != job->scope[k].addr + job->scope[k].len)
				return false;
			k++;
		}
	}
	return true;
}

/* Free what the job refers to. */
void cr_restore_free(struct cr_job *job)
{
	if (job->source)
		fput(job->source);
	if (job->snap) {
		cr_snap_unuse(job->snap);
		cr_snap_put(job->snap);
	}
	cr_pageset_free(&job->again);
	kvfree(job->scope);
	kvfree(job->runs);
}

/* Accept regular files only: they can be read at any offset, and do not block like pipes. */
static int cr_job_file(struct cr_job *job, int fd)
{
	job->source = fget(fd);
	if (!job->source)
		return -EBADF;
	if (!S_ISREG(file_inode(job->source)->i_mode) || !job->source->f_op->read_iter)
		return -EINVAL;
	return job->source->f_mode & FMODE_CAN_READ ? 0 : -EBADF;
}

static bool cr_restore_flags_ok(u32 flags)
{
	const u32 both = CR_RESTORE_DIRTY | CR_RESTORE_TRACK;

	if (flags & CR_RESTORE_PART && (flags & both) != both)
		return false;
	return !(flags & ~(both | CR_RESTORE_PART));
}

/**
 * cr_restore_init() - check and copy the argument of CR_IOC_RESTORE
 * @job: zeroed before; ends by cr_restore_free(), also after an error
 * @a: the argument
 *
 * No target need be frozen. The job does not hold the session's snapshot: while it waits for a
 * freeze, the snapshot can be dropped when memory runs out.
 *
 * Return: 0 or -errno.
 */
int cr_restore_init(struct cr_job *job, const struct cr_restore *a)
{
	void *table;

	cr_pageset_init(&job->again);
	job->asked = *a;
	atomic_set(&job->alone, 1);
	job->most = a->max_workers ? min(a->max_workers, num_online_cpus()) : num_online_cpus();
	if (!cr_restore_flags_ok(a->flags) || (a->source_fd < 0 && a->nruns))
		return -EINVAL;
	table = cr_get_table(a->runs, a->nruns, sizeof(*job->runs));
	if (IS_ERR(table))
		return PTR_ERR(table);
	job->runs = table;
	job->nruns = a->nruns;
	table = cr_get_table(a->scope, a->nscope, sizeof(*job->scope));
	if (IS_ERR(table))
		return PTR_ERR(table);
	job->scope = table;
	job->nscope = a->nscope;
	if (!cr_job_ok(job))
		return -EINVAL;
	return a->source_fd >= 0 ? cr_job_file(job, a->source_fd) : 0;
}

/**
 * cr_restore_hold() - hold the snapshot, if the content comes from there
 * @job: from cr_restore_init()
 * @s: the session
 *
 * Return: 0; -ENXIO: there is none.
 */
int cr_restore_hold(struct cr_job *job, struct cr_session *s)
{
	struct cr_snap *snap;

	if (job->source)
		return 0;
	snap = cr_snap_get(s);
	if (!snap)
		return -ENXIO;
	if (!cr_snap_use(snap)) {
		cr_snap_put(snap);
		return -ENXIO;
	}
	job->snap = snap;
	return 0;
}

/* With valid soft-dirty bits, those of what was not restored stay so. */
static bool cr_has_to_track(struct cr_job *job)
{
	if (!job->track)
		return false;
	if (!job->dirty_only || !cr_pageset_is_empty(&job->again))
		return true;
	return READ_ONCE(job->younger) && !(job->asked.flags & CR_RESTORE_PART);
}

/**
 * cr_restore_begin() - decide what need be looked at
 * @job: from cr_restore_init(); no thread works on it yet
 * @s: the session, frozen
 */
void cr_restore_begin(struct cr_job *job, struct cr_session *s)
{
	/* a snapshot does not need valid bits: cr_sort_ptes() compares page frames, too */
	job->dirty_only = (!job->source || job->asked.flags & CR_RESTORE_DIRTY) &&
			  cr_track_is(s->mm, job->asked.id);
	job->track = job->asked.flags & CR_RESTORE_TRACK;
	job->watch = job->snap ? cr_track_watch(s->mm, job->snap) : NULL;
}

/**
 * cr_restore_end() - the threads have done their work: track from now on, and report
 * @job: the job
 * @s: the session
 * @a: the argument, in and out
 * @r: result of the work. After an error threads may still work, if the caller is being killed
 *
 * Return: 0 or -errno.
 */
int cr_restore_end(struct cr_job *job, struct cr_session *s, struct cr_restore *a, int r)
{
	a->workers = atomic_read(&job->workers);
	a->restored = atomic64_read(&job->restored);
	a->dropped = atomic64_read(&job->dropped);
	a->unchanged = atomic64_read(&job->unchanged);
	r = job->error ? job->error : r;
	if (!r && cr_has_to_track(job))
		r = cr_track_again(s, a->id, &job->req, job->dirty_only ? &job->again : NULL,
				   job->asked.flags & CR_RESTORE_PART);
	/*
	 * A worker may have marked pages as unchanged, and the TLBs are not flushed, or not yet:
	 * when the target runs on, writes to them can go unnoticed.
	 */
	if (r && job->track && !job->source)
		cr_track_stop(s->mm);
	return r;
}

static int cr_op_restore(struct cr_member *m, struct cr_request *req)
{
	return cr_restore_work(m, container_of(req, struct cr_job, req));
}

static void cr_restore_release(struct cr_request *req)
{
	struct cr_job *job = container_of(req, struct cr_job, req);

	cr_restore_free(job);
	kfree(job);
}

static int cr_restore(struct cr_session *s, struct cr_restore *a, struct cr_job *job)
{
	int r = cr_restore_init(job, a);

	if (!r)
		r = cr_restore_hold(job, s);
	if (r)
		return r;
	cr_restore_begin(job, s);
	if (a->flags & CR_RESTORE_DIRTY && !job->dirty_only)
		return -ESTALE;
	r = cr_call_any(s, &job->req);
	return cr_restore_end(job, s, a, r);
}

/**
 * cr_ioc_restore() - CR_IOC_RESTORE
 * @s: the session
 * @a: its argument
 *
 * Return: 0 or -errno. -ESTALE: nothing has changed.
 */
long cr_ioc_restore(struct cr_session *s, struct cr_restore *a)
{
	struct cr_job *job = kzalloc(sizeof(*job), GFP_KERNEL_ACCOUNT);
	ktime_t t0 = ktime_get();
	int r;

	if (!job)
		return -ENOMEM;
	cr_request_init(&job->req, cr_op_restore, cr_restore_release);
	r = cr_restore(s, a, job);
	cr_request_put(&job->req);
	a->ns = ktime_to_ns(ktime_sub(ktime_get(), t0));
	return r;
}

/**
 * cr_ioc_commit() - CR_IOC_COMMIT
 * @s: the session
 * @unused: it has no argument
 *
 * Return: 0. -ENOTCONN; -ENXIO: the session's snapshot was dropped when memory ran out.
 */
long cr_ioc_commit(struct cr_session *s, void *unused)
{
	struct cr_snap *snap = cr_snap_get(s);
	long r = -ENXIO;

	if (!snap)
		return cr_commit(s);
	/* hold the pages until the stage COMMITTED prevents their eviction */
	if (cr_snap_use(snap)) {
		r = cr_commit(s);
		cr_snap_unuse(snap);
	}
	cr_snap_put(snap);
	return r;
}
