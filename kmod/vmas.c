// SPDX-License-Identifier: GPL-2.0-only
/*
 * The target's mappings, with flags that have the same values on every kernel.
 */
#include "internal.h"
#include <linux/fs.h>
#include <linux/shmem_fs.h>
#include <linux/magic.h>
#include <linux/pkeys.h>

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
#ifdef VM_DROPPABLE
	{ VM_DROPPABLE, CR_VMA_DROPPABLE },
#endif
};

/* vdso, vvar, vsyscall: mappings without a file but with vm_ops */
static bool cr_vma_is_special(struct vm_area_struct *vma)
{
	return !vma->vm_file && vma->vm_ops;
}

/**
 * cr_vma_is_volatile() - may the kernel drop pages of this mapping on its own?
 * @vma: the mapping
 *
 * Such memory holds data that must not be used twice, such as the state of random number
 * generators. It is never saved. After a rollback or a restart it is empty, as in a child
 * after fork().
 */
bool cr_vma_is_volatile(struct vm_area_struct *vma)
{
#ifdef VM_DROPPABLE
	if (vma->vm_flags & VM_DROPPABLE)
		return true;
#endif
	return vma->vm_flags & VM_WIPEONFORK;
}

/**
 * cr_vma_has_pages() - is it private memory whose pages a snapshot saves?
 * @vma: the mapping
 *
 * Other mappings have a backing store of their own, or must not be saved.
 */
bool cr_vma_has_pages(struct vm_area_struct *vma)
{
	if (cr_vma_is_volatile(vma))
		return false;
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

#define CR_LOOKED_AT 256	/* mappings of a file that are looked at */

/* Does another process share the memory of this mapping? If it has very many: as if none did. */
static bool cr_is_elsewhere(struct vm_area_struct *vma)
{
	struct address_space *mapping = vma->vm_file->f_mapping;
	struct vm_area_struct *other;
	unsigned int n = 0;
	struct rb_node *node;
	bool found = false;

	i_mmap_lock_read(mapping);
	for (node = rb_first_cached(&mapping->i_mmap); node && n < CR_LOOKED_AT && !found;
	     node = rb_next(node), n++) {
		other = rb_entry(node, struct vm_area_struct, shared.rb);
		found = other->vm_mm != vma->vm_mm && other->vm_flags & VM_MAYSHARE;
	}
	i_mmap_unlock_read(mapping);
	return found;
}

/**
 * cr_fill_vma() - report a mapping
 * @vma: the mapping, mmap lock held
 * @c: out: zeroed before
 */
void cr_fill_vma(struct vm_area_struct *vma, struct cr_vma *c)
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
	if (vma->vm_flags & VM_MAYSHARE && vma->vm_file && cr_is_elsewhere(vma))
		c->flags |= CR_VMA_ELSEWHERE;
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
#ifdef CONFIG_NUMA
	if (vma->vm_policy)
		c->flags |= CR_VMA_POLICY;
#endif
	c->pkey = vma_pkey(vma);
}

/* Add mappings from *next on until the stream is full. Return: 1: more exist, 0, -errno. */
static int cr_some_vmas(struct mm_struct *mm, struct cr_stream *stream, unsigned long *next)
{
	struct vm_area_struct *vma;
	struct vma_iterator vmi;
	int more = 0;

	vma_iter_init(&vmi, mm, *next);
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	for_each_vma(vmi, vma) {
		struct cr_vma c = { };

		more = cr_stream_full(stream);
		if (more)
			break;
		cr_fill_vma(vma, &c);
		cr_stream_add(stream, &c);
		*next = vma->vm_end;
	}
	mmap_read_unlock(mm);
	return more;
}

/**
 * cr_ioc_vmas() - CR_IOC_VMAS
 * @s: the session
 * @a: its argument
 */
long cr_ioc_vmas(struct cr_session *s, struct cr_array *a)
{
	struct cr_stream stream;
	unsigned long next = 0;
	int r = cr_stream_begin(&stream, a, sizeof(struct cr_vma));

	if (r)
		return r;
	do {
		r = cr_some_vmas(s->mm, &stream, &next);
		if (r >= 0)
			r = cr_stream_flush(&stream) ?: r;
	} while (r > 0);
	return cr_stream_end(&stream, a, r);
}
