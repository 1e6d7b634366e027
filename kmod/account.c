// SPDX-License-Identifier: GPL-2.0-only
/*
 * How much memory a user's snapshots keep. They hold pages that belong to no
 * process any more once the program has written to them or has ended: reclaim
 * cannot swap them out and the OOM killer cannot see whose they are. So there is
 * a ceiling for each user, who may go beyond it with CAP_IPC_LOCK only, as with
 * memory that is locked.
 */
#include "internal.h"
#include <linux/cred.h>
#include <linux/list.h>
#include <linux/moduleparam.h>
#include <linux/sched/user.h>
#include <linux/slab.h>

static unsigned long cr_snapshot_limit;
module_param_named(snapshot_limit, cr_snapshot_limit, ulong, 0644);
MODULE_PARM_DESC(snapshot_limit, "bytes that the snapshots of one user may keep, 0: half of the memory");

struct cr_account {
	struct list_head node;		/* cr_accounts_lock */
	struct user_struct *user;
	unsigned int refs;		/* cr_accounts_lock */
	atomic64_t pages;
};

static DEFINE_SPINLOCK(cr_accounts_lock);
static LIST_HEAD(cr_accounts);

/**
 * cr_account_limit() - most bytes that the snapshots of one user may keep
 */
u64 cr_account_limit(void)
{
	unsigned long bytes = READ_ONCE(cr_snapshot_limit);

	return bytes ? bytes : (u64)totalram_pages() << (PAGE_SHIFT - 1);
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
 * cr_account_get() - the caller's account
 *
 * Return: a reference, NULL where the caller is not limited, or ERR_PTR.
 */
struct cr_account *cr_account_get(void)
{
	struct cr_account *account, *made;

	if (capable(CAP_IPC_LOCK))
		return NULL;
	made = kzalloc(sizeof(*made), GFP_KERNEL_ACCOUNT);
	if (!made)
		return ERR_PTR(-ENOMEM);
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
 * cr_account_put() - give a reference back
 * @account: may be NULL
 */
void cr_account_put(struct cr_account *account)
{
	if (!account)
		return;
	spin_lock(&cr_accounts_lock);
	if (--account->refs) {
		spin_unlock(&cr_accounts_lock);
		return;
	}
	list_del(&account->node);
	spin_unlock(&cr_accounts_lock);
	WARN_ON_ONCE(atomic64_read(&account->pages));
	free_uid(account->user);
	kfree(account);
}

/**
 * cr_account_charge() - take so many pages on account
 * @account: may be NULL
 * @pages: how many
 *
 * Does not sleep. Return: false when that would go over the ceiling.
 */
bool cr_account_charge(struct cr_account *account, u64 pages)
{
	if (!account)
		return true;
	if (atomic64_add_return(pages, &account->pages) <= cr_account_limit() >> PAGE_SHIFT)
		return true;
	atomic64_sub(pages, &account->pages);
	return false;
}

/**
 * cr_account_uncharge() - give so many pages back
 * @account: may be NULL
 * @pages: how many
 */
void cr_account_uncharge(struct cr_account *account, u64 pages)
{
	if (account)
		atomic64_sub(pages, &account->pages);
}
