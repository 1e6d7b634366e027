// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parking of one thread: it parks in a task work, on its way to user mode, before the
 * kernel decides whether to restart an interrupted system call. No signal is delivered and
 * ptrace is not used. While parked, the thread executes requests in its own context, until
 * a thaw.
 *
 *   cr_queue() ──> cr_park(): cr_arrive() ──> cr_wait_turn() <──> cr_serve()
 *                                 │                │                  │
 *                                 │            cr_depart()        to the stub, and back by
 *                                 └──────────> cr_depart()        the gate or cr_queue()
 *
 * The code in the target is hostile: a thread may arrive with another mm (after an exec),
 * from any system call, or never. A thread with another mm leaves unchanged.
 */
#include "internal.h"
#include <linux/file.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>

enum cr_way {
	CR_STAY,	/* stay parked */
	CR_STUB,	/* run the stub in user mode, still a member */
	CR_LEAVE,	/* restore the thread's state and leave */
	CR_AWAY,	/* killed, exiting, or exec'd: leave without changing the thread */
};

/* ------------------------------------------------------------------ requests */

/**
 * cr_request_init - initialise a request with one reference, the caller's
 * @req:     embedded in an object that holds all data of @op
 * @op:      the work of the parked thread
 * @release: frees the object
 */
void cr_request_init(struct cr_request *req,
		     int (*op)(struct cr_member *member, struct cr_request *req),
		     void (*release)(struct cr_request *req))
{
	kref_init(&req->ref);
	req->op = op;
	req->release = release;
	atomic_set(&req->pending, 0);
	req->error = 0;
	req->abandoned = false;
}

static void cr_request_free(struct kref *ref)
{
	struct cr_request *req = container_of(ref, struct cr_request, ref);

	req->release(req);
}

void cr_request_put(struct cr_request *req)
{
	kref_put(&req->ref, cr_request_free);
}

/* Long work polls this: true if it may stop, because the result is not needed any more. */
bool cr_request_abandoned(struct cr_request *req)
{
	return READ_ONCE(req->abandoned) || READ_ONCE(req->error);
}

static int cr_hand_over(struct cr_member *m, struct cr_request *req)
{
	struct cr_session *s = m->session;
	int r = -ESRCH;

	spin_lock(&s->lock);
	if (m->state == CR_PARKED && !m->req && !m->leave) {
		kref_get(&req->ref);
		atomic_inc(&req->pending);
		m->req = req;
		r = 0;
	}
	spin_unlock(&s->lock);
	if (!r)
		wake_up(&m->wake);
	return r;
}

static void cr_request_done(struct cr_session *s, struct cr_request *req, int r)
{
	if (r)
		cmpxchg(&req->error, 0, r);
	/* fully ordered: the waiter sees all writes of the work */
	if (atomic_dec_and_test(&req->pending))
		wake_up_all(&s->coord);
	cr_request_put(req);
}

static int cr_request_wait(struct cr_session *s, struct cr_request *req)
{
	if (wait_event_killable(s->coord, !atomic_read_acquire(&req->pending))) {
		WRITE_ONCE(req->abandoned, true);
		return -EINTR;
	}
	return req->error;
}

/**
 * cr_call - have one parked thread execute a request
 * @s: the session
 * @m: the member
 * @req: the request
 *
 * Return: the result of req->op. -ESRCH: the thread is not parked, or died. -EINTR: the
 * caller was killed. The thread may still execute the request, so the caller must not
 * access it, but only put it.
 */
int cr_call(struct cr_session *s, struct cr_member *m, struct cr_request *req)
{
	return cr_hand_over(m, req) ?: cr_request_wait(s, req);
}

/* current is a thread of the target, but not parked: it works on the request itself. */
static int cr_call_here(struct cr_session *s, struct cr_member *m, struct cr_request *req)
{
	int r = -ESRCH;

	spin_lock(&s->lock);
	if (!m->leave) {
		kref_get(&req->ref);
		atomic_inc(&req->pending);
		m->serving = req;
		r = 0;
	}
	spin_unlock(&s->lock);
	if (r)
		return r;
	r = req->op(m, req);
	spin_lock(&s->lock);
	m->serving = NULL;
	spin_unlock(&s->lock);
	cr_request_done(s, req, r);
	return cr_request_wait(s, req);
}

