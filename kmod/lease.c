// SPDX-License-Identifier: GPL-2.0-only
/*
 * A lease: the descendants of a process, its holder, may run until a point in time, which
 * the holder moves forward again and again. If the holder hangs, is stopped or gets no CPU
 * time, the lease expires, and the module parks every thread of every descendant that the
 * holder may signal. They stay parked until the holder renews or ends the lease. With
 * CR_LEASE_KILL they are killed when the holder closes the descriptor or ends, however it ends.
 *
 * CLOCK_BOOTTIME also advances while the machine is suspended. One work item does the scans
 * of all leases, and rests between them, so that nobody gets more CPU time by more leases.
 * Only the work item scans, so nothing that a user waits for waits for a scan.
 */
#include "lease_state.h"
#include <linux/capability.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>

#define CR_LEASE_MOST_NS	(24ULL * 3600 * NSEC_PER_SEC)
#define CR_LEASE_AGAIN		msecs_to_jiffies(20)	/* some threads have not parked */
#define CR_LEASE_RARELY		msecs_to_jiffies(200)	/* a process it may not park can fork */
#define CR_LEASE_PASSES		16	/* without a rest */
#define CR_LEASE_WAITS		100	/* until threads that do not park are killed, too */
#define CR_LEASE_REST		4	/* times the length of a scan */

static LIST_HEAD(cr_leases);		/* by cr_lease_lock; each with a reference */
static unsigned int cr_lease_round;	/* number of runs of the work */
static struct workqueue_struct *cr_lease_queue;
static void cr_lease_enforce(struct work_struct *work);
static DECLARE_DELAYED_WORK(cr_lease_work, cr_lease_enforce);

static void cr_lease_look(void)
{
	mod_delayed_work(cr_lease_queue, &cr_lease_work, 0);
}

static enum hrtimer_restart cr_lease_due(struct hrtimer *timer)
{
	cr_lease_look();
	return HRTIMER_NORESTART;
}

/* ------------------------------------------------------------------ lifetime */

static void cr_lease_free(struct kref *ref)
{
	struct cr_lease_state *l = container_of(ref, struct cr_lease_state, ref);
	struct cr_kin *k, *next;

	hrtimer_cancel(&l->timer);
	cr_descent_forget(l, true);
	list_for_each_entry_safe(k, next, &l->spares, node)
		cr_kin_free(k);
	put_cred(l->cred);
	put_pid(l->holder);
	cr_account_uncharge(l->account, CR_ACCOUNT_LEASES, 1);
	cr_account_put(l->account);
	kfree(l);
}

/* A lease of the calling process that has not begun, with one reference. */
static struct cr_lease_state *cr_lease_new(void)
{
	struct cr_lease_state *l = kzalloc(sizeof(*l), GFP_KERNEL_ACCOUNT);

	if (!l)
		return ERR_PTR(-ENOMEM);
	l->account = cr_account_mine();
	if (!l->account) {
		kfree(l);
		return ERR_PTR(-ENOMEM);
	}
	l->unlimited = capable(CAP_SYS_RESOURCE);
	if (!cr_account_charge(l->account, CR_ACCOUNT_LEASES, 1, l->unlimited)) {
		cr_account_put(l->account);
		kfree(l);
		return ERR_PTR(-EDQUOT);
	}
	kref_init(&l->ref);
	l->free = cr_lease_free;
	l->holder = get_pid(task_tgid(current));
	l->cred = get_current_cred();
	cr_hrtimer_setup(&l->timer, cr_lease_due, CLOCK_BOOTTIME, HRTIMER_MODE_ABS);
	init_waitqueue_head(&l->wake);
	INIT_LIST_HEAD(&l->node);
	INIT_LIST_HEAD(&l->kin);
	INIT_LIST_HEAD(&l->spares);
	l->stage = CR_LEASE_RUNS;
	return l;
}

/* The session's lease, with a reference, or NULL. */
static struct cr_lease_state *cr_lease_of(struct cr_session *s)
{
	struct cr_lease_state *l;

	spin_lock(&cr_lease_lock);
	l = s->lease;
	if (l)
		kref_get(&l->ref);
	spin_unlock(&cr_lease_lock);
	return l;
}

/* Has neither the holder ended it, nor its end? Caller holds cr_lease_lock. */
static bool cr_lease_lives(const struct cr_lease_state *l)
{
	lockdep_assert_held(&cr_lease_lock);
	return l->stage == CR_LEASE_RUNS || l->stage == CR_LEASE_DUE;
}

