// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a thread holds: registers through regsets, so that the kernel's own code
 * validates them; the rest from the task.
 */
#include "internal.h"
#include <linux/elf.h>
#include <linux/ktime.h>
#include <linux/regset.h>
#include <linux/rseq.h>
#include <linux/slab.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <asm/syscall.h>

/* The registers with which the thread will run on. */
struct pt_regs *cr_member_regs(struct cr_member *m)
{
	return m->have_raw ? &m->raw.regs : task_pt_regs(m->task);
}

struct restart_block *cr_member_restart(struct cr_member *m)
{
	return m->have_raw ? &m->raw.restart : &m->task->restart_block;
}

/*
 * Which call a restart block is of. A call that was interrupted before runs as
 * restart_syscall, but its arguments are still in the registers.
 */
static int cr_restart_nr(struct pt_regs *regs, struct restart_block *rb)
{
	switch ((long)regs->orig_ax) {
	case __NR_nanosleep:
	case __NR_clock_nanosleep:
	case __NR_poll:
	case __NR_futex:
		return regs->orig_ax;
	case __NR_restart_syscall:
		break;
	default:
		return 0;
	}
	if ((unsigned long)rb->futex.uaddr == regs->di && rb->futex.val == (u32)regs->dx)
		return __NR_futex;
	if ((unsigned long)rb->poll.ufds == regs->di && rb->poll.nfds == (int)regs->si)
		return __NR_poll;
	if (rb->nanosleep.clockid == (int)regs->di &&
	    (unsigned long)rb->nanosleep.rmtp == regs->r10)
		return __NR_clock_nanosleep;
	return __NR_nanosleep;
}

/* Absolute end of the parked call on which clock; false: it has no timeout. */
static bool cr_restart_end(struct pt_regs *regs, struct restart_block *rb, ktime_t *end,
			   bool *realtime)
{
	*realtime = false;
	switch (cr_restart_nr(regs, rb)) {
	case __NR_nanosleep:
		*end = rb->nanosleep.expires;
		return true;
	case __NR_clock_nanosleep:
		*end = rb->nanosleep.expires;
		*realtime = rb->nanosleep.clockid == CLOCK_REALTIME;
		return true;
	case __NR_poll:
		*end = cr_poll_end(rb);
		return rb->poll.has_timeout;
	case __NR_futex:
		*end = rb->futex.time;
		*realtime = regs->si & 0x100;	/* FUTEX_CLOCK_REALTIME */
		return true;
	}
	return false;
}

static bool cr_has_restart(struct cr_member *m)
{
	struct pt_regs *regs = cr_member_regs(m);

	return (long)regs->ax == -ERESTART_RESTARTBLOCK && (long)regs->orig_ax >= 0;
}

/*
 * Newer kernels write a thread's CPU numbers to its rseq area only when they have
 * changed, and end a program that has tampered with them. After a rollback of the
 * memory they are those of the checkpoint: write what the kernel believes to be
 * there. In the thread's own context, before it goes to user mode.
 */
void cr_sync_rseq(void)
{
#ifdef CR_HAVE_RSEQ_IDS
	struct rseq __user *rseq = current->rseq.usrptr;
	struct rseq_ids ids = current->rseq.ids;

	if (!rseq)
		return;
	if (put_user(ids.cpu_id, &rseq->cpu_id_start) || put_user(ids.cpu_id, &rseq->cpu_id) ||
	    put_user(ids.node_id, &rseq->node_id) || put_user(ids.mm_cid, &rseq->mm_cid))
		pr_debug("rseq area of %d is gone\n", current->pid);
#endif
}

static u64 cr_restart_left(struct cr_member *m)
{
	bool realtime;
	ktime_t end;
	s64 left;

	if (!cr_has_restart(m) ||
	    !cr_restart_end(cr_member_regs(m), cr_member_restart(m), &end, &realtime))
		return ~0ULL;
	left = ktime_to_ns(ktime_sub(end, realtime ? ktime_get_real() : ktime_get()));
	return max(left, 0LL);
}

