// SPDX-License-Identifier: GPL-2.0-only
/*
 * A lease: the target may run until a point in time, which its daemon moves forward again
 * and again. If the daemon hangs, is stopped or gets no CPU time, the lease expires and the
 * module parks the target. The target stays parked until the daemon renews or ends the
 * lease, or closes the session.
 *
 * CLOCK_BOOTTIME also advances while the machine is suspended. The work never waits for
 * threads to park: it runs again after CR_LEASE_AGAIN.
 */
#include "internal.h"
#include <linux/sched/task.h>
#include <linux/timekeeping.h>

#define CR_LEASE_MOST_NS	(24ULL * 3600 * NSEC_PER_SEC)
#define CR_LEASE_AGAIN		msecs_to_jiffies(20)

static enum hrtimer_restart cr_lease_due(struct hrtimer *timer)
{
	struct cr_session *s = container_of(timer, struct cr_session, lease_timer);

	/* the work takes over the timer's reference; it is not pending, see cr_lease_stop() */
	queue_delayed_work(cr_workqueue, &s->lease_work, 0);
	return HRTIMER_NORESTART;
}

/* Has the lease expired, and is the session still open? Caller holds session->lock. */
static bool cr_lease_has_ended(struct cr_session *s)
{
	lockdep_assert_held(&s->lock);
	return !s->closed && s->lease_until && ktime_get_boottime_ns() >= s->lease_until;
}

/* Park the threads that are not parked. False: some are not parked yet, try again. */
static bool cr_lease_park(struct cr_session *s)
{
	struct cr_why why;
	int leaving;

	switch (READ_ONCE(s->stage)) {
	case CR_FROZEN:
	case CR_COMMITTED:
		return true;
	case CR_THAWING:
		return false;
	case CR_THAWED:
		if (READ_ONCE(s->leader->mm) != s->mm)
			return true;	/* exited or exec'd: no threads to park */
		if (cr_claim(s, jiffies, &why))
			return false;
		if (cr_freeze_begin(s)) {
			cr_unclaim(s);
			return false;
		}
		WRITE_ONCE(s->lease_parked, true);
		break;
	case CR_FREEZING:
		/* an ioctl is freezing the target: wait for the stage that it ends in */
		if (!READ_ONCE(s->lease_parked))
			return false;
		break;
	}
	/* NULL: park threads that cannot be checkpointed, too */
	if (cr_freeze_more(s, NULL, &leaving) || leaving || READ_ONCE(s->nawaited))
		return false;
	return !cr_freeze_end(s);
}

static void cr_lease_enforce(struct work_struct *work)
{
	struct cr_session *s = container_of(to_delayed_work(work), struct cr_session, lease_work);
	bool ended, again = false;

	spin_lock(&s->lock);
	ended = cr_lease_has_ended(s);
	if (ended && !s->lease_over) {
		s->lease_over = true;
		pr_warn_ratelimited("lease of process %d has run out: parking process %d\n",
				    pid_nr(s->owner), task_tgid_nr(s->leader));
	}
	spin_unlock(&s->lock);
	if (ended && !cr_lease_park(s)) {
		spin_lock(&s->lock);
		if (cr_lease_has_ended(s))
			again = queue_delayed_work(cr_workqueue, &s->lease_work, CR_LEASE_AGAIN);
		spin_unlock(&s->lock);
	}
	if (!again)
		cr_session_put(s);
}

static void cr_lease_stop(struct cr_session *s)
{
	/* neither call waits for user space */
	if (hrtimer_cancel(&s->lease_timer))
		cr_session_put(s);
	if (cancel_delayed_work_sync(&s->lease_work))
		cr_session_put(s);
}

/**
 * cr_ioc_lease - begin, renew or end the lease of the target
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * Return: 0. -EINVAL: unknown flags, or until_ns is more than a day ahead. -ENOTCONN: the
 * session has no target.
 */
long cr_ioc_lease(struct cr_session *s, struct cr_lease *a)
{
	u64 now = ktime_get_boottime_ns();
	bool over, parked;

	if (a->flags & ~CR_LEASE_KILL ||
	    (a->until_ns > now && a->until_ns - now > CR_LEASE_MOST_NS))
		return -EINVAL;
	cr_lease_stop(s);
	spin_lock(&s->lock);
	over = s->lease_over;
	s->lease_over = false;
	s->lease_until = a->until_ns;
	s->lease_flags = a->flags;
	parked = s->lease_parked;
	s->lease_parked = false;
	spin_unlock(&s->lock);
	a->expired = over;
	if (parked)
		cr_thaw_begin(s, false);
	else if (over)
		cr_watch_silence(s, s->thaw_after);	/* the session itself had frozen it */
	if (a->until_ns) {
		cr_session_get(s);
		hrtimer_start(&s->lease_timer, ns_to_ktime(a->until_ns), HRTIMER_MODE_ABS);
	}
	return 0;
}

void cr_lease_init(struct cr_session *s)
{
	cr_hrtimer_setup(&s->lease_timer, cr_lease_due, CLOCK_BOOTTIME, HRTIMER_MODE_ABS);
	INIT_DELAYED_WORK(&s->lease_work, cr_lease_enforce);
}

/*
 * Kill a running target. exec changes task->mm under task_lock(), so the check under this
 * lock ensures that the signal never reaches a program that the target has exec'd.
 */
static void cr_lease_kill(struct cr_session *s)
{
	task_lock(s->leader);
	if (s->leader->mm == s->mm)
		send_sig(SIGKILL, s->leader, 1);
	task_unlock(s->leader);
}

/**
 * cr_lease_close - end the lease because the session is closed
 * @s: the session
 *
 * A target that the lease has parked runs on, or is killed with CR_LEASE_KILL.
 */
void cr_lease_close(struct cr_session *s)
{
	bool kill;

	spin_lock(&s->lock);
	kill = s->lease_until && s->lease_flags & CR_LEASE_KILL;
	s->lease_until = 0;
	s->lease_over = false;
	s->lease_parked = false;
	spin_unlock(&s->lock);
	cr_lease_stop(s);
	if (kill)
		cr_lease_kill(s);
}