/* End the lease: what it has parked runs on. */
static void cr_lease_end(struct cr_lease_state *l)
{
	bool ends;

	spin_lock(&cr_lease_lock);
	ends = l->stage != CR_LEASE_OVER;
	l->stage = CR_LEASE_OVER;
	list_del_init(&l->node);
	spin_unlock(&cr_lease_lock);
	if (!ends)
		return;
	hrtimer_try_to_cancel(&l->timer);
	wake_up_all(&l->wake);
	cr_lease_put(l);
}

/* The holder has closed the lease or ends: as cr_lease_end(), or kill its descendants. */
static void cr_lease_shut(struct cr_lease_state *l)
{
	bool kill, lives;

	spin_lock(&cr_lease_lock);
	lives = cr_lease_lives(l);
	kill = l->flags & CR_LEASE_KILL;
	l->closing |= lives && kill;
	spin_unlock(&cr_lease_lock);
	if (!lives)
		return;
	if (!kill) {
		cr_lease_end(l);
		return;
	}
	/* first: afterwards the kernel may give them to another parent, or the work finish */
	cr_descent_note(l);
	spin_lock(&cr_lease_lock);
	lives = cr_lease_lives(l);
	if (lives) {
		l->stage = CR_LEASE_KILLING;
		__module_get(THIS_MODULE);	/* for the work; the file is still open */
	}
	spin_unlock(&cr_lease_lock);
	if (!lives)
		return;
	hrtimer_try_to_cancel(&l->timer);
	cr_lease_look();
}

/* ---------------------------------------------------------------- enforcement */

/* Look at the stage, and change it when the time has come. */
static enum cr_lease_stage cr_lease_now(struct cr_lease_state *l)
{
	enum cr_lease_stage stage;
	bool expires;

	spin_lock(&cr_lease_lock);
	expires = l->stage == CR_LEASE_RUNS && ktime_get_boottime_ns() >= l->until;
	if (expires)
		l->stage = CR_LEASE_DUE;
	stage = l->stage;
	spin_unlock(&cr_lease_lock);
	if (expires)
		pr_warn_ratelimited("lease of process %d has run out: parking its descendants\n",
				    pid_nr(l->holder));
	return stage;
}

/* Kill those that stand still. True: it is done, and the lease is over. */
static bool cr_lease_kill(struct cr_lease_state *l, bool all_found)
{
	bool over = l->killed && all_found;

	l->waits++;
	if (over || l->waits > 2 * CR_LEASE_WAITS) {
		cr_lease_end(l);
		/* the work itself still runs, and cr_leases_exit() waits for it */
		module_put(THIS_MODULE);
		return true;
	}
	/* who stands still cannot fork: so their children are found before they die */
	if (l->killed || (all_found && !READ_ONCE(l->awaited)) || l->waits > CR_LEASE_WAITS) {
		cr_descent_kill(l);
		l->killed = true;
	}
	return false;
}

/* Return: after how many jiffies to look again; MAX_JIFFY_OFFSET: when something happens. */
static unsigned long cr_lease_apply(struct cr_lease_state *l)
{
	enum cr_lease_stage stage = cr_lease_now(l);
	bool all_found = false;
	int i, r = 0;

	if (stage != CR_LEASE_DUE && stage != CR_LEASE_KILLING) {
		cr_descent_forget(l, !(READ_ONCE(l->flags) & CR_LEASE_KILL));
		return MAX_JIFFY_OFFSET;
	}
	for (i = 0; i < CR_LEASE_PASSES && !all_found && cr_lease_holds(l) && !r; i++) {
		r = cr_descent_stock(l);
		all_found = cr_descent_scan(l);
		cond_resched();
	}
	if (r)
		pr_warn_ratelimited("lease of process %d: %s\n", pid_nr(l->holder),
				    "no memory, or more threads than max_threads");
	cr_descent_forget(l, false);
	if (stage == CR_LEASE_KILLING)
		return cr_lease_kill(l, all_found) ? MAX_JIFFY_OFFSET : CR_LEASE_AGAIN;
	if (!all_found && !r)
		return 1;
	return r || READ_ONCE(l->awaited) ? CR_LEASE_AGAIN : CR_LEASE_RARELY;
}

