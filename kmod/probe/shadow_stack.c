// SPDX-License-Identifier: GPL-2.0-only
/* 6.6 on: VM_SHADOW_STACK */
#include <linux/mm.h>
unsigned long probe(void);
unsigned long probe(void) { return VM_SHADOW_STACK; }
