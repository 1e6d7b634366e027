// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/*
 * Makes the Nth allocation, copy or page fail that the module asks for on behalf
 * of a thread, by the kernel's fault injection (debugging kernel only). What the
 * kernel does without the module on its stack is not counted.
 */
#include <stdbool.h>
#include <sys/types.h>

// Sets the kernel's fault injection up for the module as it is loaded now. NULL, or why it
// cannot be done here.
const char *inject_prepare(void);
// The Nth fault point from here on, in each thread that process `pid` has now; 0: in the
// calling thread. inject_disarm() ends it.
void inject_arm(pid_t pid, unsigned nth);
// No more faults. True when one has been injected since inject_arm().
bool inject_disarm(void);
