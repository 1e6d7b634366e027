/* SPDX-License-Identifier: GPL-2.0-only */
/* Restoring: what sort.c, which decides, and restore.c, which does it, share. */
#ifndef CR_RESTORE_H
#define CR_RESTORE_H

#include "internal.h"
#include <linux/atomic.h>
#include <linux/bitmap.h>

/**
 * struct cr_job - one CR_IOC_RESTORE
 * @req: the request; owns all the rest
 * @source: a file, NULL: the snapshot
 * @snap: in use, NULL: a file
 * @runs: what of @source goes where, by address
 * @nruns: number of @runs
 * @scope: what is restored, by address
 * @nscope: number of @scope
 * @dirty_only: soft-dirty bits are to be believed
 * @wiped: somebody has taken on the volatile mappings
 * @next: chunk to take next
 * @restored: pages put
 * @dropped: pages dropped
 * @unchanged: pages left as they were
 * @error: the first one, WRITE_ONCE
 */
struct cr_job {
	struct cr_request req;
	struct file *source;
	struct cr_snap *snap;
	struct cr_page_run *runs;
	u64 nruns;
	struct cr_range *scope;
	u64 nscope;
	bool dirty_only;
	atomic_t wiped;
	atomic64_t next;
	atomic64_t restored, dropped, unchanged;
	int error;
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

u64 cr_run_at(const struct cr_job *job, unsigned long addr);
int cr_sort_pmd(struct cr_sort *sort, struct cr_job *job, struct vm_area_struct *vma,
		unsigned long addr, unsigned long end);

#endif /* CR_RESTORE_H */