static void cr_fill_thread(struct cr_session *s, struct cr_member *m, struct cr_thread *c)
{
	struct task_struct *t = m->task;
	sigset_t *mask;

	c->tid = task_pid_vnr(t);
	c->flags = (t == s->leader ? CR_THREAD_LEADER : 0) | (m->born ? CR_THREAD_BORN : 0);
	if (rcu_access_pointer(t->real_cred) == rcu_access_pointer(s->leader->real_cred) &&
	    rcu_access_pointer(t->cred) == rcu_access_pointer(s->leader->cred))
		c->flags |= CR_THREAD_CREDS;
	if (m->have_raw)
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
	if (cr_has_restart(m))
		c->restart_nr = cr_restart_nr(cr_member_regs(m), cr_member_restart(m));
	c->timer_slack_ns = t->timer_slack_ns;
	c->pdeath_signal = t->pdeath_signal;
	get_task_comm(c->comm, t);
}

long cr_ioc_threads(struct cr_session *s, struct cr_array *a)
{
	struct cr_thread *list;
	struct cr_member *m;
	unsigned long i;
	u64 n = 0, k = 1;
	long r;

	xa_for_each(&s->members, i, m)
		n += READ_ONCE(m->state) == CR_PARKED;
	if (n > a->count || !n)
		return cr_put_array(a, NULL, n, sizeof(*list));
	list = kvcalloc(n + 1, sizeof(*list), GFP_KERNEL);
	if (!list)
		return -ENOMEM;
	xa_for_each(&s->members, i, m) {
		if (READ_ONCE(m->state) != CR_PARKED || k > n)
			continue;
		cr_fill_thread(s, m, m->task == s->leader ? &list[0] : &list[k++]);
	}
	/* without its leader the list begins one later */
	r = cr_put_array(a, list[0].tid ? list : list + 1, n, sizeof(*list));
	kvfree(list);
	return r;
}

static const struct user_regset *cr_regset(struct task_struct *t, u32 type)
{
	const struct user_regset_view *view = task_user_regset_view(t);
	unsigned int i;

	for (i = 0; i < view->n; i++)
		if (view->regsets[i].core_note_type == type)
			return &view->regsets[i];
	return NULL;
}

/* A borrowed thread's general registers are those of the stub: show the saved ones. */
static void cr_patch_gregs(struct cr_member *m, struct user_regs_struct *u)
{
	struct pt_regs *r = &m->raw.regs;

	u->r15 = r->r15;
	u->r14 = r->r14;
	u->r13 = r->r13;
	u->r12 = r->r12;
	u->bp = r->bp;
	u->bx = r->bx;
	u->r11 = r->r11;
	u->r10 = r->r10;
	u->r9 = r->r9;
	u->r8 = r->r8;
	u->ax = r->ax;
	u->cx = r->cx;
	u->dx = r->dx;
	u->si = r->si;
	u->di = r->di;
	u->orig_ax = r->orig_ax;
	u->ip = r->ip;
	u->flags = r->flags;
	u->sp = r->sp;
}

long cr_ioc_get_regs(struct cr_session *s, struct cr_regs *a)
{
	struct cr_member *m = cr_find(s, a->tid, &a->why);
	const struct user_regset *rs;
	u64 room = a->len;
	void *data = NULL;
	int n;

	if (!m)
		return -ESRCH;
	cr_wait_off_cpu(s, m);
	rs = cr_regset(m->task, a->type);
	if (!rs)
		return -EINVAL;
	n = regset_get_alloc(m->task, rs, rs->n * rs->size, &data);
	if (n < 0)
		return n;
	if (a->type == NT_PRSTATUS && m->have_raw && n >= sizeof(struct user_regs_struct))
		cr_patch_gregs(m, data);
	a->len = n;
	if (n > room)
		n = -ENOBUFS;
	else
		n = copy_to_user(u64_to_user_ptr(a->buf), data, n) ? -EFAULT : 0;
	kvfree(data);
	return n;
}

