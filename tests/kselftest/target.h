// SPDX-License-Identifier: GPL-2.0-only
#pragma once
// The control file between test program and target.
#include "harness.h"

enum { CTL_DONE = 1, CTL_REQUEST = 2 };
struct control {
  uint32_t state;
  uint32_t op;
  uint32_t failed;
  uint32_t reserved;
  struct times times;
  char text[1024];
};
_Noreturn void target_main(const char *name, const char *dir, const struct scenario *scenarios);
void become(uid_t uid);
