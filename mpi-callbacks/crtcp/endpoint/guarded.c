/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The epoll set of the guard. It has every connection, but no data that come over it: only its end is an event. */
#include "endpoint/guarded.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "endpoint/events.h"
#include "endpoint/table.h"

static int wake_fd = -1; /* changed only while there is no guard; after a rollback it has the same number */

void crtcp_guarded_wake(void)
{
  (void) !eventfd_write(wake_fd, 1);
}

static int wake_fd_new(void)
{
  int fd;

  do
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  while (fd < 0 && crtcp_more_descriptors(errno));
  return fd;
}

/* Put a new descriptor in the place of an old one, if there is one. */
static bool replace(int *old, int made)
{
  int moved;

  if (made < 0) return false;
  if (*old < 0) {
    *old = made;
    return true;
  }
  moved = dup3(made, *old, O_CLOEXEC);
  close(made);
  return moved >= 0;
}

/* A new set, whose number the old one had. It takes less than to remove the connections from the old one. */
static int renew(void)
{
  /* Edge-triggered: nobody reads the counter, and the end of a connection is an event once. */
  struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = CRTCP_GUARDED_WAKE};
  const int set = crtcp_epoll_new();

  if (set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, wake_fd, &event)) {
    close(set);
    return -1;
  }
  if (!replace(&crtcp.guard_epoll, set)) return -1;
  crtcp.guard_armed = false;
  return 0;
}

int crtcp_guarded_open(void)
{
  return replace(&wake_fd, wake_fd_new()) ? renew() : -1;
}

void crtcp_guarded_arm(bool all)
{
  if (crtcp.guard_armed && renew()) return;
  crtcp.guard_armed = all;
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep && all; ep = crtcp_next(ep))
    if (ep->state == CRTCP_CONNECTED) crtcp_guarded_add(ep);
}

void crtcp_guarded_again(void)
{
  if (crtcp.guard_epoll < 0) return;
  crtcp_guarded_wake(); /* the guard waits in the old set, and could not be woken any more */
  if (crtcp_guarded_open()) crtcp_say("the connections are not guarded any longer: %s", strerror(errno));
}

void crtcp_guarded_close(void)
{
  if (crtcp.guard_epoll >= 0) close(crtcp.guard_epoll);
  if (wake_fd >= 0) close(wake_fd);
  crtcp.guard_epoll = wake_fd = -1;
  crtcp.guard_armed = false;
}

void crtcp_guarded_add(const crtcp_endpoint_t *ep)
{
  struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.u64 = (uint64_t) ep->name.jobid << 32 | ep->name.vpid};

  if (crtcp.guard_armed) epoll_ctl(crtcp.guard_epoll, EPOLL_CTL_ADD, ep->fd, &event);
}

crtcp_endpoint_t *crtcp_guarded_find(uint64_t data)
{
  return crtcp_find(data >> 32, (uint32_t) data);
}
