/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A target for libfuzzer.c that keeps state and never frees it. It aborts on an input that begins with "FUZZ". */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static char *names[256];
static int inputs;

/* @return the number of inputs so far */
int target(const uint8_t *data, size_t size) {
  for (size_t i = 0; i + 1 < size; i += 2) {
    if (!names[data[i]]) names[data[i]] = calloc(1, 1000);
    if (names[data[i]]) names[data[i]][data[i + 1]] = (char)data[i];
  }
  if (size > 3 && data[0] == 'F') {
    if (data[1] == 'U') {
      if (data[2] == 'Z') {
        if (data[3] == 'Z') abort();
      }
    }
  }
  return ++inputs;
}
