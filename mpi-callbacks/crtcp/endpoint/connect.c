/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Connections: listening, connecting, and handling of broken ones. */
#include "endpoint/connect.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/channel.h"
#include "endpoint/events.h"
#include "endpoint/guarded.h"
#include "endpoint/handshake.h"
#include "endpoint/lanes.h"
#include "endpoint/table.h"

enum {
  RETRY_MS = 20,
  RETRY_MAX_MS = 1000,
  REPORT_MS = 5000, /* a peer that answers late is no loss */
  REPORT_AGAIN_MS = 30000,
  ASK_MS = 5000,
};

/* ------------------------------------------------------------------------------------------ listening */

static int listen_on(int family, uint16_t *port)
{
  struct sockaddr_storage name = {.ss_family = family};
  socklen_t length = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
  const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;

  *port = 0;
  if (fd < 0) return -1;
  /* A restart on the same node binds the port again while old connections of it may be in TIME_WAIT. */
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (bind(fd, (struct sockaddr *) &name, length) || listen(fd, SOMAXCONN) ||
      getsockname(fd, (struct sockaddr *) &name, &length)) {
    close(fd);
    return -1;
  }
  *port = ntohs(family == AF_INET ? ((struct sockaddr_in *) &name)->sin_port
                                  : ((struct sockaddr_in6 *) &name)->sin6_port);
  return fd;
}

int crtcp_listen(void)
{
  if (crtcp.listener4 >= 0) close(crtcp.listener4);
  if (crtcp.listener6 >= 0) close(crtcp.listener6);
  crtcp.listener4 = listen_on(AF_INET, &crtcp.port4);
  crtcp.listener6 = listen_on(AF_INET6, &crtcp.port6);
  return crtcp.listener4 < 0 && crtcp.listener6 < 0 ? -1 : 0;
}

void crtcp_tune(int fd)
{
  const int on = 1, idle = crtcp.keepalive_s, interval = crtcp_keepalive_interval(), probes = CRTCP_KEEPALIVE_PROBES;

  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (crtcp.sndbuf > 0) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &crtcp.sndbuf, sizeof crtcp.sndbuf);
  if (crtcp.rcvbuf > 0) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &crtcp.rcvbuf, sizeof crtcp.rcvbuf);
  if (idle > 0) {
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  }
  /* No TCP_USER_TIMEOUT: it also counts while the receiver's window is closed, so that it would end the connection to a
   * rank that computes for longer. guard/silence.c tells the two apart. */
}

void crtcp_later(crtcp_endpoint_t *ep)
{
  const int shift = ep->attempts < 6 ? ep->attempts : 6;
  uint64_t wait = (uint64_t) RETRY_MS << shift;

  if (wait > RETRY_MAX_MS) wait = RETRY_MAX_MS;
  ep->retry_ns = crtcp_now() + wait * MILLISECOND;
  crtcp_alarm(ep->retry_ns);
}

/* Make a connection anew that broke. If the peer had made it, it knows this rank's address and makes the next one, if it lives. If it
 * does not, a recovery is near: a question to PMIx would wait for it, and the PMIx connection would not be the image's any more. */
static void make_anew(crtcp_endpoint_t *ep)
{
  ep->state = CRTCP_LOST;
  crtcp_later(ep);
  if (!ep->located) ep->retry_ns = crtcp_now() + ASK_MS * (uint64_t) MILLISECOND;
}

void crtcp_attempt_ended(crtcp_endpoint_t *ep)
{
  crtcp_close_endpoint(ep);
  if (ep->broken)
    make_anew(ep);
  else if (!opal_list_is_empty(&ep->queue))
    crtcp_later(ep);
}

static void fail(crtcp_endpoint_t *ep)
{
  ep->state = CRTCP_FAILED;
  if (!ep->tell) crtcp.failures++;
  ep->tell = true;
}

void crtcp_gone(uint32_t jobid, uint32_t vpid)
{
  crtcp_endpoint_t *ep = crtcp_find(jobid, vpid);

  if (!ep || ep->state == CRTCP_FAILED) return;
  crtcp_debug("rank %u has failed", (unsigned) vpid);
  crtcp_lanes_leave(ep);
  crtcp_close_endpoint(ep);
  ep->retry_ns = ep->report_ns = 0;
  fail(ep);
}

static void report(crtcp_endpoint_t *ep, int error, const char *doing)
{
  ep->report_ns = crtcp_now() + REPORT_AGAIN_MS * (uint64_t) MILLISECOND;
  crtcp_channel_lost(ep->name.jobid, ep->name.vpid, error, doing);
}

void crtcp_lost(crtcp_endpoint_t *ep, int error, const char *doing)
{
  const bool counted = ep->state == CRTCP_CONNECTED;

  crtcp_close_endpoint(ep);
  crtcp_debug("%s: connection to rank %u: %s", doing, (unsigned) ep->name.vpid, error ? strerror(error) : "closed");
  if (!crtcp_with_daemon()) {
    fail(ep);
    return;
  }
  if (counted) {
    ep->broken = true;
    report(ep, error, doing);
  }
  ep->attempts++;
  make_anew(ep);
}

void crtcp_attempt_failed(crtcp_endpoint_t *ep, int error)
{
  const uint64_t now = crtcp_now();

  crtcp_close_endpoint(ep);
  ep->attempts++;
  crtcp_debug("connecting to rank %u: %s", (unsigned) ep->name.vpid, strerror(error));
  if (++ep->address_next >= ep->address_count) ep->address_next = 0;
  if (!crtcp_with_daemon() && ep->attempts >= 3 * ep->address_count) {
    crtcp_say("rank %u cannot be reached at any of its %d addresses: %s", (unsigned) ep->name.vpid,
              ep->address_count, strerror(error));
    fail(ep);
    return;
  }
  ep->state = CRTCP_LOST;
  if (crtcp_with_daemon() && !ep->report_ns && error != EMFILE)
    ep->report_ns = now + REPORT_MS * (uint64_t) MILLISECOND;
  else if (crtcp_with_daemon() && now >= ep->report_ns)
    report(ep, error, "connecting");
  crtcp_later(ep);
}

