// SPDX-License-Identifier: GPL-2.0-only
/*
 * Binding a session to its target.
 */
#include "internal.h"
#include <linux/file.h>
#include <linux/magic.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>

/*
 * The kernel made its ptrace and LSM checks when it opened /proc/PID/mem, and
 * stored the mm in private_data. The module never dereferences this pointer. It
 * only searches a task with this mm, which fails when the target has exited or
 * exec'd since. /proc/PID/environ and auxv also store an mm in private_data, but
 * their open makes weaker checks, so the name of the file is checked, too.
 */
static bool cr_is_mem_file(struct file *file)
{
	struct dentry *d = file->f_path.dentry;
	bool ok;

	if (file_inode(file)->i_sb->s_magic != PROC_SUPER_MAGIC)
		return false;
	spin_lock(&d->d_lock);
	ok = d->d_name.len == 3 && !memcmp(d->d_name.name, "mem", 3);
	spin_unlock(&d->d_lock);
	return ok && S_ISREG(file_inode(file)->i_mode);
}

static struct task_struct *cr_find_leader(struct mm_struct *mm)
{
	struct task_struct *p, *found = NULL;

	rcu_read_lock();
	for_each_process(p) {
		struct task_struct *t;

		if (p->flags & PF_KTHREAD)
			continue;
		for_each_thread(p, t) {
			if (READ_ONCE(t->mm) != mm)
				continue;
			/* prefer the oldest process: a vfork child or other sharer is younger */
			if (!found || p->start_time < found->start_time)
				found = p;
			break;
		}
	}
	if (found)
		get_task_struct(found);
	rcu_read_unlock();
	return found;
}

/* Is it pid 1 of its pid namespace? The pid of an exiting task may be NULL. */
static bool cr_is_init(struct task_struct *leader)
{
	struct pid *pid;
	bool is;

	rcu_read_lock();
	pid = task_pid(leader);
	is = pid && pid->numbers[pid->level].nr == 1;
	rcu_read_unlock();
	return is;
}

/**
 * cr_ioc_attach - bind the session to the process of a /proc/PID/mem descriptor
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * Return: 0, -EBADF, -EPERM, -EDEADLK, -ESRCH, -EISCONN, -EOPNOTSUPP.
 */
long cr_ioc_attach(struct cr_session *s, struct cr_attach *a)
{
	struct task_struct *leader;
	struct mm_struct *mm;
	struct file *file;
	long r;

	if (a->flags || a->reserved)
		return -EINVAL;
	if (s->leader || READ_ONCE(s->lease))
		return -EISCONN;
	file = fget(a->mem_fd);
	if (!file)
		return -EBADF;
	r = -EPERM;
	cr_why(&a->why, CR_WHY_NOT_MEM_FD, a->mem_fd);
	if (!cr_is_mem_file(file))
		goto out;
	if ((file->f_mode & (FMODE_CAN_READ | FMODE_CAN_WRITE)) !=
	    (FMODE_CAN_READ | FMODE_CAN_WRITE))
		goto out;

	/* NULL: the process had exited already when the file was opened */
	r = -ESRCH;
	cr_why(&a->why, CR_WHY_GONE, 0);
	mm = file->private_data;
	if (!mm)
		goto out;

	r = -EDEADLK;
	cr_why(&a->why, CR_WHY_SELF, task_tgid_vnr(current));
	if (mm == current->mm)
		goto out;

	r = -ESRCH;
	cr_why(&a->why, CR_WHY_GONE, 0);
	leader = cr_find_leader(mm);
	if (!leader)
		goto out;
	a->pid = task_tgid_vnr(leader);
	a->why.arg = a->pid;

	r = -EOPNOTSUPP;
	cr_why(&a->why, CR_WHY_INIT, a->pid);
	if (cr_is_init(leader))
		goto out_task;
	r = cr_check_task(leader, &a->why);
	if (r)
		goto out_task;

	mmgrab(mm);
	s->mm = mm;
	/* release: a reader that sees s->leader sees s->mm, too */
	smp_store_release(&s->leader, leader);
	cr_why(&a->why, CR_WHY_NONE, 0);
	fput(file);
	return 0;

out_task:
	put_task_struct(leader);
out:
	fput(file);
	return r;
}
