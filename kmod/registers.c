// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registers of parked threads, through regsets, so that the kernel's own code validates
 * them; and signal masks.
 */
#include "internal.h"
#include <linux/sched/signal.h>
#include <linux/elf.h>
#include <linux/regset.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

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

/* A new signal mask of a thread, which the thread sets itself. */
struct cr_mask_request {
	struct cr_request req;
	sigset_t mask;
};

static void cr_mask_release(struct cr_request *req)
{
	kfree(container_of(req, struct cr_mask_request, req));
}

static void cr_set_own_sigmask(const sigset_t *mask)
{
	spin_lock_irq(&cr_own_sighand()->siglock);
	clear_restore_sigmask();
	current->blocked = *mask;
	recalc_sigpending();
	spin_unlock_irq(&cr_own_sighand()->siglock);
}

static int cr_op_sigmask(struct cr_member *m, struct cr_request *req)
{
	cr_set_own_sigmask(&container_of(req, struct cr_mask_request, req)->mask);
	return 0;
}

static sigset_t cr_mask_of(u64 bits)
{
	return (sigset_t){ .sig = { bits & ~(sigmask(SIGKILL) | sigmask(SIGSTOP)) } };
}

static int cr_set_sigmask(struct cr_session *s, struct cr_member *m, u64 bits)
{
	sigset_t mask = cr_mask_of(bits);
	struct cr_mask_request *set;
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
	set = kzalloc(sizeof(*set), GFP_KERNEL_ACCOUNT);
	if (!set)
		return -ENOMEM;
	cr_request_init(&set->req, cr_op_sigmask, cr_mask_release);
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
	struct cr_member *m;
	int r;

	if (a->reserved)
		return -EINVAL;
	m = cr_find(s, a->tid, &a->why);
	if (!m)
		return -ESRCH;
	r = cr_set_sigmask(s, m, a->mask);
	cr_member_put(m);
	return r;
}

/* --------------------------------------------------------- many threads at once */

/* What the caller wants of a thread, in the kernel's memory. */
struct cr_saved_thread {
	struct cr_thread_regs t;
	struct user_regs_struct general;
	char extended[];
};

struct cr_saved_threads {
	u32 count;
	struct cr_saved_thread *of[];
};

/* A thread of the target that makes the request itself keeps its registers. */
static bool cr_is_own(struct cr_session *s, const struct cr_thread_regs *t)
{
	return s->self && t->tid == task_pid_vnr(current);
}

static int cr_take_entry(struct cr_thread_regs *t, const struct cr_set_threads *a, u32 n)
{
	const struct cr_thread_regs __user *list = u64_to_user_ptr(a->threads);

	if (copy_from_user(t, list + n, sizeof(*t)))
		return -EFAULT;
	return t->flags & ~CR_REGS_RESTART || t->extended_len > a->room ? -EINVAL : 0;
}

/* saved->t is there already. */
static int cr_take_regs(struct cr_session *s, struct cr_saved_thread *saved)
{
	const struct cr_thread_regs *t = &saved->t;

	if (cr_is_own(s, t))
		return 0;
	if (copy_from_user(&saved->general, u64_to_user_ptr(t->general), sizeof(saved->general)) ||
	    (t->extended_len && copy_from_user(saved->extended, u64_to_user_ptr(t->extended),
					       t->extended_len)))
		return -EFAULT;
	return 0;
}

static int cr_set_thread(struct cr_session *s, struct cr_member *m,
			 const struct cr_saved_thread *saved)
{
	const struct user_regset *general = cr_regset(m->task, NT_PRSTATUS);
	const struct user_regset *extended = cr_regset(m->task, NT_X86_XSTATE);
	const struct cr_thread_regs *t = &saved->t;
	int r;

	if (!general || (t->extended_len && !extended))
		return -EINVAL;
	r = cr_pin(m);
	if (r)
		return r;
	r = cr_write_regs(m, general, sizeof(saved->general), &saved->general);
	if (!r && t->extended_len)
		r = cr_write_regs(m, extended, min_t(size_t, t->extended_len,
						     extended->n * extended->size),
				  saved->extended);
	cr_unpin(m);
	return r ? r : cr_set_sigmask(s, m, t->sigmask);
}

static int cr_set_one(struct cr_session *s, const struct cr_saved_thread *saved,
		      struct cr_why *why)
{
	const struct cr_thread_regs *t = &saved->t;
	struct cr_member *m;
	sigset_t mask;
	int r;

	if (cr_is_own(s, t)) {
		mask = cr_mask_of(t->sigmask);
		cr_set_own_sigmask(&mask);
		return 0;
	}
	m = cr_find(s, t->tid, why);
	if (!m)
		return -ESRCH;
	r = cr_set_thread(s, m, saved);
	if (!r && t->flags & CR_REGS_RESTART)
		r = cr_set_restart(s, m);
	cr_member_put(m);
	return r;
}

