// SPDX-License-Identifier: GPL-2.0-only
/*
 * CR_IOC_RUN: system calls made by a parked thread in user mode, with its own rights.
 */
#include "internal.h"
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#define CR_RUN_MS	10000
#define CR_RUN_MOST_MS	3600000

struct cr_run_request {
	struct cr_request req;
	struct cr_batch *batch;
};

static void cr_run_release(struct cr_request *req)
{
	struct cr_run_request *run = container_of(req, struct cr_run_request, req);

	cr_batch_put(run->batch);
	kfree(run);
}

/* Send the thread to the stub. */
static int cr_op_enter(struct cr_member *m, struct cr_request *req)
{
	struct cr_run_request *run = container_of(req, struct cr_run_request, req);

	cr_borrow(m);
	if (!cr_batch_load(run->batch))
		return 0;	/* all calls of the batch are forbidden */
	kref_get(&run->batch->ref);
	m->batch = run->batch;
	m->to_user = true;
	return 0;
}

/* Is the thread asleep in its call? */
static bool cr_is_blocked(struct cr_member *m)
{
	return READ_ONCE(m->task->__state) & TASK_INTERRUPTIBLE && cr_is_asleep(m->task);
}

/* CR_RUN_BLOCK: wait until the thread sleeps in the call or has returned; interrupt it. */
static int cr_block(struct cr_member *m, unsigned long end)
{
	unsigned int naps = 0;

	while (READ_ONCE(m->state) == CR_RUNNING && !cr_is_blocked(m)) {
		if (fatal_signal_pending(current))
			return -EINTR;
		if (time_after(jiffies, end) || cr_lost(m))
			return 0;
		cr_nap(&naps);
	}
	cr_queue(m);
	return 0;
}

/* Have the thread make the calls, and wait until it has parked again. */
static int cr_run_batch(struct cr_session *s, struct cr_member *m, struct cr_batch *batch,
			struct cr_run *a)
{
	unsigned long timeout = cr_timeout_jiffies(a->timeout_ms, CR_RUN_MS, CR_RUN_MOST_MS);
	struct cr_run_request *run = kmalloc(sizeof(*run), GFP_KERNEL_ACCOUNT);
	int r;

	if (!run)
		return -ENOMEM;
	kref_get(&batch->ref);
	run->batch = batch;
	cr_request_init(&run->req, cr_op_enter, cr_run_release);
	r = cr_call(s, m, &run->req);
	cr_request_put(&run->req);
	if (r == -ESRCH)	/* killed, or thawed, before it began */
		return cr_is_dying(s) ? -EINTR : -ENOTCONN;
	if (!r && a->flags & CR_RUN_BLOCK)
		r = cr_block(m, jiffies + timeout);
	if (!r)
		r = cr_wait_parked(m, timeout);
	if (r == -ETIMEDOUT) {	/* interrupt it, and wait another second for it to park */
		cr_blame(s, &a->why);
		cr_queue(m);
		if (!cr_wait_parked(m, HZ) && batch->done == batch->n)
			r = 0;	/* all calls were done */
	}
	if (!r && batch->cloned)
		r = cr_wait_born(s, timeout);
	return r;
}

/* Copy the results of the batch to the caller. */
static long cr_tell_results(struct cr_run *a, struct cr_batch *batch)
{
	if (copy_to_user(u64_to_user_ptr(a->calls), batch->calls, batch->n * sizeof(struct cr_call)))
		return -EFAULT;
	a->done = batch->done;
	if (batch->interrupted)
		a->ret = batch->code;
	else if (batch->done)
		a->ret = batch->calls[batch->done - 1].ret;
	return batch->error;
}

/**
 * cr_ioc_run - have a parked thread make system calls
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * Return: 0. -EINVAL, -EFAULT, -ENOMEM; -EDQUOT: the batch may create more threads than the
 * user may hold, and no call was made; -ESRCH: no such parked thread; -ENOTCONN: no arena,
 * or thawed meanwhile; -ETIMEDOUT: a call did not return in time, and the thread parks when
 * it does; -EINTR: the target or the caller was killed; -EIO: the thread ran other code
 * than the stub.
 */
long cr_ioc_run(struct cr_session *s, struct cr_run *a)
{
	unsigned long stub = READ_ONCE(s->arena);
	struct cr_batch *batch;
	struct cr_member *m;
	void *calls;
	long r;

	if (a->flags & ~CR_RUN_BLOCK || !a->ncalls || a->ncalls > CR_MAX_CALLS ||
	    (a->flags & CR_RUN_BLOCK && a->ncalls != 1))
		return -EINVAL;
	if (!stub)
		return -ENOTCONN;
	calls = vmemdup_user(u64_to_user_ptr(a->calls), a->ncalls * sizeof(struct cr_call));
	if (IS_ERR(calls))
		return PTR_ERR(calls);
	batch = cr_batch_new(calls, a->ncalls, stub, s->pages);
	if (!batch) {
		kvfree(calls);
		return -ENOMEM;
	}
	batch->block = a->flags & CR_RUN_BLOCK;
	r = -ESRCH;
	m = cr_find(s, a->tid, &a->why);
	if (!m)
		goto out;
	r = cr_member_reserve(m, cr_batch_clones(batch));
	if (r)
		goto put;
	r = cr_run_batch(s, m, batch, a);
	if (r == -ESRCH) {	/* the thread has called exit, or was killed */
		struct cr_member *other = cr_any(s);

		a->gone = 1;
		r = other && !cr_is_dying(s) ? 0 : -EINTR;
		if (other)
			cr_member_put(other);
	}
	/* after an error the thread may still be in a call and write results: do not copy */
	if (!r) {
		cr_member_unreserve(m);
		r = cr_tell_results(a, batch);
	}
put:
	cr_member_put(m);
out:
	cr_batch_put(batch);
	return r;
}
