// SPDX-License-Identifier: GPL-2.0-only
/*
 * The state of a thread: registers through regsets, so that the kernel's own code
 * validates them; the rest from the task_struct.
 */
#include "internal.h"
#include <linux/elf.h>
#include <linux/ktime.h>
#include <linux/regset.h>
#include <linux/slab.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <asm/syscall.h>

/*
 * The number of the call that a restart block belongs to. A call that was interrupted
 * before continues as restart_syscall, but its arguments are still in the registers.
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

/* Absolute end of the parked call, and its clock; false: it has no timeout. */
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

/* The thread is pinned. */
static void cr_fill_thread(struct cr_session *s, struct cr_member *m, struct cr_thread *c)
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
	if (cr_has_restart(m))
		c->restart_nr = cr_restart_nr(cr_member_regs(m), cr_member_restart(m));
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

static const struct user_regset *cr_regset(struct task_struct *t, u32 type)
{
	const struct user_regset_view *view = task_user_regset_view(t);
	unsigned int i;

	for (i = 0; i < view->n; i++)
		if (view->regsets[i].core_note_type == type)
			return &view->regsets[i];
	return NULL;
}

/* A borrowed thread's general registers are the stub's: report the saved ones instead. */
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

/* Read one register set into a new kernel buffer. Its size, or -errno. */
static int cr_read_regs(struct cr_member *m, u32 type, void **data)
{
	const struct user_regset *rs = cr_regset(m->task, type);
	int n, r;

	*data = NULL;
	if (!rs)
		return -EINVAL;
	*data = kvzalloc(rs->n * rs->size, GFP_KERNEL_ACCOUNT);
	if (!*data)
		return -ENOMEM;
	r = cr_pin(m);
	if (r)
		return r;
	n = regset_get(m->task, rs, rs->n * rs->size, *data);
	if (n >= (int)sizeof(struct user_regs_struct) && type == NT_PRSTATUS && m->borrowed)
		cr_patch_gregs(m, *data);
	cr_unpin(m);
	return n;
}

/**
 * cr_ioc_get_regs - report a register set of a parked thread
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * Return: 0, -ESRCH, -EINVAL (no such set), -ENOBUFS, -ENOMEM, -EFAULT, -EINTR.
 */
long cr_ioc_get_regs(struct cr_session *s, struct cr_regs *a)
{
	struct cr_member *m = cr_find(s, a->tid, &a->why);
	u64 room = a->len;
	void *data;
	int n;

	if (!m)
		return -ESRCH;
	n = cr_read_regs(m, a->type, &data);
	cr_member_put(m);
	if (n >= 0) {
		a->len = n;
		if (n > room)
			n = -ENOBUFS;
		else
			n = copy_to_user(u64_to_user_ptr(a->buf), data, n) ? -EFAULT : 0;
	}
	kvfree(data);
	return n;
}

/* The thread is pinned. A set shorter than the regset leaves the other registers unchanged. */
static int cr_write_regs(struct cr_member *m, const struct user_regset *rs, size_t len,
			 const void *data)
{
	bool general = rs->core_note_type == NT_PRSTATUS;
	struct pt_regs *regs = task_pt_regs(m->task), stub = *regs;
	int r;

	if (general && m->borrowed)
		*regs = m->raw.regs;
	r = rs->set(m->task, rs, 0, len, data, NULL);
	if (general && m->borrowed) {
		if (!r)
			m->raw.regs = *regs;
		*regs = stub;
	}
	if (!r && general)
		m->born = false;
	return r;
}

/**
 * cr_ioc_set_regs - set a register set of a parked thread
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * The kernel's regset code validates the set.
 *
 * Return: 0, -ESRCH, -EINVAL, -EFAULT, -ENOMEM, -EINTR.
 */
long cr_ioc_set_regs(struct cr_session *s, struct cr_regs *a)
{
	const struct user_regset *rs;
	struct cr_member *m;
	void *data;
	int r;

	if (!a->len || a->len > CR_MAX_REGSET)
		return -EINVAL;
	data = vmemdup_user(u64_to_user_ptr(a->buf), a->len);
	if (IS_ERR(data))
		return PTR_ERR(data);
	r = -ESRCH;
	m = cr_find(s, a->tid, &a->why);
	if (!m)
		goto out;
	r = -EINVAL;
	rs = cr_regset(m->task, a->type);
	if (rs && rs->set)
		r = cr_pin(m);
	if (!r) {
		r = cr_write_regs(m, rs, min_t(size_t, a->len, rs->n * rs->size), data);
		cr_unpin(m);
	}
	cr_member_put(m);
out:
	kvfree(data);
	return r;
}

/* New signal mask or restart block of a thread, which the thread sets itself. */
struct cr_set_request {
	struct cr_request req;
	sigset_t mask;
	struct restart_block restart;
};

