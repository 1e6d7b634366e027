// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/*
 * Resources in use in the whole system: objects of every slab, unreclaimable slab memory,
 * pages that are not free, pages by use, open files, uses of the module.
 * The difference of two readings shows leaks of the code that ran between them.
 */
#include <stdbool.h>
#include <stddef.h>

enum { MAX_COUNTS = 512 };
struct count {
  char name[64];
  long value;
  long unit;   // least increase for one leaked object
  long slack;  // an increase that says nothing
};
struct counts {
  size_t n;
  struct count all[MAX_COUNTS];
};

// Drops caches, then reads.
void counts_take(struct counts *c);
// NULL, or the first count that has grown by more than half an object per cycle, and by more than its slack.
const char *counts_grown(const struct counts *before, const struct counts *after, long cycles);
// The same, but reads up to ten times until nothing has grown, because the kernel frees some objects later.
const char *counts_settle(const struct counts *before, struct counts *after, long cycles);
