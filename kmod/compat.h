/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All differences between the supported kernels, and nothing else. The probes in
 * kmod/probe/ find out what a kernel offers.
 */
#ifndef CR_COMPAT_H
#define CR_COMPAT_H

#include "features.h"
#include <linux/mm.h>
#include <linux/prctl.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/rmap.h>
#include <linux/sched.h>
#include <linux/sched/coredump.h>
#include <linux/sched/signal.h>
#include <linux/restart_block.h>
#ifdef CR_HAVE_TASK_EXEC_STATE
#include <linux/sched/exec_state.h>
#endif
#ifdef CR_HAVE_SOFTLEAF
#include <linux/leafops.h>
#endif
#ifdef CR_HAVE_FILELOCK_H
#include <linux/filelock.h>
#endif
#include <linux/swap.h>
#include <linux/swapops.h>
#include <uapi/linux/rseq.h>

#ifndef CR_HAVE_PUD_DEVMAP
static inline int pud_devmap(pud_t pud)
{
	return 0;
}
#endif

#ifndef CR_HAVE_PMDP_GET
static inline pmd_t pmdp_get(pmd_t *pmdp)
{
	return READ_ONCE(*pmdp);
}

static inline pud_t pudp_get(pud_t *pudp)
{
	return READ_ONCE(*pudp);
}
#endif

/* Kinds of page table entries that are neither none nor present. */
enum cr_absent {
	CR_ABSENT_NONE,		/* a marker that does not matter here */
	CR_ABSENT_SWAP,
	CR_ABSENT_GUARD,
	CR_ABSENT_LOST,
	CR_ABSENT_MOVING,
};

static inline enum cr_absent cr_pte_marker(pte_marker marker)
{
#ifdef PTE_MARKER_GUARD
	if (marker & PTE_MARKER_GUARD)
		return CR_ABSENT_GUARD;
#endif
#ifdef PTE_MARKER_POISONED
	if (marker & PTE_MARKER_POISONED)
		return CR_ABSENT_LOST;
#endif
	return CR_ABSENT_NONE;
}

static inline enum cr_absent cr_absent_pte(pte_t pte)
{
#ifdef CR_HAVE_SOFTLEAF
	softleaf_t entry = softleaf_from_pte(pte);

	if (softleaf_is_swap(entry))
		return CR_ABSENT_SWAP;
	if (softleaf_is_marker(entry))
		return cr_pte_marker(softleaf_to_marker(entry));
	if (softleaf_is_hwpoison(entry))
		return CR_ABSENT_LOST;
#else
	swp_entry_t entry = pte_to_swp_entry(pte);

	if (!non_swap_entry(entry))
		return CR_ABSENT_SWAP;
	if (is_pte_marker_entry(entry))
		return cr_pte_marker(pte_marker_get(entry));
	if (is_hwpoison_entry(entry))
		return CR_ABSENT_LOST;
#endif
	return CR_ABSENT_MOVING;
}

/* Can a mapping hold guard pages? Kernels without a flag for it: any can. */
static inline bool cr_vma_may_hold_guards(struct vm_area_struct *vma)
{
#ifndef PTE_MARKER_GUARD
	return false;
#elif defined(VM_MAYBE_GUARD)
	return vma->vm_flags & VM_MAYBE_GUARD;
#else
	return true;
#endif
}

/* May KSM merge any of its memory? */
static inline bool cr_mm_is_mergeable(struct mm_struct *mm)
{
#ifdef CR_HAVE_MM_FLAGS_TEST
	return mm_flags_test(MMF_VM_MERGEABLE, mm);
#else
	return test_bit(MMF_VM_MERGEABLE, &mm->flags);
#endif
}

/* Drop [addr, addr + len) of one mapping; mmap lock held. */
static inline void cr_zap(struct vm_area_struct *vma, unsigned long addr, unsigned long len)
{
#if defined(CR_HAVE_ZAP_VMA_RANGE)
	zap_vma_range(vma, addr, len);
#elif defined(CR_HAVE_ZAP_PAGE_RANGE)
	zap_page_range(vma, addr, len);
#else
	zap_page_range_single(vma, addr, len, NULL);
#endif
}

static inline long cr_gup(struct mm_struct *mm, unsigned long addr, unsigned long n,
			  unsigned int flags, struct page **pages, int *locked)
{
#ifdef CR_HAVE_GUP_REMOTE_VMAS
	return get_user_pages_remote(mm, addr, n, flags, pages, NULL, locked);
#else
	return get_user_pages_remote(mm, addr, n, flags, pages, locked);
#endif
}

