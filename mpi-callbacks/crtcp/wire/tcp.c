/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The wire between any two ranks: their TCP connection. */
#include "wire/wire.h"

#include <errno.h>

static ssize_t tcp_write(crtcp_endpoint_t *ep, const struct iovec *vec, int count)
{
  const struct msghdr message = {.msg_iov = (struct iovec *) vec, .msg_iovlen = count};
  ssize_t n;

  do
    n = sendmsg(ep->fd, &message, MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  return n;
}

static ssize_t tcp_read(crtcp_endpoint_t *ep, const struct iovec *first, const struct iovec *scratch, const uint8_t **lent)
{
  struct iovec vec[2] = {*first, *scratch};
  struct msghdr message = {.msg_iov = vec, .msg_iovlen = 2};
  ssize_t n;

  *lent = scratch->iov_base;
  do
    n = first->iov_len ? recvmsg(ep->fd, &message, 0) : recv(ep->fd, scratch->iov_base, scratch->iov_len, 0);
  while (n < 0 && errno == EINTR);
  return n;
}

const struct crtcp_wire crtcp_tcp = {.write = tcp_write, .read = tcp_read};
