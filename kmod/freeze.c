// SPDX-License-Identifier: GPL-2.0-only
/*
 * All threads of a target: freeze and thaw.
 *
 * A thaw never waits: it sets a flag in each member and returns, in any context. Each
 * thread restores its own state when it leaves (park.c). So a timer, a close or a killed
 * requester ends a freeze without waiting for a lock.
 */
#include "internal.h"
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/seccomp.h>
#include <linux/slab.h>

#define CR_FREEZE_MS		5000
#define CR_FREEZE_MOST_MS	3600000
#define CR_THAW_MS		60000
#define CR_THAW_MOST_MS		86400000

/* --------------------------------------------------------- refused processes */

/**
 * cr_check_task - refuse a thread that cannot be restored, or that a freeze would kill
 * @t: the thread
 * @why: out: reason and tid
 *
 * Return: 0 or -EOPNOTSUPP.
 */
int cr_check_task(struct task_struct *t, struct cr_why *why)
{
	u64 tid = task_pid_vnr(t);

	if (t->flags & PF_KTHREAD)
		cr_why(why, CR_WHY_KTHREAD, tid);
	else if (test_tsk_thread_flag(t, TIF_ADDR32))
		cr_why(why, CR_WHY_COMPAT, tid);
#ifdef CONFIG_IO_URING
	else if (READ_ONCE(t->io_uring))
		cr_why(why, CR_WHY_IO_URING, tid);
#endif
	else if (READ_ONCE(t->seccomp.mode))
		cr_why(why, CR_WHY_SECCOMP, tid);
	else if (READ_ONCE(t->ptrace))
		cr_why(why, CR_WHY_TRACED, tid);
	/* the stub's calls would raise SIGSYS, and a blocked SIGSYS kills the process */
	else if (test_task_syscall_work(t, SYSCALL_USER_DISPATCH))
		cr_why(why, CR_WHY_DISPATCH, tid);
#ifdef CONFIG_X86_USER_SHADOW_STACK
	else if (t->thread.features)
		cr_why(why, CR_WHY_SHADOW_STACK, tid);
#endif
	else
		return 0;
	return -EOPNOTSUPP;
}

/*
 * Refuse an mm that tasks outside the thread group use: a freeze would not stop them.
 * -EAGAIN: all of them are exiting, as a vfork() child whose parent has just come back.
 */
static int cr_check_shared_mm(struct cr_session *s, struct cr_why *why)
{
	struct task_struct *p, *t;
	int r = 0;

	rcu_read_lock();
	for_each_process(p) {
		if (p->flags & PF_KTHREAD || same_thread_group(p, s->leader))
			continue;
		for_each_thread(p, t) {
			if (READ_ONCE(t->mm) != s->mm)
				continue;
			cr_why(why, CR_WHY_SHARED_MM, task_tgid_vnr(p));
			r = READ_ONCE(t->flags) & PF_EXITING ? -EAGAIN : -EOPNOTSUPP;
			if (r == -EOPNOTSUPP)
				goto out;
		}
	}
out:
	rcu_read_unlock();
	return r;
}

/* Each parked thread is a user of the mm, and so is a requester of the target. Are there no others? */
static bool cr_are_only_users(struct cr_session *s)
{
	struct cr_member *m;
	unsigned long i;
	int n = 0;

	spin_lock(&s->lock);
	xa_for_each(&s->members, i, m)
		n += m->state == CR_PARKED || m == s->self;
	spin_unlock(&s->lock);
	return atomic_read(&s->mm->mm_users) == n;
}

/* Refuse an mm that others use, after waiting for those that are exiting. */
static int cr_check_alone(struct cr_session *s, unsigned long end, struct cr_why *why)
{
	unsigned int naps = 0;
	int r;

#ifdef CONFIG_AIO
	if (rcu_access_pointer(s->mm->ioctx_table)) {
		cr_why(why, CR_WHY_AIO, task_tgid_vnr(s->leader));
		return -EOPNOTSUPP;
	}
#endif
	/* to look through all processes of the machine takes longer than a small rollback */
	if (cr_are_only_users(s))
		return 0;
	while ((r = cr_check_shared_mm(s, why)) == -EAGAIN) {
		if (time_after(jiffies, end))
			return -EOPNOTSUPP;
		cr_nap(&naps);
		if (fatal_signal_pending(current))
			return -EINTR;
	}
	return r;
}

/* -------------------------------------------------------------------- freezing */

