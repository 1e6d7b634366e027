// SPDX-License-Identifier: GPL-2.0-only
#include "area.h"

#include <errno.h>

#include "harness.h"

char *area;

char *map(size_t bytes) { return MUST(mmap(NULL, bytes, RW, ANON, -1, 0)); }

void plain(void) {
  area = map(MB);
  fill(area, MB, 1);
}
const char *plain_ok(void) { return filled(area, MB, 1); }
void plain_change(void) { fill(area, MB, 2); }

void locked_setup(void) {
  plain();
  MUST(mlock(area, MB));
}
const char *locked_ok(void) {
  part("memory", plain_ok());
  part("locked", vm_flag(area, "lo") ? NULL : no("is not locked"));
  const char *why = NULL;
  for (size_t i = 0; i < MB && !why; i += PAGE)
    if (page_state(area + i) != 1) why = no("page %zu is not in memory", i / PAGE);
  part("in memory", why);
  return parts();
}
void locked_change(void) {
  munmap(area, MB);
  MUST(mmap(area, MB, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
}
