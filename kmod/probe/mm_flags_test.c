// SPDX-License-Identifier: GPL-2.0-only
/* 6.17 on: mm->flags is a bitmap of its own type */
#include <linux/mm.h>
int probe(struct mm_struct *mm);
int probe(struct mm_struct *mm) { return mm_flags_test(MMF_VM_MERGEABLE, mm); }
