// SPDX-License-Identifier: GPL-2.0-only
/*
 * The classical rollback: fork and let the child run on; to go back, kill the child and fork again. fork MB PERCENT…
 * prints, for each percentage: PERCENT FORK TOUCH END. These are the ns for the fork, for the child to change this
 * percentage of the pages (each is copied at the first write), and for killing it and waiting until it is gone. The
 * process has one thread: no others survive a fork.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "pages.h"

int main(int argc, char **argv)
{
	uint64_t *words, *touch, forked, ended, t;
	unsigned int percent;
	size_t pages;
	int i, done[2];
	pid_t child;
	char byte;

	if (argc < 3) {
		fprintf(stderr, "usage: fork MB PERCENT...\n");
		return 2;
	}
	pages = number(argv[1], 1, 1 << 20) << 20 >> 12;
	words = touch_pages(pages);
	touch = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (touch == MAP_FAILED || pipe(done)) {
		perror("fork");
		return 1;
	}
	for (i = 2; i < argc; i++) {
		percent = number(argv[i], 0, 100);
		t = now_ns();
		child = fork();
		if (child == 0) {
			t = now_ns();
			mark_pages(words, pages, percent);
			*touch = now_ns() - t;
			if (write(done[1], "", 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
		forked = now_ns() - t;
		if (child < 0 || read(done[0], &byte, 1) != 1) {
			perror("fork");
			return 1;
		}
		t = now_ns();
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		ended = now_ns() - t;
		printf("%u %llu %llu %llu\n", percent, (unsigned long long)forked,
		       (unsigned long long)*touch, (unsigned long long)ended);
	}
	return 0;
}
