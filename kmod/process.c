// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the process as a whole holds and no file of procfs tells.
 */
#include "internal.h"
#include <linux/cred.h>
#include <linux/hrtimer.h>
#include <linux/sched/cputime.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

static void cr_fill_mm(struct task_struct *leader, struct mm_struct *mm, struct cr_process *a)
{
	int i;

	mmap_read_lock(mm);
	spin_lock(&mm->arg_lock);
	a->start_code = mm->start_code;
	a->end_code = mm->end_code;
	a->start_data = mm->start_data;
	a->end_data = mm->end_data;
	a->start_brk = mm->start_brk;
	a->brk = mm->brk;
	a->start_stack = mm->start_stack;
	a->arg_start = mm->arg_start;
	a->arg_end = mm->arg_end;
	a->env_start = mm->env_start;
	a->env_end = mm->env_end;
	spin_unlock(&mm->arg_lock);
	a->vdso = (u64)(unsigned long)mm->context.vdso;
	a->mm_flags_thp_disabled = cr_thp_disabled(mm);
	a->dumpable = cr_dumpable(leader, mm);
	for (i = 0; i + 1 < AT_VECTOR_SIZE && i + 1 < ARRAY_SIZE(a->auxv); i += 2) {
		a->auxv[i] = mm->saved_auxv[i];
		a->auxv[i + 1] = mm->saved_auxv[i + 1];
		if (!mm->saved_auxv[i]) {
			i += 2;
			break;
		}
	}
	a->auxv_words = i;
	mmap_read_unlock(mm);
}

/* CPU time used so far, as the CPU-time interval timers count it. */
static u64 cr_cpu_sample(struct task_struct *leader, bool prof)
{
	u64 utime = leader->signal->utime, stime = leader->signal->stime;
	struct task_struct *t;

	rcu_read_lock();
	for_each_thread(leader, t) {
		utime += t->utime;
		stime += t->stime;
	}
	rcu_read_unlock();
	return prof ? utime + stime : utime;
}

static void cr_fill_itimers(struct task_struct *leader, struct cr_process *a)
{
	struct signal_struct *sig = leader->signal;
	ktime_t left;
	int i;

	if (hrtimer_active(&sig->real_timer)) {
		left = hrtimer_get_remaining(&sig->real_timer);
		a->itimer_value_ns[0] = max_t(s64, ktime_to_ns(left), 1);
	}
	a->itimer_interval_ns[0] = ktime_to_ns(sig->it_real_incr);
	for (i = 0; i < 2; i++) {	/* CPUCLOCK_PROF is 0, CPUCLOCK_VIRT is 1 */
		struct cpu_itimer *it = &sig->it[i];
		u64 now;

		if (!it->expires)
			continue;
		now = cr_cpu_sample(leader, i == 0);
		a->itimer_value_ns[2 - i] = it->expires > now ? it->expires - now : 1;
		a->itimer_interval_ns[2 - i] = it->incr;
	}
}

/* A thread that is held (cr_hold()) cannot exit: its signal handling cannot go away. */
static void cr_fill_signals(struct task_struct *t, struct cr_process *a)
{
	struct sighand_struct *hand = rcu_dereference_protected(t->sighand, true);
	int i;

	spin_lock_irq(&hand->siglock);
	a->shared_pending = t->signal->shared_pending.signal.sig[0];
	for (i = 0; i < 64; i++) {
		struct sigaction *sa = &hand->action[i].sa;

		a->action[i].handler = (u64)(unsigned long)sa->sa_handler;
		a->action[i].flags = sa->sa_flags;
		a->action[i].restorer = (u64)(unsigned long)sa->sa_restorer;
		a->action[i].mask = sa->sa_mask.sig[0];
	}
	a->child_subreaper = t->signal->is_child_subreaper;
	spin_unlock_irq(&hand->siglock);
	rcu_read_lock();
	a->securebits = __task_cred(t)->securebits;
	rcu_read_unlock();
}

long cr_ioc_process(struct cr_session *s, struct cr_process *a)
{
	struct cr_member *m = cr_any(s);

	memset(a, 0, sizeof(*a));
	if (!m)
		return -ESRCH;
	cr_fill_mm(s->leader, s->mm, a);
	cr_fill_signals(m->task, a);
	cr_fill_itimers(s->leader, a);
	return 0;
}

#define CR_SIGINFO_SIZE 128
#define CR_MAX_PENDING 4096

struct cr_pending_arg {
	bool shared;
	char *list;
	u64 n, room;
};

/* kernel_siginfo is the beginning of siginfo_t; the rest of that is 0 */
static int cr_op_sigpending(struct cr_session *s, struct cr_member *m, void *arg)
{
	struct cr_pending_arg *p = arg;
	struct sigpending *pending;
	struct sigqueue *q;

	spin_lock_irq(&cr_own_sighand()->siglock);
	pending = p->shared ? &current->signal->shared_pending : &current->pending;
	list_for_each_entry(q, &pending->list, list) {
		if (p->n < p->room)
			memcpy(p->list + p->n * CR_SIGINFO_SIZE, &q->info, sizeof(q->info));
		p->n++;
	}
	spin_unlock_irq(&cr_own_sighand()->siglock);
	return 0;
}

long cr_ioc_sigpending(struct cr_session *s, struct cr_sigpending *a)
{
	struct cr_pending_arg p = {
		.shared = !a->tid,
		.room = min_t(u64, a->infos.count, CR_MAX_PENDING),
	};
	struct cr_member *m = a->tid ? cr_find(s, a->tid, NULL) : cr_any(s);
	long r;

	if (a->reserved)
		return -EINVAL;
	p.list = kvcalloc(p.room + 1, CR_SIGINFO_SIZE, GFP_KERNEL);
	if (!p.list)
		return -ENOMEM;
	r = cr_run_on(s, m, cr_op_sigpending, &p);
	if (!r)
		r = p.n > CR_MAX_PENDING ? -E2BIG :
		    cr_put_array(&a->infos, p.list, p.n, CR_SIGINFO_SIZE);
	kvfree(p.list);
	return r;
}
