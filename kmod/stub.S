/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a borrowed thread executes in user mode, copied to the arena's code page: one
 * system call, whose registers the module has loaded, then a look at the gate, the page
 * behind. That faults, and the fault handler takes the result, loads the next call or has
 * the thread park (see arena.c). Nothing depends on what the call leaves in registers.
 */
#include <linux/linkage.h>

	.section .rodata, "a"
	.balign	16
SYM_DATA_START(cr_stub)
0:	syscall
1:	movb	0b+4096(%rip), %al
	jmp	1b
SYM_DATA_END_LABEL(cr_stub, SYM_L_GLOBAL, cr_stub_end)
