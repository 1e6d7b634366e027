// SPDX-License-Identifier: GPL-2.0-only
/*
 * Binding a session to its target, and which targets we refuse.
 */
#include "internal.h"
#include <linux/file.h>
#include <linux/magic.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/seccomp.h>

/*
 * The kernel made its ptrace and LSM checks when it opened /proc/PID/mem, and
 * left the mm there. We never follow this pointer: we only look for a task whose
 * mm it is, which also fails when the target has exited or exec'd since.
 * environ and auxv have an mm there, too, but with weaker checks at their open.
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
			/* the one that is no vfork child or foreign sharer */
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

long cr_ioc_attach(struct cr_session *s, struct cr_attach *a)
{
	struct task_struct *leader;
	struct mm_struct *mm;
	struct file *file;
	long r;

	if (a->flags || a->reserved)
		return -EINVAL;
	if (s->leader)
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

	/* none: it had exited already when it was opened */
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
	if (is_child_reaper(task_pid(leader)))
		goto out_task;
	r = cr_check_task(leader, &a->why);
	if (r)
		goto out_task;

	mmgrab(mm);
	s->mm = mm;
	s->leader = leader;
	cr_why(&a->why, CR_WHY_NONE, 0);
	fput(file);
	return 0;

out_task:
	put_task_struct(leader);
out:
	fput(file);
	return r;
}

/* What a thread may have that we cannot bring back, or that would not survive us. */
int cr_check_task(struct task_struct *t, struct cr_why *why)
{
	u64 tid = task_pid_vnr(t);

	if (t->flags & PF_KTHREAD)
		cr_why(why, CR_WHY_KTHREAD, tid);
	else if (test_tsk_thread_flag(t, TIF_ADDR32))
		cr_why(why, CR_WHY_COMPAT, tid);
#ifdef CONFIG_IO_URING
	else if (t->io_uring)
		cr_why(why, CR_WHY_IO_URING, tid);
#endif
	else if (READ_ONCE(t->seccomp.mode))
		cr_why(why, CR_WHY_SECCOMP, tid);
	else if (READ_ONCE(t->ptrace))
		cr_why(why, CR_WHY_TRACED, tid);
#ifdef CONFIG_X86_USER_SHADOW_STACK
	else if (t->thread.features)
		cr_why(why, CR_WHY_SHADOW_STACK, tid);
#endif
	else
		return 0;
	return -EOPNOTSUPP;
}

/* Somebody outside the thread group runs on this memory: we could not stop it. */
int cr_check_shared_mm(struct cr_session *s, struct cr_why *why)
{
	struct task_struct *p, *t;
	int r = 0;

#ifdef CONFIG_AIO
	if (rcu_access_pointer(s->mm->ioctx_table)) {
		cr_why(why, CR_WHY_AIO, task_tgid_vnr(s->leader));
		return -EOPNOTSUPP;
	}
#endif
	rcu_read_lock();
	for_each_process(p) {
		if (p->flags & PF_KTHREAD || same_thread_group(p, s->leader))
			continue;
		for_each_thread(p, t) {
			if (READ_ONCE(t->mm) != s->mm)
				continue;
			cr_why(why, CR_WHY_SHARED_MM, task_tgid_vnr(p));
			r = -EOPNOTSUPP;
			break;
		}
		if (r)
			break;
	}
	rcu_read_unlock();
	return r;
}
