// SPDX-License-Identifier: GPL-2.0-only
/*
 * Preloaded into a rank, stands in for libcr where the module is not loaded: the transport's callback then runs as for
 * a checkpoint, but nothing is saved. While cr_checkpoint() waits, the rank's state is that of the image that would be
 * taken, so "roll back" is just another result of cr_checkpoint().
 *
 * It listens at the Unix address $CR_RANK_SOCKET.PID. A client sends 'c' to request a checkpoint. The answer
 * is 'f' when the callback has refused, or 'r' when it is ready. The client then sends 'g' (go on), 'p' (paused) or
 * 's' (restarted), and the answer is 'd' when the callback has returned.
 *
 * STAND_IN_SHORT_MARK=1: the first mark of a wave that is written goes into its socket by 5 bytes only, and the rest
 * not before the callback has refused the checkpoint: as with a peer that does not read.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "libcr.h"

enum { MARK = 0x53, MARK_BYTES = 16, MARK_PART = 5 };

static cr_callback_t callback;
static void *callback_argument;
static int client = -1;
static _Atomic int short_fd = -1; /* the socket with a part of a mark */
static _Atomic int cut_marks; /* marks that are still to be cut */

static char hear(void)
{
  char word = 0;

  while (read(client, &word, 1) < 0 && errno == EINTR) {}
  return word;
}

static void say(char word)
{
  if (write(client, &word, 1) != 1) perror("libcr_stand_in");
}

static void *serve(void *listener)
{
  for (;;) {
    client = accept4((int) (long) listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0) continue;
    while (hear() == 'c') {
      callback(callback_argument);
      say('d');
    }
    close(client);
  }
  return NULL;
}

cr_client_id_t cr_init(void)
{
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  pthread_t thread;

  snprintf(name.sun_path, sizeof name.sun_path, "%s.%d", getenv("CR_RANK_SOCKET"), getpid());
  cut_marks = getenv("STAND_IN_SHORT_MARK") ? 1 : 0;
  if (listener < 0 || bind(listener, (struct sockaddr *) &name, sizeof name) || listen(listener, 8) ||
      pthread_create(&thread, NULL, serve, (void *) (long) listener))
    return -1;
  return 1;
}

cr_callback_id_t cr_register_callback(cr_callback_t function, void *argument, int flags)
{
  (void) flags;
  callback = function;
  callback_argument = argument;
  return 1;
}

int cr_checkpoint(int flags)
{
  if (flags != CR_CHECKPOINT_READY) {
    short_fd = -1;
    say('f');
    return -EAGAIN;
  }
  say('r');
  switch (hear()) {
  case 'p': return CR_PAUSED;
  case 's': return CR_RESTARTED;
  default: return CR_CONTINUED;
  }
}

ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
  static ssize_t (*real)(int, const void *, size_t, int);

  if (!real) real = (ssize_t (*)(int, const void *, size_t, int)) dlsym(RTLD_NEXT, "send");
  if (fd == short_fd) {
    errno = EAGAIN;
    return -1;
  }
  if (length == MARK_BYTES && *(const unsigned char *) bytes == MARK && cut_marks > 0) {
    cut_marks--;
    short_fd = fd;
    length = MARK_PART;
  }
  return real(fd, bytes, length, flags);
}
