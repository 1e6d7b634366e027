// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a process has more than at its snapshot: memory, open descriptors, another position in
 * its files. A search finds it while the state is hashed, as if it were not there. After the
 * commit a thread of the process takes it away.
 */
#include "grown.h"
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/mman.h>
#include <linux/slab.h>
#include <linux/stat.h>

/* Mappings that end in another way than by munmap(2), or cannot be unmapped. */
#define CR_VMA_STAYS (CR_VMA_SPECIAL | CR_VMA_DEVICE | CR_VMA_HUGETLB | CR_VMA_UFFD | \
		      CR_VMA_SEALED | CR_VMA_SHADOW_STACK | CR_VMA_ARENA)

static bool cr_tables_ok(const struct cr_grown *grown)
{
	u64 i, end = 0;

	for (i = 0; i < grown->nmappings; i++) {
		const struct cr_range *range = &grown->mappings[i];

		if (!range->len || range->addr < end || range->addr + range->len < range->addr ||
		    !PAGE_ALIGNED(range->addr | range->len))
			return false;
		end = range->addr + range->len;
	}
	for (i = 0; i < grown->nfds; i++)
		if (grown->fds[i].reserved || grown->fds[i].fd < 0 ||
		    (i && grown->fds[i].fd <= grown->fds[i - 1].fd))
			return false;
	return true;
}

/**
 * cr_grown_init() - check and copy what the snapshot has
 * @grown: zeroed before; ends by cr_grown_free(), also after an error
 * @a: argument of CR_IOC_ROLLBACK
 *
 * Return: 0 or -errno.
 */
int cr_grown_init(struct cr_grown *grown, const struct cr_rollback *a)
{
	void *table;

	table = cr_get_table(a->mappings, a->nmappings, sizeof(*grown->mappings));
	if (IS_ERR(table))
		return PTR_ERR(table);
	grown->mappings = table;
	grown->nmappings = a->nmappings;
	table = cr_get_table(a->fds, a->nfds, sizeof(*grown->fds));
	if (IS_ERR(table))
		return PTR_ERR(table);
	grown->fds = table;
	grown->nfds = a->nfds;
	grown->brk = a->brk;
	return cr_tables_ok(grown) ? 0 : -EINVAL;
}

/* Free what it refers to. */
void cr_grown_free(struct cr_grown *grown)
{
	kvfree(grown->mappings);
	kvfree(grown->fds);
}

/* Begin a search. */
void cr_grown_begin(struct cr_grown *grown)
{
	grown->at_mapping = 0;
	grown->at_fd = 0;
	grown->nunmap = 0;
	grown->nclose = 0;
	grown->nseek = 0;
	grown->heap = false;
}

static bool cr_vma_ends(struct vm_area_struct *vma, u64 flags)
{
	struct super_block *sb;

	if (flags & CR_VMA_STAYS)
		return false;
	if (!vma->vm_file || flags & CR_VMA_SHMEM)
		return true;
	/* not the memory of kernel objects, such as AIO rings */
	sb = file_inode(vma->vm_file)->i_sb;
	return S_ISREG(file_inode(vma->vm_file)->i_mode) && !(sb->s_flags & SB_NOUSER);
}

static enum cr_part cr_add_unmap(struct cr_grown *grown, struct vm_area_struct *vma, u64 flags,
				 unsigned long from, unsigned long to)
{
	struct cr_range *last = grown->unmap + grown->nunmap - 1;

	if (!cr_vma_ends(vma, flags))
		return CR_PART_BLIND;
	if (grown->nunmap && last->addr + last->len == from) {
		last->len += to - from;
		return CR_PART_ENDS;
	}
	if (grown->nunmap == CR_GROWN_MAX)
		return CR_PART_BLIND;
	grown->unmap[grown->nunmap++] = (struct cr_range){ .addr = from, .len = to - from };
	return CR_PART_ENDS;
}

/**
 * cr_grown_vma() - look at a mapping, part by part, by address
 * @grown: the search
 * @vma: the mapping; mmap lock held
 * @flags: its flags, of struct cr_vma
 * @from: where the part begins
 * @to: out: where it ends
 */
