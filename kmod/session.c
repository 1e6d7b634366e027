// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lifetimes of sessions and members, and their number per user.
 *
 *   file ──> session <── member <── thread (while it is queued, parked or borrowed)
 *               ^
 *               ├── armed timers
 *               └── the arena's file, which the target has mapped
 *
 * Every arrow is a counted reference. Code uses an object only while it holds a reference,
 * and never takes a reference when the count is 0: a closed file stays closed.
 */
#include "internal.h"
#include <linux/capability.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

/* A private queue: the names of the kernel's system workqueues differ between versions. */
struct workqueue_struct *cr_workqueue;

static struct kmem_cache *cr_member_cache, *cr_session_cache;

/* ------------------------------------------------------------------ sessions */

/**
 * cr_session_new - a session of the current process, with one reference
 *
 * Return: the session, or -ENOMEM or -EDQUOT as an error pointer.
 */
struct cr_session *cr_session_new(void)
{
	struct cr_session *s = kmem_cache_zalloc(cr_session_cache, GFP_KERNEL_ACCOUNT);

	if (!s)
		return ERR_PTR(-ENOMEM);
	s->account = cr_account_mine();
	if (!s->account) {
		kmem_cache_free(cr_session_cache, s);
		return ERR_PTR(-ENOMEM);
	}
	if (!cr_account_charge(s->account, CR_ACCOUNT_SESSIONS, 1, capable(CAP_SYS_RESOURCE))) {
		cr_account_put(s->account);
		kmem_cache_free(cr_session_cache, s);
		return ERR_PTR(-EDQUOT);
	}
	kref_init(&s->ref);
	s->owner = get_pid(task_tgid(current));
	mutex_init(&s->ioctl_lock);
	spin_lock_init(&s->lock);
	xa_init(&s->members);
	INIT_LIST_HEAD(&s->claim);
	init_waitqueue_head(&s->coord);
	return s;
}

void cr_arena_pages_free(struct cr_arena_pages *pages)
{
	int i;

	if (!pages)
		return;
	for (i = 0; i < CR_ARENA_DATA; i++)
		if (pages->data[i])
			put_page(pages->data[i]);
	if (pages->code)
		put_page(pages->code);
	kfree(pages);
}

static void cr_session_free(struct kref *ref)
{
	struct cr_session *s = container_of(ref, struct cr_session, ref);

	WARN_ON_ONCE(s->stage != CR_THAWED || !xa_empty(&s->members) || s->arena_file || s->snap);
	xa_destroy(&s->members);
	cr_arena_pages_free(s->pages);
	if (s->mm)
		mmdrop(s->mm);
	if (s->leader)
		put_task_struct(s->leader);
	put_pid(s->owner);
	cr_account_uncharge(s->account, CR_ACCOUNT_SESSIONS, 1);
	cr_account_put(s->account);
	kmem_cache_free(cr_session_cache, s);
}

void cr_session_get(struct cr_session *s)
{
	kref_get(&s->ref);
}

void cr_session_put(struct cr_session *s)
{
	kref_put(&s->ref, cr_session_free);
}

/* ------------------------------------------------------------------- members */

static void cr_member_free(struct kref *ref)
{
	struct cr_member *m = container_of(ref, struct cr_member, ref);
	struct cr_session *s = m->session;

	WARN_ON_ONCE(m->req || m->users);
	cr_batch_put(m->batch);		/* the thread exited in a call */
	cr_member_unreserve(m);
	if (m->task)
		put_task_struct(m->task);
	cr_account_uncharge(s->account, CR_ACCOUNT_THREADS, 1);
	kmem_cache_free(cr_member_cache, m);
	cr_session_put(s);
}

void cr_member_get(struct cr_member *m)
{
	kref_get(&m->ref);
}

void cr_member_put(struct cr_member *m)
{
	kref_put(&m->ref, cr_member_free);
}

/* Allocate a member that does not belong to a thread yet. */
static struct cr_member *cr_member_alloc(struct cr_session *s)
{
	struct cr_member *m;

	if (!cr_account_charge(s->account, CR_ACCOUNT_THREADS, 1, capable(CAP_SYS_RESOURCE)))
		return ERR_PTR(-EDQUOT);
	m = kmem_cache_zalloc(cr_member_cache, GFP_KERNEL_ACCOUNT);
	if (!m) {
		cr_account_uncharge(s->account, CR_ACCOUNT_THREADS, 1);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&m->ref);
	cr_session_get(s);
	m->session = s;
	m->state = CR_RUNNING;
	init_waitqueue_head(&m->wake);
	return m;
}