/* cr_call() for the requester if it is of the target, else any parked thread, the leader if possible. */
int cr_call_any(struct cr_session *s, struct cr_request *req)
{
	struct cr_member *m;
	int r = -ESRCH;

	lockdep_assert_held(&s->ioctl_lock);
	if (s->self)
		return cr_call_here(s, s->self, req);
	m = cr_any(s);
	if (m) {
		r = cr_call(s, m, req);
		cr_member_put(m);
	}
	return r;
}

/**
 * cr_pass_on - have other parked threads work on a request, too
 * @mine: current, a thread that works on it
 * @req: the request
 * @most: of how many threads
 */
void cr_pass_on(struct cr_member *mine, struct cr_request *req, unsigned int most)
{
	struct cr_member *m;
	unsigned long i;

	if (!most)
		return;
	cr_for_each_member(mine->session, i, m) {
		if (!cr_hand_over(m, req) && !--most) {
			cr_member_put(m);
			break;
		}
	}
}

/* --------------------------------------------------- in the target's context */

/* Unmap the session's arena from current, unless the target has mapped something else there. */
void cr_unmap_arena_here(struct cr_session *s)
{
	struct vm_area_struct *vma;
	unsigned long addr;
	struct file *file;
	bool ours;

	spin_lock(&s->lock);
	addr = s->keep_arena ? 0 : s->arena;
	s->arena = 0;
	file = s->arena_file;
	s->arena_file = NULL;
	spin_unlock(&s->lock);
	if (!file)
		return;
	mmap_read_lock(current->mm);
	vma = find_vma(current->mm, addr);
	ours = addr && vma && vma->vm_start == addr && vma->vm_file == file;
	mmap_read_unlock(current->mm);
	if (ours)
		vm_munmap(addr, CR_ARENA_SIZE);
	fput(file);
}

static bool cr_is_ours(struct cr_member *m)
{
	return current->mm == m->session->mm && !(current->flags & PF_EXITING);
}

/**
 * cr_adopt - make the thread that the latest call has created, if any, a member
 * @m: current, with a batch
 *
 * The creator calls this before it does anything else. So the session knows every thread
 * on the stub, also when it thaws meanwhile.
 */
void cr_adopt(struct cr_member *m)
{
	struct cr_member *child;
	struct task_struct *t;

	if (!m->batch->born)
		return;
	rcu_read_lock();
	t = pid_task(find_vpid(m->batch->born), PIDTYPE_PID);
	if (t && same_thread_group(t, current))
		get_task_struct(t);
	else
		t = NULL;
	rcu_read_unlock();
	m->batch->born = 0;
	if (!t)
		return;
	child = cr_member_adopt(m, t);
	if (child) {
		cr_queue(child);
		cr_member_put(child);
	}
	put_task_struct(t);
}

static void cr_look_at_call(struct cr_member *m)
{
	struct pt_regs *regs = task_pt_regs(current);

	if (m->batch) {
		cr_batch_parked(m->batch, regs);
		cr_adopt(m);
		/* CR_RUN_BLOCK: the thread resumes this call, so keep its restart block */
		if (m->batch->interrupted && m->batch->block)
			m->raw.restart = current->restart_block;
	} else if (!m->borrowed && !m->born) {
		cr_hide_eintr(regs);
	}
	cr_put_rseq_cs(m);
	if (m->roused)
		cr_note_rseq_cs(m);
	m->roused = false;
}

static enum cr_way cr_arrive(struct cr_member *m)
{
	struct cr_session *s = m->session;
	bool ours = cr_is_ours(m), all;
	struct cr_batch *batch;
	enum cr_way way = CR_STAY;

	if (ours)
		cr_look_at_call(m);
	batch = m->batch;
	m->batch = NULL;
	spin_lock(&s->lock);
	if (!ours)
		way = CR_AWAY;
	else if (m->leave)
		way = CR_LEAVE;
	/* not CR_QUEUED: the next freeze would wait for a thread that is leaving this one */
	m->state = way == CR_STAY ? CR_PARKED : CR_SERVING;
	if (way == CR_STAY && m->awaited) {
		m->awaited = false;
		s->nawaited--;
	}
	all = !s->nawaited;
	spin_unlock(&s->lock);
	cr_batch_put(batch);
	if (all)
		wake_up_all(&s->coord);
	return way;
}

