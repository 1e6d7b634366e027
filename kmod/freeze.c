// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parking every thread of the target by task work, borrowing parked threads for
 * work in their own context, and letting them run on.
 *
 * A thread parks in cr_park(), on its way out to user mode, before the kernel has
 * decided whether to restart an interrupted system call. No signal is delivered
 * and no ptrace is involved.
 */
#include "internal.h"
#include <linux/file.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <asm/syscall.h>

/* Guards the list of frozen sessions: a process is frozen by one at a time. */
static DEFINE_MUTEX(cr_frozen_lock);
static LIST_HEAD(cr_frozen);

/* ------------------------------------------------------------- members */

static void cr_member_free(struct kref *ref)
{
	struct cr_member *m = container_of(ref, struct cr_member, ref);

	put_task_struct(m->task);
	kfree(m);
}

void cr_member_put(struct cr_member *m)
{
	kref_put(&m->ref, cr_member_free);
}

static void cr_park(struct callback_head *cb);

/* A new member in the session's index, which owns the reference. */
struct cr_member *cr_member_new(struct cr_session *s, struct task_struct *t, gfp_t gfp)
{
	struct cr_member *m = kzalloc(sizeof(*m), gfp);
	int r;

	if (!m)
		return ERR_PTR(-ENOMEM);
	kref_init(&m->ref);
	m->s = s;
	m->task = get_task_struct(t);
	m->state = CR_RUNNING;
	init_waitqueue_head(&m->wake);
	init_task_work(&m->cb, cr_park);
	r = xa_err(xa_store(&s->members, t->pid, m, gfp));
	if (r) {
		cr_member_put(m);
		return ERR_PTR(r);
	}
	return m;
}

/* Member by tid in the caller's pid namespace; only parked ones count. */
struct cr_member *cr_find(struct cr_session *s, pid_t vtid, struct cr_why *why)
{
	struct cr_member *m = NULL;
	struct task_struct *t;

	rcu_read_lock();
	t = pid_task(find_vpid(vtid), PIDTYPE_PID);
	if (t)
		m = xa_load(&s->members, t->pid);
	if (m && (m->task != t || READ_ONCE(m->state) != CR_PARKED))
		m = NULL;
	rcu_read_unlock();
	if (!m && why)
		cr_why(why, CR_WHY_THREAD, vtid);
	return m;
}

/* Some parked member: the leader if it is there. */
struct cr_member *cr_any(struct cr_session *s)
{
	struct cr_member *m = xa_load(&s->members, s->leader->pid);
	unsigned long i;

	if (m && READ_ONCE(m->state) == CR_PARKED)
		return m;
	xa_for_each(&s->members, i, m)
		if (READ_ONCE(m->state) == CR_PARKED)
			return m;
	return NULL;
}

/* Forget members whose thread has gone. */
void cr_reap(struct cr_session *s)
{
	struct cr_member *m;
	unsigned long i;

	xa_for_each(&s->members, i, m) {
		if (READ_ONCE(m->state) != CR_GONE)
			continue;
		xa_erase(&s->members, i);
		cr_member_put(m);
	}
}

/* -------------------------------------------------- in the target's context */

/*
 * Calls that turn our notification into a hard -EINTR although no signal came:
 * make the kernel restart them, or freezing would leak EINTR into the program.
 */
static void cr_hide_eintr(struct pt_regs *regs)
{
	if (task_sigpending(current) || (long)regs->ax != -EINTR)
		return;
	switch ((long)regs->orig_ax) {
	case __NR_epoll_wait:
	case __NR_epoll_pwait:
	case __NR_epoll_pwait2:
	case __NR_semop:
	case __NR_semtimedop:
	case __NR_io_getevents:
	case __NR_io_pgetevents:
	case __NR_rt_sigtimedwait:
	/* on sockets with a timeout (SO_RCVTIMEO, SO_SNDTIMEO) */
	case __NR_read:
	case __NR_readv:
	case __NR_recvfrom:
	case __NR_recvmsg:
	case __NR_recvmmsg:
	case __NR_write:
	case __NR_writev:
	case __NR_sendto:
	case __NR_sendmsg:
	case __NR_sendmmsg:
	case __NR_accept:
	case __NR_accept4:
	case __NR_connect:
		regs->ax = -ERESTARTNOINTR;
	}
}