/* A lease that this run of the work has not looked at, with a reference, or NULL. */
static struct cr_lease_state *cr_lease_next(void)
{
	struct cr_lease_state *l;

	spin_lock(&cr_lease_lock);
	list_for_each_entry(l, &cr_leases, node) {
		if (l->round == cr_lease_round)
			continue;
		l->round = cr_lease_round;
		kref_get(&l->ref);
		spin_unlock(&cr_lease_lock);
		return l;
	}
	spin_unlock(&cr_lease_lock);
	return NULL;
}

static void cr_lease_enforce(struct work_struct *work)
{
	unsigned long start = jiffies, delay = MAX_JIFFY_OFFSET;
	struct cr_lease_state *l;

	cr_lease_round++;
	while ((l = cr_lease_next())) {
		delay = min(delay, cr_lease_apply(l));
		cr_lease_put(l);
	}
	if (delay != MAX_JIFFY_OFFSET)
		queue_delayed_work(cr_lease_queue, &cr_lease_work,
				   max(delay, CR_LEASE_REST * (jiffies - start)));
}

/* ----------------------------------------------------------------- the holder */

/*
 * Renew a lease. Return: whether it had run out; -ENOENT: it is over; -EPERM: the caller is
 * not its holder.
 */
static int cr_lease_renew(struct cr_lease_state *l, const struct cr_lease *a)
{
	bool due = false;
	int r;

	if (l->holder != task_tgid(current))
		return -EPERM;
	spin_lock(&cr_lease_lock);
	if (cr_lease_lives(l)) {
		due = l->stage == CR_LEASE_DUE;
		r = due || ktime_get_boottime_ns() >= l->until;
		if (a->until_ns) {
			l->stage = CR_LEASE_RUNS;
			l->until = a->until_ns;
			l->flags = a->flags;
		}
	} else {
		r = -ENOENT;
	}
	spin_unlock(&cr_lease_lock);
	if (r < 0)
		return r;
	if (!a->until_ns) {
		cr_lease_end(l);
		return r;
	}
	hrtimer_start(&l->timer, ns_to_ktime(a->until_ns), HRTIMER_MODE_ABS);
	cr_descent_forget(l, false);	/* those that were noted when their parents ended */
	if (due) {
		wake_up_all(&l->wake);
		cr_lease_look();	/* to drop the entries */
	}
	return r;
}

static void cr_lease_drop(struct cr_session *s)
{
	struct cr_lease_state *l;

	spin_lock(&cr_lease_lock);
	l = s->lease;
	s->lease = NULL;
	spin_unlock(&cr_lease_lock);
	if (l)
		cr_lease_put(l);
}

static int cr_lease_begin(struct cr_session *s, const struct cr_lease *a)
{
	struct cr_lease_state *l = cr_lease_new();

	if (IS_ERR(l))
		return PTR_ERR(l);
	l->until = a->until_ns;
	l->flags = a->flags;
	spin_lock(&cr_lease_lock);
	kref_get(&l->ref);
	s->lease = l;
	list_add_tail(&l->node, &cr_leases);
	spin_unlock(&cr_lease_lock);
	hrtimer_start(&l->timer, ns_to_ktime(a->until_ns), HRTIMER_MODE_ABS);
	return 0;
}

/**
 * cr_ioc_lease - begin, renew or end the lease over the caller's descendants
 * @s: the session; the caller holds the ioctl_lock
 * @a: argument of the ioctl, in and out
 *
 * Return: 0. -EINVAL: unknown flags, or until_ns is more than a day ahead. -EISCONN: the
 * session has a target. -EPERM: another process holds it. -EDQUOT, -ENOMEM.
 */
long cr_ioc_lease(struct cr_session *s, struct cr_lease *a)
{
	u64 now = ktime_get_boottime_ns();
	struct cr_lease_state *l;
	int r = -ENOENT;

	lockdep_assert_held(&s->ioctl_lock);
	if (a->flags & ~CR_LEASE_KILL ||
	    (a->until_ns > now && a->until_ns - now > CR_LEASE_MOST_NS))
		return -EINVAL;
	if (s->leader)
		return -EISCONN;
	a->expired = 0;
	l = cr_lease_of(s);
	if (l) {
		r = cr_lease_renew(l, a);
		cr_lease_put(l);
	}
	if (r == -EPERM)
		return r;
	a->expired = r > 0;
	if (!a->until_ns || r == -ENOENT)
		cr_lease_drop(s);
	return a->until_ns && r == -ENOENT ? cr_lease_begin(s, a) : 0;
}

