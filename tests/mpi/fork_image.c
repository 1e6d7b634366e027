// SPDX-License-Identifier: GPL-2.0-only
#include "fork_image.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK = 1 << 20, LOOK_MS = 1000, CONNECTIONS = 4096 };

static ucontext_t taking; /* the thread in image_take() */
static volatile struct image_use use;
static _Atomic int wanted; /* the main thread is to fork */
static sem_t taken;
static bool connections[CONNECTIONS]; /* by descriptor */
static int door = -1; /* where the image listens */

/* The stacks are not of glibc: after fork() it would use those of lost threads again. */
static bool run(void *(*function)(void *))
{
  void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  pthread_attr_t attributes;
  pthread_t thread;
  bool good;

  if (stack == MAP_FAILED || pthread_attr_init(&attributes)) return false;
  good = !pthread_attr_setstack(&attributes, stack, STACK) && !pthread_create(&thread, &attributes, function, NULL);
  pthread_attr_destroy(&attributes);
  return good;
}

bool image_thread(void *(*function)(void *))
{
  return !sem_init(&taken, 0, 0) && run(function);
}

static int open_door(void)
{
  static int count;
  static pid_t owner;
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

  if (owner != getpid()) count = 0;
  owner = getpid();
  snprintf(name.sun_path, sizeof name.sun_path, "%s.%d.%d", getenv("CR_RANK_SOCKET"), getpid(), ++count);
  return fd < 0 || bind(fd, (struct sockaddr *) &name, sizeof name) || listen(fd, 8) ? -1 : fd;
}

struct image_use image_take(void)
{
  use = (struct image_use) {.word = 'e'};
  door = open_door();
  if (door < 0) return use;
  getcontext(&taking);
  if (use.word == 'e') {
    wanted = 1;
    sem_wait(&taken);
    close(door);
  } /* else this is a process made of the image, which continues here */
  memset(connections, 0, sizeof connections);
  return use;
}

static void *continue_taking(void *unused)
{
  setcontext(&taking);
  return unused;
}

void image_connection(int fd)
{
  if (fd < CONNECTIONS) connections[fd] = true;
}

/* As on another node: the connections stay with the other processes that have them. */
static void lose_connections(void)
{
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

  for (int fd = 0; fd < CONNECTIONS; fd++)
    if (connections[fd]) dup2(nothing, fd);
  close(nothing);
}

/* Processes that were made of this image are killed, or end with the job. */
static void mourn(void)
{
  int status;

  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
      fprintf(stderr, "fork_image: process %d has ended by itself, status %#x\n", pid, (unsigned) status);
}

/* The life of an image, which makes processes on demand. Returns in each of them. */
static void be_image(void)
{
  for (;;) {
    struct pollfd ready = {.fd = door, .events = POLLIN};
    char word;
    int client;

    if (access(getenv("CR_RANK_SOCKET"), F_OK)) _exit(0);
    mourn();
    if (poll(&ready, 1, LOOK_MS) <= 0) continue;
    client = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    if (client >= 0 && read(client, &word, 1) == 1 && fork() == 0) {
      close(door);
      prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing stays behind when the image ends */
      use.word = word;
      use.client = client;
      if (word == 's') lose_connections();
      if (!run(continue_taking)) _exit(1);
      return;
    }
    close(client);
  }
}

/* Called by crtcp_hold_wait() for each thread of the program that waits for the end of a wave. */
long syscall(long number, ...)
{
  static long (*real)(long, ...);
  long a[6];
  va_list args;

  va_start(args, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(args, long);
  va_end(args);
  if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT && wanted && gettid() == getpid()) {
    pid_t image;

    wanted = 0;
    image = fork();
    if (image == 0) {
      be_image();
      return 0;
    }
    use.word = image < 0 ? 'e' : 'i';
    sem_post(&taken);
  }
  if (!real) real = (long (*)(long, ...)) dlsym(RTLD_NEXT, "syscall");
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