/* Undo what borrowing the thread has changed. */
static void cr_put_raw(struct cr_member *m)
{
	struct cr_raw *raw = &m->raw;

	*task_pt_regs(current) = raw->regs;
	current->restart_block = raw->restart;
	spin_lock_irq(&cr_own_sighand()->siglock);
	current->blocked = raw->blocked;
	current->saved_sigmask = raw->saved_sigmask;
	if (raw->restore_sigmask)
		set_restore_sigmask();
	else
		clear_restore_sigmask();
	recalc_sigpending();
	spin_unlock_irq(&cr_own_sighand()->siglock);
	m->have_raw = false;
}

/* Back from the stub: the kernel has seen us outside an rseq critical section. */
static void cr_put_rseq_cs(struct cr_member *m)
{
	u64 __user *p = (u64 __user *)(cr_rseq_addr(current) + 8);

	if (m->have_raw && m->raw.rseq_cs && cr_rseq_addr(current) && put_user(m->raw.rseq_cs, p))
		pr_debug("rseq area of %d is gone\n", current->pid);
}

static bool cr_serve(struct cr_session *s, struct cr_member *m)
{
	/* acquire: with the argument that came before it, see cr_op_start() */
	cr_op op = smp_load_acquire(&m->op);
	bool to_user;

	m->op = NULL;
	m->to_user = false;
	m->ret = op(s, m, m->arg);
	to_user = m->to_user;
	if (to_user) {
		spin_lock(&s->plock);
		m->state = CR_RUNNING;
		spin_unlock(&s->plock);
	}
	/* release: after everything that op has done, see cr_op_done() */
	smp_store_release(&m->done, true);
	wake_up_all(&s->coord);
	return to_user;
}

static void cr_park(struct callback_head *cb)
{
	struct cr_member *m = container_of(cb, struct cr_member, cb);
	struct cr_session *s = m->s;
	struct file *file = m->file;
	bool stay, held = false, leave = false;

	spin_lock(&s->plock);
	stay = !m->cancelled && !(current->flags & PF_EXITING);
	if (!m->cancelled)
		s->npending--;
	m->state = stay ? CR_PARKED : CR_GONE;
	spin_unlock(&s->plock);
	if (stay) {
		if (!m->have_raw && !m->born)
			cr_hide_eintr(task_pt_regs(current));
		m->left = task_pt_regs(current)->r14;	/* of the stub's batch */
		cr_put_rseq_cs(m);
	}
	wake_up_all(&s->coord);

	while (stay) {
		if (wait_event_state(m->wake, READ_ONCE(m->op) || READ_ONCE(m->leave),
				     (TASK_KILLABLE | TASK_FREEZABLE)))
			break;
		if (READ_ONCE(m->op)) {
			if (cr_serve(s, m))
				goto out;	/* to the stub: still a member */
			continue;
		}
		leave = true;
		break;
	}
	if (leave && m->have_raw)
		cr_put_raw(m);
	if (leave)
		cr_sync_rseq();
	if (stay) {
		spin_lock(&s->plock);
		m->state = CR_GONE;
		held = s->holding && !leave;
		spin_unlock(&s->plock);
		wake_up_all(&s->coord);
	}
	/* killed: our registers lie on our stack, which goes with us. The ioctl ends soon. */
	if (held)
		wait_event(s->coord, !READ_ONCE(s->holding));
out:
	cr_member_put(m);
	fput(file);	/* deferred to after our return: keeps this text loaded */
}

/* ---------------------------------------------------------- the session's side */

/*
 * Make a running thread park. From any context that may not hold plock; may be
 * called by the thread itself and by the session at once.
 */
int cr_queue(struct cr_member *m)
{
	struct cr_session *s = m->s;

	spin_lock(&s->plock);
	if (m->state != CR_RUNNING) {
		spin_unlock(&s->plock);
		return 0;
	}
	m->state = CR_QUEUED;
	s->npending++;
	spin_unlock(&s->plock);

	kref_get(&m->ref);
	m->file = get_file(s->file);
	if (!task_work_add(m->task, &m->cb, TWA_SIGNAL))
		return 0;
	/* it is exiting */
	spin_lock(&s->plock);
	m->state = CR_GONE;
	s->npending--;
	spin_unlock(&s->plock);
	wake_up_all(&s->coord);
	fput(m->file);
	cr_member_put(m);
	return -ESRCH;
}

