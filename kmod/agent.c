// SPDX-License-Identifier: GPL-2.0-only
/*
 * Agents: threads of a process that uses libcr. An agent blocks here until a request
 * comes, and runs the registered callbacks before and after it. The module stores the
 * phase and outcome of a request, so that a rollback of the process's memory does not
 * change them.
 */
#include "internal.h"
#include <linux/list.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#define CR_NOTIFY_MS		60000
#define CR_NOTIFY_MOST_MS	3600000

/* Who asks, and for which image: as the session says. Never changed once it is made. */
struct cr_origin_state {
	struct kref ref;
	struct pid *requester;	/* NULL: the session's caller */
	char path[];
};

struct cr_agent_state {
	struct kref ref;	/* one of its session and one of each requester that waits */
	struct list_head node;	/* empty: its session is closed */
	struct mm_struct *mm;	/* of its process; mmgrab: the address is not reused */
	struct cr_session *by;	/* session whose request has no outcome yet; compared only */
	u32 phase;		/* set by NOTIFY, not yet taken by AGENT_WAIT */
	u32 flags;
	struct pid *requester;	/* of the latest NOTIFY or OUTCOME; a reference */
	bool told;		/* callbacks are running, or the outcome was not taken yet */
	bool ready;		/* AGENT_READY was called, with status */
	int status;
	u32 outcome;		/* for READY to return */
	struct cr_origin_state *origin;	/* of the last NOTIFY or OUTCOME, may be NULL */
	unsigned long turn;	/* counts the calls of WAIT, each the end of a request's callbacks */
	int failure;		/* of callbacks behind the last outcome */
	wait_queue_head_t wait;	/* agent and requester both wait here */
};

/* Protects the list and every field of its elements. */
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

static void cr_origin_free(struct kref *ref)
{
	struct cr_origin_state *origin = container_of(ref, struct cr_origin_state, ref);

	put_pid(origin->requester);
	kfree(origin);
}

static void cr_origin_put(struct cr_origin_state *origin)
{
	if (origin)
		kref_put(&origin->ref, cr_origin_free);
}

static void cr_agent_free(struct kref *ref)
{
	struct cr_agent_state *ag = container_of(ref, struct cr_agent_state, ref);

	cr_origin_put(ag->origin);
	put_pid(ag->requester);
	mmdrop(ag->mm);
	kfree(ag);
}

/*
 * The agent of this descriptor, created at the first use, or by CR_IOC_PUT_FILE for a
 * restarted process. A process has at most one; the caller runs in that process.
 */
static struct cr_agent_state *cr_agent_get(struct cr_session *s)
{
	struct cr_agent_state *ag = READ_ONCE(s->agent), *other;

	if (ag)
		return ag->mm == current->mm ? ag : ERR_PTR(-EPERM);
	if (READ_ONCE(s->leader))
		return ERR_PTR(-EISCONN);	/* a session with a target cannot be an agent */
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

/* For files.c: register the agent of current's process, for its new descriptor. */
int cr_agent_register(struct cr_session *s)
{
	struct cr_agent_state *ag = cr_agent_get(s);

	return IS_ERR(ag) ? PTR_ERR(ag) : 0;
}

void cr_agent_release(struct cr_session *s)
{
	struct cr_agent_state *ag = s->agent;

	cr_origin_put(s->origin);
	if (s->heard)
		kref_put(&s->heard->ref, cr_agent_free);
	if (!ag)
		return;
	spin_lock(&cr_agent_lock);
	list_del_init(&ag->node);
	spin_unlock(&cr_agent_lock);
	wake_up_all(&ag->wait);
	kref_put(&ag->ref, cr_agent_free);
}

/* The agent is told of @s. Returns what the caller must put_pid() when it has dropped the lock. */
static struct pid *cr_agent_requester(struct cr_agent_state *ag, struct cr_session *s)
{
	struct pid *old = ag->requester, *by = s->origin ? s->origin->requester : NULL;