static enum cr_way cr_serve(struct cr_member *m, struct cr_request *req)
{
	struct cr_session *s = m->session;
	enum cr_way way;
	int r;

	m->to_user = false;
	r = req->op(m, req);
	spin_lock(&s->lock);
	if (m->leave)
		way = CR_LEAVE;
	else
		way = m->to_user ? CR_STUB : CR_STAY;
	m->state = way == CR_STUB ? CR_RUNNING : CR_PARKED;
	m->serving = NULL;
	spin_unlock(&s->lock);
	cr_request_done(s, req, r);
	return way;
}

static enum cr_way cr_wait_turn(struct cr_member *m)
{
	struct cr_session *s = m->session;
	struct cr_request *req = NULL;
	enum cr_way way = CR_STAY;

	/*
	 * Not wait_event_state(), which lets the requester run that we have just woken: where it
	 * needs our processor it would wait for us to sleep, see cr_pin().
	 */
	if (!READ_ONCE(m->req) && !READ_ONCE(m->leave) &&
	    __wait_event_state(m->wake, READ_ONCE(m->req) || READ_ONCE(m->leave),
			       (TASK_KILLABLE | TASK_FREEZABLE)))
		return CR_AWAY;
	spin_lock(&s->lock);
	if (m->leave) {
		way = CR_LEAVE;
	} else if (m->req) {
		req = m->req;
		m->req = NULL;
		m->serving = req;
		m->state = CR_SERVING;
	}
	spin_unlock(&s->lock);
	return req ? cr_serve(m, req) : way;
}

/*
 * Leave the session: with the old state, to exit from the stub (@m is born), or unchanged.
 * The last thread unmaps the arena, unless a born thread still has to exit from the stub.
 */
static void cr_depart(struct cr_member *m, enum cr_way way)
{
	struct cr_session *s = m->session;
	struct cr_batch *batch = m->batch;
	bool kill, last, born = m->born;
	struct cr_request *req;
	unsigned long stub;

	spin_lock(&s->lock);
	m->state = CR_SERVING;	/* cr_pin() and cr_hand_over() fail from here on */
	req = m->req;
	m->req = NULL;
	kill = s->kill;
	stub = s->arena;
	if (way == CR_LEAVE && born && stub && !kill)
		s->keep_arena = true;
	last = m->leaving && s->nleaving == 1;
	if (m->leaving && !last) {
		m->leaving = false;
		s->nleaving--;
	}
	spin_unlock(&s->lock);
	m->batch = NULL;
	cr_batch_put(batch);
	if (req)
		cr_request_done(s, req, -ESRCH);
	/* our registers are on our stack: wait for cr_unpin(). Users of cr_pin() do not sleep. */
	wait_event(m->wake, !READ_ONCE(m->users));

	if (way == CR_LEAVE) {
		if (kill)
			send_sig(SIGKILL, current, 1);
		else if (born && stub)
			cr_load_exit(stub);
		else
			cr_give_back(m);
		if (last)
			cr_unmap_arena_here(s);
	}
	spin_lock(&s->lock);
	cr_member_gone(m);
	spin_unlock(&s->lock);
	wake_up_all(&s->coord);
}

/**
 * cr_leave_here() - end the part that current has in a session that is thawed, without having parked
 * @m: current
 */
void cr_leave_here(struct cr_member *m)
{
	cr_depart(m, CR_LEAVE);
}

void cr_park(struct callback_head *work)
{
	struct cr_member *m = container_of(work, struct cr_member, work);
	enum cr_way way = cr_arrive(m);

	while (way == CR_STAY)
		way = cr_wait_turn(m);
	if (way == CR_STUB)
		cr_sync_rseq();
	else
		cr_depart(m, way);
	cr_member_put(m);
	/* cr_exit() waits for the few instructions that follow */
	module_put(THIS_MODULE);
}