/* From here to cr_release_hold() the stack of a member that was seen parked stays. */
void cr_hold(struct cr_session *s)
{
	spin_lock(&s->plock);
	s->holding = true;
	spin_unlock(&s->plock);
}

void cr_release_hold(struct cr_session *s)
{
	spin_lock(&s->plock);
	s->holding = false;
	spin_unlock(&s->plock);
	wake_up_all(&s->coord);
}

/* Registers may be read and written once the thread has really left its CPU. */
void cr_wait_off_cpu(struct cr_session *s, struct cr_member *m)
{
	struct task_struct *t = m->task;
	unsigned int spins = 0;

	while (READ_ONCE(m->state) == CR_PARKED) {
		/* acquire: with the registers that it left behind */
		if (!smp_load_acquire(&t->on_cpu) && !READ_ONCE(t->on_rq))
			break;
		if (++spins > 1000)
			schedule_timeout_uninterruptible(1);
		else
			cond_resched();
	}
}

/* Is the thread beyond coming by itself? */
static bool cr_lost(struct cr_member *m)
{
	return READ_ONCE(m->state) == CR_GONE || m->task->flags & PF_EXITING ||
	       READ_ONCE(m->task->exit_state);
}

/*
 * Wait until a thread that was sent to the stub is parked again. An exiting
 * thread tells nobody, so look now and then. 0, -ETIMEDOUT, -EINTR or -ESRCH.
 */
int cr_wait_parked(struct cr_session *s, struct cr_member *m, unsigned long timeout)
{
	unsigned long end = jiffies + timeout;
	long r;

	for (;;) {
		r = wait_event_killable_timeout(s->coord,
						READ_ONCE(m->state) == CR_PARKED || cr_lost(m), 1);
		if (r < 0)
			return -EINTR;
		if (READ_ONCE(m->state) == CR_PARKED)
			return 0;
		if (cr_lost(m)) {
			spin_lock(&s->plock);
			if (m->state == CR_RUNNING)
				m->state = CR_GONE;
			spin_unlock(&s->plock);
			return -ESRCH;
		}
		if (time_after(jiffies, end))
			return -ETIMEDOUT;
	}
}

static bool cr_op_done(struct cr_member *m)
{
	/* acquire: with everything that op has done, see cr_serve() */
	return smp_load_acquire(&m->done) || READ_ONCE(m->state) == CR_GONE;
}

static void cr_op_start(struct cr_member *m, cr_op op, void *arg)
{
	m->done = false;
	m->arg = arg;
	/* release: after its argument, see cr_serve() */
	smp_store_release(&m->op, op);
	wake_up(&m->wake);
}

/*
 * Operations run on the session's data, so there is no leaving before they end;
 * a killed session asks them to hurry. The target's death ends them at once.
 */
static int cr_op_wait(struct cr_session *s, struct cr_member *m)
{
	if (wait_event_killable(s->coord, cr_op_done(m))) {
		WRITE_ONCE(s->abort, true);
		wait_event(s->coord, cr_op_done(m));
	}
	/* acquire: m->ret came before it */
	return smp_load_acquire(&m->done) ? m->ret : -ESRCH;
}

/* Run op in the context of one parked member. */
int cr_run_on(struct cr_session *s, struct cr_member *m, cr_op op, void *arg)
{
	if (!m)
		return -ESRCH;
	cr_op_start(m, op, arg);
	return cr_op_wait(s, m);
}

/* Run op on up to max parked members at once (0: one per CPU). First error wins. */
int cr_run_workers(struct cr_session *s, unsigned int max, cr_op op, void *arg,
		   unsigned int *workers)
{
	struct cr_member **list, *m;
	unsigned int n = 0, i;
	unsigned long index;
	int r = 0, e;

	if (!max || max > num_online_cpus())
		max = num_online_cpus();
	list = kmalloc_array(max, sizeof(*list), GFP_KERNEL);
	if (!list)
		return -ENOMEM;
	xa_for_each(&s->members, index, m) {
		if (n == max)
			break;
		if (READ_ONCE(m->state) == CR_PARKED)
			list[n++] = m;
	}
	for (i = 0; i < n; i++)
		cr_op_start(list[i], op, arg);
	for (i = 0; i < n; i++) {
		e = cr_op_wait(s, list[i]);
		r = r ? r : e;
	}
	kfree(list);
	if (workers)
		*workers = n;
	return n ? r : -ESRCH;
}

