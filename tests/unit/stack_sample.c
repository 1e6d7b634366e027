// SPDX-License-Identifier: GPL-2.0-only
// A process with a known stack, global variable and second thread, to inspect with a debugger.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

volatile long sample_answer = 424242;
static pthread_barrier_t ready;

static void *sample_thread(void *unused) {
  pthread_barrier_wait(&ready);
  for (;;) pause();
  return unused;
}

__attribute__((noinline)) void sample_inner(int depth) {
  volatile int local = depth * 7;
  puts("ready");
  fflush(stdout);
  for (;;) pause();
  (void)local;
}

__attribute__((noinline)) void sample_outer(int depth) {
  if (depth < 3)
    sample_outer(depth + 1);
  else
    sample_inner(depth);
  sample_answer++;
}

int main(void) {
  pthread_t thread;
  pthread_barrier_init(&ready, NULL, 2);
  pthread_create(&thread, NULL, sample_thread, NULL);
  pthread_barrier_wait(&ready);
  sample_outer(1);
  return 0;
}
