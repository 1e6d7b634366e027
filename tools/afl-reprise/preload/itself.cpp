// SPDX-License-Identifier: GPL-2.0-only
#include "itself.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cr.h"

/** What a function keeps for its caller (System V ABI), and where it returns to. The code below knows the layout. */
struct Mark {
  std::uint64_t rbx, rbp, r12, r13, r14, r15, rsp, rip;
  std::uint32_t mxcsr;
  std::uint16_t fpu_control;
};

/** @return 0; and 1 again behind each rollback, like setjmp(3) */
extern "C" int reprise_afl_mark(Mark* mark) __attribute__((returns_twice));

/**
 * Make the request, and go on at @p mark if it has been carried out. From the call on, our stack is that of the snapshot: so
 * all of this needs none.
 * @param done  request->result
 * @return the system call's result, if the request has not been carried out
 */
extern "C" long reprise_afl_roll_back(int session, unsigned long request, void* argument, const volatile std::uint32_t* done,
                                      const Mark* mark);

static_assert(CR_ROLLBACK_DONE == 1 && SYS_ioctl == 16);
asm(R"(
	.text
	.type reprise_afl_mark, @function
	.hidden reprise_afl_mark
	.globl reprise_afl_mark
reprise_afl_mark:
	endbr64
	mov %rbx, 0(%rdi)
	mov %rbp, 8(%rdi)
	mov %r12, 16(%rdi)
	mov %r13, 24(%rdi)
	mov %r14, 32(%rdi)
	mov %r15, 40(%rdi)
	lea 8(%rsp), %rax
	mov %rax, 48(%rdi)
	mov (%rsp), %rax
	mov %rax, 56(%rdi)
	stmxcsr 64(%rdi)
	fnstcw 68(%rdi)
	xor %eax, %eax
	ret
	.size reprise_afl_mark, . - reprise_afl_mark

	.type reprise_afl_roll_back, @function
	.hidden reprise_afl_roll_back
	.globl reprise_afl_roll_back
reprise_afl_roll_back:
	endbr64
	mov %rcx, %r9
	mov $16, %eax
	syscall
	test %rax, %rax
	jnz 1f
	cmpl $1, (%r9)
	jne 1f
	mov 0(%r8), %rbx
	mov 8(%r8), %rbp
	mov 16(%r8), %r12
	mov 24(%r8), %r13
	mov 32(%r8), %r14
	mov 40(%r8), %r15
	mov 48(%r8), %rsp
	ldmxcsr 64(%r8)
	fldcw 68(%r8)
	mov $1, %eax
	jmp *56(%r8)
1:	ret
	.size reprise_afl_roll_back, . - reprise_afl_roll_back
)");

namespace reprise::afl {
namespace {

Room* g_room = nullptr;
Mark g_mark;

}  // namespace

void open_room() {
  void* const room = ::mmap(nullptr, kRoomSize, PROT_READ | PROT_WRITE, MAP_SHARED, kRoom, 0);
  ::syscall(SYS_close, kRoom);
  if (room != MAP_FAILED) g_room = static_cast<Room*>(room);
}

std::uint64_t room_address() { return reinterpret_cast<std::uintptr_t>(g_room); }

void wait_here(bool (*tell)(const Message&), void (*wait)()) {
  if (reprise_afl_mark(&g_mark) != 0) {
    g_room->rolling = false;
    Message message = g_room->ended;
    message.rolled_back = true;
    if (!tell(message)) ::syscall(SYS_exit_group, 1);
  }
  wait();
  asm volatile("");  // not as the last call: then wait() would use the frame of ours to which we return once more
}

void roll_back_itself(const Message& message) {
  if (!g_room || !g_room->armed || message.more_threads) return;
  g_room->ended = message;
  g_room->rolling = true;
  auto* request = reinterpret_cast<cr_rollback*>(reinterpret_cast<char*>(g_room) + kRequest);
  reprise_afl_roll_back(kSession, CR_IOC_ROLLBACK, request, &request->result, &g_mark);
  g_room->rolling = false;
}

}  // namespace reprise::afl
