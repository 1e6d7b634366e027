// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/*
 * What the whole system holds: objects of every slab, unreclaimable slab memory,
 * pages that are not free, pages of some uses, open files, users of the module.
 * Two readings tell whether something was leaked by what was done between them.
 */
#include <stdbool.h>
#include <stddef.h>

enum { MAX_COUNTS = 512 };
struct count {
  char name[64];
  long value;
  long unit;  // what one leaked object adds at least
};
struct counts {
  size_t n;
  struct count all[MAX_COUNTS];
};

// After caches were dropped and what is freed late was freed.
void counts_take(struct counts *c);
// NULL, or the first count that has grown by more than half an object a cycle.
const char *counts_grown(const struct counts *before, const struct counts *after, long cycles);
// As that, but read again for a while before something counts as grown: freeing takes time.
const char *counts_settle(const struct counts *before, struct counts *after, long cycles);
