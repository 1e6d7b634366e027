// SPDX-License-Identifier: GPL-2.0-only
/*
 * Roll a process back to the session's snapshot in one call, if nothing has changed but its
 * pages, registers and signal masks, and what it has more than before. All else is left to the
 * caller, who restores what differs by the other ioctls.
 */
#include "digest.h"
#include "restore.h"
#include <linux/sched/mm.h>
#include <linux/slab.h>

/**
 * struct cr_rewind - the part of a rollback that parked threads do
 * @pages: the job for the pages; its request is that of the whole part
 * @digest: what the state is now
 * @grown: what there is more than at the snapshot
 * @area: the digests of the snapshot
 * @counter: the counter; out: its next value
 * @threads: registers and signal masks of the snapshot
 * @committed: out: the state was the same, and the target has begun to change
 */
struct cr_rewind {
	struct cr_job pages;
	struct cr_digester digest;
	struct cr_grown grown;
	u64 area[CR_AREAS];
	struct cr_counter counter;
	struct cr_saved_threads *threads;
	bool committed;
};

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

/* Is the state that of the snapshot? 1, 0, or -errno. */
static int cr_same_state(struct cr_member *m, struct cr_rewind *rewind)
{
	struct cr_array guards = { };
	int i, r;

	r = cr_digest_here(m, &rewind->digest);
	if (r)
		return r;
	for (i = 0; i < CR_AREAS; i++)
		if (!rewind->area[i] || rewind->digest.area[i] != rewind->area[i])
			return 0;
	r = cr_ioc_guards(m->session, &guards);
	if (r == -ENOBUFS)
		return 0;
	return r ? r : cr_next_count(m->session, &rewind->counter);
}

/* The first thread has others help with the pages, once the target is committed. */
static int cr_op_rewind(struct cr_member *m, struct cr_request *req)
{
	struct cr_rewind *rewind = container_of(req, struct cr_rewind, pages.req);
	int r;

	if (!rewind->committed) {
		r = cr_same_state(m, rewind);
		if (r <= 0)
			return r;
		r = cr_commit(m->session);
		if (r)
			return r;
		rewind->committed = true;
		r = cr_grown_undo(&rewind->grown);
		if (r)
			return r;
		cr_restore_begin(&rewind->pages, m->session);
	}
	return cr_restore_work(m, &rewind->pages);
}

static void cr_rewind_release(struct cr_request *req)
{
	struct cr_rewind *rewind = container_of(req, struct cr_rewind, pages.req);

	cr_restore_free(&rewind->pages);
	cr_grown_free(&rewind->grown);
	cr_digest_free(&rewind->digest);
	if (rewind->threads)
		cr_free_threads(rewind->threads);
	kfree(rewind);
}

/* Hold what is needed after the commit, so that it cannot fail there. */
static int cr_rewind_hold(struct cr_session *s, struct cr_rewind *rewind,
			  const struct cr_set_threads *a)
{
	struct cr_saved_threads *threads;
	int r = cr_restore_hold(&rewind->pages, s);

	if (r)
		return r;
	threads = cr_take_threads(s, a);
	if (IS_ERR(threads))
		return PTR_ERR(threads);
	rewind->threads = threads;
	return 0;
}

/* The target is frozen; its memory is held. */
static int cr_rollback_frozen(struct cr_session *s, struct cr_rollback *a, struct cr_rewind *rewind)
{
	int r = cr_rewind_hold(s, rewind, &a->threads);

	if (r == -ESRCH) {	/* threads have ended */
		a->result = CR_ROLLBACK_DIFFERS;
		return 0;
	}
	if (r)
		return r;
	r = cr_call_any(s, &rewind->pages.req);
	if (r == -EINTR && fatal_signal_pending(current)) {
		/* the thread may still be working: how far it is, is known under the lock only */
		a->result = CR_ROLLBACK_BROKEN;
		cr_thaw_begin(s, CR_THAW_BY_STAGE);
		return cr_restore_end(&rewind->pages, s, &a->pages, r);
	}
	if (!rewind->committed) {
		if (!r)
			a->result = CR_ROLLBACK_DIFFERS;
		return r;
	}
	a->result = CR_ROLLBACK_BROKEN;
	r = cr_restore_end(&rewind->pages, s, &a->pages, r);
	if (!r)
		r = cr_count(s, &rewind->counter);
	if (!r)
		r = cr_put_threads(s, rewind->threads, &a->threads);
	if (!r)
		a->result = CR_ROLLBACK_DONE;
	return r;
}

/*
 * The memory is held only while the target is frozen: a freeze may wait for long, and an exiting
 * process shall not keep its memory so long.
 */
static long cr_rollback(struct cr_session *s, struct cr_rollback *a, struct cr_rewind *rewind)
{
	struct cr_thaw thaw = { };
	long r = cr_freeze(s, &a->freeze);

	if (r)
		return r;
	r = -ESRCH;
	if (mmget_not_zero(s->mm)) {
		r = cr_rollback_frozen(s, a, rewind);
		mmput(s->mm);
	}
	if (a->result == CR_ROLLBACK_NONE || a->result == CR_ROLLBACK_DONE) {
		cr_ioc_thaw(s, &thaw);
		a->frozen_ns = thaw.frozen_ns;
	} else if (s->self) {	/* it cannot go on while it is frozen */
		cr_thaw_begin(s, CR_THAW_BY_STAGE);
	}
	cr_self_leave(s);
	return r;
}

static int cr_rewind_init(struct cr_rewind *rewind, struct cr_session *s, const struct cr_rollback *a)
{
	int r;

	cr_digest_init(&rewind->digest, s, &rewind->pages.req);
	rewind->digest.grown = &rewind->grown;
	memcpy(rewind->area, a->area, sizeof(rewind->area));
	rewind->counter = a->counter;
	r = cr_restore_init(&rewind->pages, &a->pages);
	return r ? r : cr_grown_init(&rewind->grown, a);
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
	struct cr_rewind *rewind;
	long r;

	a->result = CR_ROLLBACK_NONE;
	if (a->reserved || a->pages.source_fd >= 0 || a->pages.flags & CR_RESTORE_DIRTY ||
	    !cr_set_threads_ok(&a->threads) || cr_is_frozen(s))
		return -EINVAL;
	rewind = kzalloc(sizeof(*rewind), GFP_KERNEL_ACCOUNT);
	if (!rewind)
		return -ENOMEM;
	cr_request_init(&rewind->pages.req, cr_op_rewind, cr_rewind_release);
	r = cr_rewind_init(rewind, s, a);
	if (!r)
		r = cr_rollback(s, a, rewind);
	a->counter.value = rewind->counter.value;
	cr_request_put(&rewind->pages.req);
	return r;
}
