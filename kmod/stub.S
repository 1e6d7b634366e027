/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The code that a borrowed thread executes in user mode, copied to the arena's code page:
 * one system call, whose registers the module has loaded, then a read of the gate page
 * behind. The read faults. The fault handler takes the result, then loads the next call or
 * parks the thread (see arena.c). The code does not depend on registers that the call sets.
 */
#include <linux/linkage.h>

	.section .rodata, "a"
	.balign	16
SYM_DATA_START(cr_stub)
0:	syscall
1:	movb	0b+4096(%rip), %al
	jmp	1b
SYM_DATA_END_LABEL(cr_stub, SYM_L_GLOBAL, cr_stub_end)
