/* SPDX-License-Identifier: GPL-2.0-only */
/* What a process has more than at its snapshot: for grown.c and digest.c. */
#ifndef CR_GROWN_H
#define CR_GROWN_H

#include "internal.h"

#define CR_GROWN_MAX 64		/* of each kind; a process that has more is rolled back by steps */

/**
 * struct cr_grown - what to take away from a process, so that it has what it had at its snapshot
 * @mappings: mappings of the snapshot, by address, from user space
 * @nmappings: number of @mappings; 0: no memory may be there more
 * @fds: open descriptors of the snapshot, by number, from user space
 * @nfds: number of @fds; 0: all descriptors must be as they were
 * @brk: end of the heap in the snapshot
 * @unmap: found: memory that is mapped now only
 * @close: found: descriptors that are open now only
 * @seek: found: descriptors of regular files with another position, and the old one
 * @nunmap: number of @unmap
 * @nclose: number of @close
 * @nseek: number of @seek
 * @heap: found: the heap has grown
 */
struct cr_grown {
	struct cr_range *mappings;
	struct cr_fd_pos *fds;
	u64 nmappings, nfds, brk;
	u64 at_mapping, at_fd;		/* how far the search is */
	struct cr_range unmap[CR_GROWN_MAX];
	struct cr_fd_pos seek[CR_GROWN_MAX];
	unsigned int close[CR_GROWN_MAX];
	unsigned int nunmap, nclose, nseek;
	bool heap;
};

/* What becomes of something that is there now. */
enum cr_part {
	CR_PART_KEPT,		/* the snapshot has it, too */
	CR_PART_ENDS,		/* it is taken away */
	CR_PART_BLIND,		/* it cannot be taken away here */
};

int cr_grown_init(struct cr_grown *grown, const struct cr_rollback *a);
void cr_grown_free(struct cr_grown *grown);
void cr_grown_begin(struct cr_grown *grown);
enum cr_part cr_grown_vma(struct cr_grown *grown, struct vm_area_struct *vma, u64 flags,
			  unsigned long from, unsigned long *to);
enum cr_part cr_grown_fd(struct cr_grown *grown, unsigned int fd, struct file *file,
			 const struct file_operations *own, u64 *pos);
void cr_grown_heap(struct cr_grown *grown, struct cr_process *process);
int cr_grown_undo(const struct cr_grown *grown);

#endif /* CR_GROWN_H */
