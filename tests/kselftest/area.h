// SPDX-License-Identifier: GPL-2.0-only
// A megabyte of private memory, for scenarios about attributes of memory other than its content.
#pragma once
#include <stddef.h>
#include <sys/mman.h>

enum { PAGE = 4096, RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS };
extern char *area;

char *map(size_t bytes);  // private and anonymous
void plain(void);
const char *plain_ok(void);
void plain_change(void);
void locked_setup(void);  // the same, locked
const char *locked_ok(void);
void locked_change(void);  // replace it by shared memory, so that the restore must map it again
