// SPDX-License-Identifier: GPL-2.0-only
/*
 * A rollback that a thread of the target asks for itself, by an inherited descriptor of the
 * session. It is the ioctl's requester and works on the requests, too: it need not be parked, and
 * a process of one thread is rolled back without a switch to another one.
 *
 * For the session it is a member in state CR_SERVING, as a parked thread that works on a request.
 * It may never wait for something that waits until it is parked: another session's freeze, or a
 * thread that waits for ioctl_lock to freeze.
 */
#include "internal.h"

/* Is current a thread of the target? The session is attached. */
bool cr_is_of_target(struct cr_session *s)
{
	return current->mm == s->mm && same_thread_group(current, s->leader);
}

/**
 * cr_self_enter() - take part in a freeze as its requester
 * @s: the session, freezing; current is of the target
 *
 * Return: 0: ends with cr_self_leave(). -EINTR: an earlier freeze, or a thaw, waits for current.
 * -ENOMEM, -EDQUOT, -ENOTCONN.
 */
int cr_self_enter(struct cr_session *s)
{
	struct cr_member *m;
	int r = -EINTR;

	lockdep_assert_held(&s->ioctl_lock);
	m = cr_member_add(s, current, false);
	if (IS_ERR(m))
		return PTR_ERR(m) == -EEXIST ? -EINTR : PTR_ERR(m);
	spin_lock(&s->lock);
	/* else it is thawed already, and a task work of current ends the member */
	if (m->state == CR_RUNNING && !m->leave) {
		m->state = CR_SERVING;
		r = 0;
	}
	spin_unlock(&s->lock);
	if (r)
		cr_member_put(m);
	else
		s->self = m;
	return r;
}

/**
 * cr_self_leave() - end it, if there was a cr_self_enter()
 * @s: the session, which has been thawed
 *
 * Kills current if the target is half restored.
 */
void cr_self_leave(struct cr_session *s)
{
	struct cr_member *m = s->self;

	lockdep_assert_held(&s->ioctl_lock);
	if (!m)
		return;
	s->self = NULL;
	cr_leave_here(m);
	cr_member_put(m);
}