#define CR_BATCH 32

/* Queue threads that are no members yet. How many, or -errno. */
static int cr_add_new(struct cr_session *s, struct cr_why *why)
{
	struct task_struct *batch[CR_BATCH], *t;
	struct cr_member *m;
	int n = 0, added = 0, i, r = 0;

	rcu_read_lock();
	for_each_thread(s->leader, t) {
		if (t->flags & (PF_EXITING | PF_KTHREAD))
			continue;
		m = xa_load(&s->members, t->pid);
		if (m && m->task == t)
			continue;
		batch[n++] = get_task_struct(t);
		if (n == CR_BATCH)
			break;
	}
	rcu_read_unlock();

	for (i = 0; i < n; i++) {
		t = batch[i];
		if (!r)
			r = cr_check_task(t, why);
		if (!r && get_nr_threads(s->leader) > CR_MAX_THREADS) {
			cr_why(why, CR_WHY_TOO_MANY, get_nr_threads(s->leader));
			r = -EOPNOTSUPP;
		}
		if (!r) {
			m = cr_member_new(s, t, GFP_KERNEL);
			if (IS_ERR(m))
				r = PTR_ERR(m);
			else if (!cr_queue(m))
				added++;
		}
		put_task_struct(t);
	}
	return r ? r : added;
}

static bool cr_all_parked(struct cr_session *s)
{
	struct cr_member *m;
	struct task_struct *t;
	bool all = true;

	rcu_read_lock();
	for_each_thread(s->leader, t) {
		if (t->flags & PF_EXITING)
			continue;
		m = xa_load(&s->members, t->pid);
		all = m && m->task == t && READ_ONCE(m->state) == CR_PARKED;
		if (!all)
			break;
	}
	rcu_read_unlock();
	return all;
}

/* Threads were made: wait until they have come, too. */
int cr_wait_born(struct cr_session *s, unsigned long timeout)
{
	unsigned long end = jiffies + timeout;
	long r;

	/* in slices: a thread that is killed on its way wakes nobody */
	do {
		r = wait_event_killable_timeout(s->coord, cr_all_parked(s), 1);
		if (r < 0 || fatal_signal_pending(s->leader))
			return -EINTR;
		if (r)
			return 0;
	} while (time_before(jiffies, end));
	return -ETIMEDOUT;
}

/* Name the thread that does not come, and the reason as far as one can see it. */
static void cr_blame(struct cr_session *s, struct cr_why *why)
{
	struct cr_member *m;
	unsigned long i;
	unsigned int state;

	cr_why(why, CR_WHY_STUCK, task_tgid_vnr(s->leader));
	xa_for_each(&s->members, i, m) {
		if (READ_ONCE(m->state) != CR_QUEUED)
			continue;
		state = READ_ONCE(m->task->__state);
		cr_why(why, state & __TASK_TRACED ? CR_WHY_TRACED :
			    state & __TASK_STOPPED ? CR_WHY_STOPPED : CR_WHY_STUCK,
		       task_pid_vnr(m->task));
		return;
	}
}

static int cr_park_all(struct cr_session *s, unsigned long end, struct cr_why *why)
{
	long left;
	int n;

	do {
		n = cr_add_new(s, why);
		if (n < 0)
			return n;
		left = (long)(end - jiffies);
		left = wait_event_killable_timeout(s->coord, !READ_ONCE(s->npending),
						   max(left, 1L));
		if (left < 0)
			return -EINTR;
		if (!left) {
			cr_blame(s, why);
			return -ETIMEDOUT;
		}
		cr_reap(s);
	} while (n);
	return 0;
}

