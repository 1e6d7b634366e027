// SPDX-License-Identifier: GPL-2.0-only
/* 6.8 on: folio_try_share_anon_rmap_pte() */
#include <linux/mm.h>
#include <linux/rmap.h>
int probe(struct page *p);
int probe(struct page *p) { return folio_try_share_anon_rmap_pte(page_folio(p), p); }
