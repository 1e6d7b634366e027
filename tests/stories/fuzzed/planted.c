// SPDX-License-Identifier: GPL-2.0-only
// A program with a fault and an endless loop, each behind four right bytes of its input. It is told what to read by its
// argument, else it reads standard input. Its state says whether each run began anew.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int runs;
static char *kept;

__attribute__((noinline)) static size_t input(const char *path, char *to, size_t size) {
  FILE *from = path ? fopen(path, "r") : stdin;
  if (!from) exit(2);
  return fread(to, 1, size, from);  // it is left open
}

int main(int argc, char **argv) {
  char bytes[64] = "";
  const size_t got = input(argc > 1 ? argv[1] : NULL, bytes, sizeof bytes - 1);
  if (++runs != 1 || kept) return 77;  // never: a coverage of its own
  kept = malloc(300000);
  memset(kept, (int)got, 300000);
  if (bytes[0] == 'R') {
    if (bytes[1] == 'e') {
      if (bytes[2] == 'p') {
        if (bytes[3] == '!') abort();
        if (bytes[3] == '?')
          for (;;) usleep(10000);
      }
    }
  }
  return got < 4;
}