/* -------------------------------------------------------- the session's side */

static int cr_op_unmap(struct cr_member *m, struct cr_request *req)
{
	cr_unmap_arena_here(m->session);
	return 0;
}

static void cr_plain_release(struct cr_request *req)
{
	kfree(req);
}

/**
 * cr_arena_needed - does a thread need the arena?
 * @s: the session
 * @to_end: also count born threads, which exit from the stub; otherwise only threads that
 *	are in a call
 */
bool cr_arena_needed(struct cr_session *s, bool to_end)
{
	struct cr_member *m;
	unsigned long i;
	bool needed = false;

	spin_lock(&s->lock);
	xa_for_each(&s->members, i, m)
		needed |= m->state != CR_PARKED || (to_end && m->born);
	spin_unlock(&s->lock);
	return needed;
}

/*
 * Have a parked thread unmap the arena. If a thread still needs the arena, the last thread
 * that leaves unmaps it. 0 or -errno, as of cr_call().
 */
int cr_unmap_arena(struct cr_session *s)
{
	struct cr_request *req;
	int r;

	if (!READ_ONCE(s->arena_file) || cr_arena_needed(s, true))
		return 0;
	req = kmalloc(sizeof(*req), GFP_KERNEL_ACCOUNT);
	if (!req)
		return -ENOMEM;
	cr_request_init(req, cr_op_unmap, cr_plain_release);
	r = cr_call_any(s, req);
	cr_request_put(req);
	return r;
}

/**
 * cr_queue - have a running thread park
 * @m: a member; nothing happens unless its state is CR_RUNNING. The caller holds a reference
 *
 * The thread itself calls this at the gate, or the session does. Concurrent calls are safe.
 *
 * Return: 0: the thread will park, or is queued or parked already. -ESRCH: it is exiting.
 */
int cr_queue(struct cr_member *m)
{
	struct cr_session *s = m->session;

	spin_lock(&s->lock);
	if (m->state != CR_RUNNING) {
		spin_unlock(&s->lock);
		return 0;
	}
	m->state = CR_QUEUED;
	spin_unlock(&s->lock);

	cr_member_get(m);
	__module_get(THIS_MODULE);
	init_task_work(&m->work, cr_park);
	if (!task_work_add(m->task, &m->work, TWA_SIGNAL))
		return 0;
	spin_lock(&s->lock);
	cr_member_gone(m);
	spin_unlock(&s->lock);
	wake_up_all(&s->coord);
	cr_member_put(m);
	module_put(THIS_MODULE);
	return -ESRCH;
}

/* Will the thread never park, because it is exiting, gone or has another mm? */
bool cr_lost(struct cr_member *m)
{
	struct task_struct *t = m->task;

	return READ_ONCE(m->state) == CR_GONE || READ_ONCE(t->flags) & PF_EXITING ||
	       READ_ONCE(t->exit_state) || READ_ONCE(t->mm) != m->session->mm;
}

/* Is the whole process exiting? */
bool cr_is_dying(struct cr_session *s)
{
	return READ_ONCE(s->leader->signal->flags) & SIGNAL_GROUP_EXIT ||
	       fatal_signal_pending(s->leader);
}

/**
 * cr_wait_parked - wait until a thread that was sent to the stub is parked again
 * @m: the member
 * @timeout: in jiffies
 *
 * A thread that exits in a call wakes no waiter, so poll with growing intervals.
 *
 * Return: 0, -ETIMEDOUT, -EINTR (the caller was killed), -ESRCH (see cr_lost()) or
 * -ENOTCONN (the target was thawed meanwhile).
 */
int cr_wait_parked(struct cr_member *m, unsigned long timeout)
{
	struct cr_session *s = m->session;
	unsigned long end = jiffies + timeout, slice = 1;
	long r;

	for (;;) {
		r = wait_event_killable_timeout(s->coord, READ_ONCE(m->state) == CR_PARKED ||
						READ_ONCE(m->leave) || cr_lost(m), slice);
		if (r < 0)
			return -EINTR;
		if (READ_ONCE(m->leave))
			return -ENOTCONN;
		if (cr_lost(m)) {
			spin_lock(&s->lock);
			if (m->state == CR_RUNNING)
				cr_member_gone(m);
			spin_unlock(&s->lock);
			return -ESRCH;
		}
		if (READ_ONCE(m->state) == CR_PARKED) {
			/* taking the lock makes all writes before the park visible */
			spin_lock(&s->lock);
			spin_unlock(&s->lock);
			return 0;
		}
		if (time_after_eq(jiffies, end))
			return -ETIMEDOUT;
		slice = min3(slice * 2, (unsigned long)HZ / 4, end - jiffies);
	}
}