/* Clear PageAnonExclusive so that the next write copies; fails for pinned pages. */
static inline int cr_share_pte(struct page *page)
{
#ifdef CR_HAVE_SHARE_ANON_RMAP_FOLIO
	return folio_try_share_anon_rmap_pte(page_folio(page), page);
#else
	return page_try_share_anon_rmap(page);
#endif
}

static inline int cr_share_pmd(struct page *page)
{
#ifdef CR_HAVE_SHARE_ANON_RMAP_FOLIO
	return folio_try_share_anon_rmap_pmd(page_folio(page), page);
#else
	return page_try_share_anon_rmap(page);
#endif
}

static inline void cr_vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
#ifdef CR_HAVE_VM_FLAGS_CLEAR
	vm_flags_clear(vma, flags);
#else
	vma->vm_flags &= ~flags;
#endif
}

static inline void cr_vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
#ifdef CR_HAVE_VM_FLAGS_CLEAR
	vm_flags_set(vma, flags);
#else
	vma->vm_flags |= flags;
#endif
}

static inline unsigned long cr_robust_list(struct task_struct *t)
{
#ifdef CR_HAVE_TASK_FUTEX
	return (unsigned long)t->futex.robust_list;
#else
	return (unsigned long)t->robust_list;
#endif
}

static inline unsigned long cr_rseq_addr(struct task_struct *t)
{
#ifdef CR_HAVE_RSEQ_DATA
	return (unsigned long)t->rseq.usrptr;
#else
	return (unsigned long)t->rseq;
#endif
}

static inline u32 cr_rseq_len(struct task_struct *t)
{
#ifdef CR_HAVE_RSEQ_DATA
	return t->rseq.len;
#elif defined(CR_HAVE_RSEQ_LEN)
	return t->rseq ? t->rseq_len : 0;
#else
	return t->rseq ? sizeof(struct rseq) : 0;
#endif
}

static inline u32 cr_rseq_sig(struct task_struct *t)
{
#ifdef CR_HAVE_RSEQ_DATA
	return t->rseq.sig;
#else
	return t->rseq_sig;
#endif
}

/* PR_SET_MEMORY_MERGE: every mapping is for KSM to merge. */
static inline bool cr_merges_all(struct mm_struct *mm)
{
#if !defined(MMF_VM_MERGE_ANY)
	return false;
#elif defined(CR_HAVE_MM_FLAGS_TEST)
	return mm_flags_test(MMF_VM_MERGE_ANY, mm);
#else
	return test_bit(MMF_VM_MERGE_ANY, &mm->flags);
#endif
}

static inline bool cr_thp_disabled(struct mm_struct *mm)
{
#if defined(MMF_DISABLE_THP_COMPLETELY)
	return mm_flags_test(MMF_DISABLE_THP_COMPLETELY, mm);
#elif defined(CR_HAVE_MM_FLAGS_TEST)
	return mm_flags_test(MMF_DISABLE_THP, mm);
#else
	return test_bit(MMF_DISABLE_THP, &mm->flags);
#endif
}

/* Of a process that stands still. */
static inline u32 cr_pkeys(struct mm_struct *mm)
{
#ifdef CONFIG_X86_INTEL_MEMORY_PROTECTION_KEYS
	u32 keys = cpu_feature_enabled(X86_FEATURE_OSPKE) ? mm->context.pkey_allocation_map : 0;

	/* the kernel's own, for memory that can only be executed */
	if (mm->context.execute_only_pkey > 0)
		keys &= ~(1U << mm->context.execute_only_pkey);
	return keys;
#else
	return 0;
#endif
}

/* As PR_GET_MDWE tells; Linux 6.3. */
static inline u32 cr_mdwe(struct mm_struct *mm)
{
#ifndef MMF_HAS_MDWE
	return 0;
#elif defined(CR_HAVE_MM_FLAGS_TEST)
	return mm_flags_test(MMF_HAS_MDWE, mm) ? PR_MDWE_REFUSE_EXEC_GAIN |
	       (mm_flags_test(MMF_HAS_MDWE_NO_INHERIT, mm) ? PR_MDWE_NO_INHERIT : 0) : 0;
#elif defined(MMF_HAS_MDWE_NO_INHERIT)
	return test_bit(MMF_HAS_MDWE, &mm->flags) ? PR_MDWE_REFUSE_EXEC_GAIN |
	       (test_bit(MMF_HAS_MDWE_NO_INHERIT, &mm->flags) ? PR_MDWE_NO_INHERIT : 0) : 0;
#else
	return test_bit(MMF_HAS_MDWE, &mm->flags) ? PR_MDWE_REFUSE_EXEC_GAIN : 0;
#endif
}

