/* SPDX-License-Identifier: GPL-2.0-only */
/* The version macros that configure scripts and packages check. */
#include "common.h"

#if LIBCR_MAJOR != 0 || CR_MODULE_MAJOR != 0 || CR_RELEASE_MAJOR != 0 || CR_RELEASE_MINOR < 8
#error "not the versions of BLCR 0.8"
#endif

int main(void) {
  int code;
  CHECK(strchr(LIBCR_VERSION, '.') && strchr(CR_MODULE_VERSION, '.') && strchr(CR_RELEASE_VERSION, '.'));
  CHECK(LIBCR_MINOR + LIBCR_PATCH > 0 && CR_MODULE_MINOR + CR_MODULE_PATCH > 0);
  for (code = CR_MIN_ERRCODE + 1; code < CR_MAX_ERRCODE; ++code) CHECK(strlen(cr_strerror(code)) > 8);
  CHECK(cr_init() >= 0);
  (void)take;
  return 0;
}
