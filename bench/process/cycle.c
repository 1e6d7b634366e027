// SPDX-License-Identifier: GPL-2.0-only
/*
 * Speculative runs: change some pages, then be as before. cycle MB THREADS PAGES ROUNDS prints BEGIN END ROUNDS FORK: the
 * times in ns at which the first and the last of ROUNDS rollbacks of the calling process to its snapshot were done, and
 * how long it takes to make a child that changes the same pages and exits, and to wait for it. Of the threads only the
 * calling one exists in that child.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include "libcr.h"
#include "pages.h"

static void *idle(void *unused)
{
	(void)unused;
	for (;;)
		pause();
	return NULL;
}

/* Change n of the pages, spread evenly. */
static void change(uint64_t *words, size_t pages, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		words[marked_word(i * pages / n)]++;
}

static void fork_cycle(uint64_t *words, size_t pages, size_t n)
{
	pid_t child = fork();

	if (child == 0) {
		change(words, pages, n);
		_exit(0);
	}
	if (child < 0 || waitpid(child, NULL, 0) != child) {
		perror("fork");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	uint64_t *words, begin, forked;
	size_t pages, n, i;
	cr_snapshot_t snapshot;
	int threads, rounds, r;
	pthread_t thread;

	if (argc != 5) {
		fprintf(stderr, "usage: cycle MB THREADS PAGES ROUNDS\n");
		return 2;
	}
	pages = number(argv[1], 1, 1 << 20) << 20 >> 12;
	threads = number(argv[2], 1, 10000);
	n = number(argv[3], 0, pages);
	rounds = number(argv[4], 1, 1000000000);
	words = fill_pages(pages);
	while (--threads) {
		errno = pthread_create(&thread, NULL, idle, NULL);
		if (errno) {
			perror("pthread_create");
			return 1;
		}
	}
	fork_cycle(words, pages, n);	/* the first one warms up */
	begin = now_ns();
	for (i = 0; i < (size_t)rounds; i++)
		fork_cycle(words, pages, n);
	forked = (now_ns() - begin) / rounds;

	r = cr_snapshot_take(0, 0, &snapshot);
	if (r < 0) {
		fprintf(stderr, "cycle: snapshot: %s\n", cr_last_error());
		return 1;
	}
	/* all memory is as before: only the return value tells the rounds apart. The first one warms up. */
	if (r == 1)
		dprintf(1, "%llu ", (unsigned long long)now_ns());
	if (r == rounds + 1) {
		dprintf(1, "%llu %d %llu\n", (unsigned long long)now_ns(), rounds, (unsigned long long)forked);
		return 0;
	}
	change(words, pages, n);
	cr_snapshot_rollback(snapshot);
	fprintf(stderr, "cycle: rollback: %s\n", cr_last_error());
	return 1;
}