/**
 * cr_find - a parked thread by its tid in the caller's pid namespace
 * @s: the session
 * @vtid: its tid
 * @why: out: CR_WHY_THREAD and @vtid on failure; may be NULL
 *
 * Return: the member with a reference for the caller, or NULL.
 */
struct cr_member *cr_find(struct cr_session *s, pid_t vtid, struct cr_why *why)
{
	struct cr_member *m = NULL;
	struct task_struct *t;

	rcu_read_lock();
	t = pid_task(find_vpid(vtid), PIDTYPE_PID);
	if (t)
		m = cr_member_of(s, t);
	rcu_read_unlock();
	if (m && READ_ONCE(m->state) == CR_PARKED)
		return m;
	if (m)
		cr_member_put(m);
	if (why)
		cr_why(why, CR_WHY_THREAD, vtid);
	return NULL;
}

/* A parked thread, the leader if it is parked, with a reference; or NULL. */
struct cr_member *cr_any(struct cr_session *s)
{
	struct cr_member *m = cr_member_of(s, s->leader);
	unsigned long i;

	if (m && READ_ONCE(m->state) == CR_PARKED)
		return m;
	if (m)
		cr_member_put(m);
	cr_for_each_member(s, i, m)
		if (READ_ONCE(m->state) == CR_PARKED)
			return m;
	return NULL;
}

#define CR_NAP_US	20
#define CR_SHORT_NAPS	50	/* then it is one that waits for something else */

/**
 * cr_nap() - let another thread run that needs a processor for some microseconds, perhaps ours
 * @naps: how many there were; 0 at first
 *
 * A fatal signal ends it.
 */
void cr_nap(unsigned int *naps)
{
	ktime_t time = ns_to_ktime(CR_NAP_US * NSEC_PER_USEC);

	if ((*naps)++ >= CR_SHORT_NAPS) {
		schedule_timeout_killable(1);
		return;
	}
	set_current_state(TASK_KILLABLE);
	schedule_hrtimeout_range(&time, CR_NAP_US * NSEC_PER_USEC, HRTIMER_MODE_REL);
}

/**
 * cr_pin - keep a parked thread's registers valid until cr_unpin()
 * @m: the member
 *
 * The registers are on the thread's stack and in its task_struct, so the thread can neither
 * leave nor exit until cr_unpin(). The caller must not block between the two calls. Above
 * all it must not copy to or from user memory.
 *
 * Return: 0, -ESRCH when it is not parked, -EINTR when the caller was killed.
 */
int cr_pin(struct cr_member *m)
{
	struct cr_session *s = m->session;
	unsigned int spins = 0, naps = 0;
	int r = -ESRCH;

	spin_lock(&s->lock);
	if (m->state == CR_PARKED && !m->leave) {
		m->users++;
		r = 0;
	}
	spin_unlock(&s->lock);
	/* a task that can still run saves its FPU state at the switch, over what we write */
	while (!r && !cr_is_asleep(m->task)) {
		if (fatal_signal_pending(current)) {
			cr_unpin(m);
			r = -EINTR;
		} else if (task_cpu(m->task) == raw_smp_processor_id() || ++spins > 1000) {
			cr_nap(&naps);	/* it waits for our processor */
		} else {
			cpu_relax();
			cond_resched();
		}
	}
	return r;
}

void cr_unpin(struct cr_member *m)
{
	bool awaited;

	spin_lock(&m->session->lock);
	awaited = !--m->users && m->state != CR_PARKED;
	spin_unlock(&m->session->lock);
	/* do not wake a thread that is still parked: another user may have pinned it asleep */
	if (awaited)
		wake_up(&m->wake);
}
