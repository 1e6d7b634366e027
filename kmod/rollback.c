// SPDX-License-Identifier: GPL-2.0-only
/*
 * Roll a process back to the session's snapshot in one call, if nothing has changed but its
 * pages, registers and signal masks, and what it has more than before. All else is left to the
 * caller, who restores what differs by the other ioctls.
 */
#include "grown.h"
#include "restore.h"
#include <linux/sched/mm.h>

/* The counter as it is in the target's memory. */
struct cr_counter_there {
	u64 value;
	u8 tag[sizeof_field(struct cr_counter, tag)];
};

/* Find the counter's next value. Return: false if it is not there. */
static bool cr_next_count(struct cr_session *s, struct cr_counter *counter)
{
	struct cr_counter_there now;

	if (!counter->addr)
		return true;
	if (access_process_vm(s->leader, counter->addr, &now, sizeof(now), 0) != sizeof(now) ||
	    memcmp(now.tag, counter->tag, sizeof(now.tag)))
		return false;
	counter->value = max(counter->value, now.value);
	return counter->value++ < S64_MAX;
}

static int cr_count(struct cr_session *s, const struct cr_counter *counter)
{
	struct cr_counter_there next = { .value = counter->value };

	if (!counter->addr)
		return 0;
	memcpy(next.tag, counter->tag, sizeof(next.tag));
	return access_process_vm(s->leader, counter->addr, &next, sizeof(next), FOLL_WRITE) ==
	       sizeof(next) ? 0 : -EFAULT;
}

/* Is the state what the caller's digests say? 1, 0, or -errno. */
static int cr_same_state(struct cr_session *s, const u64 *area, struct cr_grown *grown)
{
	struct cr_array guards = { };
	struct cr_digest now;
	int i, r;

	r = cr_digest_since(s, &now, grown);
	if (r)
		return r;
	for (i = 0; i < CR_AREAS; i++)
		if (!now.area[i] || now.area[i] != area[i])
			return 0;
	r = cr_ioc_guards(s, &guards);
	if (r == -ENOBUFS)
		return 0;
	return r ? r : 1;
}

/* The target is frozen; its memory is held. */
static int cr_rollback_frozen(struct cr_session *s, struct cr_rollback *a, struct cr_job *pages,
			      struct cr_grown *grown)
{
	int r = cr_same_state(s, a->area, grown);

	if (r < 0)
		return r;
	if (!r || !cr_next_count(s, &a->counter)) {
		a->result = CR_ROLLBACK_DIFFERS;
		return 0;
	}
	r = cr_restore_hold(pages, s);
	if (!r)
		r = cr_commit(s);
	if (r)
		return r;
	a->result = CR_ROLLBACK_BROKEN;
	r = cr_grown_undo(grown, s);
	if (!r)
		r = cr_restore_run(pages, s, &a->pages);
	if (!r)
		r = cr_count(s, &a->counter);
	if (!r)
		r = cr_ioc_set_threads(s, &a->threads);
	if (!r)
		a->result = CR_ROLLBACK_DONE;
	return r;
}

/*
 * The memory is held only while the target is frozen: a freeze may wait for long, and an exiting
 * process shall not keep its memory so long.
 */
static long cr_rollback(struct cr_session *s, struct cr_rollback *a, struct cr_job *pages,
			struct cr_grown *grown)
{
	struct cr_thaw thaw = { };
	long r = cr_ioc_freeze(s, &a->freeze);

	if (r)
		return r;
	r = -ESRCH;
	if (mmget_not_zero(s->mm)) {
		r = cr_rollback_frozen(s, a, pages, grown);
		mmput(s->mm);
	}
	if (a->result == CR_ROLLBACK_NONE || a->result == CR_ROLLBACK_DONE) {
		cr_ioc_thaw(s, &thaw);
		a->frozen_ns = thaw.frozen_ns;
	}
	return r;
}

/**
 * cr_ioc_rollback() - CR_IOC_ROLLBACK
 * @s: the session
 * @a: its argument
 *
 * Return: 0 or -errno, with a->result.
 */
long cr_ioc_rollback(struct cr_session *s, struct cr_rollback *a)
{
	struct cr_grown *grown;
	struct cr_job *pages;
	long r;

	a->result = CR_ROLLBACK_NONE;
	if (a->reserved || a->pages.source_fd >= 0 || a->pages.flags & CR_RESTORE_DIRTY ||
	    !cr_set_threads_ok(&a->threads) || cr_is_frozen(s))
		return -EINVAL;
	pages = cr_restore_prepare(&a->pages);
	if (IS_ERR(pages))
		return PTR_ERR(pages);
	grown = cr_grown_prepare(a);
	r = PTR_ERR_OR_ZERO(grown);
	if (!r) {
		r = cr_rollback(s, a, pages, grown);
		cr_request_put(&grown->req);
	}
	cr_request_put(&pages->req);
	return r;
}
