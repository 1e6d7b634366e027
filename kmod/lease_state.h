/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Internals of a lease, for lease.c (lifetime), descent.c (the holder's descendants) and
 * lodge.c (parking of their threads).
 */
#ifndef CR_LEASE_STATE_H
#define CR_LEASE_STATE_H

#include "internal.h"
#include <linux/cred.h>
#include <linux/pid.h>

/*
 * stage            the descendants                         next stage
 * CR_LEASE_RUNS    run                                     DUE at until, KILLING, OVER
 * CR_LEASE_DUE     are parked                              RUNS by a renewal, KILLING, OVER
 * CR_LEASE_KILLING are parked, then killed                 OVER when none is left
 * CR_LEASE_OVER    final: run on, or are dead
 */
enum cr_lease_stage {
	CR_LEASE_RUNS,
	CR_LEASE_DUE,
	CR_LEASE_KILLING,
	CR_LEASE_OVER,
};

/**
 * struct cr_lease_state - a lease
 * @ref: one reference of the session, of the list of leases, of each queued thread and of
 *       each current user
 * @free: ends it; lease.c, which is a layer above most of those who put references
 * @holder: the process that took it, whichever thread of it leads
 * @cred: its credentials then; they decide which processes it may park and kill
 *
 * cr_lease_lock protects the second block. The third belongs to the work.
 */
struct cr_lease_state {
	struct kref ref;
	void (*free)(struct kref *ref);
	struct pid *holder;
	const struct cred *cred;
	struct cr_account *account;
	bool unlimited;			/* max_threads does not apply */
	struct hrtimer timer;
	wait_queue_head_t wake;

	struct list_head node;		/* in the list of leases, until OVER */
	enum cr_lease_stage stage;
	u64 until;			/* CLOCK_BOOTTIME, ns */
	u32 flags;
	bool closing;			/* KILLING is next: the descendants are being noted */
	struct list_head kin;		/* descendants that were found, by cr_kin.node */
	unsigned int awaited;		/* queued threads that have not parked */

	struct list_head spares;	/* allocated, for the next scan */
	unsigned int nspares, want;
	unsigned int round;		/* the latest run of the work that looked at it */
	unsigned int waits;		/* KILLING: how often it has looked */
	bool killed;			/* KILLING: the signals were sent */
};

/**
 * struct cr_kin - a process that a lease covers, or one of its threads
 * @key: the process's struct pid, or the thread's task_struct; a counted reference
 * @node: in lease->kin (a process), or in lease->spares
 *
 * Indexed by @key. A process leaves the index when it has been reaped or, without
 * CR_LEASE_KILL, when the lease runs again; so a child is recognized by its parent as long as it can have one. A thread leaves
 * it when it runs on or exits.
 */
struct cr_kin {
	struct hlist_node hash;
	struct list_head node;
	struct cr_lease_state *lease;
	const void *key;
	struct callback_head work;
	bool parked;
};

extern spinlock_t cr_lease_lock;

/* Do the threads that the lease has parked stay parked? */
static inline bool cr_lease_holds(const struct cr_lease_state *l)
{
	enum cr_lease_stage stage = READ_ONCE(l->stage);

	return stage == CR_LEASE_DUE || stage == CR_LEASE_KILLING;
}

static inline void cr_lease_put(struct cr_lease_state *l)
{
	kref_put(&l->ref, l->free);
}

/* lodge.c: a layer below */
struct cr_kin *cr_kin_alloc(struct cr_lease_state *l, gfp_t gfp);
void cr_kin_free(struct cr_kin *k);
struct cr_kin *cr_kin_find(const struct cr_lease_state *l, const void *key);
void cr_kin_index(struct cr_kin *k, const void *key);
bool cr_lodge(struct cr_lease_state *l, struct cr_kin *k, struct task_struct *t);

/* descent.c */
int cr_descent_stock(struct cr_lease_state *l);
bool cr_descent_scan(struct cr_lease_state *l);
void cr_descent_note(struct cr_lease_state *l);
void cr_descent_note_children(struct cr_lease_state *l, struct task_struct *parent);
void cr_descent_kill(struct cr_lease_state *l);
void cr_descent_forget(struct cr_lease_state *l, bool all);

#endif /* CR_LEASE_STATE_H */
