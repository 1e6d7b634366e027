/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A wave: libcr's callback thread drains all connections, and lets them continue after the process was saved. */
#include "hold.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "channel.h"
#include "libcr.h"
#include "pmix_state.h"

/* Result of a wave. */
struct outcome {
  enum cr_rank_prepared_state state;
  char why[200];
  uint64_t begin_ns, quiesce_ns;
  uint32_t connections;
};

/* ------------------------------------------------------------------------------------------- waiting */

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
  pthread_mutex_unlock(&crtcp.lock);
  set->count = epoll_wait(set->epoll, set->events, sizeof set->events / sizeof *set->events, timeout_ms);
  pthread_mutex_lock(&crtcp.lock);
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

static void let_go(void)
{
  atomic_store(&crtcp.hold, 0);
  syscall(SYS_futex, &crtcp.hold, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ------------------------------------------------------------------------------------------ quiescing */

void crtcp_wave_over(uint32_t wave)
{
  if (wave > crtcp.wave) crtcp.wave = wave;
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep)) {
    if (!ep->shut || ep->mark_wave > crtcp.wave) continue;
    ep->shut = false;
    if (!crtcp.hold) crtcp_watch_endpoint(ep);
  }
  crtcp.reconsider = true;
}

void crtcp_release(void)
{
  crtcp.holding = false;
  let_go();
  crtcp.reconsider = true;
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep)) {
    ep->mark_due = 0; /* of a wave that was given up; a mark that was begun is completed before the next message */
    if (ep->state == CRTCP_CONNECTED) crtcp_watch_endpoint(ep);
    if (ep->state == CRTCP_IDLE && !opal_list_is_empty(&ep->queue)) {
      /* a thread that progresses will connect */
      ep->retry_ns = 1;
      crtcp_alarm(1);
    }
    if (ep->retry_ns) crtcp_alarm(ep->retry_ns);
    if (ep->deadline_ns) crtcp_alarm(ep->deadline_ns);
  }
}

static bool refuse(struct outcome *out, enum cr_rank_prepared_state state, const char *format, unsigned rank)
{
  out->state = state;
  snprintf(out->why, sizeof out->why, format, rank);
  return false;
}

/* Prepare all endpoints: send marks on connected ones, and close connections that this rank has only begun. */
static bool settle(struct outcome *out, uint32_t wave)
{
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep)) {
    ep->done = false;
    if (crtcp_foreign(ep->name.jobid)) {
      /* Its process has ended: while it runs no wave is taken. So it sends no mark, and is not connected again. */
      crtcp_close_endpoint(ep);
      ep->retry_ns = 0;
      ep->broken = false;
      continue;
    }
    switch (ep->state) {
    case CRTCP_CONNECTED:
      ep->mark_due = wave;
      if (crtcp_take_over(ep) < 0)
        return refuse(out, CR_RANK_AGAIN, "the connection to rank %u broke", ep->name.vpid);
      break;
    case CRTCP_CONNECTING:
    case CRTCP_ASKED: crtcp_close_endpoint(ep); break;
    case CRTCP_LOST:
      if (ep->broken) return refuse(out, CR_RANK_AGAIN, "the connection to rank %u is broken", ep->name.vpid);
      break;
    default: break;
    }
  }
  return true;
}

static bool marking(const crtcp_endpoint_t *ep)
{
  return ep->mark_due || ep->mark_left;
}

/* What the end of the drain waits for: all bytes up to the peer's mark, and the own mark. */
static uint32_t awaited(const crtcp_endpoint_t *ep)
{
  if (ep->state == CRTCP_ANSWERED) return EPOLLIN;
  if (ep->state != CRTCP_CONNECTED) return 0;
  return (ep->shut ? 0 : EPOLLIN) | (marking(ep) ? EPOLLOUT : 0);
}