/**
 * cr_member_reserve - allocate members for the threads that a thread is about to create
 * @m: the parked thread; the caller holds the ioctl_lock
 * @n: number of threads
 *
 * The allocation and the ceiling are checked here, because a thread that exists already
 * must become a member without failing.
 *
 * Return: 0, -ENOMEM, -EDQUOT.
 */
int cr_member_reserve(struct cr_member *m, unsigned int n)
{
	struct cr_member *spare;

	lockdep_assert_held(&m->session->ioctl_lock);
	cr_member_unreserve(m);
	while (n--) {
		spare = cr_member_alloc(m->session);
		if (IS_ERR(spare)) {
			cr_member_unreserve(m);
			return PTR_ERR(spare);
		}
		spare->spares = m->spares;
		m->spares = spare;
	}
	return 0;
}

static struct cr_member *cr_member_take_spare(struct cr_member *m)
{
	struct cr_member *spare = m->spares;

	if (spare) {
		m->spares = spare->spares;
		spare->spares = NULL;
	}
	return spare;
}

/* The caller owns the second block of fields, see struct cr_member. */
void cr_member_unreserve(struct cr_member *m)
{
	struct cr_member *spare;

	while ((spare = cr_member_take_spare(m)))
		cr_member_put(spare);
}

/**
 * cr_member_of - find the member of a thread
 * @s: the session
 * @t: the thread
 *
 * Return: the member with a reference for the caller, or NULL.
 */
struct cr_member *cr_member_of(struct cr_session *s, struct task_struct *t)
{
	struct cr_member *m;

	spin_lock(&s->lock);
	m = xa_load(&s->members, t->pid);
	if (m && m->task == t)
		cr_member_get(m);
	else
		m = NULL;
	spin_unlock(&s->lock);
	return m;
}

/* Add the new member @m of thread @t to the index. 0: the caller has one more reference. */
static int cr_member_enter(struct cr_member *m, struct task_struct *t, bool born, gfp_t gfp)
{
	struct cr_session *s = m->session;
	int r;

	m->task = get_task_struct(t);
	m->tid = READ_ONCE(t->pid);	/* read once: an exec gives a thread the tid of its leader */
	m->born = born;
	r = xa_reserve(&s->members, m->tid, gfp);
	if (r)
		return r;
	spin_lock(&s->lock);
	if (xa_load(&s->members, m->tid))
		r = -EEXIST;
	else if (s->stage == CR_THAWED || (s->stage == CR_THAWING && !born))
		r = -ENOTCONN;
	else
		/* the slot is reserved: no allocation, unless another store has used it up */
		r = xa_err(xa_store(&s->members, m->tid, m, GFP_NOWAIT | __GFP_NOWARN));
	if (!r)
		cr_member_get(m);
	if (!r && s->stage == CR_THAWING) {
		/* the thaw is still in progress: the creator of this thread has not left yet */
		m->leave = true;
		m->leaving = true;
		s->nleaving++;
	}
	spin_unlock(&s->lock);
	if (r && r != -EEXIST)
		xa_release(&s->members, m->tid);
	return r;
}

/**
 * cr_member_add - make a thread a member, in state CR_RUNNING
 * @s:    a session that is freezing or frozen
 * @t:    the thread
 * @born: a call of the session created it; the session may be thawing already
 *
 * Return: the member with a reference for the caller. -EEXIST: the thread is a member
 * already. -ENOMEM, -EDQUOT; -ENOTCONN: the session thaws.
 */
struct cr_member *cr_member_add(struct cr_session *s, struct task_struct *t, bool born)
{
	struct cr_member *m = cr_member_alloc(s);
	int r;

	if (IS_ERR(m))
		return m;
	r = cr_member_enter(m, t, born, GFP_KERNEL_ACCOUNT);
	if (!r)
		return m;
	cr_member_put(m);
	return ERR_PTR(r);
}

/**
 * cr_member_adopt - make a thread that a member has created a member
 * @m: the creator, current, with reserved members
 * @t: the new thread
 *
 * Return: the new member with a reference for the caller. NULL: @t is a member already, or
 * @m has no reserved member, as when the session's batch did not create the thread.
 */
struct cr_member *cr_member_adopt(struct cr_member *m, struct task_struct *t)
{
	struct cr_member *spare = cr_member_take_spare(m);

	/* the thread exists already, so the allocation must not fail */
	if (spare && cr_member_enter(spare, t, true, GFP_KERNEL_ACCOUNT | __GFP_NOFAIL)) {
		cr_member_put(spare);
		spare = NULL;
	}
	return spare;
}

