# SPDX-License-Identifier: GPL-2.0-only
# A 32-bit program that sleeps forever. It needs neither headers nor libraries.
	.globl _start
_start:
	mov	$162, %eax		# nanosleep
	mov	$one, %ebx
	xor	%ecx, %ecx
	int	$0x80
	jmp	_start
	.section .rodata
one:	.long	1, 0
	.section .note.GNU-stack,"",@progbits
