/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Keepalive ends the connection to a silent host only while nothing is on its way there. With data on its way the kernel
 * asks by sending these again, or by probing the closed window, and goes on for a quarter of an hour (tcp_retries2).
 * TCP_USER_TIMEOUT would end that earlier, but also the connection to a rank that computes and does not read, whose kernel
 * answers every probe. So the guard looks at what the kernel knows: whether it has asked in vain, and for how long nothing
 * has come.
 */
#include "guard/silence.h"

#include <linux/tcp.h>

#include "endpoint/connect.h"

enum { TRIES = 2 /* a lost packet is no silence */ };

unsigned crtcp_silence_look_ms(void)
{
  return crtcp.keepalive_s > 0 ? crtcp_keepalive_interval() * 1000u : 0;
}

bool crtcp_silent(crtcp_endpoint_t *ep, uint64_t now)
{
  const uint32_t limit_ms = 1000u * (crtcp.keepalive_s + CRTCP_KEEPALIVE_PROBES * crtcp_keepalive_interval());
  struct tcp_info info;
  socklen_t length = sizeof info;
  uint64_t asked;

  if (getsockopt(ep->fd, IPPROTO_TCP, TCP_INFO, &info, &length)) return false;
  if (info.tcpi_retransmits < TRIES && info.tcpi_probes < TRIES) {
    ep->asked_ns = 0;
    return false;
  }
  if (!ep->asked_ns) ep->asked_ns = now;
  asked = now - ep->asked_ns;
  /* Probes of a window that has been closed for long are two minutes apart: then the silence is as long already when the
   * second one in a row is sent, whose answer is on its way. It has come by the next look. */
  return asked > 0 && info.tcpi_last_ack_recv >= limit_ms && info.tcpi_last_data_recv >= limit_ms;
}
