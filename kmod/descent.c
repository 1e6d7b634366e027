// SPDX-License-Identifier: GPL-2.0-only
/*
 * The descendants of a lease's holder. tasklist_lock is not exported, so a scan walks the
 * list of processes under RCU. The list is in order of creation, also after an exec by a
 * thread, and a process's parent is always older than the process. So one pass finds a whole
 * tree, however deep: a process is covered if its parent is the holder or is covered.
 * Processes that are created meanwhile are found by the next pass.
 *
 * The descendants are hostile. They may fork while they are scanned, so a scan is repeated
 * until it finds nothing new. A parent may end: its children that were found stay covered.
 */
#include "lease_state.h"
#include <linux/capability.h>
#include <linux/hashtable.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#define CR_SPARES_FIRST	32U
#define CR_SPARES_MOST	4096U

/**
 * cr_descent_stock - allocate the entries that the next scan may need
 * @l: the lease; only the work calls this
 *
 * Return: 0 or -ENOMEM. Even then there may be some entries.
 */
int cr_descent_stock(struct cr_lease_state *l)
{
	struct cr_kin *k;

	if (!l->want)
		l->want = CR_SPARES_FIRST;
	while (l->nspares < l->want) {
		k = cr_kin_alloc(l, GFP_KERNEL);
		if (!k)
			return -ENOMEM;
		list_add(&k->node, &l->spares);
		l->nspares++;
		cond_resched();
	}
	return 0;
}

static struct cr_kin *cr_spare(struct cr_lease_state *l)
{
	return list_first_entry_or_null(&l->spares, struct cr_kin, node);
}

/* The rules of kill(2), for the credentials with which the lease was taken: they are current's. */
static bool cr_may_kill(const struct cr_lease_state *l, struct task_struct *t)
{
	const struct cred *mine = l->cred, *its = __task_cred(t);

	return uid_eq(mine->euid, its->suid) || uid_eq(mine->euid, its->uid) ||
	       uid_eq(mine->uid, its->suid) || uid_eq(mine->uid, its->uid) ||
	       ns_capable_noaudit(its->user_ns, CAP_KILL);
}

/* Does the lease cover @p? @known: it has an entry already. Under RCU. */
static bool cr_is_kin(const struct cr_lease_state *l, struct task_struct *p, bool *known)
{
	struct pid *parent = task_tgid(rcu_dereference(p->real_parent));
	bool is;

	/* also if a descendant of its own has adopted it */
	if (task_tgid(p) == l->holder)
		return false;
	spin_lock(&cr_lease_lock);
	*known = cr_kin_find(l, task_tgid(p));
	is = *known || parent == l->holder || cr_kin_find(l, parent);
	spin_unlock(&cr_lease_lock);
	return is;
}

/* Give a process its entry @k. False: @k is not used, the process has one or was reaped. */
static bool cr_add_process(struct cr_lease_state *l, struct cr_kin *k, struct task_struct *p)
{
	struct pid *pid = get_task_pid(p, PIDTYPE_TGID);
	bool add;

	if (!pid)
		return false;
	spin_lock(&cr_lease_lock);
	add = !cr_kin_find(l, pid);
	if (add) {
		list_move(&k->node, &l->kin);
		cr_kin_index(k, pid);
	}
	spin_unlock(&cr_lease_lock);
	if (!add)
		put_pid(pid);
	return add;
}

/*
 * Threads of the kernel that work for a process never come to user mode. What io_uring has
 * accepted they complete; nobody gives them more while the process is parked.
 */
static bool cr_is_worker(struct task_struct *t)
{
#ifdef PF_USER_WORKER
	return t->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER);
#else
	return t->flags & (PF_KTHREAD | PF_IO_WORKER);
#endif
}

/* The memory of the holder, to compare only. NULL: it has ended. Under RCU. */
static struct mm_struct *cr_holder_mm(const struct cr_lease_state *l)
{
	struct task_struct *p = pid_task(l->holder, PIDTYPE_TGID), *t;
	struct mm_struct *mm = NULL;

	if (!p)
		return NULL;
	for_each_thread(p, t) {
		mm = READ_ONCE(t->mm);
		if (mm)
			break;
	}
	return mm;
}

/* Park the threads of a process that are not parked. False: an entry is missing. */
static bool cr_park_process(struct cr_lease_state *l, struct task_struct *p, struct mm_struct *mm,
			    bool *found)
{
	struct task_struct *t;
	struct cr_kin *k;

	/* it dies, and can neither fork nor come to user mode */
	if (READ_ONCE(p->signal->flags) & SIGNAL_GROUP_EXIT)
		return true;
	for_each_thread(p, t) {
		/*
		 * A vfork child before its exec runs the holder's code, and the holder waits
		 * for it: parked, it would keep the holder from renewing the lease.
		 */
		if (READ_ONCE(t->flags) & PF_EXITING || cr_is_worker(t) ||
		    (mm && READ_ONCE(t->mm) == mm) || !cr_may_kill(l, t))
			continue;
		k = cr_spare(l);
		if (!k)
			return false;
		if (cr_lodge(l, k, t)) {
			l->nspares--;
			*found = true;
		}
	}
	return true;
}

