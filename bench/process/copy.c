// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lower bound for the time of restoring pages: copy MB THREADS PERCENT…
 * copies this percentage of the pages from one buffer to another, both touched before, with memcpy: page by page where
 * the pages are apart, in one call if all are copied; by one thread and by THREADS. Lines: THREADS PERCENT NS.
 */
#include <pthread.h>
#include "pages.h"

static uint64_t *from, *to;
static size_t pages;
static unsigned int threads, sharing, percent;
static pthread_barrier_t begin, end;

/* The share of the n-th thread. */
static void copy_share(unsigned long n)
{
	size_t first = pages * n / sharing, last = pages * (n + 1) / sharing, i;

	if (percent == 100) {
		memcpy(to + first * PAGE_WORDS, from + first * PAGE_WORDS, (last - first) * PAGE);
		return;
	}
	for (i = first; i < last; i++)
		if (page_chosen(i, percent))
			memcpy(to + i * PAGE_WORDS, from + i * PAGE_WORDS, PAGE);
}

static void *worker(void *arg)
{
	for (;;) {
		pthread_barrier_wait(&begin);
		copy_share((unsigned long)arg);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

static uint64_t copy_pages(void)
{
	uint64_t t = now_ns();

	if (sharing > 1)
		pthread_barrier_wait(&begin);
	copy_share(0);
	if (sharing > 1)
		pthread_barrier_wait(&end);
	return now_ns() - t;
}

int main(int argc, char **argv)
{
	unsigned long n;
	pthread_t thread;
	int i;

	if (argc < 4) {
		fprintf(stderr, "usage: copy MB THREADS PERCENT...\n");
		return 2;
	}
	pages = number(argv[1], 1, 1 << 20) << 20 >> 12;
	threads = number(argv[2], 1, 1024);
	from = touch_pages(pages);
	to = touch_pages(pages);
	pthread_barrier_init(&begin, NULL, threads);
	pthread_barrier_init(&end, NULL, threads);
	for (n = 1; n < threads; n++)
		if (pthread_create(&thread, NULL, worker, (void *)n)) {
			perror("threads");
			return 1;
		}
	for (i = 3; i < argc; i++) {
		percent = number(argv[i], 0, 100);
		sharing = 1;
		printf("1 %u %llu\n", percent, (unsigned long long)copy_pages());
		sharing = threads;
		if (threads > 1)
			printf("%u %u %llu\n", threads, percent, (unsigned long long)copy_pages());
	}
	return 0;
}