/* See cr_for_each_member(). */
struct cr_member *cr_member_next(struct cr_session *s, struct cr_member *last,
				 unsigned long *index)
{
	struct cr_member *m;

	spin_lock(&s->lock);
	m = last ? xa_find_after(&s->members, index, ULONG_MAX, XA_PRESENT) :
		   xa_find(&s->members, index, ULONG_MAX, XA_PRESENT);
	if (m)
		cr_member_get(m);
	spin_unlock(&s->lock);
	if (last)
		cr_member_put(last);
	return m;
}

/* ------------------------------------------------------- who holds which process */

/* Protects the list of sessions that hold a process. One session at a time holds a process. */
static DEFINE_SPINLOCK(cr_claims_lock);
static LIST_HEAD(cr_claims);
static DECLARE_WAIT_QUEUE_HEAD(cr_claims_wait);

/* 1: claimed. 0: the current holder is thawing, try again. -EBUSY: it is not. */
static int cr_try_claim(struct cr_session *s, struct cr_why *why)
{
	struct cr_session *other;
	int r = 1;

	spin_lock(&cr_claims_lock);
	list_for_each_entry(other, &cr_claims, claim) {
		if (other->mm != s->mm)
			continue;
		/* a session in the list exists: it leaves the list under the lock */
		cr_why(why, CR_WHY_BUSY, pid_vnr(other->owner));
		r = READ_ONCE(other->stage) == CR_THAWING ? 0 : -EBUSY;
		break;
	}
	if (r == 1)
		list_add(&s->claim, &cr_claims);
	spin_unlock(&cr_claims_lock);
	return r;
}

/**
 * cr_claim - claim the target for this session
 * @s: the session
 * @end: jiffies until which to wait for a holder that is thawing
 * @why: out: CR_WHY_BUSY and the owner of the session that holds the target
 *
 * Return: 0, -EBUSY, -EINTR.
 */
int cr_claim(struct cr_session *s, unsigned long end, struct cr_why *why)
{
	long left = max_t(long, end - jiffies, 1);
	int r = 0;

	/* a successful claim always ends the wait with left > 0: an error means no claim */
	left = wait_event_killable_timeout(cr_claims_wait, (r = cr_try_claim(s, why)), left);
	if (left < 0)
		return -EINTR;
	return r == 1 ? 0 : -EBUSY;
}

void cr_unclaim(struct cr_session *s)
{
	spin_lock(&cr_claims_lock);
	list_del_init(&s->claim);
	spin_unlock(&cr_claims_lock);
	wake_up_all(&cr_claims_wait);
}

/* The last member has left after a thaw. Caller holds session->lock. */
void cr_thaw_end(struct cr_session *s)
{
	lockdep_assert_held(&s->lock);
	s->kill = false;
	s->keep_arena = false;
	s->arena = 0;
	if (s->arena_file)
		fput(s->arena_file);
	s->arena_file = NULL;
	cr_unclaim(s);
	/* last: after this store any session, also this one, may claim the process again */
	WRITE_ONCE(s->stage, CR_THAWED);
}

/**
 * cr_member_gone - set the state CR_GONE and remove the member from the index
 * @m: the member
 *
 * Caller holds session->lock and its own reference.
 */
void cr_member_gone(struct cr_member *m)
{
	struct cr_session *s = m->session;

	lockdep_assert_held(&s->lock);
	if (m->state == CR_GONE)
		return;
	m->state = CR_GONE;
	if (m->awaited) {
		m->awaited = false;
		s->nawaited--;
	}
	if (m->leaving) {
		m->leaving = false;
		if (!--s->nleaving && s->stage == CR_THAWING)
			cr_thaw_end(s);
	}
	if (xa_load(&s->members, m->tid) == m) {
		xa_erase(&s->members, m->tid);
		cr_member_put(m);	/* the reference of the index; the caller has another */
	}
}

long cr_put_array(struct cr_array *a, const void *elems, u64 count, size_t size)
{
	u64 room = a->count;

	a->count = count;
	if (count > room)
		return -ENOBUFS;
	if (count && copy_to_user(u64_to_user_ptr(a->buf), elems, count * size))
		return -EFAULT;
	return 0;
}

int cr_lives_init(void)
{
	cr_session_cache = KMEM_CACHE(cr_session, SLAB_ACCOUNT);
	cr_member_cache = KMEM_CACHE(cr_member, SLAB_ACCOUNT);
	cr_workqueue = alloc_workqueue("cr", WQ_UNBOUND, 0);
	if (cr_session_cache && cr_member_cache && cr_workqueue)
		return 0;
	cr_lives_exit();
	return -ENOMEM;
}

void cr_lives_exit(void)
{
	if (cr_workqueue)
		destroy_workqueue(cr_workqueue);
	kmem_cache_destroy(cr_member_cache);
	kmem_cache_destroy(cr_session_cache);
}