static bool serve(crtcp_endpoint_t *ep, uint32_t events, uint8_t *scratch, uint32_t wave)
{
  const bool was_connected = ep->state == CRTCP_CONNECTED;

  if (ep->state == CRTCP_ANSWERED && events) {
    crtcp_handshake_event(ep, events);
    if (ep->state == CRTCP_CONNECTED) ep->mark_due = wave;
    return true;
  }
  if (!was_connected) return true;
  if ((events & EPOLLOUT) && crtcp_write_marks(ep) < 0) {
    crtcp_lost(ep, errno, "writing a mark");
    return false;
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !ep->shut && crtcp_read(ep, scratch) < 0) return false;
  return true;
}

/* Serve the connections that have events, and decide what each waits for from now on. */
static bool serve_all(struct outcome *out, uint32_t wave, uint8_t *scratch, struct crtcp_wait *set)
{
  for (int i = 0; i < set->count; i++) {
    crtcp_endpoint_t *ep = set->events[i].data.ptr;

    if (!ep)
      crtcp_channel_event();
    else if (!serve(ep, set->events[i].events, scratch, wave))
      return refuse(out, CR_RANK_AGAIN, "the connection to rank %u broke", ep->name.vpid);
    else if (!crtcp_wait_for(set, ep, awaited(ep)))
      return refuse(out, CR_RANK_UNABLE, "no memory", 0);
  }
  return true;
}

/* Read and write until every connection is empty. */
static bool drain(struct outcome *out, uint32_t wave, uint64_t deadline, uint8_t *scratch, struct crtcp_wait *set)
{
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep))
    if (!crtcp_wait_for(set, ep, awaited(ep))) return refuse(out, CR_RANK_UNABLE, "no memory", 0);
  for (;;) {
    const uint64_t now = crtcp_now();

    if (crtcp.channel->aborted >= wave) return refuse(out, CR_RANK_AGAIN, "the wave was given up", 0);
    if (!set->open) return true;
    if (crtcp_channel_fd() < 0) return refuse(out, CR_RANK_UNABLE, "the daemon has closed the connection", 0);
    if (now >= deadline) {
      for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep))
        if (awaited(ep)) return refuse(out, CR_RANK_AGAIN, "rank %u has not sent its mark in time", ep->name.vpid);
    }
    crtcp_wait(set, now < deadline ? (deadline - now) / 1000000 + 1 : 0);
    if (!serve_all(out, wave, scratch, set)) return false;
  }
}

/* Within MPI_Init and MPI_Finalize the rank changes state of the PMIx server, which a rollback cannot undo. */
static bool between_init_and_finalize(struct outcome *out)
{
  const int32_t *state = dlsym(RTLD_DEFAULT, "ompi_mpi_state");
  enum { INIT_COMPLETED = 2 };

  if (state && *state < INIT_COMPLETED) return refuse(out, CR_RANK_AGAIN, "within MPI_Init", 0);
  if (!crtcp.open || (state && *state > INIT_COMPLETED))
    return refuse(out, CR_RANK_AGAIN, "within MPI_Finalize, or after it", 0);
  return true;
}

static bool quiesce(struct outcome *out, uint32_t wave)
{
  const uint32_t timeout = crtcp.channel->timeout_ms ? crtcp.channel->timeout_ms : 30000;
  struct crtcp_wait set = {.epoll = -1};
  uint8_t *scratch;
  const char *why = NULL;
  bool good;

  if (!between_init_and_finalize(out)) return false;
  scratch = malloc(CRTCP_SCRATCH);
  if (!scratch) return refuse(out, CR_RANK_UNABLE, "no memory", 0);
  good = settle(out, wave) &&
         (crtcp_wait_begin(&set) || refuse(out, CR_RANK_AGAIN, "no descriptor is left to wait for the connections", 0)) &&
         drain(out, wave, out->begin_ns + timeout * 1000000ull, scratch, &set);
  crtcp_wait_end(&set);
  free(scratch);
  if (!good) return false;
  switch (crtcp_pmix_look(&why)) {
  case CRTCP_PMIX_IDLE: break;
  case CRTCP_PMIX_BUSY: return refuse(out, CR_RANK_AGAIN, why, 0);
  case CRTCP_PMIX_UNKNOWN: return refuse(out, CR_RANK_UNABLE, why, 0);
  }
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep))
    out->connections += ep->state == CRTCP_CONNECTED;
  out->quiesce_ns = crtcp_now() - out->begin_ns;
  return true;
}

