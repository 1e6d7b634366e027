/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Guests: accepted connections until their handshake is accepted or refused. */
#include "endpoint/guests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/address.h"
#include "base/channel.h"
#include "endpoint/connect.h"
#include "endpoint/events.h"
#include "endpoint/handshake.h"
#include "endpoint/table.h"

enum {
  GUESTS = 512, /* further ones wait in the kernel's queue */
  LISTEN_AGAIN_MS = 100,
};

static void dismiss(crtcp_guest_t *guest)
{
  if (guest->fd >= 0) close(guest->fd);
  guest->fd = -1;
  guest->gone = true;
  crtcp_alarm(1);
}

void crtcp_close_guests(void)
{
  opal_list_item_t *item;

  while ((item = opal_list_remove_first(&crtcp.guests))) {
    crtcp_guest_t *guest = (crtcp_guest_t *) ((char *) item - offsetof(crtcp_guest_t, super));

    if (guest->fd >= 0) close(guest->fd);
    free(guest);
  }
}

/* ------------------------------------------------------------------------------------------ accepting */

/* An event that is not handled would come again at once, and for ever. */
static void pause_listening(int error)
{
  if (!crtcp.listen_ns) crtcp_watch_listeners(false);
  crtcp.listen_ns = crtcp_now() + LISTEN_AGAIN_MS * (uint64_t) MILLISECOND;
  crtcp_alarm(crtcp.listen_ns);
  if (!error || crtcp.crammed) return;
  crtcp.crammed = true;
  crtcp_say("connections of other ranks cannot be accepted: %s", strerror(error));
  if (crtcp_with_daemon()) crtcp_channel_lost(UINT32_MAX, UINT32_MAX, error, "accepting a connection");
}

void crtcp_accept_event(int listener)
{
  struct sockaddr_storage name;
  socklen_t length;
  uint32_t none;
  int fd;

  for (;;) {
    crtcp_guest_t *guest;

    if (opal_list_get_size(&crtcp.guests) >= GUESTS) return pause_listening(0);
    length = sizeof name;
    fd = accept4(listener, (struct sockaddr *) &name, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED || crtcp_more_descriptors(errno))) continue;
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) pause_listening(errno);
      return;
    }
    guest = calloc(1, sizeof *guest);
    if (!guest || !crtcp_handshake_begin(fd, true, guest->seal)) {
      close(fd);
      free(guest);
      continue;
    }
    crtcp_tune(fd);
    guest->watch = CRTCP_WATCH_GUEST;
    OBJ_CONSTRUCT(&guest->super, opal_list_item_t);
    guest->fd = fd;
    snprintf(guest->from, sizeof guest->from, "%s", crtcp_address_text((struct sockaddr *) &name));
    guest->deadline_ns = crtcp_now() + (uint64_t) crtcp.handshake_ms * MILLISECOND;
    crtcp_alarm(guest->deadline_ns);
    opal_list_append(&crtcp.guests, &guest->super);
    none = 0;
    crtcp_watch_set(fd, &none, EPOLLIN, guest);
  }
}

static void refuse(crtcp_guest_t *guest, crtcp_endpoint_t *ep, enum crtcp_refusal reason)
{
  crtcp_say_word(guest->fd, ep, CRTCP_REFUSE, reason, ep ? crtcp.cookie : NULL, guest->seal);
  dismiss(guest);
}

static void stranger(crtcp_guest_t *guest, const char *why)
{
  char text[200];

  snprintf(text, sizeof text, "refused a connection from %s: %s", guest->from, why);
  crtcp_say("%s", text);
  if (crtcp_with_daemon()) crtcp_channel_log(text);
  refuse(guest, NULL, CRTCP_STRANGER);
}

/* Both sides connect at once: the attempt of the lower rank is used. */
static bool ours_holds(const crtcp_endpoint_t *ep)
{
  if (ep->state != CRTCP_CONNECTING && ep->state != CRTCP_ASKED) return false;
  return opal_compare_proc(OPAL_PROC_MY_NAME, ep->name) < 0;
}

/* Drops and retakes the lock if the peer is not known yet. */
static crtcp_endpoint_t *find_or_make(uint32_t jobid, uint32_t vpid)
{
  const opal_process_name_t name = {.jobid = jobid, .vpid = vpid};
  opal_proc_t *proc;

  if (crtcp_find(jobid, vpid)) return crtcp_find(jobid, vpid);
  crtcp_unlock(&crtcp.lock);
  proc = opal_proc_for_name(name);
  if (proc) crtcp_endpoint_of(proc);
  crtcp_lock(&crtcp.lock);
  return crtcp_find(jobid, vpid);
}

