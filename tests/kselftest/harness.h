// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/*
 * Harness of the TAP programs: a *scenario* is a piece of state in a target
 * process. The harness starts the target, lets it set up the state, takes a
 * checkpoint, lets the target change the state, and expects the old state after a
 * pause and after a restart. A scenario whose check does not detect the change
 * fails: a test that cannot fail tests nothing.
 *
 * Target and test program communicate through a regular file: its content is not
 * part of the target's state, and it prevents neither a pause nor a restart.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MB (1UL << 20)

enum {
  NO_PAUSE = 1,
  NO_RESTART = 2,
  RESTART_MAY_REFUSE = 4,  // exit 3 is also correct; a wrong state never is
  PAUSE_MAY_REFUSE = 8,
  FINISH_LAST = 16,      // finish cannot be undone: only before the target is killed
  MANY_FREEZES = 32,     // several checkpoints in a row before the first check
  NO_SELF_CHECK = 64,    // the state cannot be changed (give the reason at the scenario)
  AS_USER = 128,         // target and commands run as uid 1000
  CHECKPOINT_MAY_REFUSE = 256,
};

// check, changed and finish return NULL or an error text (see no()).
struct scenario {
  const char *name;
  unsigned flags;
  void (*setup)(void);           // in the target, once
  const char *(*check)(void);    // in the target, changes nothing: compare the state with that of the checkpoint
  void (*mutate)(void);          // in the target: change the state (NULL: finish does)
  const char *(*changed)(void);  // in the target, changes nothing: compare the state with that which mutate left
  const char *(*finish)(void);   // in the target: use up the state and verify the result
  const char *(*skip)(void);     // in the test program: why the scenario cannot run here, or NULL
  const char *pause_args[4];
  const char *restart_args[6];
  void (*before_restart)(void);  // in the test program, after the target was killed
};

// The scenario of that name, which must exist.
const struct scenario *scenario_named(const struct scenario *all, const char *name);

struct test {  // runs in the test program
  const char *name;
  void (*run)(void);
};

/* ---- both sides */
int harness_main(int argc, char **argv, const struct scenario *scenarios, const struct test *tests);
int64_t now_ns(void);  // CLOCK_MONOTONIC
void sleep_ms(int ms);
const char *path(const char *name);                                            // in the test's own folder
const char *no(const char *format, ...) __attribute__((format(printf, 1, 2)));  // error text of a failed check
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define MUST(call)                                                                                        \
  ({                                                                                                      \
    __typeof__(call) result_ = (call);                                                                    \
    if (result_ == (__typeof__(call))-1) die("%s:%d: %s: errno %d", __FILE__, __LINE__, #call, errno); \
    result_;                                                                                              \
  })

/* ---- in the test program */
void tap(bool ok, const char *what, const char *why, ...) __attribute__((format(printf, 3, 4)));
void harness_prepare(void);  // for a main() of its own
int harness_end(void);       // prints the plan, returns the exit code
void tap_why(const char *what, const char *why);  // passed if why is NULL
void tap_skip(const char *what, const char *why);
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct run {
  int code;        // exit code, -1 when it was ended by a signal or did not end in time
  bool timed_out;
  double seconds;
  char out[16384], err[16384];
};
extern uid_t run_uid;        // commands run as this user
extern unsigned run_limit_s;  // and are killed after this time
int run(struct run *r, const char *const argv[]);
int runl(struct run *r, ...);  // arguments up to NULL
const char *pid_text(pid_t pid);  // valid until the fourth call after it
const char *why_not(const struct run *r);  // one line: exit code and output

enum op { OP_NONE, OP_SETUP, OP_CHECK, OP_MUTATE, OP_FINISH, OP_CHECK_SPOILED, OP_CHECK_CHANGED };
struct target {
  pid_t pid;
  int ctl;
  int status;  // wait status once it has ended
  bool ended;
  const struct scenario *scenario;
  char dir[96], image[128];
};
extern struct target *current;  // path() returns names in its folder
extern bool dry;                // -n: no checkpoints, only the self-checks
bool target_start(struct target *t, const struct scenario *s);  // and setup; a failure is reported by tap()
const char *target_op(struct target *t, enum op op);            // NULL or an error text
const char *target_saved(struct target *t, struct run *r, const struct scenario *s);  // start and checkpoint: the same
bool target_alive(struct target *t);
void target_kill(struct target *t);
void target_end(struct target *t);  // also removes its folder
int target_checkpoint(struct target *t, struct run *r);
int target_pause(struct target *t, struct run *r);
int target_restart(struct target *t, struct run *r);
void target_adopt(struct target *t);  // the target was restarted by other means

/* ---- in the target */
void become_user(void);  // user 1000, who then owns the folder
// A check of several parts: part() for each, then return parts(). The self-check
// requires every part to detect the change, not just one.
void part(const char *name, const char *why);
const char *parts(void);
struct times {  // of the commands, CLOCK_MONOTONIC
  int64_t checkpoint_start, checkpoint_end, back_start, back_end;
  int32_t restarted;  // the last rollback was a restart
};
const struct times *times(void);
void fill(void *at, size_t bytes, uint64_t seed);
const char *filled(const void *at, size_t bytes, uint64_t seed);  // NULL or the first difference
void maps_note(void);          // store /proc/self/maps
const char *maps_same(void);   // NULL or the first difference; adjacent equal mappings count as one
void fds_note(void);         // store descriptors: numbers, flags, positions, shared open file descriptions
const char *fds_same(void);  // NULL or the first difference
int page_state(const void *at);            // 0: none, 1: present, 2: swapped
long status_kb(const char *field);         // of /proc/self/status
bool vm_flag(const void *at, const char *flag);  // of /proc/self/smaps, "lo"
int thread_count(void);

// A thread that runs jobs, one after the other.
struct worker {
  pthread_t thread;
  pid_t tid;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  const char *(*job)(void *);
  void *arg;
  const char *result;
  bool quit, ready;
};
void worker_start(struct worker *w);
const char *worker_do(struct worker *w, const char *(*job)(void *), void *arg);
void worker_end(struct worker *w);  // joins it
bool thread_exists(pid_t tid);
pid_t gettid_(void);
bool soon(bool (*is)(void *), void *arg, int ms);  // poll until is(arg); false after ms
bool thread_in_call(pid_t tid, long nr);   // blocked in this system call
size_t slurp(const char *file, char *buf, size_t size);
