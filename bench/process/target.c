// SPDX-License-Identifier: GPL-2.0-only
/*
 * The process that is saved and restored: target COMMANDS ANSWERS MB THREADS.
 * COMMANDS and ANSWERS are FIFOs. All threads but the first wait for ever, half of them in a futex, half in a pipe. The
 * first takes commands, one per line:
 *
 *   d PERCENT  change a word in this percentage of the pages; answers the ns it took
 *   c          answers how many pages differ from the initial content, in the words that d changes
 *   C          the same for every word
 */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
#include "pages.h"

static pthread_mutex_t forever = PTHREAD_MUTEX_INITIALIZER;
static int never[2];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *wait_futex(void *arg)
{
	pthread_mutex_lock(&forever);
	return arg;
}

static void *wait_pipe(void *arg)
{
	char byte;

	if (read(never[0], &byte, 1) != 0)
		die("pipe");
	return arg;
}

static size_t changed_words(const uint64_t *words, size_t pages)
{
	size_t i, n = 0;

	for (i = 0; i < pages; i++)
		n += words[marked_word(i)] != word_at(marked_word(i));
	return n;
}

static size_t changed_pages(const uint64_t *words, size_t pages)
{
	size_t i, k, n = 0;

	for (i = 0; i < pages; i++)
		for (k = i * PAGE_WORDS; k < (i + 1) * PAGE_WORDS; k++)
			if (words[k] != word_at(k)) {
				n++;
				break;
			}
	return n;
}

static void serve(uint64_t *words, size_t pages, int commands, int answers)
{
	char line[64], answer[64];
	uint64_t begin;
	ssize_t got;
	int len;

	for (;;) {
		got = read(commands, line, sizeof(line) - 1);
		if (got <= 0)
			die("commands");
		line[got] = 0;
		begin = now_ns();
		switch (line[0]) {
		case 'd':
			mark_pages(words, pages, strtoul(line + 1, NULL, 10));
			len = sprintf(answer, "%llu\n", (unsigned long long)(now_ns() - begin));
			break;
		case 'c':
			len = sprintf(answer, "%zu\n", changed_words(words, pages));
			break;
		case 'C':
			len = sprintf(answer, "%zu\n", changed_pages(words, pages));
			break;
		default:
			len = sprintf(answer, "what?\n");
		}
		if (write(answers, answer, len) != len)
			die("answers");
	}
}

int main(int argc, char **argv)
{
	size_t pages;
	unsigned long threads, i;
	pthread_attr_t attr;
	uint64_t *words;
	int commands, answers;
	pthread_t thread;

	if (argc != 5) {
		fprintf(stderr, "usage: target COMMANDS ANSWERS MB THREADS\n");
		return 2;
	}
	pages = number(argv[3], 1, 1 << 20) << 20 >> 12;
	threads = number(argv[4], 1, 4096);
	/* Open both ends of each, so that neither reaches end of file when the other side closes. */
	commands = open(argv[1], O_RDWR);
	answers = open(argv[2], O_RDWR);
	if (commands < 0 || answers < 0 || pipe(never))
		die("FIFOs");
	words = fill_pages(pages);
	pthread_mutex_lock(&forever);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	for (i = 1; i < threads; i++)
		if (pthread_create(&thread, &attr, i % 2 ? wait_futex : wait_pipe, NULL))
			die("threads");
	if (write(answers, "ready\n", 6) != 6)
		die("answers");
	serve(words, pages, commands, answers);
}
