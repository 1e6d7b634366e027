/* SPDX-License-Identifier: GPL-2.0-only */
/* Restoring pages: declarations that sort.c (decides), restore.c (writes) and rollback.c share. */
#ifndef CR_RESTORE_H
#define CR_RESTORE_H

#include "internal.h"
#include "watch.h"
#include <linux/atomic.h>
#include <linux/bitmap.h>

/**
 * struct cr_job - one CR_IOC_RESTORE
 * @req: the request; the object of which the job is a part
 * @asked: the argument of the ioctl
 * @most: number of threads that may work on it
 * @alone: the first of them works alone until it finds more than a little to do; then it has
 *	   the others work, too
 * @source: the file with the content; NULL: the content is in @snap
 * @workers: number of threads that work, or did
 * @snap: the snapshot, held by cr_snap_use() while the job runs; NULL: the content is in @source
 * @watch: which of its pages need not be looked at, see cr_track_watch(); NULL: none is known
 * @runs: pages with content and their offsets in @source, sorted by address
 * @nruns: number of @runs
 * @scope: ranges to restore, sorted by address
 * @nscope: number of @scope
 * @dirty_only: soft-dirty bits are valid: skip clean pages
 * @track: mark what is restored as unchanged
 * @again: with @dirty_only and @track, pages that are still to be marked
 * @younger: with @dirty_only and @track, there is a mapping that is younger than the tracking
 * @wiped: a worker has started to wipe the volatile mappings
 * @next: number of the next chunk to restore
 * @restored: pages written
 * @dropped: pages dropped
 * @unchanged: pages left as they were
 * @error: the first error, WRITE_ONCE
 */
struct cr_job {
	struct cr_request req;
	struct cr_restore asked;
	struct file *source;
	struct cr_snap *snap;
	struct cr_watch *watch;
	struct cr_page_run *runs;
	u64 nruns;
	struct cr_range *scope;
	u64 nscope;
	bool dirty_only, track;
	unsigned int most;
	atomic_t alone, workers;
	struct cr_pageset again;
	bool younger;		/* WRITE_ONCE */
	atomic_t wiped;
	atomic64_t next;
	atomic64_t restored, dropped, unchanged;
	int error;
};

/* The pages of one pmd: which to restore, which to drop. */
struct cr_sort {
	struct cr_job *job;
	unsigned long base;
	struct cr_chunk chunk;		/* the snapshot's pages */
	struct cr_watched *watched;	/* the watch's notes of this pmd; NULL: there are none */
	bool in_memory;			/* it has any; if not, @want says what the source has */
	DECLARE_BITMAP(want, PTRS_PER_PTE);	/* with a file: it has content */
	DECLARE_BITMAP(put, PTRS_PER_PTE);	/* content must be written */
	DECLARE_BITMAP(drop, PTRS_PER_PTE);	/* page must be dropped */
	DECLARE_BITMAP(again, PTRS_PER_PTE);	/* page must be tracked anew */
	bool visited;			/* there was a page table, or a huge page */
	bool marked;			/* @put, @drop or @again has a page */
	bool protected;			/* entries were write-protected: flush the TLBs */
	u64 done;			/* pages already restored in place */
	u64 unchanged;			/* pages that stay as they are */
};

u64 cr_run_at(const struct cr_job *job, unsigned long addr);
int cr_restore_init(struct cr_job *job, const struct cr_restore *a);
void cr_restore_free(struct cr_job *job);
int cr_restore_hold(struct cr_job *job, struct cr_session *s);
void cr_restore_begin(struct cr_job *job, struct cr_session *s);
int cr_restore_work(struct cr_member *m, struct cr_job *job);
int cr_restore_end(struct cr_job *job, struct cr_session *s, struct cr_restore *a, int r);
int cr_sort_pmd(struct cr_sort *sort, struct cr_job *job, struct vm_area_struct *vma,
		unsigned long addr, unsigned long end);

#endif /* CR_RESTORE_H */
