/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Messages between this rank and the daemon of its node: see rank_channel.h. */
#include "base/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

enum { SEND_MS = 5000 };

int crtcp_channel_fd(void)
{
  return crtcp.channel ? crtcp.channel->fd : -1;
}

static int channel_broken(void)
{
  if (crtcp.channel->fd >= 0) close(crtcp.channel->fd);
  crtcp.channel->fd = -1;
  crtcp.channel->introduced = false;
  return -1;
}

int crtcp_channel_connect(void)
{
  struct crtcp_channel *channel = crtcp.channel;
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  struct ucred who;
  socklen_t length = sizeof who;

  if (channel->fd >= 0) close(channel->fd);
  channel->introduced = false;
  memcpy(name.sun_path, channel->path, sizeof channel->path);
  channel->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (channel->fd < 0) return -1;
  if (connect(channel->fd, (struct sockaddr *) &name, sizeof name) ||
      getsockopt(channel->fd, SOL_SOCKET, SO_PEERCRED, &who, &length))
    return channel_broken();
  if (who.uid != geteuid() && who.uid != 0) {
    errno = EPERM;
    return channel_broken();
  }
  return 0;
}

bool crtcp_channel_send(uint32_t type, void *message, size_t bytes, const void *more, size_t more_bytes)
{
  struct cr_rank_message *head = message;
  struct iovec vec[2] = {{message, bytes}, {(void *) more, more_bytes}};
  const struct msghdr packet = {.msg_iov = vec, .msg_iovlen = more_bytes ? 2 : 1};
  struct pollfd ready = {.fd = crtcp_channel_fd(), .events = POLLOUT};
  ssize_t n;

  if (ready.fd < 0) return false;
  *head = (struct cr_rank_message) {.type = type,
                                    .length = bytes + more_bytes,
                                    .rank = OPAL_PROC_MY_NAME.vpid,
                                    .recovery = crtcp.recovery};
  for (;;) {
    n = sendmsg(ready.fd, &packet, MSG_NOSIGNAL);
    if (n >= 0) {
      if (type == CR_RANK_HELLO || type == CR_RANK_RESTORED) crtcp.channel->introduced = true;
      return true;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN || poll(&ready, 1, SEND_MS) <= 0) break;
  }
  channel_broken();
  return false;
}

ssize_t crtcp_channel_receive(void *buffer, int *fd)
{
  struct cr_rank_message *head = buffer;
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  ssize_t n;

  *fd = -1;
  while (crtcp_channel_fd() >= 0) {
    struct iovec vec = {buffer, CR_RANK_MAX};
    struct msghdr packet = {
        .msg_iov = &vec, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *c;

    n = recvmsg(crtcp.channel->fd, &packet, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return 0;
    if (n <= 0) return channel_broken();
    if (*fd >= 0) close(*fd);
    *fd = -1;
    for (c = CMSG_FIRSTHDR(&packet); c; c = CMSG_NXTHDR(&packet, c))
      if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) memcpy(fd, CMSG_DATA(c), sizeof *fd);
    if ((size_t) n < sizeof *head || head->length != (uint32_t) n || head->recovery < crtcp.recovery) continue;
    return n;
  }
  return -1;
}

void crtcp_channel_lost(uint32_t jobid, uint32_t vpid, int error, const char *why)
{
  /* The daemon would mistake a process of another namespace for the job's rank of this number. */
  struct cr_rank_lost lost = {.peer = crtcp_foreign(jobid) ? UINT32_MAX : vpid, .error = error};

  crtcp_channel_send(CR_RANK_LOST, &lost, sizeof lost, why, strlen(why));
}

void crtcp_channel_log(const char *text)
{
  struct cr_rank_message head;

  if (crtcp.channel->introduced) crtcp_channel_send(CR_RANK_LOG, &head, sizeof head, text, strlen(text));
}
