// SPDX-License-Identifier: GPL-2.0-only
/*
 * Resources that one user holds in all sessions, and their ceilings. Sessions and threads
 * cost kernel memory. Snapshots keep pages that belong to no process any more after the
 * program has written to them or has ended: reclaim cannot swap them out, and the OOM
 * killer cannot attribute them to a process.
 */
#include "internal.h"
#include <linux/cred.h>
#include <linux/list.h>
#include <linux/moduleparam.h>
#include <linux/sched/user.h>
#include <linux/slab.h>

static unsigned int max_sessions = 4096;
module_param(max_sessions, uint, 0644);
MODULE_PARM_DESC(max_sessions, "sessions that one user may have open, 0: no ceiling");

static unsigned int max_threads = 131072;
module_param(max_threads, uint, 0644);
MODULE_PARM_DESC(max_threads, "threads that one user's sessions and leases may hold, 0: no ceiling");

static unsigned int max_leases = 64;
module_param(max_leases, uint, 0644);
MODULE_PARM_DESC(max_leases, "leases that one user may hold, 0: no ceiling");

static unsigned long snapshot_limit;
module_param(snapshot_limit, ulong, 0644);
MODULE_PARM_DESC(snapshot_limit, "bytes that the snapshots of one user may keep, 0: half of the memory");

struct cr_account {
	struct list_head node;		/* protected by cr_accounts_lock */
	struct user_struct *user;
	unsigned int refs;		/* protected by cr_accounts_lock */
	atomic64_t held[CR_ACCOUNTS];
};

static DEFINE_SPINLOCK(cr_accounts_lock);
static LIST_HEAD(cr_accounts);

/* Maximum number of bytes that the snapshots of one user may keep. */
u64 cr_snapshot_limit(void)
{
	unsigned long bytes = READ_ONCE(snapshot_limit);

	return bytes ? bytes : (u64)totalram_pages() << (PAGE_SHIFT - 1);
}

static u64 cr_ceiling(enum cr_account_kind kind)
{
	switch (kind) {
	case CR_ACCOUNT_SESSIONS:
		return READ_ONCE(max_sessions);
	case CR_ACCOUNT_THREADS:
		return READ_ONCE(max_threads);
	case CR_ACCOUNT_LEASES:
		return READ_ONCE(max_leases);
	default:
		return cr_snapshot_limit() >> PAGE_SHIFT;
	}
}

static struct cr_account *cr_account_find(struct user_struct *user)
{
	struct cr_account *account;

	lockdep_assert_held(&cr_accounts_lock);
	list_for_each_entry(account, &cr_accounts, node) {
		if (account->user != user)
			continue;
		account->refs++;
		return account;
	}
	return NULL;
}

/**
 * cr_account_mine() - the account of the calling user, created at the first use
 *
 * Return: a reference, or NULL when out of memory.
 */
struct cr_account *cr_account_mine(void)
{
	struct cr_account *account, *made = kzalloc(sizeof(*made), GFP_KERNEL_ACCOUNT);

	if (!made)
		return NULL;
	spin_lock(&cr_accounts_lock);
	account = cr_account_find(current_user());
	if (!account) {
		account = made;
		account->user = get_uid(current_user());
		account->refs = 1;
		list_add(&account->node, &cr_accounts);
		made = NULL;
	}
	spin_unlock(&cr_accounts_lock);
	kfree(made);
	return account;
}

/**
 * cr_account_get() - take another reference
 * @account: the account; the caller holds a reference
 *
 * Return: @account.
 */
struct cr_account *cr_account_get(struct cr_account *account)
{
	spin_lock(&cr_accounts_lock);
	account->refs++;
	spin_unlock(&cr_accounts_lock);
	return account;
}

/**
 * cr_account_put() - drop a reference
 * @account: the account; all charges must be returned before the last reference is dropped
 */
void cr_account_put(struct cr_account *account)
{
	int i;

	spin_lock(&cr_accounts_lock);
	if (--account->refs) {
		spin_unlock(&cr_accounts_lock);
		return;
	}
	list_del(&account->node);
	spin_unlock(&cr_accounts_lock);
	for (i = 0; i < CR_ACCOUNTS; i++)
		WARN_ON_ONCE(atomic64_read(&account->held[i]));
	free_uid(account->user);
	kfree(account);
}

/**
 * cr_account_charge() - charge a number of sessions, threads, pages or leases
 * @account: the account
 * @kind: the resource
 * @n: number of them
 * @unlimited: ignore the ceiling
 *
 * Does not sleep. Return: false if the charge would exceed the ceiling.
 */
bool cr_account_charge(struct cr_account *account, enum cr_account_kind kind, u64 n,
		       bool unlimited)
{
	u64 ceiling = cr_ceiling(kind);

	if (atomic64_add_return(n, &account->held[kind]) <= ceiling || !ceiling || unlimited)
		return true;
	atomic64_sub(n, &account->held[kind]);
	return false;
}

/**
 * cr_account_uncharge() - return a charge
 * @account: the account
 * @kind: the resource
 * @n: number of them
 */
void cr_account_uncharge(struct cr_account *account, enum cr_account_kind kind, u64 n)
{
	atomic64_sub(n, &account->held[kind]);
}
