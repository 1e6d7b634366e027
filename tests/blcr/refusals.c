/* SPDX-License-Identifier: GPL-2.0-only */
/* Callbacks refuse temporarily in every possible way, and then permanently in one of two ways. */
#include "common.h"

static int round_number, others;
static int other(void *arg) {
  (void)arg;
  ++others;
  return 0;
}

static int refusing(void *arg) {
  (void)arg;
  switch (round_number) {
    case 0: CHECK(cr_checkpoint(CR_CHECKPOINT_TEMP_FAILURE) == -CR_ETEMPFAIL); break;
    case 1: CHECK(cr_checkpoint(CR_CHECKPOINT_OMIT) == -CR_EOMITTED); break;
    case 2: CHECK(cr_checkpoint(CR_CHECKPOINT_TEMP_FAILURE_CODE(911)) == -911); break;
    case 3: return 1;
    default: cr_checkpoint(CR_CHECKPOINT_PERM_FAILURE); exit(3);
  }
  return 0;
}

static void run(int context, int last) {
  static const int wanted[] = {CR_ETEMPFAIL, ESRCH, 911};
  CHECK(cr_init() >= 0);
  CHECK(cr_register_callback(other, NULL, context) >= 0);
  CHECK(cr_register_callback(refusing, NULL, context) >= 0);
  for (round_number = 0; round_number < 3; ++round_number) {
    CHECK(take("refused", CR_SCOPE_PROC, 0, 0) == CR_POLL_CHKPT_ERR_POST && errno == wanted[round_number]);
    while (cr_status() != CR_STATE_IDLE) usleep(1000);
    CHECK(others == 0);
  }
  round_number = last;
  take("refused", CR_SCOPE_PROC, 0, 0);
  exit(4);
}

int main(void) {
  static const int contexts[] = {CR_SIGNAL_CONTEXT, CR_THREAD_CONTEXT};
  int i, status;
  for (i = 0; i < 4; ++i) {
    if (fork() == 0) run(contexts[i % 2], 3 + i / 2);
    CHECK(wait(&status) > 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
  return 0;
}
