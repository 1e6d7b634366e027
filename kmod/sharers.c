// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who else maps a file or shared memory.
 */
#include "internal.h"
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/rbtree.h>
#include <linux/sched/signal.h>

/*
 * A process that runs on this memory and that the caller may be told of: one of his own,
 * or any where he may trace all. 0: there is none, or none that he may know.
 */
static pid_t cr_pid_of_mm(const struct mm_struct *mm, bool any)
{
	struct task_struct *p, *t;
	pid_t pid = 0;

	rcu_read_lock();
	for_each_process(p) {
		if (p->flags & PF_KTHREAD)
			continue;
		for_each_thread(p, t) {
			if (READ_ONCE(t->mm) != mm)
				continue;
			if (any || uid_eq(task_uid(p), current_uid()))
				pid = task_tgid_vnr(p);
			goto found;
		}
	}
found:
	rcu_read_unlock();
	return pid;
}

/* The pages that mappings of @file show: on stacked file systems, those of the layer below. */
static struct address_space *cr_shown_by(struct file *file)
{
	return d_real_inode(file->f_path.dentry)->i_mapping;
}

static int cr_count_sharers(struct cr_session *s, struct address_space *mapping,
			    struct cr_sharers *a)
{
	bool any = capable(CAP_SYS_PTRACE);
	struct vm_area_struct *vma;
	struct rb_node *node;
	int r = 0;

	if (down_read_killable(&mapping->i_mmap_rwsem))
		return -EINTR;
	for (node = rb_first_cached(&mapping->i_mmap); node; node = rb_next(node)) {
		vma = rb_entry(node, struct vm_area_struct, shared.rb);
		/* whose mapping is private sees what was there when it was touched first */
		if (vma->vm_mm != s->mm && vma->vm_flags & VM_MAYSHARE) {
			a->mappings++;
			/* its memory stays there while the mapping is in the tree */
			if (a->mappings == 1)
				a->pid = cr_pid_of_mm(vma->vm_mm, any);
		}
		cond_resched();
		if (fatal_signal_pending(current)) {
			r = -EINTR;
			break;
		}
	}
	up_read(&mapping->i_mmap_rwsem);
	return r;
}

/**
 * cr_ioc_sharers - tell whether other processes have a file mapped as shared memory
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * Return: 0, -EBADF, -EINVAL, -EINTR.
 */
long cr_ioc_sharers(struct cr_session *s, struct cr_sharers *a)
{
	struct file *file;
	long r = -EINVAL;

	if (a->flags || a->reserved)
		return -EINVAL;
	file = fget(a->fd);
	if (!file)
		return -EBADF;
	a->mappings = 0;
	a->pid = 0;
	if (S_ISREG(file_inode(file)->i_mode))
		r = cr_count_sharers(s, cr_shown_by(file), a);
	fput(file);
	return r;
}