#define CR_BATCH_TASKS 256

/* The thread is a member already. Can this freeze use that member? */
static bool cr_take_again(struct cr_member *m)
{
	struct cr_session *s = m->session;
	bool again = true;

	spin_lock(&s->lock);
	if (m->leave && m->state == CR_QUEUED && !m->borrowed) {
		/* its task work is still queued, by an earlier freeze that failed */
		m->leave = false;
		m->awaited = true;
		s->nawaited++;
	} else if (m->leave) {
		again = false;	/* it is leaving: it gets a new member afterwards */
	}
	spin_unlock(&s->lock);
	return again;
}

static int cr_add(struct cr_session *s, struct task_struct *t, struct cr_why *why)
{
	struct cr_member *m;
	int r = cr_check_task(t, why);

	if (r)
		return r;
	if (READ_ONCE(t->mm) != s->mm) {
		cr_why(why, CR_WHY_GONE, task_tgid_vnr(s->leader));
		return READ_ONCE(t->flags) & PF_EXITING ? 0 : -ESRCH;
	}
	/* its work would run only after the lease's */
	if (cr_lease_parks(t)) {
		cr_why(why, CR_WHY_LEASE, task_tgid_vnr(s->leader));
		return -EBUSY;
	}
	if (get_nr_threads(s->leader) > CR_MAX_THREADS) {
		cr_why(why, CR_WHY_TOO_MANY, get_nr_threads(s->leader));
		return -EOPNOTSUPP;
	}
	m = cr_member_add(s, t, false);
	if (IS_ERR(m))
		return PTR_ERR(m) == -EEXIST ? 0 : PTR_ERR(m);
	spin_lock(&s->lock);
	if (!m->leave && m->state == CR_RUNNING) {
		m->awaited = true;
		s->nawaited++;
	}
	spin_unlock(&s->lock);
	cr_queue(m);
	cr_member_put(m);
	return 0;
}

/**
 * cr_freeze_more - park threads that are not members yet
 * @s: the session
 * @why:     out: reason of a refusal
 * @leaving: out: number of threads that are still leaving an earlier freeze
 *
 * Return: number of threads found, at most CR_BATCH_TASKS; 0: all threads are members.
 * -errno.
 */
static int cr_freeze_more(struct cr_session *s, struct cr_why *why, int *leaving)
{
	struct task_struct **batch, *t;
	struct cr_member *m;
	int n = 0, i, r = 0;

	batch = kmalloc_array(CR_BATCH_TASKS, sizeof(*batch), GFP_KERNEL_ACCOUNT);
	if (!batch)
		return -ENOMEM;
	*leaving = 0;
	rcu_read_lock();
	for_each_thread(s->leader, t) {
		if (READ_ONCE(t->flags) & (PF_EXITING | PF_KTHREAD))
			continue;
		m = cr_member_of(s, t);
		if (m) {
			*leaving += !cr_take_again(m);
			cr_member_put(m);
			continue;
		}
		batch[n++] = get_task_struct(t);
		if (n == CR_BATCH_TASKS)
			break;
	}
	rcu_read_unlock();
	for (i = 0; i < n; i++) {
		if (!r)
			r = cr_add(s, batch[i], why);
		put_task_struct(batch[i]);
	}
	kfree(batch);
	return r ? r : n;
}

/* Have all awaited members parked, or has the stage FREEZING ended? */
static bool cr_all_came(struct cr_session *s)
{
	return !READ_ONCE(s->nawaited) || READ_ONCE(s->stage) != CR_FREEZING;
}

/* Fill in @why with the first thread that is not parked, and the reason if it is visible. */
void cr_blame(struct cr_session *s, struct cr_why *why)
{
	struct cr_member *m;
	unsigned long i;
	unsigned int state;

	cr_why(why, CR_WHY_STUCK, task_tgid_vnr(s->leader));
	cr_for_each_member(s, i, m) {
		if (READ_ONCE(m->state) == CR_PARKED || READ_ONCE(m->state) == CR_GONE ||
		    m == s->self)
			continue;
		state = READ_ONCE(m->task->__state);
		cr_why(why, cr_lease_parks(m->task) ? CR_WHY_LEASE :
			    state & __TASK_TRACED ? CR_WHY_TRACED :
			    state & __TASK_STOPPED ? CR_WHY_STOPPED : CR_WHY_STUCK,
		       task_pid_vnr(m->task));
		cr_member_put(m);
		return;
	}
}

