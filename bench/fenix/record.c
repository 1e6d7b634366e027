// SPDX-License-Identifier: GPL-2.0-only
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const kNames[] = {"", "checkpoint", "begun", "restored", "step"};

static double clock_now(void)
{
  struct timespec now;

  clock_gettime(CLOCK_REALTIME, &now);
  return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

static void fail(const char *what)
{
  fprintf(stderr, "S3D_FOLDER=%s: %s: %s. Name a directory that this process may write to\n", getenv("S3D_FOLDER"), what, strerror(errno));
  exit(2);
}

/* The first process writes the time; a link is there as a whole or not at all. */
static double begin(const char *folder)
{
  static double begun = -1;
  char own[300], all[300];
  FILE *file;

  if (begun >= 0) return begun;
  snprintf(own, sizeof own, "%s/begin.%d", folder, (int) getpid());
  snprintf(all, sizeof all, "%s/begin", folder);
  if (access(all, R_OK)) {
    file = fopen(own, "w");
    if (!file) fail("a file cannot be made there");
    fprintf(file, "%.6f\n", clock_now());
    if (fclose(file)) fail("a file cannot be written there");
    if (link(own, all) && errno != EEXIST) fail("a link cannot be made there");
    unlink(own);
  }
  file = fopen(all, "r");
  if (!file || fscanf(file, "%lf", &begun) != 1) fail("`begin` cannot be read");
  fclose(file);
  return begun;
}

double record_now(void)
{
  const char *const folder = getenv("S3D_FOLDER");

  return folder ? clock_now() - begin(folder) : clock_now();
}

void record(int what, double from, int step, int rank)
{
  const char *const folder = getenv("S3D_FOLDER");
  char path[300], line[200];
  int log, length;

  if (!folder) return;
  length = snprintf(line, sizeof line, "%s %.6f %.6f %d %d\n", kNames[what], from, record_now(), step, rank);
  snprintf(path, sizeof path, "%s/log", folder);
  log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0 || write(log, line, (size_t) length) != length) fail("the log cannot be written");
  close(log);
}

void record_deaths(int rank)
{
  static timer_t timer;
  static int has_timer;
  const char *words = getenv("S3D_KILLS");
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
  struct itimerspec when = {{0, 0}, {0, 0}};
  double now, time, first = 0;
  int victim, length;

  if (!words) return;
  now = record_now();
  for (; sscanf(words, "%lf:%d%n", &time, &victim, &length) == 2; words += words[length] == ',' ? length + 1 : length)
    if (victim == rank && time > now && (first == 0 || time < first)) first = time;
  if (first == 0 && !has_timer) return;
  if (!has_timer && timer_create(CLOCK_REALTIME, &event, &timer)) {
    perror("S3D_KILLS: no timer");
    exit(2);
  }
  has_timer = 1;
  first = first == 0 ? 0 : first - now; /* 0: a timer of before does not fire */
  when.it_value.tv_sec = (time_t) first;
  when.it_value.tv_nsec = (long) (1e9 * (first - (double) when.it_value.tv_sec));
  timer_settime(timer, 0, &when, NULL);
}

/* The finalizer of splitmix64 (Steele, Lea and Flood, 2014): each bit of the word changes half of the result's. */
static uint64_t scramble(uint64_t word)
{
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
  return word ^ (word >> 31);
}

int64_t record_checksum(const double *values, int fields, const int own[3], const int first[3], const int whole[3])
{
  uint64_t sum = 0, bits, place;

  for (int field = 0; field < fields; field++)
    for (int z = 0; z < own[2]; z++)
      for (int y = 0; y < own[1]; y++)
        for (int x = 0; x < own[0]; x++) {
          place = (((uint64_t) field * whole[2] + first[2] + z) * whole[1] + first[1] + y) * whole[0] + first[0] + x;
          memcpy(&bits, values++, sizeof bits);
          sum += scramble(bits ^ scramble(place));
        }
  return (int64_t) sum;
}
