// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/*
 * Makes the Nth slab allocation, page allocation or user copy of a thread in the module
 * fail, by the kernel's fault injection (debugging kernel only). Calls without the module
 * on the stack are not counted.
 */
#include <stdbool.h>
#include <sys/types.h>

// Sets up the kernel's fault injection for the module at its present load address. Returns
// NULL, or why that is impossible here.
const char *inject_prepare(void);
// Makes the Nth fault point from now on fail, in each thread that process `pid` has now; with
// pid 0 in the calling thread. inject_disarm() ends it.
void inject_arm(pid_t pid, unsigned nth);
// Ends the injection. Returns true if a fault was injected since inject_arm().
bool inject_disarm(void);