long cr_ioc_set_regs(struct cr_session *s, struct cr_regs *a)
{
	struct cr_member *m = cr_find(s, a->tid, &a->why);
	const struct user_regset *rs;
	void *data;
	int r;

	if (!m)
		return -ESRCH;
	if (!a->len || a->len > CR_MAX_REGSET)
		return -EINVAL;
	cr_wait_off_cpu(s, m);
	rs = cr_regset(m->task, a->type);
	if (!rs || !rs->set)
		return -EINVAL;
	data = vmemdup_user(u64_to_user_ptr(a->buf), a->len);
	if (IS_ERR(data))
		return PTR_ERR(data);
	r = rs->set(m->task, rs, 0, min_t(size_t, a->len, rs->n * rs->size), data, NULL);
	if (!r && a->type == NT_PRSTATUS && m->have_raw)
		m->raw.regs = *task_pt_regs(m->task);
	if (!r && a->type == NT_PRSTATUS)
		m->born = false;
	kvfree(data);
	return r;
}

static int cr_op_sigmask(struct cr_session *s, struct cr_member *m, void *arg)
{
	sigset_t set = { .sig = { *(u64 *)arg } };

	sigdelsetmask(&set, sigmask(SIGKILL) | sigmask(SIGSTOP));
	spin_lock_irq(&cr_own_sighand()->siglock);
	clear_restore_sigmask();
	current->blocked = set;
	recalc_sigpending();
	spin_unlock_irq(&cr_own_sighand()->siglock);
	return 0;
}

long cr_ioc_set_sigmask(struct cr_session *s, struct cr_sigmask *a)
{
	struct cr_member *m = cr_find(s, a->tid, &a->why);

	if (!m)
		return -ESRCH;
	if (a->reserved)
		return -EINVAL;
	if (!m->have_raw) {
		/* it is parked, so its mask stands still: do not wake it for nothing */
		if (m->task->blocked.sig[0] == (a->mask & ~(sigmask(SIGKILL) | sigmask(SIGSTOP))) &&
		    !test_tsk_restore_sigmask(m->task))
			return 0;
		return cr_run_on(s, m, cr_op_sigmask, &a->mask);
	}
	m->raw.blocked.sig[0] = a->mask & ~(sigmask(SIGKILL) | sigmask(SIGSTOP));
	m->raw.restore_sigmask = false;
	return 0;
}

static int cr_op_restart(struct cr_session *s, struct cr_member *m, void *arg)
{
	current->restart_block = *(struct restart_block *)arg;
	return 0;
}

long cr_ioc_set_restart(struct cr_session *s, struct cr_restart *a)
{
	struct cr_member *m = cr_find(s, a->tid, &a->why);
	struct restart_block rb;
	struct pt_regs *regs;
	ktime_t taken, end;
	bool realtime;

	if (!m)
		return -ESRCH;
	if (a->reserved)
		return -EINVAL;
	if (!cr_snap_restart(s, m->task, &rb, &taken))
		return -ENOENT;
	regs = cr_member_regs(m);
	/* relative waits go on for what was left of them, absolute ones end when they end */
	if (cr_restart_end(regs, &rb, &end, &realtime) && !realtime) {
		end = ktime_add(end, ktime_sub(ktime_get(), taken));
		switch (cr_restart_nr(regs, &rb)) {
		case __NR_poll:
			cr_poll_set_end(&rb, end);
			break;
		case __NR_futex:
			if ((regs->si & 0x7f) == 0)	/* FUTEX_WAIT; _BITSET is absolute */
				rb.futex.time = end;
			break;
		default:
			rb.nanosleep.expires = end;
		}
	}
	if (m->have_raw) {
		m->raw.restart = rb;
		return 0;
	}
	return cr_run_on(s, m, cr_op_restart, &rb);
}