	lockdep_assert_held(&cr_agent_lock);
	ag->requester = by ? get_pid(by) : get_task_pid(current, PIDTYPE_TGID);
	cr_origin_put(ag->origin);
	ag->origin = s->origin;
	if (ag->origin)
		kref_get(&ag->origin->ref);
	ag->failure = 0;
	return old;
}

/* The request of @s has failed: withdraw it, or report ABORTED if the agent has taken it. */
static void cr_agent_abort(struct cr_agent_state *ag, struct cr_session *s)
{
	lockdep_assert_held(&cr_agent_lock);
	if (!ag || ag->by != s)
		return;
	ag->by = NULL;
	if (ag->phase != CR_PHASE_NONE)
		ag->phase = CR_PHASE_NONE;	/* not taken yet: withdraw it */
	else
		ag->outcome = CR_PHASE_ABORTED;
	wake_up_all(&ag->wait);
}

/* The session ends, or its owner is gone: abort its open request. */
void cr_agent_forget(struct cr_session *s)
{
	/* acquire: s->mm is visible, too, see cr_ioc_attach() */
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

static long cr_agent_failed(struct cr_agent_state *ag, int status)
{
	spin_lock(&cr_agent_lock);
	ag->failure = status;
	spin_unlock(&cr_agent_lock);
	wake_up_all(&ag->wait);
	return 0;
}

/* Interrupted by being parked, it is restarted by the kernel: ERESTARTSYS. */
long cr_ioc_agent_wait(struct cr_session *s, struct cr_agent *a)
{
	struct cr_agent_state *ag = cr_agent_get(s);

	if (IS_ERR(ag))
		return PTR_ERR(ag);
	if (a->flags == CR_AGENT_FAILED && a->status > 0)
		return cr_agent_failed(ag, a->status);
	if (a->flags)
		return -EINVAL;
	/* an agent that waits runs no callbacks: a rollback may have ended them */
	spin_lock(&cr_agent_lock);
	ag->told = false;
	ag->ready = false;
	ag->turn++;
	spin_unlock(&cr_agent_lock);
	wake_up_all(&ag->wait);		/* a requester may wait for the end of the callbacks */
	return wait_event_interruptible(ag->wait, cr_agent_told(ag, a));
}

/* The request could not be copied to the agent: make the next AGENT_WAIT return it. */
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

/* The outcome could not be copied to the agent: make the next AGENT_READY return it. */
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

/*
 * Notify the agent once an earlier request is over. 0: the agent is ready. -EAGAIN: it is
 * not ready yet. -ENOENT: its session is closed. -ECANCELED: its callbacks refused.
 */
static int cr_notify_step(struct cr_session *s, struct cr_agent_state *ag, struct cr_notify *a)
{
	bool tell = a->phase & CR_NOTIFY_TELL;
	struct pid *pid = NULL;
	int r = -EAGAIN;

	spin_lock(&cr_agent_lock);
	if (list_empty(&ag->node)) {
		r = -ENOENT;
	} else if (ag->by && ag->by != s) {
		r = -EBUSY;
	} else if (ag->by != s) {
		/* an earlier request must be over: its callbacks are still running */
		if (!ag->told && ag->phase == CR_PHASE_NONE) {
			ag->by = s;
			ag->phase = a->phase & ~CR_NOTIFY_TELL;
			ag->flags = a->flags;
			pid = cr_agent_requester(ag, s);
			wake_up_all(&ag->wait);
			r = tell ? 0 : -EAGAIN;
		}
	} else if (tell) {
		r = 0;
	} else if (ag->ready && ag->told) {
		a->status = ag->status;
		r = ag->status ? -ECANCELED : 0;
	}
	spin_unlock(&cr_agent_lock);
	put_pid(pid);
	return r;
}

/* Is the agent through with what follows the outcome that this session told it? */
static int cr_done_step(struct cr_session *s, struct cr_agent_state *ag, unsigned long turn,
			struct cr_notify *a)
{
	int r = -EAGAIN;

	spin_lock(&cr_agent_lock);
	if (ag->turn != turn) {
		r = 0;
	} else if (ag->failure) {
		a->status = ag->failure;
		r = -ECANCELED;
	} else if (list_empty(&ag->node)) {
		r = -ENOENT;
	}
	spin_unlock(&cr_agent_lock);
	return r;
}

static long cr_notify_done(struct cr_session *s, struct cr_notify *a, unsigned long timeout)
{
	struct cr_agent_state *ag;
	unsigned long turn = 0;
	long left;
	int r;

	spin_lock(&cr_agent_lock);
	ag = s->heard;
	if (ag) {
		kref_get(&ag->ref);
		turn = s->heard_turn;
	}
	spin_unlock(&cr_agent_lock);
	if (!ag)
		return -ENOENT;
	left = wait_event_killable_timeout(ag->wait, (r = cr_done_step(s, ag, turn, a)) != -EAGAIN,
					   timeout);
	kref_put(&ag->ref, cr_agent_free);
	if (left < 0)
		return -EINTR;
	return left ? r : -ETIMEDOUT;
}

/* Whether a request is under way, or what follows one. */
static int cr_notify_ask(struct cr_session *s)
{
	struct cr_agent_state *ag;
	int r = -ENOENT;

	spin_lock(&cr_agent_lock);
	ag = cr_agent_find(s->mm);
	if (ag)
		r = ag->by || ag->told || ag->phase != CR_PHASE_NONE ? -EBUSY : 0;
	spin_unlock(&cr_agent_lock);
	return r;
}

/* Nobody was told in time: of this session's request, or not even that. */
static int cr_notify_late(struct cr_session *s, struct cr_agent_state *ag)
{
	int r;

	spin_lock(&cr_agent_lock);
	r = ag->by == s ? -ETIMEDOUT : -EBUSY;
	spin_unlock(&cr_agent_lock);
	return r;
}

/**
 * cr_ioc_notify - tell the target's agent and wait until it is ready, or through
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * Return: 0, -ENOENT (no agent), -EBUSY, -ETIMEDOUT, -ECANCELED, -ENOTCONN, -EINVAL, -EINTR.
 */
long cr_ioc_notify(struct cr_session *s, struct cr_notify *a)
{
	unsigned long timeout = cr_timeout_jiffies(a->timeout_ms, CR_NOTIFY_MS, CR_NOTIFY_MOST_MS);
	u32 phase = a->phase & ~CR_NOTIFY_TELL;
	struct cr_agent_state *ag;
	long left;
	int r;

	a->status = 0;
	if (a->phase == CR_PHASE_NONE)
		return cr_notify_ask(s);
	if (a->phase == CR_PHASE_DONE)
		return cr_notify_done(s, a, timeout);
	if (phase != CR_PHASE_CHECKPOINT && phase != CR_PHASE_PAUSE)
		return -EINVAL;
	ag = cr_agent_of(s);
	if (!ag)
		return -ENOENT;
	left = wait_event_killable_timeout(ag->wait,
					   (r = cr_notify_step(s, ag, a)) != -EAGAIN, timeout);
	if (left < 0)
		r = -EINTR;
	else if (!left)
		r = -EAGAIN;
	if (r == -EAGAIN)
		r = cr_notify_late(s, ag);
	kref_put(&ag->ref, cr_agent_free);
	if (r)
		cr_agent_forget(s);
	return r;
}

long cr_ioc_outcome(struct cr_session *s, struct cr_notify *a)
{
	struct cr_agent_state *ag, *old = NULL;
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
		r = -EBUSY;	/* a request of another session is open */
	} else {
		ag->by = NULL;
		ag->flags = a->flags;
		ag->outcome = a->phase;
		ag->phase = CR_PHASE_NONE;	/* withdraw a phase that was not taken */
		ag->told = true;
		pid = cr_agent_requester(ag, s);
		old = s->heard;
		kref_get(&ag->ref);
		s->heard = ag;
		s->heard_turn = ag->turn;
		wake_up_all(&ag->wait);
	}
	spin_unlock(&cr_agent_lock);
	if (old)
		kref_put(&old->ref, cr_agent_free);
	put_pid(pid);
	return r;
}

static struct cr_origin_state *cr_origin_make(const struct cr_origin *a)
{
	struct cr_origin_state *origin;

