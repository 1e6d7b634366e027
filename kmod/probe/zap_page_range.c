// SPDX-License-Identifier: GPL-2.0-only
/* up to 6.2: zap_page_range(vma, start, size) */
#include <linux/mm.h>
void probe(struct vm_area_struct *vma);
void probe(struct vm_area_struct *vma) { zap_page_range(vma, 0, 0); }
