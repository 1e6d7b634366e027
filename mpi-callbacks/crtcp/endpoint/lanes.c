/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The memory that the ranks of a node share, and the endpoints that have lanes in it. */
#include "endpoint/lanes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "endpoint/connect.h"
#include "endpoint/table.h"
#include "wire/wire.h"

static struct cr_lanes_rank *lines(struct cr_lanes *lanes)
{
  return (struct cr_lanes_rank *) (lanes + 1);
}

/* The daemon is trusted, but a memory of another layout must not be used. */
static struct cr_lanes *map(int fd, size_t *bytes)
{
  struct cr_lanes *lanes;
  struct stat status;

  if (fstat(fd, &status) || status.st_size < (off_t) sizeof *lanes) {
    errno = EPROTO;
    return NULL;
  }
  *bytes = status.st_size;
  lanes = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (lanes == MAP_FAILED) return NULL;
  if (lanes->magic == CR_LANES_MAGIC && lanes->ranks <= CR_LANES_RANKS && lanes->lane_bytes >= CR_LANES_PAGE &&
      !(lanes->lane_bytes & (lanes->lane_bytes - 1)) && cr_lanes_bytes(lanes->ranks, lanes->lane_bytes) == *bytes) {
    madvise(lanes, *bytes, MADV_DONTFORK); /* a child of this rank has no part in it */
    madvise(lanes, *bytes, MADV_DONTDUMP);
    return lanes;
  }
  munmap(lanes, *bytes);
  errno = EPROTO;
  return NULL;
}

static void join(struct crtcp_lane_end *end, struct cr_lanes *lanes, uint32_t from, uint32_t to)
{
  uint8_t *lane = (uint8_t *) lanes + cr_lane_at(lanes->ranks, lanes->lane_bytes, from, to);

  end->shared = (struct cr_lane *) lane;
  end->data = lane + CR_LANES_PAGE;
  end->bytes = lanes->lane_bytes;
}

static void part(crtcp_endpoint_t *ep)
{
  ep->line = NULL;
  ep->in_lane.shared = ep->out_lane.shared = NULL;
}

static bool uses_lanes(const crtcp_endpoint_t *ep)
{
  return ep->in == &crtcp_lane || ep->out == &crtcp_lane;
}

void crtcp_lanes_unmap(void)
{
  for (int i = 0; i < crtcp.neighbour_count; i++) part(crtcp.neighbours[i]);
  free(crtcp.neighbours);
  crtcp.neighbours = NULL;
  crtcp.neighbour_count = 0;
  if (crtcp.lanes) munmap(crtcp.lanes, crtcp.lanes_bytes);
  crtcp.lanes = NULL;
  crtcp.line = NULL;
  crtcp.asleep = false;
}

void crtcp_lanes_forget(void)
{
  crtcp_lanes_unmap();
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep)) {
    part(ep);
    ep->in = ep->out = &crtcp_tcp;
  }
}

/* The messages in the lanes of an older memory are lost. */
static void lose_lanes(void)
{
  for (crtcp_endpoint_t *ep = crtcp_next(NULL); ep; ep = crtcp_next(ep)) {
    if (!uses_lanes(ep)) continue;
    crtcp_gap(ep);
    crtcp_lost(ep, ENODATA, "changing the shared memory");
  }
}

static void join_at(crtcp_endpoint_t *ep, uint32_t index)
{
  const uint32_t me = crtcp.line - lines(crtcp.lanes);

  crtcp.neighbours[crtcp.neighbour_count++] = ep;
  ep->line = &lines(crtcp.lanes)[index];
  join(&ep->in_lane, crtcp.lanes, index, me);
  join(&ep->out_lane, crtcp.lanes, me, index);
  if (ep->in == &crtcp_lane) crtcp_lane_tell(ep);
}

bool crtcp_lanes_join(crtcp_endpoint_t *ep)
{
  if (ep->line) return true;
  if (!crtcp.lanes || crtcp_foreign(ep->name.jobid)) return false;
  for (uint32_t i = 0; i < crtcp.lanes->ranks; i++) {
    if (lines(crtcp.lanes)[i].rank != ep->name.vpid) continue;
    join_at(ep, i);
    return true;
  }
  return false;
}

void crtcp_lanes_leave(crtcp_endpoint_t *ep)
{
  for (int i = 0; i < crtcp.neighbour_count; i++) {
    if (crtcp.neighbours[i] != ep) continue;
    crtcp.neighbours[i] = crtcp.neighbours[--crtcp.neighbour_count];
    part(ep);
    return;
  }
}

static void join_all(void)
{
  for (uint32_t i = 0; i < crtcp.lanes->ranks; i++) {
    crtcp_endpoint_t *ep = crtcp_find(OPAL_PROC_MY_NAME.jobid, lines(crtcp.lanes)[i].rank);

    if (ep) join_at(ep, i);
  }
}

void crtcp_lanes_map(int fd)
{
  struct cr_lanes *lanes = NULL;
  size_t bytes = 0;
  uint32_t me;

  if (crtcp.use_lanes) {
    crtcp_lanes_unmap();
    lanes = map(fd, &bytes);
    if (!lanes) crtcp_say("the memory of this node's ranks cannot be used: %s", strerror(errno));
  }
  close(fd);
  if (!lanes) return lose_lanes();
  if (lanes->id != crtcp.lanes_id) lose_lanes();
  crtcp.lanes_id = lanes->id;
  for (me = 0; me < lanes->ranks && lines(lanes)[me].rank != OPAL_PROC_MY_NAME.vpid; me++) {}
  crtcp.neighbours = calloc(lanes->ranks, sizeof(crtcp_endpoint_t *));
  if (me == lanes->ranks || !crtcp.neighbours) {
    munmap(lanes, bytes);
    return lose_lanes();
  }
  crtcp.lanes = lanes;
  crtcp.lanes_bytes = bytes;
  crtcp.line = &lines(lanes)[me];
  join_all();
  __atomic_store_n(&crtcp.line->mapped, 1, __ATOMIC_RELEASE);
}

bool crtcp_lanes_sleep(void)
{
  if (!crtcp.line) return true;
  __atomic_store_n(&crtcp.line->asleep, 1, __ATOMIC_SEQ_CST);
  crtcp.asleep = true;
  for (int i = 0; i < crtcp.neighbour_count; i++)
    if (crtcp_lane_ready(crtcp.neighbours[i])) {
      crtcp_lanes_awake();
      return false;
    }
  return true;
}

void crtcp_lanes_awake(void)
{
  if (crtcp.asleep) __atomic_store_n(&crtcp.line->asleep, 0, __ATOMIC_RELAXED);
  crtcp.asleep = false;
}