	if (a->len > PATH_MAX || a->requester < 0)
		return ERR_PTR(-EINVAL);
	origin = kzalloc(sizeof(*origin) + a->len + 1, GFP_KERNEL_ACCOUNT);
	if (!origin)
		return ERR_PTR(-ENOMEM);
	kref_init(&origin->ref);
	if (copy_from_user(origin->path, u64_to_user_ptr(a->path), a->len)) {
		kfree(origin);
		return ERR_PTR(-EFAULT);
	}
	if (a->requester)
		origin->requester = find_get_pid(a->requester);
	return origin;
}

/* The session says who asks, and for which image. */
long cr_ioc_origin(struct cr_session *s, struct cr_origin *a)
{
	struct cr_origin_state *origin = cr_origin_make(a), *old;

	if (IS_ERR(origin))
		return PTR_ERR(origin);
	spin_lock(&cr_agent_lock);
	old = s->origin;
	s->origin = origin;
	spin_unlock(&cr_agent_lock);
	cr_origin_put(old);
	return 0;
}

/* And an agent hears it. */
long cr_ioc_agent_origin(struct cr_session *s, struct cr_origin *a)
{
	struct cr_agent_state *ag = cr_agent_get(s);
	struct cr_origin_state *origin;
	u32 size = 1, room = a->len;
	long r = 0;

	if (IS_ERR(ag))
		return PTR_ERR(ag);
	spin_lock(&cr_agent_lock);
	origin = ag->origin;
	if (origin)
		kref_get(&origin->ref);
	a->requester = pid_vnr(ag->requester);
	spin_unlock(&cr_agent_lock);
	if (origin)
		size = strlen(origin->path) + 1;
	a->len = size;
	size = min(size, room);
	if (size > 1 && copy_to_user(u64_to_user_ptr(a->path), origin->path, size - 1))
		r = -EFAULT;
	else if (size && put_user('\0', (char __user *)u64_to_user_ptr(a->path) + size - 1))
		r = -EFAULT;
	cr_origin_put(origin);
	return r;
}