/* Enter the list of frozen sessions, unless another holds this process. */
static int cr_claim(struct cr_session *s, struct cr_why *why)
{
	struct cr_session *other;
	int r = 0;

	mutex_lock(&cr_frozen_lock);
	list_for_each_entry(other, &cr_frozen, frozen_node) {
		if (other->mm != s->mm)
			continue;
		cr_why(why, CR_WHY_BUSY, other->owner_pid);
		r = -EBUSY;
		break;
	}
	if (!r)
		list_add(&s->frozen_node, &cr_frozen);
	mutex_unlock(&cr_frozen_lock);
	return r;
}

static void cr_unclaim(struct cr_session *s)
{
	mutex_lock(&cr_frozen_lock);
	list_del_init(&s->frozen_node);
	mutex_unlock(&cr_frozen_lock);
}

long cr_ioc_freeze(struct cr_session *s, struct cr_freeze *a)
{
	ktime_t t0 = ktime_get();
	struct cr_member *m;
	unsigned long i;
	int r;

	if (a->reserved)
		return -EINVAL;
	if (!s->frozen) {
		cr_why(&a->why, CR_WHY_GONE, task_tgid_vnr(s->leader));
		if (s->leader->flags & PF_EXITING && !thread_group_empty(s->leader)) {
			a->why.reason = CR_WHY_LEADER_DEAD;
			return -EOPNOTSUPP;
		}
		if (READ_ONCE(s->leader->mm) != s->mm)
			return -ESRCH;
		r = cr_claim(s, &a->why);
		if (r)
			return r;
		s->abort = false;
		s->frozen = true;	/* from here on a close thaws */
		s->frozen_at = t0;
		s->thaw_after_ms = a->thaw_after_ms ? a->thaw_after_ms : 60000;
		r = cr_park_all(s, jiffies + msecs_to_jiffies(a->timeout_ms ? a->timeout_ms : 5000),
				&a->why);
		if (!r)
			r = cr_check_shared_mm(s, &a->why);
		if (!r && (READ_ONCE(s->leader->mm) != s->mm || !cr_any(s)))
			r = -ESRCH;
		if (r) {
			cr_thaw(s, false);
			return r;
		}
		xa_for_each(&s->members, i, m)
			cr_wait_off_cpu(s, m);
	}
	cr_why(&a->why, CR_WHY_NONE, 0);
	a->nthreads = 0;
	xa_for_each(&s->members, i, m)
		a->nthreads++;
	a->ns = ktime_to_ns(ktime_sub(ktime_get(), t0));
	return 0;
}

/*
 * Bring threads back that are still on the stub (the session was killed in the
 * middle of CR_IOC_RUN). A thread that will not come must not run on in there.
 */
static bool cr_recall_runners(struct cr_session *s)
{
	struct cr_member *m;
	unsigned long i;
	bool all = true;

	xa_for_each(&s->members, i, m) {
		if (READ_ONCE(m->state) == CR_RUNNING)
			cr_queue(m);
		if (READ_ONCE(m->state) != CR_QUEUED || !m->have_raw)
			continue;
		/* killable is no use here: the session may be dying already */
		if (!wait_event_timeout(s->coord, READ_ONCE(m->state) != CR_QUEUED, HZ))
			all = false;
	}
	return all;
}

/* Let everybody run on, or kill. lock held. Also undoes a half-made freeze. */
int cr_thaw(struct cr_session *s, bool kill)
{
	struct cr_member *m;
	unsigned long i;

	if (!kill && !cr_recall_runners(s)) {
		pr_warn("process %d is stuck in a call made for its session: killing it\n",
			task_tgid_nr(s->leader));
		kill = true;
	}
	if (!kill && s->arena && cr_arena_unmap(s))
		pr_warn("arena of process %d could not be unmapped\n", task_tgid_nr(s->leader));
	s->arena = 0;
	if (kill)
		send_sig(SIGKILL, s->leader, 1);
	xa_for_each(&s->members, i, m) {
		spin_lock(&s->plock);
		if (m->state == CR_QUEUED) {
			m->cancelled = true;
			s->npending--;
		}
		WRITE_ONCE(m->leave, true);
		spin_unlock(&s->plock);
		wake_up(&m->wake);
		xa_erase(&s->members, i);
		cr_member_put(m);
	}
	s->frozen = false;
	s->committed = false;
	cr_unclaim(s);
	return 0;
}
