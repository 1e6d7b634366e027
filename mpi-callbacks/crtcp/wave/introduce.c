/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The first messages to and from crd, in MPI_Init. */
#include "wave/introduce.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "base/channel.h"
#include "base/counters.h"
#include "endpoint/events.h"
#include "wave/callback.h"
#include "wave/orders.h"
#include "wave/pin.h"

enum { WELCOME_MS = 60000 };

static int welcome(void)
{
  static _Alignas(8) char buffer[CR_RANK_MAX];
  const uint64_t end = crtcp_now() + WELCOME_MS * 1000000ull;
  const struct cr_rank_welcome *message = (struct cr_rank_welcome *) buffer;

  while (crtcp_now() < end) {
    struct pollfd ready = {.fd = crtcp.channel->fd, .events = POLLIN};
    int fd;
    const ssize_t n = crtcp_channel_receive(buffer, &fd);

    if (n < 0) return -1;
    if (n == 0) {
      poll(&ready, 1, 1000);
      continue;
    }
    if (message->head.type != CR_RANK_WELCOME || (size_t) n < sizeof *message) {
      crtcp_order(&message->head, fd);
      continue;
    }
    if (fd >= 0) close(fd);
    memcpy(crtcp.cookie, message->cookie, sizeof crtcp.cookie);
    crtcp_tell_node(message->node);
    crtcp.recovery = crtcp.incarnation = crtcp.back = message->head.recovery;
    crtcp.wave = message->wave;
    crtcp.channel->no_waves = message->no_waves;
    return 0;
  }
  errno = ETIMEDOUT;
  return -1;
}

int crtcp_introduce(const char **why)
{
  const char *path = getenv(CR_RANK_SOCKET_VARIABLE);
  struct cr_rank_hello hello = {.protocol = CR_RANK_PROTOCOL, .pid = getpid()};
  struct crtcp_channel *channel;
  const char *off = NULL;
  char *text = NULL;
  size_t bytes = 0;
  int count;
  bool sent;

  if (!path || !*path) {
    *why = "this job was not started by crrun, so no daemon takes them; start it with crrun";
    return 0;
  }
  channel = calloc(1, sizeof *channel);
  if (!channel) return -1;
  channel->fd = -1;
  if (strlen(path) >= sizeof channel->path) {
    *why = "the path in " CR_RANK_SOCKET_VARIABLE " is too long";
    free(channel);
    return -1;
  }
  strcpy(channel->path, path);
  crtcp.channel = channel;
  if (crtcp_channel_connect()) {
    *why = "the daemon that " CR_RANK_SOCKET_VARIABLE " names does not answer";
    return -1;
  }
  hello.can_checkpoint = channel->can_checkpoint = crtcp_callback_register(&off) == 0;
  count = crtcp_local_addresses(crtcp.port4, crtcp.port6, &text, &bytes);
  hello.addresses = count > 0 ? count : 0;
  sent = crtcp_channel_send(CR_RANK_HELLO, &hello, sizeof hello, text, bytes);
  free(text);
  if (!sent || welcome()) {
    *why = "the daemon that " CR_RANK_SOCKET_VARIABLE " names has closed the connection";
    return -1;
  }
  crtcp_tell_counters();
  crtcp_offer_services();
  if (off) crtcp_channel_log(off);
  *why = off;
  crtcp_lock(&crtcp.lock);
  crtcp_epoll_make(); /* adds the channel */
  crtcp_unlock(&crtcp.lock);
  return 0;
}