/* Until everybody has come: jiffies that are left, 0 when there are none, or -ERESTARTSYS. */
static long cr_wait_all(struct cr_session *s, unsigned long end)
{
	unsigned long slice = 1;
	long r;

	for (;;) {
		cr_rouse_stopped(s);
		r = wait_event_killable_timeout(s->coord, cr_all_came(s), slice);
		if (r < 0)
			return r;
		if (r)
			return max_t(long, end - jiffies, 1);
		if (time_after_eq(jiffies, end))
			return 0;
		slice = min3(slice * 2, (unsigned long)HZ / 4, end - jiffies);
	}
}

static int cr_park_all(struct cr_session *s, unsigned long end, struct cr_why *why)
{
	unsigned int naps = 0;
	int n, leaving;
	long left;

	do {
		n = cr_freeze_more(s, why, &leaving);
		if (n < 0)
			return n;
		left = cr_wait_all(s, end);
		if (left > 0 && leaving)
			cr_nap(&naps);	/* they leave an earlier freeze */
		if (left < 0 || fatal_signal_pending(current))
			return -EINTR;
		if (READ_ONCE(s->stage) != CR_FREEZING)
			return -ENOTCONN;
		if (!left || (leaving && time_after(jiffies, end))) {
			cr_blame(s, why);
			return -ETIMEDOUT;
		}
	} while (n || leaving);
	return 0;
}

bool cr_is_frozen(struct cr_session *s)
{
	enum cr_stage stage = READ_ONCE(s->stage);

	return stage == CR_FROZEN || stage == CR_COMMITTED;
}

/**
 * cr_freeze_begin - change the stage from THAWED to FREEZING
 * @s: the session; the caller has claimed the process
 *
 * Return: 0, or -ENOTCONN when the session is closed or in another stage.
 */
static int cr_freeze_begin(struct cr_session *s)
{
	int r = -ENOTCONN;

	spin_lock(&s->lock);
	if (s->stage == CR_THAWED && !s->closed) {
		s->stage = CR_FREEZING;
		s->frozen_at = ktime_get();
		r = 0;
	}
	spin_unlock(&s->lock);
	return r;
}

/* Change the stage from FREEZING to FROZEN. 0 or -ENOTCONN. */
static int cr_freeze_end(struct cr_session *s)
{
	int r = -ENOTCONN;

	spin_lock(&s->lock);
	if (s->stage == CR_FREEZING) {
		s->stage = CR_FROZEN;
		r = 0;
	}
	spin_unlock(&s->lock);
	return r;
}

static int cr_freeze_all(struct cr_session *s, unsigned long end, struct cr_why *why)
{
	struct cr_member *m;
	int r = cr_park_all(s, end, why);

	if (!r)
		r = cr_check_alone(s, end, why);
	if (r)
		return r;
	m = cr_any(s);
	if ((!m && !s->self) || READ_ONCE(s->leader->mm) != s->mm) {
		cr_why(why, CR_WHY_GONE, task_tgid_vnr(s->leader));
		r = -ESRCH;
	}
	if (m)
		cr_member_put(m);
	return r ? r : cr_freeze_end(s);
}

/**
 * cr_watch_silence - start the timeout that thaws the target of a silent session
 * @s: the session
 * @thaw_after: jiffies without an ioctl
 */
static void cr_watch_silence(struct cr_session *s, unsigned long thaw_after)
{
	bool armed = false;

	cr_session_alive(s);
	cr_session_get(s);
	spin_lock(&s->lock);
	s->thaw_after = thaw_after;
	/* a timer that was pending already holds a reference */
	if (!s->closed)
		armed = !mod_delayed_work(cr_workqueue, &s->timeout, thaw_after);
	spin_unlock(&s->lock);
	if (!armed)
		cr_session_put(s);
}

/* The thread of the target that makes the ioctl cannot be parked: it takes part as it is. */
static int cr_freeze_self(struct cr_session *s, struct cr_why *why)
{
	int r = cr_check_task(current, why);

	if (r)
		return r;
	if (cr_lease_parks(current)) {
		cr_why(why, CR_WHY_LEASE, task_tgid_vnr(current));
		return -EBUSY;
	}
	return cr_self_enter(s);
}

