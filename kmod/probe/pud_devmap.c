// SPDX-License-Identifier: GPL-2.0-only
/* gone in 7.x */
#include <linux/mm.h>
int probe(pud_t pud);
int probe(pud_t pud) { return pud_devmap(pud); }
