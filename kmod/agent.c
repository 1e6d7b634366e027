// SPDX-License-Identifier: GPL-2.0-only
/*
 * Agents: threads of a process that uses libcr, blocking here until a request
 * comes, so that the registered callbacks run around it. What an agent is told
 * lies here, outside the memory that is rolled back.
 */
#include "internal.h"
#include <linux/list.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

struct cr_agent_state {
	struct list_head node;
	struct mm_struct *mm;	/* of the process it serves; a name only, never followed */
	struct cr_session *by;	/* whose NOTIFY this is until its outcome; a name only */
	u32 phase;		/* told by NOTIFY, not yet taken by WAIT */
	u32 flags;
	struct pid *requester;	/* of the last NOTIFY or OUTCOME; a reference */
	bool told;		/* callbacks are running, or the outcome was not taken yet */
	bool ready;		/* READY was called with: */
	int status;
	u32 outcome;		/* for READY to return */
	wait_queue_head_t wait;	/* agent and requester both wait here */
};

/* Guards the list and every field of its elements. */
static DEFINE_SPINLOCK(cr_agent_lock);
static LIST_HEAD(cr_agents);

static struct cr_agent_state *cr_agent_find(struct mm_struct *mm)
{
	struct cr_agent_state *ag;

	lockdep_assert_held(&cr_agent_lock);
	list_for_each_entry(ag, &cr_agents, node)
		if (ag->mm == mm)
			return ag;
	return NULL;
}

/*
 * The agent of this descriptor; made at its first use, or by CR_IOC_PUT_FILE for
 * a restarted process. One per process; the caller runs in that process.
 */
struct cr_agent_state *cr_agent_get(struct cr_session *s)
{
	struct cr_agent_state *ag = READ_ONCE(s->agent), *other;

	if (ag)
		return ag->mm == current->mm ? ag : ERR_PTR(-EPERM);
	if (s->leader)
		return ERR_PTR(-EISCONN);	/* a session that has a target is no agent */
	ag = kzalloc(sizeof(*ag), GFP_KERNEL);
	if (!ag)
		return ERR_PTR(-ENOMEM);
	init_waitqueue_head(&ag->wait);
	ag->mm = current->mm;
	spin_lock(&cr_agent_lock);
	other = cr_agent_find(ag->mm);
	if (other || s->agent) {
		spin_unlock(&cr_agent_lock);
		kfree(ag);
		return ERR_PTR(-EBUSY);
	}
	list_add(&ag->node, &cr_agents);
	WRITE_ONCE(s->agent, ag);
	spin_unlock(&cr_agent_lock);
	return ag;
}

void cr_agent_release(struct cr_session *s)
{
	struct cr_agent_state *ag = s->agent;

	if (!ag)
		return;
	spin_lock(&cr_agent_lock);
	list_del(&ag->node);
	spin_unlock(&cr_agent_lock);
	put_pid(ag->requester);
	kfree(ag);
}

/* Returns what the caller must put_pid() when it has dropped the lock. */
static struct pid *cr_agent_requester(struct cr_agent_state *ag, struct pid *by)
{
	struct pid *old = ag->requester;

	lockdep_assert_held(&cr_agent_lock);
	ag->requester = by;
	return old;
}

/* The request by @s has come to nothing: tell the agent, if it has heard of it. */
static void cr_agent_abort(struct cr_agent_state *ag, struct cr_session *s)
{
	lockdep_assert_held(&cr_agent_lock);
	if (!ag || ag->by != s)
		return;
	ag->by = NULL;
	if (ag->phase != CR_PHASE_NONE)
		ag->phase = CR_PHASE_NONE;	/* it has not */
	else
		ag->outcome = CR_PHASE_ABORTED;
	wake_up_all(&ag->wait);
}

/* The session ends, or its owner is gone. */
void cr_agent_forget(struct cr_session *s)
{
	if (!s->mm)
		return;
	spin_lock(&cr_agent_lock);
	cr_agent_abort(cr_agent_find(s->mm), s);
	spin_unlock(&cr_agent_lock);
}

static bool cr_agent_told(struct cr_agent_state *ag, struct cr_agent *a)
{
	bool told;

	spin_lock(&cr_agent_lock);
	told = ag->phase != CR_PHASE_NONE;
	if (told) {
		a->phase = ag->phase;
		a->request_flags = ag->flags;
		a->requester = pid_vnr(ag->requester);
		ag->phase = CR_PHASE_NONE;
		ag->told = true;
		ag->ready = false;
		ag->outcome = CR_PHASE_NONE;
	}
	spin_unlock(&cr_agent_lock);
	return told;
}

