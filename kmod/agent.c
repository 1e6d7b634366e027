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

#define CR_NOTIFY_MS		60000
#define CR_NOTIFY_MOST_MS	3600000

struct cr_agent_state {
	struct kref ref;	/* its session's, and one of each requester that waits */
	struct list_head node;	/* empty: its session is closed */
	struct mm_struct *mm;	/* of the process it serves; mmgrab: the address stays its own */
	struct cr_session *by;	/* whose NOTIFY this is until its outcome; compared only */
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

static void cr_agent_free(struct kref *ref)
{
	struct cr_agent_state *ag = container_of(ref, struct cr_agent_state, ref);

	put_pid(ag->requester);
	mmdrop(ag->mm);
	kfree(ag);
}

/*
 * The agent of this descriptor; made at its first use, or by CR_IOC_PUT_FILE for
 * a restarted process. One per process; the caller runs in that process.
 */
static struct cr_agent_state *cr_agent_get(struct cr_session *s)
{
	struct cr_agent_state *ag = READ_ONCE(s->agent), *other;

	if (ag)
		return ag->mm == current->mm ? ag : ERR_PTR(-EPERM);
	if (READ_ONCE(s->leader))
		return ERR_PTR(-EISCONN);	/* a session that has a target is no agent */
	ag = kzalloc(sizeof(*ag), GFP_KERNEL_ACCOUNT);
	if (!ag)
		return ERR_PTR(-ENOMEM);
	kref_init(&ag->ref);
	init_waitqueue_head(&ag->wait);
	ag->mm = current->mm;
	mmgrab(ag->mm);
	spin_lock(&cr_agent_lock);
	other = cr_agent_find(ag->mm);
	if (other || s->agent) {
		spin_unlock(&cr_agent_lock);
		kref_put(&ag->ref, cr_agent_free);
		return ERR_PTR(-EBUSY);
	}
	list_add(&ag->node, &cr_agents);
	WRITE_ONCE(s->agent, ag);
	spin_unlock(&cr_agent_lock);
	return ag;
}

/* For files.c: current's process gets its agent back with a new descriptor. */
int cr_agent_register(struct cr_session *s)
{
	struct cr_agent_state *ag = cr_agent_get(s);

	return IS_ERR(ag) ? PTR_ERR(ag) : 0;
}

void cr_agent_release(struct cr_session *s)
{
	struct cr_agent_state *ag = s->agent;

	if (!ag)
		return;
	spin_lock(&cr_agent_lock);
	list_del_init(&ag->node);
	spin_unlock(&cr_agent_lock);
	wake_up_all(&ag->wait);
	kref_put(&ag->ref, cr_agent_free);
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
	/* acquire: with the target's memory, see cr_ioc_attach() */
	if (!smp_load_acquire(&s->leader))
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
	wake_up_all(&ag->wait);		/* a requester may wait for this */
	return wait_event_interruptible(ag->wait, cr_agent_told(ag, a));
}

/* The agent could not be told of the request: it hears of it when it waits again. */
void cr_undo_agent_wait(struct cr_session *s, struct cr_agent *a)
{
	struct cr_agent_state *ag = s->agent;

	spin_lock(&cr_agent_lock);
	if (ag->told && ag->by && ag->phase == CR_PHASE_NONE) {
		ag->phase = a->phase;
		ag->told = false;
	}
	spin_unlock(&cr_agent_lock);
}

/* Nor of the outcome. */
void cr_undo_agent_ready(struct cr_session *s, struct cr_agent *a)
{
	struct cr_agent_state *ag = s->agent;

	spin_lock(&cr_agent_lock);
	if (ag->outcome == CR_PHASE_NONE) {
		ag->outcome = a->phase;
		ag->told = true;
	}
	spin_unlock(&cr_agent_lock);
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

/* The agent of the target with a reference, or NULL. */
static struct cr_agent_state *cr_agent_of(struct cr_session *s)
{
	struct cr_agent_state *ag;

	spin_lock(&cr_agent_lock);
	ag = cr_agent_find(s->mm);
	if (ag)
		kref_get(&ag->ref);
	spin_unlock(&cr_agent_lock);
	return ag;
}

/* Tell the agent when it may be told; 0 when it is ready, -EAGAIN while it is not. */
static int cr_notify_step(struct cr_session *s, struct cr_agent_state *ag, struct cr_notify *a)
{
	struct pid *pid = NULL;
	int r = -EAGAIN;

	spin_lock(&cr_agent_lock);
	if (list_empty(&ag->node)) {
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

/**
 * cr_ioc_notify - tell the target's agent and wait until it is ready
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * Return: 0, -ENOENT (no agent), -ETIMEDOUT, -ECANCELED, -ENOTCONN, -EINVAL, -EINTR.
 */
long cr_ioc_notify(struct cr_session *s, struct cr_notify *a)
{
	unsigned long timeout = cr_timeout_jiffies(a->timeout_ms, CR_NOTIFY_MS, CR_NOTIFY_MOST_MS);
	struct cr_agent_state *ag;
	long left;
	int r;

	if (a->phase != CR_PHASE_CHECKPOINT && a->phase != CR_PHASE_PAUSE)
		return -EINVAL;
	a->status = 0;
	ag = cr_agent_of(s);
	if (!ag)
		return -ENOENT;
	left = wait_event_killable_timeout(ag->wait,
					   (r = cr_notify_step(s, ag, a)) != -EAGAIN, timeout);
	kref_put(&ag->ref, cr_agent_free);
	if (left < 0)
		r = -EINTR;
	else if (!left)
		r = -ETIMEDOUT;
	if (r)
		cr_agent_forget(s);
	return r;
}

long cr_ioc_outcome(struct cr_session *s, struct cr_notify *a)
{
	struct cr_agent_state *ag;
	struct pid *pid = NULL;
	int r = 0;

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
