// SPDX-License-Identifier: GPL-2.0-only
/*
 * State of the process as a whole that procfs does not report.
 */
#include "internal.h"
#include <linux/cred.h>
#include <linux/hrtimer.h>
#include <linux/sched/cputime.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <uapi/linux/membarrier.h>
#include <asm/mmu_context.h>

static u32 cr_membarrier(struct mm_struct *mm)
{
	u32 commands = 0;
#ifdef CONFIG_MEMBARRIER
	int state = atomic_read(&mm->membarrier_state);

	if (state & MEMBARRIER_STATE_GLOBAL_EXPEDITED_READY)
		commands |= MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
	if (state & MEMBARRIER_STATE_PRIVATE_EXPEDITED_READY)
		commands |= MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
	if (state & MEMBARRIER_STATE_PRIVATE_EXPEDITED_SYNC_CORE_READY)
		commands |= MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE;
	if (state & MEMBARRIER_STATE_PRIVATE_EXPEDITED_RSEQ_READY)
		commands |= MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ;
#endif
	return commands;
}

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
	a->membarrier = cr_membarrier(mm);
	if (mm->def_flags & VM_LOCKED)
		a->future |= CR_VMA_LOCKED;
	if (mm->def_flags & VM_LOCKONFAULT)
		a->future |= CR_VMA_LOCKONFAULT;
	if (cr_merges_all(mm))
		a->future |= CR_VMA_MERGEABLE;
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

static u32 cr_ldt_entries(struct mm_struct *mm)
{
	u32 n = 0;

#ifdef CONFIG_MODIFY_LDT_SYSCALL
	down_read(&mm->context.ldt_usr_sem);
	if (mm->context.ldt)
		n = mm->context.ldt->nr_entries;
	up_read(&mm->context.ldt_usr_sem);
#endif
	return n;
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

static void cr_fill_signals(struct cr_process *a)
{
	struct sighand_struct *hand = cr_own_sighand();
	int i;

	spin_lock_irq(&hand->siglock);
	a->shared_pending = current->signal->shared_pending.signal.sig[0];
	for (i = 0; i < 64; i++) {
		struct sigaction *sa = &hand->action[i].sa;

		a->action[i].handler = (u64)(unsigned long)sa->sa_handler;
		a->action[i].flags = sa->sa_flags;
		a->action[i].restorer = (u64)(unsigned long)sa->sa_restorer;
		a->action[i].mask = sa->sa_mask.sig[0];
	}
	a->child_subreaper = current->signal->is_child_subreaper;
	a->stopped = cr_is_stopped();
	spin_unlock_irq(&hand->siglock);
	a->securebits = current_cred()->securebits;
}

/**
 * cr_fill_process() - report the state of the process
 * @s: the session; current is a thread of its target
 * @a: out: zeroed before
 */
void cr_fill_process(struct cr_session *s, struct cr_process *a)
{
	cr_fill_mm(s->leader, s->mm, a);
	cr_fill_signals(a);
	cr_fill_itimers(s->leader, a);
	a->ldt_entries = cr_ldt_entries(s->mm);
	a->pkeys = cr_pkeys(s->mm);
	a->mdwe = cr_mdwe(s->mm);
}

struct cr_process_request {
	struct cr_request req;
	struct cr_process process;
};

static void cr_process_release(struct cr_request *req)
{
	kfree(container_of(req, struct cr_process_request, req));
}

static int cr_op_process(struct cr_member *m, struct cr_request *req)
{
	cr_fill_process(m->session, &container_of(req, struct cr_process_request, req)->process);
	return 0;
}

/**
 * cr_ioc_process - report the state of the process as a whole
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * Return: 0, -ESRCH, -ENOMEM, -EINTR.
 */
long cr_ioc_process(struct cr_session *s, struct cr_process *a)
{
	struct cr_process_request *process = kzalloc(sizeof(*process), GFP_KERNEL_ACCOUNT);
	int r;

	if (!process)
		return -ENOMEM;
	cr_request_init(&process->req, cr_op_process, cr_process_release);
	r = cr_call_any(s, &process->req);
	if (!r)
		*a = process->process;
	cr_request_put(&process->req);
	return r;
}

#define CR_SIGINFO_SIZE 128
#define CR_MAX_PENDING 4096

struct cr_pending_request {
	struct cr_request req;
	bool shared;
	u64 n, room;
	char list[];
};

static void cr_pending_release(struct cr_request *req)
{
	kvfree(container_of(req, struct cr_pending_request, req));
}

/* kernel_siginfo is the beginning of siginfo_t; the remaining bytes are 0. */
static int cr_op_sigpending(struct cr_member *m, struct cr_request *req)
{
	struct cr_pending_request *p = container_of(req, struct cr_pending_request, req);
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

/**
 * cr_ioc_sigpending - report the siginfo of pending signals
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * Return: 0, -ENOBUFS, -E2BIG, -ESRCH, -EINVAL, -ENOMEM, -EFAULT, -EINTR.
 */
long cr_ioc_sigpending(struct cr_session *s, struct cr_sigpending *a)
{
	u64 room = min_t(u64, a->infos.count, CR_MAX_PENDING);
	struct cr_pending_request *p;
	struct cr_member *m;
	long r = -ESRCH;

	if (a->reserved)
		return -EINVAL;
	p = kvzalloc(struct_size(p, list, room * CR_SIGINFO_SIZE), GFP_KERNEL_ACCOUNT);
	if (!p)
		return -ENOMEM;
	cr_request_init(&p->req, cr_op_sigpending, cr_pending_release);
	p->shared = !a->tid;
	p->room = room;
	m = a->tid ? cr_find(s, a->tid, NULL) : cr_any(s);
	if (m) {
		r = cr_call(s, m, &p->req);
		cr_member_put(m);
	}
	if (!r)
		r = p->n > CR_MAX_PENDING ? -E2BIG :
		    cr_put_array(&a->infos, p->list, p->n, CR_SIGINFO_SIZE);
	cr_request_put(&p->req);
	return r;
}