enum cr_part cr_grown_vma(struct cr_grown *grown, struct vm_area_struct *vma, u64 flags,
			  unsigned long from, unsigned long *to)
{
	const struct cr_range *range;

	mmap_assert_locked(vma->vm_mm);
	*to = vma->vm_end;
	while (grown->at_mapping < grown->nmappings) {
		range = &grown->mappings[grown->at_mapping];
		if (range->addr + range->len > from)
			break;
		grown->at_mapping++;
	}
	if (grown->at_mapping == grown->nmappings)
		return cr_add_unmap(grown, vma, flags, from, *to);
	if (range->addr <= from) {
		*to = min_t(u64, *to, range->addr + range->len);
		return CR_PART_KEPT;
	}
	*to = min_t(u64, *to, range->addr);
	return cr_add_unmap(grown, vma, flags, from, *to);
}

static bool cr_fd_ends(struct file *file, const struct file_operations *own)
{
	struct file_lock_context *locks = READ_ONCE(file_inode(file)->i_flctx);

	return file->f_op != own && !locks;
}

/**
 * cr_grown_fd() - look at an open descriptor; they come by number
 * @grown: the search
 * @fd: the descriptor
 * @file: what it refers to
 * @own: operations of /dev/cr: a session is ended by nobody but its holder
 * @pos: in: position of the file; out: that of the snapshot
 */
enum cr_part cr_grown_fd(struct cr_grown *grown, unsigned int fd, struct file *file,
			 const struct file_operations *own, u64 *pos)
{
	const struct cr_fd_pos *was;

	while (grown->at_fd < grown->nfds && grown->fds[grown->at_fd].fd < (int)fd)
		grown->at_fd++;
	was = grown->at_fd < grown->nfds ? &grown->fds[grown->at_fd] : NULL;
	if (!was || was->fd != (int)fd) {
		if (!cr_fd_ends(file, own) || grown->nclose == CR_GROWN_MAX)
			return CR_PART_BLIND;
		grown->close[grown->nclose++] = fd;
		return CR_PART_ENDS;
	}
	if (!S_ISREG(file_inode(file)->i_mode) || file->f_mode & FMODE_PATH || *pos == was->pos)
		return CR_PART_KEPT;
	if (grown->nseek == CR_GROWN_MAX)
		return CR_PART_BLIND;
	grown->seek[grown->nseek++] = *was;
	*pos = was->pos;
	return CR_PART_KEPT;
}

/**
 * cr_grown_heap() - look at the heap
 * @grown: the search
 * @process: in: its begin and end; out: the end that the snapshot has, if it was lower
 */
void cr_grown_heap(struct cr_grown *grown, struct cr_process *process)
{
	if (grown->brk < process->start_brk || grown->brk >= process->brk)
		return;
	grown->heap = true;
	process->brk = grown->brk;
}

/**
 * cr_grown_undo() - take away what the last search has found
 * @grown: the search
 *
 * current is a thread of the target, which is committed.
 *
 * Return: 0 or -errno.
 */
int cr_grown_undo(const struct cr_grown *grown)
{
	struct mm_struct *mm = current->mm;
	struct file *file;
	unsigned int i;
	int r;

	for (i = 0; i < grown->nunmap; i++) {
		r = vm_munmap(grown->unmap[i].addr, grown->unmap[i].len);
		if (r)
			return r;
	}
	if (grown->heap) {
		if (mmap_write_lock_killable(mm))
			return -EINTR;
		mm->brk = grown->brk;
		mmap_write_unlock(mm);
	}
	for (i = 0; i < grown->nseek; i++) {
		file = fget(grown->seek[i].fd);
		if (!file)
			return -EBADF;
		vfs_llseek(file, grown->seek[i].pos, SEEK_SET);
		fput(file);
	}
	/* an error is one of the file's last writes, which the process itself had caused */
	for (i = 0; i < grown->nclose; i++)
		close_fd(grown->close[i]);
	return 0;
}