/**
 * cr_set_threads_ok() - check the argument of CR_IOC_SET_THREADS, but not what it points to
 * @a: the argument
 */
bool cr_set_threads_ok(const struct cr_set_threads *a)
{
	return !a->reserved && a->count <= CR_MAX_THREADS && a->room <= CR_MAX_REGSET;
}

/**
 * cr_ioc_set_threads() - CR_IOC_SET_THREADS
 * @s: the session
 * @a: its argument
 *
 * Return: 0, -ESRCH, -EINVAL, -EFAULT, -ENOMEM, -EINTR, -ENOENT (no restart block). The threads
 * before @a->done are set.
 */
long cr_ioc_set_threads(struct cr_session *s, struct cr_set_threads *a)
{
	struct cr_saved_thread *saved;
	int r = 0;

	if (!cr_set_threads_ok(a))
		return -EINVAL;
	saved = kvmalloc(struct_size(saved, extended, a->room), GFP_KERNEL_ACCOUNT);
	if (!saved)
		return -ENOMEM;
	for (a->done = 0; a->done < a->count; a->done++) {
		r = cr_take_entry(&saved->t, a, a->done);
		if (!r)
			r = cr_take_regs(s, saved);
		if (!r)
			r = cr_set_one(s, saved, &a->why);
		if (r)
			break;
		cond_resched();
	}
	kvfree(saved);
	return r;
}

/* Is the thread there, and all that cr_set_one() takes from elsewhere? */
static int cr_can_set(struct cr_session *s, const struct cr_thread_regs *t)
{
	struct restart_block restart;
	struct cr_member *m;
	ktime_t taken;
	int r = 0;

	if (cr_is_own(s, t))
		return 0;
	m = cr_find(s, t->tid, NULL);
	if (!m)
		return -ESRCH;
	if (t->flags & CR_REGS_RESTART && !cr_snap_restart(s, m->task, &restart, &taken))
		r = -ENOENT;
	cr_member_put(m);
	return r;
}

static struct cr_saved_thread *cr_take_one(struct cr_session *s, const struct cr_set_threads *a,
					   u32 n)
{
	const struct user_regset *extended = cr_regset(current, NT_X86_XSTATE);
	struct cr_saved_thread *saved;
	struct cr_thread_regs t;
	int r = cr_take_entry(&t, a, n);

	if (!r && t.extended_len && !extended)
		r = -EINVAL;
	if (!r)
		r = cr_can_set(s, &t);
	if (r)
		return ERR_PTR(r);
	if (t.extended_len)
		t.extended_len = min_t(size_t, t.extended_len, extended->n * extended->size);
	saved = kvmalloc(struct_size(saved, extended, t.extended_len), GFP_KERNEL_ACCOUNT);
	if (!saved)
		return ERR_PTR(-ENOMEM);
	saved->t = t;
	r = cr_take_regs(s, saved);
	if (!r)
		return saved;
	kvfree(saved);
	return ERR_PTR(r);
}

/**
 * cr_take_threads() - take what CR_IOC_SET_THREADS would set, so that setting it needs no memory
 * @s: the session, frozen, with a snapshot
 * @a: the argument, checked
 *
 * Return: ends with cr_free_threads(); or -ESRCH (there are fewer threads), -EINVAL, -EFAULT,
 * -ENOMEM, -ENOENT (no restart block), -EINTR.
 */
struct cr_saved_threads *cr_take_threads(struct cr_session *s, const struct cr_set_threads *a)
{
	struct cr_saved_threads *all;
	struct cr_saved_thread *one;

	if (a->count > get_nr_threads(s->leader))
		return ERR_PTR(-ESRCH);
	all = kvmalloc(struct_size(all, of, a->count), GFP_KERNEL_ACCOUNT);
	if (!all)
		return ERR_PTR(-ENOMEM);
	for (all->count = 0; all->count < a->count; all->count++) {
		one = fatal_signal_pending(current) ? ERR_PTR(-EINTR) :
		      cr_take_one(s, a, all->count);
		if (IS_ERR(one)) {
			cr_free_threads(all);
			return ERR_CAST(one);
		}
		all->of[all->count] = one;
		cond_resched();
	}
	return all;
}

/**
 * cr_put_threads() - set what was taken, as CR_IOC_SET_THREADS
 * @s: the session, frozen
 * @all: what was taken
 * @a: the argument; out: done, why
 */
int cr_put_threads(struct cr_session *s, const struct cr_saved_threads *all,
		   struct cr_set_threads *a)
{
	int r = 0;

	for (a->done = 0; !r && a->done < all->count; a->done += !r) {
		r = cr_set_one(s, all->of[a->done], &a->why);
		cond_resched();
	}
	return r;
}

void cr_free_threads(struct cr_saved_threads *all)
{
	while (all->count)
		kvfree(all->of[--all->count]);
	kvfree(all);
}
