/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The epoll set of the transport, and what it watches; the time of the next alarm. */
#include "endpoint/events.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/channel.h"
#include "endpoint/table.h"
#include "wire/wire.h"

void crtcp_alarm(uint64_t when)
{
  if (!crtcp.alarm_ns || when < crtcp.alarm_ns) crtcp.alarm_ns = when;
}

void crtcp_watch_set(int fd, uint32_t *now, uint32_t wanted, void *who)
{
  struct epoll_event event = {.events = wanted, .data.ptr = who};

  if (*now == wanted) return;
  epoll_ctl(crtcp.epoll, *now == 0 ? EPOLL_CTL_ADD : wanted == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD, fd, &event);
  *now = wanted;
}

void crtcp_watch_endpoint(crtcp_endpoint_t *ep)
{
  uint32_t wanted = 0;

  switch (ep->state) {
  case CRTCP_CONNECTING: wanted = EPOLLOUT; break;
  case CRTCP_ASKED:
  case CRTCP_ANSWERED: wanted = EPOLLIN; break;
  case CRTCP_CONNECTED:
    wanted = ep->shut ? 0 : EPOLLIN;
    if (ep->out == &crtcp_tcp && (!opal_list_is_empty(&ep->queue) || ep->mark_left)) wanted |= EPOLLOUT;
    if (!wanted) wanted = EPOLLRDHUP;
    break;
  default: break;
  }
  if (ep->fd >= 0) crtcp_watch_set(ep->fd, &ep->events, wanted, ep);
}

void crtcp_watch_listeners(bool on)
{
  uint32_t now4 = on ? 0 : EPOLLIN, now6 = now4;

  if (crtcp.listener4 >= 0) crtcp_watch_set(crtcp.listener4, &now4, on ? EPOLLIN : 0, &crtcp.watch_listener4);
  if (crtcp.listener6 >= 0) crtcp_watch_set(crtcp.listener6, &now6, on ? EPOLLIN : 0, &crtcp.watch_listener6);
  if (on) crtcp.listen_ns = 0;
}

static void add(int fd, void *who)
{
  uint32_t none = 0;

  if (fd >= 0) crtcp_watch_set(fd, &none, EPOLLIN, who);
}

int crtcp_epoll_new(void)
{
  int set;

  do
    set = epoll_create1(EPOLL_CLOEXEC);
  while (set < 0 && crtcp_more_descriptors(errno));
  return set;
}

int crtcp_epoll_make(void)
{
  int set = crtcp_epoll_new();
  opal_list_item_t *item;

  if (set < 0) return -1;
  if (crtcp.epoll >= 0) {
    const int moved = dup3(set, crtcp.epoll, O_CLOEXEC);

    close(set);
    if (moved < 0) return -1;
  } else {
    crtcp.epoll = set;
  }
  crtcp.watch_listener4 = crtcp.watch_listener6 = CRTCP_WATCH_LISTEN;
  crtcp.watch_channel = CRTCP_WATCH_CHANNEL;
  crtcp_watch_listeners(true);
  add(crtcp_channel_fd(), &crtcp.watch_channel);
  for (item = opal_list_get_first(&crtcp.endpoints); item != opal_list_get_end(&crtcp.endpoints);
       item = opal_list_get_next(item)) {
    crtcp_endpoint_t *ep = (crtcp_endpoint_t *) ((char *) item - offsetof(crtcp_endpoint_t, super));

    ep->events = 0;
    crtcp_watch_endpoint(ep);
  }
  return 0;
}
