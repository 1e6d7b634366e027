// SPDX-License-Identifier: GPL-2.0-only
#include "check.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t sum;

uint64_t mix(uint64_t a, uint64_t b)
{
  uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0xd1b54a32d192ed03u;

  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

uint64_t name_of(int from, int to, int tag, long iteration)
{
  return mix(mix(mix(mix(options.seed, from), to), tag), iteration);
}

size_t length_of(uint64_t name)
{
  static const size_t lengths[] = {0, 1, 7, 64, 1000, 4096, 20000, 65000, 65536, 70000, 131072, 140000};
  const uint64_t which = mix(name, 1) % 32;
  size_t length;

  if (which < sizeof lengths / sizeof *lengths)
    length = lengths[which];
  else
    length = which < 30 ? mix(name, 2) % 3000 : mix(name, 3) % (options.size + 1);
  return length < options.size ? length : options.size;
}

void fill(void *data, size_t bytes, uint64_t name)
{
  unsigned char *at = data;
  uint64_t word = name | 1;

  for (; bytes >= 8; bytes -= 8, at += 8) {
    memcpy(at, &word, 8);
    word = word * 6364136223846793005u + 1442695040888963407u;
  }
  memcpy(at, &word, bytes);
}

void verify(const void *data, size_t bytes, uint64_t name, const char *what)
{
  const unsigned char *at = data;
  uint64_t word = name | 1, hash = name;

  for (size_t left = bytes; left;) {
    const size_t n = left < 8 ? left : 8;

    if (memcmp(at, &word, n)) bad("%s: byte %zu of %zu is wrong", what, bytes - left, bytes);
    hash = (hash ^ word) * 0x100000001b3u;
    word = word * 6364136223846793005u + 1442695040888963407u;
    at += n;
    left -= n;
  }
  count_in(mix(hash, bytes));
}

void count_in(uint64_t value)
{
  sum += mix(value, 7);
}

uint64_t checksum(void)
{
  return sum;
}

void *room(size_t bytes)
{
  void *data = malloc(bytes ? bytes : 1);

  if (!data) bad("no memory for %zu bytes", bytes);
  return data;
}
