// SPDX-License-Identifier: GPL-2.0-only
/* 6.3 on: exported until zap_vma_range() replaced it */
#include <linux/mm.h>
void probe(struct vm_area_struct *vma);
void probe(struct vm_area_struct *vma) { zap_page_range_single(vma, 0, 0, NULL); }