static void cr_set_release(struct cr_request *req)
{
	kfree(container_of(req, struct cr_set_request, req));
}

static struct cr_set_request *cr_set_new(int (*op)(struct cr_member *, struct cr_request *))
{
	struct cr_set_request *set = kzalloc(sizeof(*set), GFP_KERNEL_ACCOUNT);

	if (set)
		cr_request_init(&set->req, op, cr_set_release);
	return set;
}

static int cr_op_sigmask(struct cr_member *m, struct cr_request *req)
{
	spin_lock_irq(&cr_own_sighand()->siglock);
	clear_restore_sigmask();
	current->blocked = container_of(req, struct cr_set_request, req)->mask;
	recalc_sigpending();
	spin_unlock_irq(&cr_own_sighand()->siglock);
	return 0;
}

static int cr_set_sigmask(struct cr_session *s, struct cr_member *m, sigset_t mask)
{
	struct cr_set_request *set;
	bool same;
	int r = cr_pin(m);

	if (r)
		return r;
	same = m->borrowed;
	if (m->borrowed) {
		m->raw.blocked = mask;
		m->raw.restore_sigmask = false;
	} else {
		/* the mask of a parked thread does not change: skip the request if it is right */
		same = m->task->blocked.sig[0] == mask.sig[0] && !test_tsk_restore_sigmask(m->task);
	}
	cr_unpin(m);
	if (same)
		return 0;
	set = cr_set_new(cr_op_sigmask);
	if (!set)
		return -ENOMEM;
	set->mask = mask;
	r = cr_call(s, m, &set->req);
	cr_request_put(&set->req);
	return r;
}

/**
 * cr_ioc_set_sigmask - set the signals that a parked thread blocks after the thaw
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * Return: 0, -ESRCH, -EINVAL, -ENOMEM, -EINTR.
 */
long cr_ioc_set_sigmask(struct cr_session *s, struct cr_sigmask *a)
{
	sigset_t mask = { .sig = { a->mask & ~(sigmask(SIGKILL) | sigmask(SIGSTOP)) } };
	struct cr_member *m;
	int r;

	if (a->reserved)
		return -EINVAL;
	m = cr_find(s, a->tid, &a->why);
	if (!m)
		return -ESRCH;
	r = cr_set_sigmask(s, m, mask);
	cr_member_put(m);
	return r;
}

static int cr_op_restart(struct cr_member *m, struct cr_request *req)
{
	current->restart_block = container_of(req, struct cr_set_request, req)->restart;
	return 0;
}

/*
 * A relative timeout continues with the time that was left when the snapshot was taken; an
 * absolute timeout stays as it is. The thread is pinned.
 */
static void cr_shift_restart(struct cr_member *m, struct restart_block *rb, ktime_t taken)
{
	struct pt_regs *regs = cr_member_regs(m);
	bool realtime;
	ktime_t end;

	if (!cr_restart_end(regs, rb, &end, &realtime) || realtime)
		return;
	end = ktime_add(end, ktime_sub(ktime_get(), taken));
	switch (cr_restart_nr(regs, rb)) {
	case __NR_poll:
		cr_poll_set_end(rb, end);
		break;
	case __NR_futex:
		if ((regs->si & 0x7f) == 0)	/* FUTEX_WAIT; _BITSET is absolute */
			rb->futex.time = end;
		break;
	default:
		rb->nanosleep.expires = end;
	}
}

static int cr_set_restart(struct cr_session *s, struct cr_member *m)
{
	struct cr_set_request *set = cr_set_new(cr_op_restart);
	bool done;
	ktime_t taken;
	int r;

	if (!set)
		return -ENOMEM;
	r = -ENOENT;
	if (cr_snap_restart(s, m->task, &set->restart, &taken))
		r = cr_pin(m);
	if (!r) {
		cr_shift_restart(m, &set->restart, taken);
		done = m->borrowed;
		if (done)
			m->raw.restart = set->restart;
		cr_unpin(m);
		r = done ? 0 : cr_call(s, m, &set->req);
	}
	cr_request_put(&set->req);
	return r;
}

/**
 * cr_ioc_set_restart - set a parked thread's restart block to the one in the snapshot
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * Return: 0, -ENOENT (there is none), -ESRCH, -EINVAL, -ENOMEM, -EINTR.
 */
long cr_ioc_set_restart(struct cr_session *s, struct cr_restart *a)
{
	struct cr_member *m;
	int r;

	if (a->reserved)
		return -EINVAL;
	m = cr_find(s, a->tid, &a->why);
	if (!m)
		return -ESRCH;
	r = cr_set_restart(s, m);
	cr_member_put(m);
	return r;
}