static int cr_freeze_now(struct cr_session *s, struct cr_freeze *a)
{
	unsigned long end = jiffies + cr_timeout_jiffies(a->timeout_ms, CR_FREEZE_MS,
							 CR_FREEZE_MOST_MS);
	long left = max_t(long, end - jiffies, 1);
	int r;

	/* threads of an earlier freeze may still be in a call made for this session */
	if (cr_is_of_target(s))	/* one of them may be current, which then must not wait */
		left = wait_event_interruptible_timeout(s->coord,
							READ_ONCE(s->stage) != CR_THAWING, left);
	else
		left = wait_event_killable_timeout(s->coord, READ_ONCE(s->stage) != CR_THAWING,
						   left);
	if (left < 0)
		return -EINTR;
	if (!left) {
		cr_blame(s, &a->why);
		return -ETIMEDOUT;
	}
	cr_why(&a->why, CR_WHY_GONE, task_tgid_vnr(s->leader));
	if (s->leader->flags & PF_EXITING && !thread_group_empty(s->leader)) {
		a->why.reason = CR_WHY_LEADER_DEAD;
		return -EOPNOTSUPP;
	}
	if (READ_ONCE(s->leader->mm) != s->mm)
		return -ESRCH;
	r = cr_claim(s, end, &a->why);
	if (r)
		return r;
	r = cr_freeze_begin(s);
	if (r) {
		cr_unclaim(s);
		return r;
	}
	if (cr_is_of_target(s))
		r = cr_freeze_self(s, &a->why);
	if (!r)
		r = cr_freeze_all(s, end, &a->why);
	if (r) {
		cr_thaw_begin(s, CR_THAW_TO_RUN);
		cr_self_leave(s);
	} else {
		cr_watch_silence(s, cr_timeout_jiffies(a->thaw_after_ms, CR_THAW_MS,
						       CR_THAW_MOST_MS));
	}
	return r;
}

/**
 * cr_freeze() - freeze the target; for one of its own threads, all others
 * @s: the session
 * @a: argument of CR_IOC_FREEZE
 *
 * Return: 0 or -errno: it runs.
 */
int cr_freeze(struct cr_session *s, struct cr_freeze *a)
{
	ktime_t t0 = ktime_get();
	struct cr_member *m;
	unsigned long i;
	int r;

	if (a->reserved)
		return -EINVAL;
	r = cr_is_frozen(s) ? 0 : cr_freeze_now(s, a);
	if (r)
		return r;
	cr_why(&a->why, CR_WHY_NONE, 0);
	a->nthreads = 0;
	cr_for_each_member(s, i, m)
		a->nthreads++;
	a->ns = ktime_to_ns(ktime_sub(ktime_get(), t0));
	return 0;
}

long cr_ioc_freeze(struct cr_session *s, struct cr_freeze *a)
{
	if (cr_is_of_target(s)) {
		cr_why(&a->why, CR_WHY_SELF, task_tgid_vnr(current));
		return -EDEADLK;
	}
	return cr_freeze(s, a);
}

static bool cr_all_parked(struct cr_session *s)
{
	struct cr_member *m;
	struct task_struct *t;
	bool all = true;

	rcu_read_lock();
	for_each_thread(s->leader, t) {
		if (READ_ONCE(t->flags) & PF_EXITING)
			continue;
		m = cr_member_of(s, t);
		all = m && READ_ONCE(m->state) == CR_PARKED;
		if (m)
			cr_member_put(m);
		if (!all)
			break;
	}
	rcu_read_unlock();
	return all;
}

/* Wait until the threads that a batch has created have parked. */
int cr_wait_born(struct cr_session *s, unsigned long timeout)
{
	unsigned long end = jiffies + timeout;
	long r;

	/* poll: a thread that is killed before it parks does not wake the waiter */
	do {
		r = wait_event_killable_timeout(s->coord, cr_all_parked(s), 1);
		if (r < 0 || cr_is_dying(s))
			return -EINTR;
		if (r)
			return 0;
	} while (time_before(jiffies, end) && cr_is_frozen(s));
	return -ETIMEDOUT;
}

/* --------------------------------------------------------------------- thawing */

/**
 * cr_thaw_begin - let all threads run on, or kill them; does not wait
 * @s: the session
 * @how: what becomes of them
 *
 * A thread that is in a call made for the session leaves when the call returns, in its
 * old state. The stage is THAWING until then. Also undoes an unfinished freeze.
 *
 * Return: are they killed?
 */
