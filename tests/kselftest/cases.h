// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/*
 * TAP programs whose cases may hang or crash if the module is faulty: each case runs
 * in a process of its own, for a limited time. Whatever a case reports, it fails when
 * one of its processes cannot be killed afterwards, the module stays in use or the
 * kernel has logged a warning.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "session.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

struct tcase {
  const char *name;  // one word
  void (*run)(void);
  unsigned limit_s;  // 0: 30
};

// program [-v] [PART]: runs the cases with PART in their name; if PART is the name of a case, only that case.
int cases_main(int argc, char **argv, const struct tcase *cases, size_t ncases);

/* ---- in a case */
// Without ok the case has failed; the first reason is printed, with -v all reasons. Returns ok.
bool expect(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
// As expect(), but without ok the case ends.
void need(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void skip(const char *why);
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- processes and threads */
enum { THREADS = 4 };
struct shared {  // between a case and its target
  volatile int ready, go, stop;
  volatile long ticks[THREADS], wrong;
  volatile long value[16];
  void *volatile at[8];
};
extern struct shared *sh;                       // zeroed before each case
void *shared_memory(size_t bytes);              // inherited by fork
pid_t process(void (*body)(void *), void *arg);  // dies with its parent
pid_t target(void (*body)(void));               // returns once it has set sh->ready
void ticking(void);                             // a target of THREADS threads, each counting in sh->ticks
void tick_threads(int from);                    // start the threads of that target from this index on
_Noreturn void tick(int i);                     // body of one of them
bool runs_on(void);                             // do all of them count?
bool one_ticks(int i);
bool stands_still(void);
bool alive(pid_t pid);                          // exists and is no zombie
bool ends(pid_t pid, int seconds, int *status);  // a child is waited for; status may be NULL
bool soon(bool (*is)(void *), void *arg, int seconds);
void sleep_ms(unsigned ms);
int64_t now_ms(void);
unsigned below(unsigned n);                     // a random number
void random_us(unsigned most);                  // sleep for a random time
char task_state(pid_t tid);                     // 'R', 'S', 'D', ..., 0: no such task
const char *threads_of(pid_t pid);              // each with its state and wchan, for messages
long file_number(const char *file, const char *key);  // the number after key in a file of /proc, -1: none
int send_fd(int socket, int fd);
int receive_fd(int socket);

/* ---- userfaultfd memory: a thread that touches it blocks until pit_fill() */
struct pit {
  int uffd;
  char *at;
  size_t size;
};
bool pit_open(struct pit *p, size_t size);  // in this process; false: the kernel refuses
void pit_fill(struct pit *p);               // fill it with zeros, which wakes the threads that wait
void pit_close(struct pit *p);
