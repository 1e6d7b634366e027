/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A copy of kept memory that the program asks for. A rollback into the wait goes on waiting: crd is asked again. */
#include "wave/kept.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/channel.h"
#include "wave/pin.h"

enum { AGAIN_MS = 1000 };

/* The number of a request. Numbers in memory go back with it; the clock does not. Under the lock. */
static uint64_t new_request(void)
{
  static uint64_t last;
  uint64_t now = crtcp_now();

  last = now > last ? now : last + 1;
  return last;
}

int crtcp_copy_kept(const char *name, int fd, char *why, unsigned long bytes)
{
  struct cr_rank_copy_kept request = {.fd = fd};
  uint64_t id, asked_ns = 0, now;
  int status;

  if (!crtcp_with_daemon()) {
    snprintf(why, bytes, "the program was not started by crrun");
    return EOPNOTSUPP;
  }
  crtcp_lock(&crtcp.lock);
  id = new_request();
  while (crtcp.channel->copied != id) {
    now = crtcp_now();
    /* On another node the clock may be behind. */
    if (now - asked_ns >= AGAIN_MS * (uint64_t) MILLISECOND && !crtcp.hold && !crtcp.recovering) {
      request.id = id;
      request.pid = getpid();
      if (crtcp_channel_send(CR_RANK_COPY_KEPT, &request, sizeof request, name, strlen(name))) asked_ns = now;
    }
    crtcp_look_around();
  }
  status = crtcp.channel->copied_status;
  snprintf(why, bytes, "%s", crtcp.channel->copied_why);
  crtcp_unlock(&crtcp.lock);
  return status;
}
