/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Deadlines and retries. */
#include "endpoint/clock.h"

#include <errno.h>

#include "endpoint/connect.h"
#include "endpoint/events.h"
#include "endpoint/guests.h"
#include "endpoint/table.h"

static void endpoint_clock(crtcp_endpoint_t *ep, uint64_t now)
{
  if (ep->deadline_ns && now >= ep->deadline_ns) {
    ep->deadline_ns = 0;
    if (ep->state == CRTCP_CONNECTING || ep->state == CRTCP_ASKED) {
      crtcp_attempt_failed(ep, ETIMEDOUT);
    } else if (ep->state == CRTCP_ANSWERED) {
      crtcp_attempt_ended(ep);
    }
  }
  if (ep->retry_ns && now >= ep->retry_ns) {
    ep->retry_ns = 0;
    if (ep->state == CRTCP_LOST || (ep->state == CRTCP_IDLE && !opal_list_is_empty(&ep->queue))) crtcp_connect(ep);
  }
  if (ep->deadline_ns) crtcp_alarm(ep->deadline_ns);
  if (ep->retry_ns) crtcp_alarm(ep->retry_ns);
}

void crtcp_clock(uint64_t now)
{
  opal_list_item_t *item;

  crtcp.alarm_ns = 0;
  for (item = opal_list_get_first(&crtcp.endpoints); item != opal_list_get_end(&crtcp.endpoints);
       item = opal_list_get_next(item))
    endpoint_clock((crtcp_endpoint_t *) ((char *) item - offsetof(crtcp_endpoint_t, super)), now);
  crtcp_guests_clock(now);
}