/*
 * One pass over all processes. 0: it was complete; sets @found if there was anything new.
 * -EAGAIN: more entries are needed.
 */
static int cr_scan_once(struct cr_lease_state *l, bool *found)
{
	const struct cred *old = override_creds(l->cred);
	struct mm_struct *mm;
	struct task_struct *p;
	struct cr_kin *k;
	bool known;
	int r = 0;

	rcu_read_lock();
	mm = cr_holder_mm(l);
	for_each_process(p) {
		if (p->flags & PF_KTHREAD || !cr_is_kin(l, p, &known))
			continue;
		k = cr_spare(l);
		if (!known && k && cr_add_process(l, k, p)) {
			l->nspares--;
			*found = true;
		}
		if ((!known && !k) || !cr_park_process(l, p, mm, found)) {
			r = -EAGAIN;
			break;
		}
	}
	rcu_read_unlock();
	revert_creds(old);
	return r;
}

/**
 * cr_descent_scan - have all threads of all descendants park
 * @l: a lease that has expired; only the work calls this
 *
 * Return: true if there was nothing new; false: scan again.
 */
bool cr_descent_scan(struct cr_lease_state *l)
{
	bool found = false;

	if (cr_scan_once(l, &found)) {
		/* a large tree takes a number of passes in its logarithm */
		l->want = min(l->want * 2, CR_SPARES_MOST);
		return false;
	}
	return !found;
}

/*
 * Give a process its entry. If there is no memory for one, and it would be lost, kill it.
 * Does not sleep.
 */
static void cr_note(struct cr_lease_state *l, struct task_struct *p)
{
	struct cr_kin *k = cr_kin_alloc(l, GFP_ATOMIC);

	if (k && !cr_add_process(l, k, p))
		cr_kin_free(k);
	else if (!k && READ_ONCE(l->closing) && cr_may_kill(l, p))
		send_sig(SIGKILL, p, 1);
}

/**
 * cr_descent_note - note the descendants before the holder ends
 * @l: a lease with CR_LEASE_KILL
 *
 * Called by a thread of the holder, before the kernel gives its children to another parent.
 * All descendants, not only the children: one that is ending may be about to give its own
 * children away. Does not sleep.
 */
void cr_descent_note(struct cr_lease_state *l)
{
	const struct cred *old = override_creds(l->cred);
	struct task_struct *p;
	bool known;

	rcu_read_lock();
	for_each_process(p) {
		if (!(p->flags & PF_KTHREAD) && cr_is_kin(l, p, &known) && !known)
			cr_note(l, p);
	}
	rcu_read_unlock();
	revert_creds(old);
}

/* Is the process a descendant, whether it was found or not? Under RCU. */
static bool cr_descends(const struct cr_lease_state *l, struct task_struct *p)
{
	struct task_struct *child;
	bool known;

	do {
		if (cr_is_kin(l, p, &known))
			return true;
		child = p;
		p = rcu_dereference(child->real_parent);
	} while (p != child && !is_global_init(p));
	return false;
}

/**
 * cr_descent_note_children - note the children of a process before it ends
 * @l: a lease with CR_LEASE_KILL: no descendant may be lost with its parent
 * @parent: a thread of the process; it is ending
 *
 * Does nothing if the process is no descendant. Does not sleep.
 */
void cr_descent_note_children(struct cr_lease_state *l, struct task_struct *parent)
{
	const struct cred *old = override_creds(l->cred);
	struct task_struct *p;

	rcu_read_lock();
	if (cr_descends(l, parent)) {
		for_each_process(p)
			if (task_tgid(rcu_dereference(p->real_parent)) == task_tgid(parent))
				cr_note(l, p);
	}
	rcu_read_unlock();
	revert_creds(old);
}

/**
 * cr_descent_kill - kill all descendants that were found
 * @l: the lease
 */
void cr_descent_kill(struct cr_lease_state *l)
{
	const struct cred *old = override_creds(l->cred);
	struct task_struct *p;
	struct cr_kin *k;

	rcu_read_lock();
	spin_lock(&cr_lease_lock);
	list_for_each_entry(k, &l->kin, node) {
		p = pid_task((struct pid *)k->key, PIDTYPE_TGID);
		if (p && cr_may_kill(l, p))
			send_sig(SIGKILL, p, 1);
	}
	spin_unlock(&cr_lease_lock);
	rcu_read_unlock();
	revert_creds(old);
}

/**
 * cr_descent_forget - drop entries of processes
 * @l: the lease
 * @all: also of those that exist, because the lease runs or is over
 */
void cr_descent_forget(struct cr_lease_state *l, bool all)
{
	struct cr_kin *k, *next;
	LIST_HEAD(gone);

	rcu_read_lock();
	spin_lock(&cr_lease_lock);
	list_for_each_entry_safe(k, next, &l->kin, node) {
		if (!all && pid_task((struct pid *)k->key, PIDTYPE_TGID))
			continue;
		hash_del(&k->hash);
		list_move(&k->node, &gone);
	}
	spin_unlock(&cr_lease_lock);
	rcu_read_unlock();
	list_for_each_entry_safe(k, next, &gone, node) {
		put_pid((struct pid *)k->key);
		cr_kin_free(k);
	}
}
