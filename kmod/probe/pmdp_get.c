// SPDX-License-Identifier: GPL-2.0-only
/* 6.6: pmdp_get(), pudp_get() */
#include <linux/pgtable.h>
pmd_t probe(pmd_t *pmdp);
pmd_t probe(pmd_t *pmdp) { return pmdp_get(pmdp); }