/* Interrupted by being parked, it is restarted by the kernel: ERESTARTSYS. */
long cr_ioc_agent_wait(struct cr_session *s, struct cr_agent *a)
{
	struct cr_agent_state *ag = cr_agent_get(s);

	if (IS_ERR(ag))
		return PTR_ERR(ag);
	if (a->flags)
		return -EINVAL;
	/* whoever waits here runs no callbacks: a rollback may have taken it out of them */
	spin_lock(&cr_agent_lock);
	ag->told = false;
	ag->ready = false;
	spin_unlock(&cr_agent_lock);
	return wait_event_interruptible(ag->wait, cr_agent_told(ag, a));
}

static bool cr_agent_outcome(struct cr_agent_state *ag, struct cr_agent *a)
{
	bool have;

	spin_lock(&cr_agent_lock);
	have = ag->outcome != CR_PHASE_NONE;
	if (have) {
		a->phase = ag->outcome;
		a->request_flags = ag->flags;
		a->requester = pid_vnr(ag->requester);
		ag->outcome = CR_PHASE_NONE;
		ag->told = false;
		ag->ready = false;
	}
	spin_unlock(&cr_agent_lock);
	return have;
}

long cr_ioc_agent_ready(struct cr_session *s, struct cr_agent *a)
{
	struct cr_agent_state *ag = cr_agent_get(s);

	if (IS_ERR(ag))
		return PTR_ERR(ag);
	if (a->flags || a->status < 0)
		return -EINVAL;
	spin_lock(&cr_agent_lock);
	ag->ready = true;
	ag->status = a->status;
	spin_unlock(&cr_agent_lock);
	wake_up_all(&ag->wait);
	return wait_event_interruptible(ag->wait, cr_agent_outcome(ag, a));
}

/* ---------------------------------------------------------- the session's side */

/*
 * The agent may go away while we wait (its process exits), so it is looked up by
 * mm each time and never kept; we sleep in short slices instead of on its queue.
 */
static int cr_notify_poll(struct cr_session *s, struct cr_notify *a)
{
	struct cr_agent_state *ag;
	struct pid *pid = NULL;
	int r = -EAGAIN;

	spin_lock(&cr_agent_lock);
	ag = cr_agent_find(s->mm);
	if (!ag) {
		r = -ENOENT;
	} else if (ag->by != s) {
		/* an earlier request must be over: its callbacks are still running */
		if (!ag->by && !ag->told && ag->phase == CR_PHASE_NONE) {
			ag->by = s;
			ag->phase = a->phase;
			ag->flags = a->flags;
			pid = cr_agent_requester(ag, get_task_pid(current, PIDTYPE_TGID));
			wake_up_all(&ag->wait);
		}
	} else if (ag->ready && ag->told) {
		a->status = ag->status;
		r = ag->status ? -ECANCELED : 0;
	}
	spin_unlock(&cr_agent_lock);
	put_pid(pid);
	return r;
}

long cr_ioc_notify(struct cr_session *s, struct cr_notify *a)
{
	unsigned long end = jiffies + msecs_to_jiffies(a->timeout_ms ? a->timeout_ms : 60000);
	int r;

	if (!s->leader)
		return -ENOTCONN;
	if (a->phase != CR_PHASE_CHECKPOINT && a->phase != CR_PHASE_PAUSE)
		return -EINVAL;
	a->status = 0;
	while ((r = cr_notify_poll(s, a)) == -EAGAIN) {
		r = -ETIMEDOUT;
		if (time_after(jiffies, end))
			break;
		r = -EINTR;
		if (schedule_timeout_killable(1) && fatal_signal_pending(current))
			break;
	}
	if (r)
		cr_agent_forget(s);
	return r;
}

long cr_ioc_outcome(struct cr_session *s, struct cr_notify *a)
{
	struct cr_agent_state *ag;
	struct pid *pid = NULL;
	int r = 0;

	if (!s->leader)
		return -ENOTCONN;
	if (a->phase < CR_PHASE_CONTINUE || a->phase > CR_PHASE_ABORTED)
		return -EINVAL;
	spin_lock(&cr_agent_lock);
	ag = cr_agent_find(s->mm);
	if (!ag) {
		r = -ENOENT;
	} else if (a->phase == CR_PHASE_ABORTED) {
		cr_agent_abort(ag, s);
	} else if (ag->by && ag->by != s) {
		r = -EBUSY;	/* another session's request is under way */
	} else {
		ag->by = NULL;
		ag->flags = a->flags;
		ag->outcome = a->phase;
		ag->phase = CR_PHASE_NONE;	/* not taken, and no longer wanted */
		ag->told = true;
		pid = cr_agent_requester(ag, get_task_pid(current, PIDTYPE_TGID));
		wake_up_all(&ag->wait);
	}
	spin_unlock(&cr_agent_lock);
	put_pid(pid);
	return r;
}