/* ------------------------------------------------------------------------------------------- callback */

static void prepared(const struct outcome *out, uint32_t wave)
{
  struct cr_rank_prepared message = {
      .wave = wave, .state = out->state, .quiesce_ns = out->quiesce_ns, .connections = out->connections};

  crtcp_channel_send(CR_RANK_PREPARED, &message, sizeof message, out->why, strlen(out->why));
}

static void not_asked_for(void)
{
  let_go();
  crtcp_channel_log("a checkpoint of this rank alone was requested and refused: it would not be consistent with the "
                    "other ranks; use crjob checkpoint");
  pthread_mutex_unlock(&crtcp.lock);
  cr_checkpoint(CR_CHECKPOINT_TEMP_FAILURE);
}

/* The rollback thread waits for the daemon, and the state of the rank is that of no wave: touch neither. */
static void refuse_while_recovering(void)
{
  crtcp_channel_log("a checkpoint of this rank was requested during a recovery and refused; repeat it when the job "
                    "continues, by crjob checkpoint");
  pthread_mutex_unlock(&crtcp.lock);
  cr_checkpoint(CR_CHECKPOINT_TEMP_FAILURE);
}

static int callback(void *unused)
{
  struct outcome out = {.state = CR_RANK_TAKEN, .begin_ns = crtcp_now()};
  uint32_t wave;
  int rc;

  (void) unused;
  crtcp.hold = 1; /* before the lock is taken, so that threads that progress release it */
  pthread_mutex_lock(&crtcp.lock);
  if (crtcp.recovering) {
    refuse_while_recovering();
    return 0;
  }
  crtcp.hold = 1; /* again: a recovery that ended while this thread waited for the lock has set it to 0 */
  crtcp_channel_event();
  wave = crtcp.channel->prepared;
  crtcp.channel->prepared = 0;
  if (!wave) {
    not_asked_for();
    return 0;
  }
  crtcp_wave_over(wave - 1);
  crtcp.holding = true;
  if (!quiesce(&out, wave)) {
    crtcp_wave_over(wave);
    crtcp_release();
    prepared(&out, wave);
    pthread_mutex_unlock(&crtcp.lock);
    cr_checkpoint(CR_CHECKPOINT_TEMP_FAILURE);
    return 0;
  }
  crtcp.holding = false;
  crtcp.wave = wave;
  pthread_mutex_unlock(&crtcp.lock);

  rc = cr_checkpoint(CR_CHECKPOINT_READY);

  pthread_mutex_lock(&crtcp.lock);
  if (rc == CR_PAUSED || rc == CR_RESTARTED) {
    rc = crtcp_rollback_start(rc == CR_RESTARTED);
    pthread_mutex_unlock(&crtcp.lock);
    if (rc) crtcp_say("no thread could be started to go on after the rollback: %s", strerror(rc));
    return 0;
  }
  crtcp_pmix_go_on();
  if (rc < 0)
    refuse(&out, CR_RANK_UNABLE, cr_strerror(-rc), 0);
  else if (!crtcp_pmix_same())
    refuse(&out, CR_RANK_AGAIN, "a PMIx call was made while the process was saved", 0);
  crtcp_wave_over(wave);
  crtcp_release();
  prepared(&out, wave);
  pthread_mutex_unlock(&crtcp.lock);
  return 0;
}

int crtcp_hold_register(const char **why)
{
  static char text[200];

  if (cr_init() < 0)
    snprintf(text, sizeof text, errno == ENOSYS ? "the kernel module is not loaded on this node" : "libcr: %s",
             cr_strerror(errno));
  else if (cr_register_callback(callback, NULL, CR_THREAD_CONTEXT) < 0)
    snprintf(text, sizeof text, "libcr: %s", cr_strerror(errno));
  else
    return 0;
  *why = text;
  return -1;
}