/* ---------------------------------------------------------------------------------------- handshake */

void crtcp_deadline(crtcp_endpoint_t *ep)
{
  ep->deadline_ns = crtcp_now() + (uint64_t) crtcp.handshake_ms * MILLISECOND;
  crtcp_alarm(ep->deadline_ns);
}

static void ask(crtcp_endpoint_t *ep)
{
  crtcp_tune(ep->fd);
  if (!crtcp_handshake_begin(ep->fd, false, ep->seal) ||
      !crtcp_say_word(ep->fd, ep, CRTCP_HELLO, 0, ep->cookie, ep->seal))
    return crtcp_attempt_failed(ep, errno);
  ep->state = CRTCP_ASKED;
  ep->word_got = 0;
  crtcp_deadline(ep);
  crtcp_watch_endpoint(ep);
}

void crtcp_connect(crtcp_endpoint_t *ep)
{
  const struct crtcp_address *address;

  if ((ep->state != CRTCP_IDLE && ep->state != CRTCP_LOST) || crtcp_is_held(ep->name.jobid)) return;
  ep->retry_ns = 0;
  /* Under the lock, so that no wave comes between the request and its answer. libpmix's thread never takes the lock. */
  if (!crtcp_locate(ep) || ep->address_count <= 0) return crtcp_attempt_failed(ep, EADDRNOTAVAIL);
  address = &ep->addresses[ep->address_next];
  do
    ep->fd = socket(address->name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  while (ep->fd < 0 && crtcp_more_descriptors(errno));
  if (ep->fd < 0) return crtcp_attempt_failed(ep, errno);
  if (connect(ep->fd, (const struct sockaddr *) &address->name, address->length) == 0) return ask(ep);
  if (errno != EINPROGRESS) return crtcp_attempt_failed(ep, errno);
  ep->state = CRTCP_CONNECTING;
  crtcp_deadline(ep);
  crtcp_watch_endpoint(ep);
}

static void connected(crtcp_endpoint_t *ep)
{
  ep->state = CRTCP_CONNECTED;
  ep->deadline_ns = ep->retry_ns = ep->report_ns = 0;
  ep->attempts = ep->address_next = 0;
  ep->gap = ep->broken = false;
  ep->shut = false;
  crtcp_debug("connected to rank %u", (unsigned) ep->name.vpid);
  crtcp_guarded_add(ep);
  if (!crtcp.hold) crtcp_watch_endpoint(ep);
}

void crtcp_gap(crtcp_endpoint_t *ep)
{
  if (!ep->gap) {
    crtcp_say("messages between rank %u and this one were lost with their connection; only a recovery to a wave helps",
              (unsigned) ep->name.vpid);
    if (crtcp_with_daemon()) report(ep, ENODATA, "messages were lost with the connection");
  }
  ep->gap = true;
}

/* An answer that is not genuine is of somebody else who has got the peer's port. */
static void answered(crtcp_endpoint_t *ep)
{
  const struct crtcp_hello *word = &ep->word;

  const bool behind = word->word == CRTCP_REFUSE && word->reason == CRTCP_BEHIND;

  if (!crtcp_genuine(word, ep->cookie, ep->seal) || word->jobid != ep->name.jobid || word->vpid != ep->name.vpid ||
      (word->recovery != crtcp.recovery && !behind) || word->incarnation < ep->incarnation)
    return crtcp_attempt_failed(ep, EACCES);
  if (word->word == CRTCP_ACK) {
    if (!crtcp_say_word(ep->fd, ep, CRTCP_READY, 0, ep->cookie, ep->seal)) return crtcp_attempt_failed(ep, errno);
    connected(ep);
    return;
  }
  if (behind || (word->word == CRTCP_REFUSE && word->reason == CRTCP_CROSSED)) {
    /* CROSSED: the peer is connecting to this rank. If that fails, try again. */
    crtcp_attempt_ended(ep);
    return;
  }
  if (word->word == CRTCP_REFUSE && word->reason == CRTCP_GAP) crtcp_gap(ep);
  crtcp_attempt_failed(ep, EPROTO);
}

void crtcp_handshake_event(crtcp_endpoint_t *ep, uint32_t events)
{
  int r, error = 0;
  socklen_t length = sizeof error;

  if (ep->state == CRTCP_CONNECTING) {
    if (!(events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) return;
    if (getsockopt(ep->fd, SOL_SOCKET, SO_ERROR, &error, &length)) error = errno;
    if (error) return crtcp_attempt_failed(ep, error);
    return ask(ep);
  }
  if (ep->state != CRTCP_ASKED && ep->state != CRTCP_ANSWERED) return;
  r = crtcp_read_word(ep->fd, &ep->word, &ep->word_got);
  if (r == 0) return;
  if (ep->state == CRTCP_ASKED) {
    if (r < 0) return crtcp_attempt_failed(ep, errno);
    return answered(ep);
  }
  if (r > 0 && ep->word.word == CRTCP_READY && crtcp_genuine(&ep->word, crtcp.cookie, ep->seal)) return connected(ep);
  /* The peer has closed the connection, or sent another word than READY. */
  crtcp_attempt_ended(ep);
}
