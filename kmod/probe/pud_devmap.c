// SPDX-License-Identifier: GPL-2.0-only
/* up to 6.x: pud_devmap(); removed in 7.x */
#include <linux/mm.h>
int probe(pud_t pud);
int probe(pud_t pud) { return pud_devmap(pud); }
