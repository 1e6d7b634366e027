// SPDX-License-Identifier: GPL-2.0-only
/*
 * The state of a thread but its registers (registers.c).
 */
#include "internal.h"
#include <linux/slab.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>

static u32 cr_attributes(struct task_struct *t)
{
	u32 all = 0;

	if (test_tsk_thread_flag(t, TIF_NOTSC))
		all |= CR_ATTR_NO_TSC;
	if (t->flags & PF_MEMALLOC_NOIO && t->flags & PF_LOCAL_THROTTLE)
		all |= CR_ATTR_IO_FLUSHER;
	if (t->flags & PF_MCE_PROCESS)
		all |= CR_ATTR_MCE_POLICY;
	if (t->flags & PF_MCE_EARLY)
		all |= CR_ATTR_MCE_EARLY;
	return all;
}

/**
 * cr_fill_thread() - report the state of a thread
 * @s: the session
 * @m: the thread, pinned
 * @c: out: zeroed before
 */
void cr_fill_thread(struct cr_session *s, struct cr_member *m, struct cr_thread *c)
{
	struct task_struct *t = m->task;
	sigset_t *mask;

	c->tid = task_pid_vnr(t);
	c->flags = (t == s->leader ? CR_THREAD_LEADER : 0) | (m->born ? CR_THREAD_BORN : 0);
	if (rcu_access_pointer(t->real_cred) == rcu_access_pointer(s->leader->real_cred) &&
	    rcu_access_pointer(t->cred) == rcu_access_pointer(s->leader->cred))
		c->flags |= CR_THREAD_CREDS;
	if (task_no_new_privs(t))
		c->flags |= CR_THREAD_NO_NEW_PRIVS;
	rcu_read_lock();
	c->securebits = __task_cred(t)->securebits;
	rcu_read_unlock();
	if (m->borrowed)
		mask = m->raw.restore_sigmask ? &m->raw.saved_sigmask : &m->raw.blocked;
	else
		mask = test_tsk_restore_sigmask(t) ? &t->saved_sigmask : &t->blocked;
	c->sigmask = mask->sig[0];
	c->pending = t->pending.signal.sig[0];
	c->altstack_sp = t->sas_ss_sp;
	c->altstack_size = t->sas_ss_size;
	c->altstack_flags = t->sas_ss_flags;
	c->rseq_addr = cr_rseq_addr(t);
	c->rseq_len = cr_rseq_len(t);
	c->rseq_sig = cr_rseq_sig(t);
	c->personality = t->personality;
	c->robust_list = cr_robust_list(t);
	c->clear_child_tid = (u64)(unsigned long)t->clear_child_tid;
	c->restart_left_ns = cr_restart_left(m);
	c->restart_nr = cr_restart_call(m);
	c->timer_slack_ns = t->timer_slack_ns;
	c->pdeath_signal = t->pdeath_signal;
	c->attributes = cr_attributes(t);
	get_task_comm(c->comm, t);
}

/* Fill in up to @room parked threads, leader first. Number of parked threads, or -errno. */
static s64 cr_fill_threads(struct cr_session *s, struct cr_thread *list, u64 room)
{
	struct cr_member *m;
	unsigned long i;
	u64 n = 0;
	int r;

	cr_for_each_member(s, i, m) {
		if (n >= room) {
			n += READ_ONCE(m->state) == CR_PARKED;
			continue;
		}
		r = cr_pin(m);
		if (r == -EINTR) {
			cr_member_put(m);
			return r;
		}
		if (r)
			continue;
		cr_fill_thread(s, m, &list[n]);
		cr_unpin(m);
		if (list[n].flags & CR_THREAD_LEADER)
			swap(list[0], list[n]);
		n++;
	}
	return n;
}

static u64 cr_count_parked(struct cr_session *s)
{
	struct cr_member *m;
	unsigned long i;
	u64 n = 0;

	cr_for_each_member(s, i, m)
		n += READ_ONCE(m->state) == CR_PARKED;
	return n;
}

/**
 * cr_ioc_threads - report the parked threads
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * Return: 0, -ENOBUFS, -ENOMEM, -EFAULT, -EINTR.
 */
long cr_ioc_threads(struct cr_session *s, struct cr_array *a)
{
	u64 room = min(a->count, cr_count_parked(s));
	struct cr_thread *list;
	s64 n;

	list = kvcalloc(room + 1, sizeof(*list), GFP_KERNEL_ACCOUNT);
	if (!list)
		return -ENOMEM;
	n = cr_fill_threads(s, list, room);
	/* a thread has parked meanwhile: report ENOBUFS, so that the caller tries again */
	if (n > (s64)room)
		a->count = min(a->count, room);
	if (n >= 0)
		n = cr_put_array(a, list, n, sizeof(*list));
	kvfree(list);
	return n;
}
