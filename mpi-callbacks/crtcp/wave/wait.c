/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Waiting: of the callback thread for connections, and of the application's threads for the end of a hold. */
#include "wave/wait.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/channel.h"
#include "endpoint/events.h"
#include "endpoint/table.h"

bool crtcp_wait_begin(struct crtcp_wait *set)
{
  struct epoll_event event = {.events = EPOLLIN};

  *set = (struct crtcp_wait) {0};
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep)) ep->awaited = 0;
  set->epoll = crtcp_epoll_new();
  return set->epoll >= 0 &&
         (crtcp_channel_fd() < 0 || !epoll_ctl(set->epoll, EPOLL_CTL_ADD, crtcp_channel_fd(), &event));
}

bool crtcp_wait_for(struct crtcp_wait *set, crtcp_endpoint_t *ep, uint32_t events)
{
  struct epoll_event event = {.events = events, .data.ptr = ep};
  const uint32_t before = ep->awaited;

  if (before == events) return true;
  set->open += !!events - !!before;
  ep->awaited = events;
  if (ep->fd < 0) return events == 0; /* it is closed, which has removed it */
  return !epoll_ctl(set->epoll, !before ? EPOLL_CTL_ADD : !events ? EPOLL_CTL_DEL : EPOLL_CTL_MOD, ep->fd, &event);
}

void crtcp_wait(struct crtcp_wait *set, int timeout_ms)
{
  crtcp_unlock(&crtcp.lock);
  set->count = epoll_wait(set->epoll, set->events, sizeof set->events / sizeof *set->events, timeout_ms);
  crtcp_lock(&crtcp.lock);
}

void crtcp_wait_end(struct crtcp_wait *set)
{
  if (set->epoll >= 0) close(set->epoll);
}

/* Called by threads of the application that wait for messages. The timeout lets them see events that crtcp does not
 * report. */
void crtcp_hold_wait(void)
{
  const struct timespec look_again = {.tv_nsec = 10000000};

  syscall(SYS_futex, &crtcp.hold, FUTEX_WAIT_PRIVATE, 1, &look_again, NULL, 0);
}

void crtcp_let_go(void)
{
  atomic_store(&crtcp.hold, 0);
  syscall(SYS_futex, &crtcp.hold, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
