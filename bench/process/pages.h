/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory of the target, which the baselines copy: every word differs from its neighbours. A share of the pages, spread
 * evenly, is changed.
 */
#ifndef BENCH_PAGES_H
#define BENCH_PAGES_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE		4096UL
#define PAGE_WORDS	(PAGE / sizeof(uint64_t))

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* Content computed from the position alone (splitmix64). */
static inline uint64_t word_at(uint64_t i)
{
	uint64_t z = (i + 1) * 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* Is page i among the percent % that change? */
static inline bool page_chosen(size_t i, unsigned int percent)
{
	return (i + 1) * percent / 100 != i * percent / 100;
}

/* The word of page i that is changed; its cache line varies with i. */
static inline size_t marked_word(size_t i)
{
	return i * PAGE_WORDS + i * 8 % PAGE_WORDS;
}

/* Returns the number of changed pages. */
static inline size_t mark_pages(uint64_t *words, size_t pages, unsigned int percent)
{
	size_t i, n = 0;

	for (i = 0; i < pages; i++)
		if (page_chosen(i, percent)) {
			words[marked_word(i)]++;
			n++;
		}
	return n;
}

static inline uint64_t *get_pages(size_t pages, int flags)
{
	void *words = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (words == MAP_FAILED) {
		fprintf(stderr, "no memory for %zu pages: %s\n", pages, strerror(errno));
		exit(1);
	}
	return words;
}

/* Fill every word with its own content. */
static inline uint64_t *fill_pages(size_t pages)
{
	uint64_t *words = get_pages(pages, 0);
	size_t i;

	for (i = 0; i < pages * PAGE_WORDS; i++)
		words[i] = word_at(i);
	return words;
}

/* Only make the pages present: for measurements that do not depend on the content. */
static inline uint64_t *touch_pages(size_t pages)
{
	return get_pages(pages, MAP_POPULATE);
}

/* Parse a number in the given range; exits on error. */
static inline unsigned long number(const char *text, unsigned long least, unsigned long most)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (!*text || *end || value < least || value > most) {
		fprintf(stderr, "%s: give a number from %lu to %lu\n", text, least, most);
		exit(2);
	}
	return value;
}

#endif
