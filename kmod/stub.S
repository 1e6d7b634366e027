/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a borrowed thread executes in user mode, copied to the arena's code page:
 * a batch of system calls, then the gate, where it parks (see arena.c).
 *
 * r15: next struct cr_call, r14: calls left, r13: the gate. A child of clone
 * comes back with 0 and goes to the gate at once.
 */
#include <linux/linkage.h>

	.section .rodata, "a"
	.balign	16
SYM_DATA_START(cr_stub)
1:	testq	%r14, %r14
	jz	3f
	movl	(%r15), %eax
	movq	8(%r15), %rdi
	movq	16(%r15), %rsi
	movq	24(%r15), %rdx
	movq	32(%r15), %r10
	movq	40(%r15), %r8
	movq	48(%r15), %r9
	syscall
	testq	%rax, %rax
	jnz	2f
	cmpl	$56, (%r15)		/* clone */
	je	3f
	cmpl	$435, (%r15)		/* clone3 */
	je	3f
2:	movq	%rax, 56(%r15)
	addq	$64, %r15
	decq	%r14
	testq	%rax, %rax
	jns	1b
	testl	$1, -60(%r15)		/* CR_CALL_STOP */
	jz	1b
3:	movb	(%r13), %al
	jmp	3b
SYM_DATA_END_LABEL(cr_stub, SYM_L_GLOBAL, cr_stub_end)
