// SPDX-License-Identifier: GPL-2.0-only
/* 6.3 on: vm_flags are changed by helpers */
#include <linux/mm.h>
void probe(struct vm_area_struct *vma);
void probe(struct vm_area_struct *vma) { vm_flags_clear(vma, VM_SOFTDIRTY); }
