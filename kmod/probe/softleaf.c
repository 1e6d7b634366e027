// SPDX-License-Identifier: GPL-2.0-only
/* 7.x: softleaf_from_pte() instead of pte_to_swp_entry() */
#include <linux/mm.h>
#include <linux/leafops.h>
bool probe(pte_t pte);
bool probe(pte_t pte) { return softleaf_is_marker(softleaf_from_pte(pte)); }
