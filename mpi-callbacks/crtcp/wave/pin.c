/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A wave that the program asks for. What is rolled back is the wait for it: after a rollback crd says how that ends. */
#include "wave/pin.h"

#include <dlfcn.h>
#include <unistd.h>

#include "base/channel.h"
#include "endpoint/table.h"
#include "opal/runtime/opal_progress.h"
#include "rank_services.h"
#include "wave/kept.h"

enum { LOOK_US = 1000, AGAIN_MS = 1000 };

static const char *no_waves(void)
{
  if (!crtcp_with_daemon()) return "the program was not started by crrun: start it so";
  if (crtcp.channel->no_waves == CR_RANK_TELLS_FAILURES) return "under crrun --recover ulfm no waves are taken: leave that option out";
  if (crtcp.channel->no_waves == CR_RANK_NO_MODULE) return "the kernel module is missing on a node: load it on all of them";
  if (!crtcp.channel->can_checkpoint) return "no checkpoint of this process can be taken: its log in crrun's output says why";
  return NULL;
}

/* Ask crd, unless the rank is being saved or brought back: what is said then would be of another time. Under the lock. */
static bool ask(struct cr_rank_wave_request request)
{
  if (crtcp.hold || crtcp.recovering) return false;
  return crtcp_channel_send(CR_RANK_WAVE_REQUEST, &request, sizeof request, NULL, 0);
}

void crtcp_look_around(void)
{
  crtcp_unlock(&crtcp.lock);
  opal_progress();
  usleep(LOOK_US);
  crtcp_lock(&crtcp.lock);
}

static enum cr_pin_outcome pin_wave(int or_none)
{
  const struct cr_rank_wave_request request = {.or_none = or_none};
  enum cr_pin_outcome outcome;
  uint64_t asked_ns = 0, now;

  crtcp_lock(&crtcp.lock);
  crtcp.channel->pinned = 0;
  crtcp.channel->no_pin = false;
  /* A rank that asks PMIx for a peer after the wave needs a new connection to the server when it goes back: wave/pmix_state.h. Most peers
   * are met after a wave that is taken so early, and all recoveries go back to it. */
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep)) crtcp_locate(ep);
  while (!crtcp.channel->pinned && !(or_none && crtcp.channel->no_pin)) {
    now = crtcp_now();
    /* On another node the clock may be behind. */
    if (now - asked_ns >= AGAIN_MS * (uint64_t) MILLISECOND && ask(request)) asked_ns = now;
    crtcp_look_around();
  }
  if (!crtcp.channel->pinned)
    outcome = CR_PIN_NONE;
  else
    outcome = !crtcp.channel->back ? CR_PIN_TAKEN : crtcp.channel->lost ? CR_PIN_BACK_LOST : CR_PIN_BACK;
  crtcp_unlock(&crtcp.lock);
  return outcome;
}

static void release_wave(void)
{
  crtcp_lock(&crtcp.lock);
  while (!ask((struct cr_rank_wave_request){.release = 1}) && crtcp_channel_fd() >= 0) crtcp_look_around();
  crtcp_unlock(&crtcp.lock);
}

static int progressed(void)
{
  bool told;

  crtcp_lock(&crtcp.lock);
  told = ask((struct cr_rank_wave_request){.progress = 1});
  crtcp_unlock(&crtcp.lock);
  return told;
}

void crtcp_offer_services(void)
{
  static const struct cr_rank_services services = {
      .no_waves = no_waves, .pin_wave = pin_wave, .release_wave = release_wave, .progressed = progressed, .copy_kept = crtcp_copy_kept};
  const struct cr_rank_services **there = dlsym(RTLD_DEFAULT, CR_RANK_SERVICES);

  if (there) *there = &services;
}