bool cr_thaw_begin(struct cr_session *s, enum cr_thaw_how how)
{
	struct cr_member *m;
	unsigned long i;
	bool kill;

	spin_lock(&s->lock);
	if (s->stage == CR_THAWED || s->stage == CR_THAWING) {
		spin_unlock(&s->lock);
		return false;
	}
	/* under the lock: a parked thread may be about to commit, see rollback.c */
	kill = how == CR_THAW_TO_DEATH || (how == CR_THAW_BY_STAGE && s->stage == CR_COMMITTED);
	s->stage = CR_THAWING;
	s->kill = kill;
	xa_for_each(&s->members, i, m) {
		m->leave = true;
		if (m->serving)
			WRITE_ONCE(m->serving->abandoned, true);
		if (m->awaited) {
			m->awaited = false;
			s->nawaited--;
		}
		/* a queued thread that was not borrowed has no state to restore */
		if (m->state == CR_PARKED || m->state == CR_SERVING || m->borrowed || m->born) {
			m->leaving = true;
			s->nleaving++;
		}
		wake_up(&m->wake);
	}
	if (!s->nleaving)
		cr_thaw_end(s);
	spin_unlock(&s->lock);
	wake_up_all(&s->coord);
	/* interrupt the threads that run in the stub */
	cr_for_each_member(s, i, m)
		cr_queue(m);
	return kill;
}

/**
 * cr_commit - from now on only CR_IOC_THAW thaws the target, all else kills it
 * @s: the session
 *
 * Return: 0, -ENOTCONN.
 */
int cr_commit(struct cr_session *s)
{
	int r = -ENOTCONN;

	spin_lock(&s->lock);
	if (s->stage == CR_FROZEN || s->stage == CR_COMMITTED) {
		s->stage = CR_COMMITTED;
		r = 0;
	}
	spin_unlock(&s->lock);
	return r;
}

long cr_ioc_thaw(struct cr_session *s, struct cr_thaw *a)
{
	ktime_t since = s->frozen_at;

	if (a->flags & ~CR_THAW_KILL || a->reserved)
		return -EINVAL;
	if (!(a->flags & CR_THAW_KILL))
		cr_unmap_arena(s);
	cr_thaw_begin(s, a->flags & CR_THAW_KILL ? CR_THAW_TO_DEATH : CR_THAW_TO_RUN);
	a->frozen_ns = ktime_to_ns(ktime_sub(ktime_get(), since));
	return 0;
}

/* The silence timer has expired: thaw, or wait on if an ioctl came since it was armed. */
static void cr_silence(struct work_struct *work)
{
	struct cr_session *s = container_of(to_delayed_work(work), struct cr_session, timeout);
	bool frozen, killed, again = false;
	unsigned long due;

	spin_lock(&s->lock);
	frozen = cr_is_frozen(s);
	due = READ_ONCE(s->alive) + s->thaw_after;
	if (frozen && !s->closed && time_before(jiffies, due))
		/* under the lock, so that a close sees it; the work keeps the reference */
		again = queue_delayed_work(cr_workqueue, &s->timeout, due - jiffies);
	spin_unlock(&s->lock);
	if (again)
		return;
	if (frozen && !time_before(jiffies, due)) {
		killed = cr_thaw_begin(s, CR_THAW_BY_STAGE);
		pr_warn_ratelimited("session of process %d silent for %u ms: %s process %d\n",
				    pid_nr(s->owner), jiffies_to_msecs(s->thaw_after),
				    killed ? "killing half-restored" : "thawing",
				    task_tgid_nr(s->leader));
	}
	cr_session_put(s);
}

void cr_freeze_init(struct cr_session *s)
{
	INIT_DELAYED_WORK(&s->timeout, cr_silence);
}

/* The owner has closed its descriptor or died: thaw the target, or kill it if committed. */
void cr_owner_gone(struct cr_session *s)
{
	if (cr_thaw_begin(s, CR_THAW_BY_STAGE))
		pr_warn_ratelimited("process %d left process %d half restored: killing it\n",
				    pid_nr(s->owner), task_tgid_nr(s->leader));
}

/**
 * cr_freeze_close - the session is closed: thaw, and prevent further freezes
 * @s: the session
 *
 * No timer is pending on return. Parked threads leave without further help.
 */
void cr_freeze_close(struct cr_session *s)
{
	spin_lock(&s->lock);
	s->closed = true;
	spin_unlock(&s->lock);
	cr_thaw_begin(s, CR_THAW_BY_STAGE);
	if (cancel_delayed_work(&s->timeout))
		cr_session_put(s);
}