/**
 * cr_lease_close - the descriptor is closed
 * @s: the session
 * @all: there is no other descriptor; otherwise only a close by the holder counts
 */
void cr_lease_close(struct cr_session *s, bool all)
{
	struct cr_lease_state *l = cr_lease_of(s);

	if (!l)
		return;
	if (all || l->holder == task_tgid(current))
		cr_lease_shut(l);
	cr_lease_put(l);
	if (all)
		cr_lease_drop(s);
}

/* A lease that the process holds and that has not ended, with a reference, or NULL. */
static struct cr_lease_state *cr_lease_held_by(const struct pid *tgid)
{
	struct cr_lease_state *l;

	spin_lock(&cr_lease_lock);
	list_for_each_entry(l, &cr_leases, node) {
		if (l->holder != tgid || !cr_lease_lives(l))
			continue;
		kref_get(&l->ref);
		spin_unlock(&cr_lease_lock);
		return l;
	}
	spin_unlock(&cr_lease_lock);
	return NULL;
}

/*
 * The lease behind @l in the list (NULL: the first) that kills its descendants, with a
 * reference, or NULL. Puts @l. If @l has left the list, the first one again: to note
 * children twice does no harm.
 */
static struct cr_lease_state *cr_lease_that_kills(struct cr_lease_state *l)
{
	struct cr_lease_state *next = NULL, *one;
	struct list_head *at = &cr_leases;

	spin_lock(&cr_lease_lock);
	if (l && !list_empty(&l->node))
		at = &l->node;
	for (at = at->next; at != &cr_leases && !next; at = at->next) {
		one = list_entry(at, struct cr_lease_state, node);
		if (one->flags & CR_LEASE_KILL) {
			kref_get(&one->ref);
			next = one;
		}
	}
	spin_unlock(&cr_lease_lock);
	if (l)
		cr_lease_put(l);
	return next;
}

/*
 * A thread ends. The kernel calls this before it gives the thread's children to another
 * parent. That is one outside of the tree if all threads of the holder are ending, or if the
 * holder has ended. Whether that will be so is not known yet, so the children are noted in
 * any case. The flush of the descriptor comes too late: only the last thread does it.
 */
static void cr_process_ends(void *unused, struct task_struct *t)
{
	struct cr_lease_state *l;

	if (list_empty(&cr_leases))
		return;
	/* a thread that ends gets no further children, except by CLONE_PARENT of one it has */
	if (!list_empty(&t->children))
		for (l = cr_lease_that_kills(NULL); l; l = cr_lease_that_kills(l))
			cr_descent_note_children(l, t);
	if (!(READ_ONCE(t->signal->flags) & SIGNAL_GROUP_EXIT) && atomic_read(&t->signal->live))
		return;
	while ((l = cr_lease_held_by(task_tgid(t)))) {
		cr_lease_shut(l);
		cr_lease_put(l);
	}
}

/* ----------------------------------------------------------------- the module */

static struct tracepoint *cr_exit_point;

static void cr_is_exit_point(struct tracepoint *point, void *unused)
{
	if (!strcmp(point->name, "sched_process_exit"))
		cr_exit_point = point;
}

int cr_leases_init(void)
{
	int r = -ENOENT;

	/* with a rescuer: a lease must expire also when there is no memory for a worker */
	cr_lease_queue = alloc_workqueue("cr_lease", WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM, 1);
	if (!cr_lease_queue)
		return -ENOMEM;
	for_each_kernel_tracepoint(cr_is_exit_point, NULL);
	/* newer kernels pass another argument behind the task */
	if (cr_exit_point)
		r = tracepoint_probe_register(cr_exit_point, (void *)cr_process_ends, NULL);
	if (r) {
		pr_err("the kernel has no tracepoint sched_process_exit (CONFIG_TRACEPOINTS)\n");
		destroy_workqueue(cr_lease_queue);
	}
	return r;
}

void cr_leases_exit(void)
{
	tracepoint_probe_unregister(cr_exit_point, (void *)cr_process_ends, NULL);
	tracepoint_synchronize_unregister();
	cancel_delayed_work_sync(&cr_lease_work);
	destroy_workqueue(cr_lease_queue);
}
