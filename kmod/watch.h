/* SPDX-License-Identifier: GPL-2.0-only */
/* Pages that are known to be those of a snapshot, see watch.c: for track.c, sort.c and restore.c. */
#ifndef CR_WATCH_H
#define CR_WATCH_H

#include "internal.h"
#include <linux/xarray.h>

/**
 * struct cr_watch - pages of an mm that are those of a snapshot
 * @snap: number of the snapshot, 0: none; READ_ONCE/WRITE_ONCE
 * @pmds: for each 2 MB a struct cr_watched
 */
struct cr_watch {
	u64 snap;
	struct xarray pmds;
};

struct cr_watched;

void cr_watch_init(struct cr_watch *watch);
void cr_watch_free(struct cr_watch *watch);
void cr_watch_begin(struct cr_watch *watch, struct cr_snap *snap);
void cr_watch_end(struct cr_watch *watch, u64 snap);
struct cr_watched *cr_watch_pmd(struct cr_watch *watch, unsigned long addr);
unsigned long cr_watch_known(struct cr_watched *watched, unsigned int k);
void cr_watch_note(struct cr_watched *watched, unsigned int k, unsigned long pages);
unsigned long cr_watch_skip(struct cr_watch *watch, unsigned long addr, unsigned long end);
void cr_watch_changed(struct cr_watch *watch, unsigned long start, unsigned long end);
struct cr_watch *cr_track_watch(struct mm_struct *mm, struct cr_snap *snap);
void cr_track_unwatch(const struct mm_struct *mm, u64 snap);

#endif /* CR_WATCH_H */