/* Handle a complete HELLO: accept it, refuse it, or leave the guest waiting until reconsider(). */
static void hello(crtcp_guest_t *guest)
{
  const struct crtcp_hello *word = &guest->word;
  crtcp_endpoint_t *ep;

  if (!guest->genuine) guest->genuine = word->word == CRTCP_HELLO && crtcp_genuine(word, crtcp.cookie, guest->seal);
  if (!guest->genuine) return stranger(guest, "it does not prove that it belongs to this job and looks for this rank");
  /* Peers that stay, too, hear of the recovery's end at other times. */
  if (word->recovery < crtcp.recovery && word->recovery >= crtcp.back)
    return refuse(guest, crtcp_find(word->jobid, word->vpid), CRTCP_BEHIND);
  if (word->recovery < crtcp.recovery) return stranger(guest, "it is of an older recovery");
  if (word->recovery > crtcp.recovery) return;
  if (word->wave > crtcp.wave) return; /* a wave has ended for the peer but not here yet: wait */
  ep = find_or_make(word->jobid, word->vpid);
  if (!ep) return stranger(guest, "its rank is unknown to PMIx");
  if (guest->gone) return;
  if (crtcp_is_held(word->jobid)) return refuse(guest, ep, CRTCP_BEHIND); /* it is about to be taken back */
  if (word->incarnation < ep->incarnation) return stranger(guest, "its process has been replaced");
  if (word->wave < crtcp.wave) return refuse(guest, ep, CRTCP_BEHIND);
  if (ep->state == CRTCP_CONNECTED) return; /* the peer has closed the old connection: wait until this is seen here */
  if (ep->state == CRTCP_FAILED) return refuse(guest, ep, CRTCP_GAP);
  if (ours_holds(ep)) return refuse(guest, ep, CRTCP_CROSSED);
  if (word->sent != ep->received || word->received != ep->sent) {
    crtcp_gap(ep);
    return refuse(guest, ep, CRTCP_GAP);
  }
  crtcp_close_endpoint(ep);
  ep->fd = guest->fd;
  crtcp_watch_set(guest->fd, &(uint32_t){EPOLLIN}, 0, guest);
  guest->fd = -1;
  dismiss(guest);
  memcpy(ep->seal, guest->seal, CRTCP_SEAL);
  if (!crtcp_say_word(ep->fd, ep, CRTCP_ACK, 0, crtcp.cookie, ep->seal)) return crtcp_attempt_ended(ep);
  ep->state = CRTCP_ANSWERED;
  ep->retry_ns = 0;
  crtcp_deadline(ep);
  crtcp_watch_endpoint(ep);
}

void crtcp_guest_event(crtcp_guest_t *guest)
{
  char more;

  if (guest->gone) return;
  if (guest->got < sizeof guest->word) {
    const int r = crtcp_read_word(guest->fd, &guest->word, &guest->got);

    if (r < 0) {
      if (errno == EPROTO)
        stranger(guest, "it does not speak the protocol of crtcp");
      else
        dismiss(guest);
    }
    if (r <= 0) return;
  } else if (recv(guest->fd, &more, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
    return dismiss(guest); /* the peer has closed the connection */
  }
  hello(guest);
}

void crtcp_guests_clock(uint64_t now)
{
  opal_list_item_t *item;

  for (item = opal_list_get_first(&crtcp.guests); item != opal_list_get_end(&crtcp.guests);) {
    crtcp_guest_t *guest = (crtcp_guest_t *) ((char *) item - offsetof(crtcp_guest_t, super));

    item = opal_list_get_next(item);
    if (guest->gone) {
      opal_list_remove_item(&crtcp.guests, &guest->super);
      free(guest);
    } else if (now >= guest->deadline_ns) {
      dismiss(guest);
    } else {
      crtcp_alarm(guest->deadline_ns);
    }
  }
  if (crtcp.listen_ns && now >= crtcp.listen_ns && opal_list_get_size(&crtcp.guests) < GUESTS)
    crtcp_watch_listeners(true);
  else if (crtcp.listen_ns)
    crtcp_alarm(now + LISTEN_AGAIN_MS * (uint64_t) MILLISECOND);
}
