// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parking of one thread by a lease. The thread parks in a task work of its own, on its way
 * to user mode, and only waits there until the lease runs again. It needs no session and
 * nothing of its memory, so every user thread can be parked: also one that is traced,
 * confined by seccomp, or 32-bit. A thread that several leases or a session have queued does
 * one work after the other, and comes to user mode when the last one lets it.
 */
#include "lease_state.h"
#include <linux/hashtable.h>
#include <linux/module.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>

/* Protects the index, and all leases' stages and lists. No code sleeps under it. */
DEFINE_SPINLOCK(cr_lease_lock);

/* By key alone, because a session asks for a thread whichever lease it is parked by. */
static DEFINE_HASHTABLE(cr_kin_by_key, 12);

/**
 * cr_kin_alloc - allocate an entry for a process or thread of the lease
 * @l: the lease
 * @gfp: GFP_KERNEL, or GFP_ATOMIC
 *
 * The ceiling of max_threads limits them, not the memory cgroup: a lease must also hold
 * processes whose cgroup is full. An entry is small compared with the task that it is for.
 *
 * Return: the entry, or NULL.
 */
struct cr_kin *cr_kin_alloc(struct cr_lease_state *l, gfp_t gfp)
{
	struct cr_kin *k;

	if (!cr_account_charge(l->account, CR_ACCOUNT_THREADS, 1, l->unlimited))
		return NULL;
	k = kzalloc(sizeof(*k), gfp | __GFP_NOWARN);
	if (!k) {
		cr_account_uncharge(l->account, CR_ACCOUNT_THREADS, 1);
		return NULL;
	}
	INIT_HLIST_NODE(&k->hash);
	INIT_LIST_HEAD(&k->node);
	k->lease = l;
	return k;
}

/* The caller has put what the key refers to, and holds a reference to the lease. */
void cr_kin_free(struct cr_kin *k)
{
	cr_account_uncharge(k->lease->account, CR_ACCOUNT_THREADS, 1);
	kfree(k);
}

/* The entry of @key in the lease @l. Caller holds cr_lease_lock. */
struct cr_kin *cr_kin_find(const struct cr_lease_state *l, const void *key)
{
	struct cr_kin *k;

	lockdep_assert_held(&cr_lease_lock);
	hash_for_each_possible(cr_kin_by_key, k, hash, (unsigned long)key)
		if (k->key == key && k->lease == l)
			return k;
	return NULL;
}

/* Caller holds cr_lease_lock and gives its reference to @key. */
void cr_kin_index(struct cr_kin *k, const void *key)
{
	lockdep_assert_held(&cr_lease_lock);
	k->key = key;
	hash_add(cr_kin_by_key, &k->hash, (unsigned long)key);
}

/**
 * cr_lease_parks - is a thread parked by a lease that has expired?
 * @t: the thread
 */
bool cr_lease_parks(struct task_struct *t)
{
	struct cr_kin *k;
	bool parked = false;

	spin_lock(&cr_lease_lock);
	hash_for_each_possible(cr_kin_by_key, k, hash, (unsigned long)t)
		parked |= k->key == t && k->parked && cr_lease_holds(k->lease);
	spin_unlock(&cr_lease_lock);
	return parked;
}

/* May the thread leave? If so, its entry is not in the index any more. */
static bool cr_leave(struct cr_kin *k, bool must)
{
	struct cr_lease_state *l = k->lease;
	bool leaves;

	spin_lock(&cr_lease_lock);
	/* under the lock: a scan after the next expiry finds the thread either here or running */
	leaves = must || !cr_lease_holds(l);
	if (leaves) {
		hash_del(&k->hash);
		l->awaited -= !k->parked;
	} else if (!k->parked) {
		k->parked = true;
		l->awaited--;
	}
	spin_unlock(&cr_lease_lock);
	return leaves;
}

static void cr_lodger(struct callback_head *work)
{
	struct cr_kin *k = container_of(work, struct cr_kin, work);
	struct cr_lease_state *l = k->lease;
	bool ends = current->flags & PF_EXITING;

	if (!ends)
		cr_hide_eintr(task_pt_regs(current));
	while (!cr_leave(k, ends))
		ends = wait_event_state(l->wake, !cr_lease_holds(l),
					(TASK_KILLABLE | TASK_FREEZABLE));
	put_task_struct(current);
	cr_kin_free(k);
	cr_lease_put(l);
	/* cr_exit() waits for the few instructions that follow */
	module_put(THIS_MODULE);
}

/**
 * cr_lodge - have a thread park until the lease runs again
 * @l: the lease
 * @k: a spare entry for it
 * @t: the thread; the caller ensures that it stays allocated
 *
 * Does not sleep. A thread that signals have stopped parks when it is continued.
 *
 * Return: true if @k is used; false: the thread is an entry already, or exits, or the lease
 * runs.
 */
bool cr_lodge(struct cr_lease_state *l, struct cr_kin *k, struct task_struct *t)
{
	spin_lock(&cr_lease_lock);
	if (!cr_lease_holds(l) || cr_kin_find(l, t)) {
		spin_unlock(&cr_lease_lock);
		return false;
	}
	list_del_init(&k->node);
	cr_kin_index(k, get_task_struct(t));
	l->awaited++;
	kref_get(&l->ref);
	spin_unlock(&cr_lease_lock);

	__module_get(THIS_MODULE);
	init_task_work(&k->work, cr_lodger);
	if (!task_work_add(t, &k->work, TWA_SIGNAL))
		return true;
	cr_leave(k, true);
	put_task_struct(t);
	cr_lease_put(l);	/* not the last: the caller has one */
	module_put(THIS_MODULE);
	list_add(&k->node, &l->spares);
	return false;
}
