/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libFuzzer with a target that keeps state: a process of its own runs the inputs, and is rolled back to a snapshot after
 * every EVERY of them. libFuzzer itself goes on, with all that it has learnt.
 *
 *   clang -O1 -g -fsanitize=fuzzer-no-link -c stateful.c     # the target, with coverage
 *   clang -O1 -g -c libfuzzer.c                              # this file, without
 *   clang -fsanitize=fuzzer -o fuzzer stateful.o libfuzzer.o -lcr
 *   ./fuzzer -runs=100000 corpus
 */
#include <errno.h>
#include <libcr.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ------------------------------------------------------------------- the process that runs it */

extern int target(const uint8_t *data, size_t size);

enum { EVERY = 20, LARGEST = 1 << 16 };

/* The coverage of what was compiled for libFuzzer; it is at the same addresses in both processes. */
extern uint8_t __start___sancov_cntrs[], __stop___sancov_cntrs[];

static struct {
  size_t size;
  int inputs; /* what the target has counted */
  uint8_t data[LARGEST];
  uint8_t coverage[]; /* of one input */
} *shared;             /* with the child: a rollback leaves it as it is */

static size_t coverage_size(void) { return (size_t)(__stop___sancov_cntrs - __start___sancov_cntrs); }

static void run_inputs(int go, int done) {
  char byte = 0;
  while (read(go, &byte, 1) == 1) { /* the snapshot is taken here */
    memset(__start___sancov_cntrs, 0, coverage_size());
    shared->inputs = target(shared->data, shared->size);
    memcpy(shared->coverage, __start___sancov_cntrs, coverage_size());
    if (write(done, &byte, 1) != 1) break;
  }
  _exit(0);
}

/* ------------------------------------------------------------------------------- libFuzzer's */

static int go[2], done[2];
static pid_t child;
static cr_snapshot_t snapshot;

static void need(int right, const char *what) {
  if (right) return;
  fprintf(stderr, "%s: %s\n", what, cr_strerror(errno));
  _exit(2);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  shared = mmap(NULL, sizeof *shared + coverage_size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(shared != MAP_FAILED && !pipe(go) && !pipe(done), "memory and pipes");
  child = fork();
  need(child >= 0, "fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(go[1]), close(done[0]);
    run_inputs(go[0], done[1]);
  }
  close(go[0]), close(done[1]);
  signal(SIGPIPE, SIG_IGN);
  need(cr_init() >= 0, "cr_init");
  usleep(100000); /* until it waits for its first input */
  need(cr_snapshot_take(child, CR_SNAPSHOT_KEEP_SHARED, &snapshot) == 0, "snapshot");
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static unsigned long count;
  char byte = 0;
  if (size > LARGEST) return -1;
  shared->size = size;
  memcpy(shared->data, data, size);
  if (write(go[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 1) {
    int status = 0;
    waitpid(child, &status, 0);
    fprintf(stderr, "the target has ended by signal %d\n", WTERMSIG(status));
    abort(); /* libFuzzer saves the input */
  }
  memcpy(__start___sancov_cntrs, shared->coverage, coverage_size());
  if (shared->inputs > EVERY) abort(); /* its state was not rolled back */
  if (++count % EVERY == 0) need(cr_snapshot_rollback(snapshot) == 0, "rollback");
  return 0;
}