/* What /proc/PID/coredump_filter says. */
static inline u32 cr_dump_filter(struct mm_struct *mm)
{
#ifdef CR_HAVE_MM_FLAGS_TEST
	return (__mm_flags_get_word(mm) & MMF_DUMP_FILTER_MASK) >> MMF_DUMP_FILTER_SHIFT;
#else
	return (mm->flags & MMF_DUMP_FILTER_MASK) >> MMF_DUMP_FILTER_SHIFT;
#endif
}

static inline u32 cr_dumpable(struct task_struct *t, struct mm_struct *mm)
{
#if defined(CR_HAVE_TASK_EXEC_STATE)
	u32 value;

	rcu_read_lock();
	value = rcu_dereference(t->exec_state)->dumpable;
	rcu_read_unlock();
	return value;
#elif defined(CR_HAVE_MM_FLAGS_TEST)
	return __mm_flags_get_word(mm) & MMF_DUMPABLE_MASK;
#else
	return mm->flags & MMF_DUMPABLE_MASK;
#endif
}

static inline int cr_receive_fd(struct file *file, unsigned int flags)
{
#ifdef CR_HAVE_RECEIVE_FD_UFD
	return receive_fd(file, NULL, flags);
#else
	return receive_fd(file, flags);
#endif
}

/* Is the task off its CPU and dequeued, not only preempted? Its writes are visible then. */
static inline bool cr_is_asleep(struct task_struct *t)
{
	/* acquire: the task's writes are visible, pairs with the kernel's finish_task() */
	if (smp_load_acquire(&t->on_cpu))
		return false;
#ifdef CR_HAVE_SCHED_DELAYED
	if (READ_ONCE(t->se.sched_delayed))
		return true;
#endif
	return !READ_ONCE(t->on_rq);
}

/* The executable, with a reference, or NULL; get_mm_exe_file() is not exported. */
static inline struct file *cr_exe_file(struct mm_struct *mm)
{
	struct file *file;

	rcu_read_lock();
#ifdef CR_HAVE_GET_FILE_RCU
	file = get_file_rcu(&mm->exe_file);
#else
	file = rcu_dereference(mm->exe_file);
	if (file && !get_file_rcu(file))
		file = NULL;
#endif
	rcu_read_unlock();
	return file;
}

static inline void cr_hrtimer_setup(struct hrtimer *timer,
				    enum hrtimer_restart (*function)(struct hrtimer *),
				    clockid_t clock, enum hrtimer_mode mode)
{
#ifdef CR_HAVE_HRTIMER_SETUP
	hrtimer_setup(timer, function, clock, mode);
#else
	hrtimer_init(timer, clock, mode);
	timer->function = function;
#endif
}

/* The owner that gets SIGIO for a file; NULL: F_SETOWN was never used. */
static inline struct fown_struct *cr_file_owner(struct file *file)
{
#ifdef CR_HAVE_FILE_F_OWNER_PTR
	return READ_ONCE(file->f_owner);
#else
	return &file->f_owner;
#endif
}

/* Has the process POSIX timers? Of a process that stands still. */
static inline bool cr_has_posix_timers(struct signal_struct *signal)
{
#if !defined(CONFIG_POSIX_TIMERS)
	return false;
#elif defined(CR_HAVE_POSIX_TIMERS_HLIST)
	return !hlist_empty(&signal->posix_timers);
#else
	return !list_empty(&signal->posix_timers);
#endif
}

/* Absolute end of a poll() that was parked, from its restart block. */
static inline ktime_t cr_poll_end(struct restart_block *rb)
{
#ifdef CR_HAVE_RESTART_POLL_END_TIME
	return timespec64_to_ktime(rb->poll.end_time);
#else
	return ktime_set(rb->poll.tv_sec, rb->poll.tv_nsec);
#endif
}

static inline void cr_poll_set_end(struct restart_block *rb, ktime_t end)
{
#ifdef CR_HAVE_RESTART_POLL_END_TIME
	rb->poll.end_time = ktime_to_timespec64(end);
#else
	struct timespec64 ts = ktime_to_timespec64(end);

	rb->poll.tv_sec = ts.tv_sec;
	rb->poll.tv_nsec = ts.tv_nsec;
#endif
}

#endif /* CR_COMPAT_H */
