// SPDX-License-Identifier: GPL-2.0-only
/*
 * The least that bringing pages back can take: copy MB THREADS REPEATS PERCENT…
 * copies so many of the pages from one buffer to another, both touched before, by
 * memcpy, page by page where they are apart and in one go where they are all
 * copied. One line for each percentage and repeat: PERCENT NS.
 */
#include <pthread.h>
#include "pages.h"

static uint64_t *from, *to;
static size_t pages;
static unsigned int threads, percent;
static pthread_barrier_t begin, end;

/* The n-th thread's share. */
static void copy_share(unsigned long n)
{
	size_t first = pages * n / threads, last = pages * (n + 1) / threads, i;

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

int main(int argc, char **argv)
{
	unsigned long repeats, n;
	pthread_t thread;
	uint64_t t;
	int i;

	if (argc < 5) {
		fprintf(stderr, "usage: copy MB THREADS REPEATS PERCENT...\n");
		return 2;
	}
	pages = number(argv[1], 1, 1 << 20) << 20 >> 12;
	threads = number(argv[2], 1, 1024);
	repeats = number(argv[3], 1, 1000);
	from = touch_pages(pages);
	to = touch_pages(pages);
	pthread_barrier_init(&begin, NULL, threads);
	pthread_barrier_init(&end, NULL, threads);
	for (n = 1; n < threads; n++)
		if (pthread_create(&thread, NULL, worker, (void *)n)) {
			perror("threads");
			return 1;
		}
	for (i = 4; i < argc; i++) {
		percent = number(argv[i], 0, 100);
		for (n = 0; n < repeats; n++) {
			mark_pages(to, pages, percent);
			t = now_ns();
			if (threads > 1)
				pthread_barrier_wait(&begin);
			copy_share(0);
			if (threads > 1)
				pthread_barrier_wait(&end);
			printf("%u %llu\n", percent, (unsigned long long)(now_ns() - t));
		}
	}
	return 0;
}
