// SPDX-License-Identifier: GPL-2.0-only
/* 7.x: zap_vma_range(vma, start, size) */
#include <linux/mm.h>
void probe(struct vm_area_struct *vma);
void probe(struct vm_area_struct *vma) { zap_vma_range(vma, 0, 0); }
