// SPDX-License-Identifier: GPL-2.0-only
/*
 * The target's mappings, with flags that mean the same on every kernel.
 */
#include "internal.h"
#include <linux/fs.h>
#include <linux/shmem_fs.h>
#include <linux/magic.h>
#include <linux/pkeys.h>
#include <linux/slab.h>

static const struct {
	unsigned long vm;
	u64 cr;
} cr_vma_bits[] = {
	{ VM_READ, CR_VMA_READ },
	{ VM_WRITE, CR_VMA_WRITE },
	{ VM_EXEC, CR_VMA_EXEC },
	{ VM_MAYWRITE, CR_VMA_MAYWRITE },
	{ VM_GROWSDOWN, CR_VMA_GROWSDOWN },
	{ VM_LOCKED, CR_VMA_LOCKED },
	{ VM_LOCKONFAULT, CR_VMA_LOCKONFAULT },
	{ VM_NORESERVE, CR_VMA_NORESERVE },
	{ VM_HUGEPAGE, CR_VMA_HUGEPAGE },
	{ VM_NOHUGEPAGE, CR_VMA_NOHUGEPAGE },
	{ VM_MERGEABLE, CR_VMA_MERGEABLE },
	{ VM_DONTCOPY, CR_VMA_DONTFORK },
	{ VM_WIPEONFORK, CR_VMA_WIPEONFORK },
	{ VM_DONTDUMP, CR_VMA_DONTDUMP },
	{ VM_SEQ_READ, CR_VMA_SEQ_READ },
	{ VM_RAND_READ, CR_VMA_RAND_READ },
	{ VM_HUGETLB, CR_VMA_HUGETLB },
	{ VM_UFFD_MISSING | VM_UFFD_WP, CR_VMA_UFFD },
	{ VM_IO | VM_PFNMAP | VM_MIXEDMAP, CR_VMA_DEVICE },
#ifdef CR_HAVE_SHADOW_STACK
	{ VM_SHADOW_STACK, CR_VMA_SHADOW_STACK },
#endif
#ifdef VM_SEALED
	{ VM_SEALED, CR_VMA_SEALED },
#endif
};

/* vdso, vvar, vsyscall: no file, but somebody's operations */
static bool cr_vma_is_special(struct vm_area_struct *vma)
{
	return !vma->vm_file && vma->vm_ops;
}

/* Private memory whose pages we save: the others have a store of their own. */
bool cr_vma_has_pages(struct vm_area_struct *vma)
{
	if (vma->vm_flags & (VM_IO | VM_PFNMAP | VM_HUGETLB | VM_MIXEDMAP | VM_SHARED |
			     VM_MAYSHARE))
		return false;
#ifdef CR_HAVE_SHADOW_STACK
	if (vma->vm_flags & VM_SHADOW_STACK)
		return false;
#endif
	return !cr_vma_is_special(vma);
}

static bool cr_is_shmem(struct file *file)
{
	return file_inode(file)->i_sb->s_magic == TMPFS_MAGIC;
}

static void cr_fill_vma(struct vm_area_struct *vma, struct cr_vma *c)
{
	unsigned int i;

	c->start = vma->vm_start;
	c->end = vma->vm_end;
	c->offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	for (i = 0; i < ARRAY_SIZE(cr_vma_bits); i++)
		if (vma->vm_flags & cr_vma_bits[i].vm)
			c->flags |= cr_vma_bits[i].cr;
	/*
	 * A shared mapping of a file that is open for reading only is MAP_SHARED,
	 * but the kernel clears VM_SHARED there and keeps VM_MAYSHARE.
	 */
	if (vma->vm_flags & VM_MAYSHARE)
		c->flags |= CR_VMA_SHARED;
	if (cr_vma_is_special(vma))
		c->flags |= CR_VMA_SPECIAL;
	if (cr_vma_has_pages(vma))
		c->flags |= CR_VMA_PAGES;
	if (vma->vm_file) {
		struct inode *inode = file_inode(vma->vm_file);

		c->flags |= CR_VMA_FILE;
		if (cr_is_shmem(vma->vm_file))
			c->flags |= CR_VMA_SHMEM;
		c->ino = inode->i_ino;
		c->dev_major = MAJOR(inode->i_sb->s_dev);
		c->dev_minor = MINOR(inode->i_sb->s_dev);
		if (cr_vma_is_arena(vma))
			c->flags |= CR_VMA_ARENA;
	}
	c->pkey = vma_pkey(vma);
}

long cr_ioc_vmas(struct cr_session *s, struct cr_array *a)
{
	struct mm_struct *mm = s->mm;
	struct vm_area_struct *vma;
	struct cr_vma *list;
	u64 n = 0, room;
	struct vma_iterator vmi;
	long r;

	vma_iter_init(&vmi, mm, 0);
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	room = min_t(u64, a->count, mm->map_count);
	list = kvcalloc(room + 1, sizeof(*list), GFP_KERNEL);
	if (!list) {
		mmap_read_unlock(mm);
		return -ENOMEM;
	}
	for_each_vma(vmi, vma) {
		if (n < room)
			cr_fill_vma(vma, &list[n]);
		n++;
	}
	mmap_read_unlock(mm);
	r = cr_put_array(a, list, n, sizeof(*list));
	kvfree(list);
	return r;
}
