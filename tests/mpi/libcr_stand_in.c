// SPDX-License-Identifier: GPL-2.0-only
/*
 * Preloaded into a rank, stands in for libcr where the module is not loaded: the transport's callback then runs as for
 * a checkpoint. While cr_checkpoint() waits, the rank's state is that of the image that would be taken, so "roll back"
 * is just another result of cr_checkpoint().
 *
 * It listens at the Unix address $CR_RANK_SOCKET.PID. A client sends 'c' to request a checkpoint. The answer
 * is 'f' when the callback has refused, or 'r' when it is ready. The client then sends 'g' (go on), 'p' (paused),
 * 's' (restarted) or 'i' (take an image, see fork_image.h, and go on), and the answer is 'd' when the callback has
 * returned.
 *
 * STAND_IN_SHORT_MARK=1: the first mark of a wave that is written goes into its socket by 5 bytes only, and the rest
 * not before the callback has refused the checkpoint: as with a peer that does not read.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fork_image.h"
#include "libcr.h"

enum { MARK = 0x53, LANE = 0x55, MARK_BYTES = 16, MARK_PART = 5 };

static cr_callback_t callback;
static void *callback_argument;
static int client = -1, listener = -1;
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

static int listen_here(void)
{
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

  snprintf(name.sun_path, sizeof name.sun_path, "%s.%d", getenv("CR_RANK_SOCKET"), getpid());
  return fd < 0 || bind(fd, (struct sockaddr *) &name, sizeof name) || listen(fd, 8) ? -1 : fd;
}

static void *serve(void *unused)
{
  (void) unused;
  for (;;) {
    client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
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
  cut_marks = getenv("STAND_IN_SHORT_MARK") ? 1 : 0;
  listener = listen_here();
  return listener >= 0 && image_thread(serve) ? 1 : -1;
}

cr_callback_id_t cr_register_callback(cr_callback_t function, void *argument, int flags)
{
  (void) flags;
  callback = function;
  callback_argument = argument;
  return 1;
}

/* @return what the client has asked for; in a process that was made of an image, what the image's client has */
static char image(void)
{
  const struct image_use use = image_take();

  if (use.word != 'p' && use.word != 's') return use.word;
  close(client);
  close(listener);
  client = use.client;
  listener = listen_here();
  return use.word;
}

int cr_checkpoint(int flags)
{
  char word;

  if (flags != CR_CHECKPOINT_READY) {
    short_fd = -1;
    say('f');
    return -EAGAIN;
  }
  say('r');
  word = hear();
  if (word == 'i') word = image();
  switch (word) {
  case 'p': return CR_PAUSED;
  case 's': return CR_RESTARTED;
  case 'e': return -ENOMEM;
  default: return CR_CONTINUED;
  }
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
  static ssize_t (*real)(int, const struct msghdr *, int);
  struct iovec part;
  struct msghdr shorter;

  if (!real) real = (ssize_t (*)(int, const struct msghdr *, int)) dlsym(RTLD_NEXT, "sendmsg");
  if (fd == short_fd) {
    errno = EAGAIN;
    return -1;
  }
  if (message->msg_iovlen != 1 || message->msg_iov->iov_len != MARK_BYTES) return real(fd, message, flags);
  part = *message->msg_iov;
  if (*(const unsigned char *) part.iov_base != MARK && *(const unsigned char *) part.iov_base != LANE)
    return real(fd, message, flags);
  image_connection(fd);
  if (cut_marks <= 0 || *(const unsigned char *) part.iov_base != MARK) return real(fd, message, flags);
  cut_marks--;
  short_fd = fd;
  part.iov_len = MARK_PART;
  shorter = (struct msghdr) {.msg_iov = &part, .msg_iovlen = 1};
  return real(fd, &shorter, flags);
}
