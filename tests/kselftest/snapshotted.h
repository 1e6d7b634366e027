// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/* A target of which a case has a snapshot, and its rollbacks by CR_IOC_ROLLBACK. */
#include <stdbool.h>
#include <sys/user.h>

#include "cases.h"

extern struct session s;
extern struct cr_rollback request;  // what the next rollback asks for
extern struct cr_range scope;       // the memory that it restores
extern struct cr_thread_regs threads[8];
extern struct user_regs_struct general[8];
extern unsigned char extended[8][CR_MAX_REGSET];
extern pid_t pid;
extern int order;                   // number of orders given
// what the target had
extern struct cr_vma vmas[256];
extern struct cr_fd fds[64];
extern struct cr_process data;
extern struct cr_range mappings[256];
extern struct cr_fd_pos positions[64];
extern unsigned nvmas, nfds;

/* In the target, which is ready: carry out each order (sh->go) and tell (sh->value[0]); sh->value[2] counts all the time. */
_Noreturn void obey(void (*job)(void));
/*
 * Start a target of so many threads that obeys, and take a snapshot of it. sh->at[0] is where the memory begins of which
 * `bytes` are restored.
 */
void take_of(void (*body)(void), int nthreads, size_t bytes);
void look(void);              // read what the frozen target has
void told(void);              // tell the rollback what the target had
void works(void);             // have the target carry out an order
int roll_back(void);          // 0 or -errno, with request.result
void is_done(const char *when);  // roll back, which must succeed
void note_areas(void);        // name the areas that the module finds changed; target frozen
bool goes_on(void);           // does the target run?
uint64_t peek(const volatile void *at);
