/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libpmix has no function for any of this, so this file reads libpmix's internal structures, whose headers are
 * installed with it. The headers fit one version only: with a library of another version nothing is accessed. */
#include "src/include/pmix_config.h"

#include "src/client/pmix_client_ops.h"
#include "src/include/pmix_globals.h"
#include "src/mca/ptl/base/base.h"

#include "wave/pmix_state.h"
#include "wave/pmix_thread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <linux/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WATCHES = 8, HOLD_MS = 2000 };

/* State recorded by the latest crtcp_pmix_look(), which is part of the image. Used by one thread at a time: the
 * callback thread or the rollback thread. */
static struct {
  bool has_server;
  uint64_t acked, received;
  uint32_t tag;
  int flags;
  struct {
    int set;
    uint32_t events;
    uint64_t data;
  } watch[WATCHES];
  int watches;
} seen;

static bool right_version(void)
{
  int major = 0, minor = 0, release = 0;
  const char *version = PMIx_Get_version();
  const char *digits = version ? strpbrk(version, "0123456789") : NULL;

  return digits && sscanf(digits, "%d.%d.%d", &major, &minor, &release) == 3 && major == PMIX_VERSION_MAJOR &&
         minor == PMIX_VERSION_MINOR && release == PMIX_VERSION_RELEASE;
}

static bool counts(int fd, uint64_t *acked, uint64_t *received)
{
  struct tcp_info info;
  socklen_t length = sizeof info;

  memset(&info, 0, sizeof info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) || info.tcpi_state != 1 /* established */) return false;
  *acked = info.tcpi_bytes_acked;
  *received = info.tcpi_bytes_received;
  return true;
}

/* Does a request wait for its answer? libpmix's thread must be stopped. */
static bool requests_pending(void)
{
  const pmix_ptl_posted_recv_t *posted;

  PMIX_LIST_FOREACH (posted, &pmix_ptl_base.posted_recvs, pmix_ptl_posted_recv_t)
    if (posted->tag >= PMIX_PTL_TAG_DYNAMIC && posted->tag != UINT_MAX) return true;
  return false;
}

/* Find every epoll set that watches the descriptor, from /proc/self/fdinfo. */
static void find_watches(int fd)
{
  DIR *folder = opendir("/proc/self/fdinfo");
  struct dirent *entry;

  seen.watches = 0;
  while (folder && (entry = readdir(folder))) {
    char path[300], line[256];
    FILE *file;

    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%s", entry->d_name);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
      int tfd;
      unsigned events;
      unsigned long long data;

      if (sscanf(line, "tfd: %d events: %x data: %llx", &tfd, &events, &data) != 3 || tfd != fd) continue;
      if (seen.watches == WATCHES) break;
      seen.watch[seen.watches].set = atoi(entry->d_name);
      seen.watch[seen.watches].events = events;
      seen.watch[seen.watches++].data = data;
    }
    if (file) fclose(file);
  }
  if (folder) closedir(folder);
}

static void watch(void)
{
  const pmix_peer_t *server = pmix_client_globals.myserver;

  if (!server || server->sd < 0) return;
  for (int i = 0; i < seen.watches; i++) {
    struct epoll_event event = {.events = seen.watch[i].events, .data.u64 = seen.watch[i].data};

    if (epoll_ctl(seen.watch[i].set, EPOLL_CTL_ADD, server->sd, &event) && errno == EEXIST)
      epoll_ctl(seen.watch[i].set, EPOLL_CTL_MOD, server->sd, &event);
  }
}

/* After a rollback the connection may be dead, and libpmix ends the process when it sees the end of its server. So no
 * epoll set in the image watches the connection. */
static void unwatch(int fd)
{
  find_watches(fd);
  for (int i = 0; i < seen.watches; i++) epoll_ctl(seen.watch[i].set, EPOLL_CTL_DEL, fd, NULL);
}

enum crtcp_pmix_state crtcp_pmix_look(const char **why)
{
  pmix_peer_t *server = pmix_client_globals.myserver;
  int queued = 0, unread = 0;

  seen.has_server = false;
  seen.watches = 0;
  if (!right_version()) {
    *why = "libpmix is not of the version that crtcp was built for, so its state is unknown; build crtcp for it";
    return CRTCP_PMIX_UNKNOWN;
  }
  if (!server || pmix_client_globals.singleton || server->sd < 0) return CRTCP_PMIX_IDLE;
  if (!crtcp_pmix_hold(HOLD_MS)) {
    *why = "libpmix runs a handler of the program";
    return CRTCP_PMIX_BUSY;
  }
  if (!counts(server->sd, &seen.acked, &seen.received)) {
    crtcp_pmix_release();
    *why = "the connection to the PMIx server does not use TCP, or is broken";
    return CRTCP_PMIX_UNKNOWN;
  }
  if (requests_pending() || server->send_msg || server->recv_msg || ioctl(server->sd, SIOCOUTQ, &queued) || queued ||
      ioctl(server->sd, SIOCINQ, &unread) || unread) {
    crtcp_pmix_release();
    *why = "a PMIx call is in progress";
    return CRTCP_PMIX_BUSY;
  }
  unwatch(server->sd);
  seen.tag = pmix_ptl_base.current_tag;
  seen.flags = fcntl(server->sd, F_GETFL);
  seen.has_server = true;
  return CRTCP_PMIX_IDLE;
}

bool crtcp_pmix_same(void)
{
  uint64_t acked, received;
  const pmix_peer_t *server = pmix_client_globals.myserver;

  if (!seen.has_server) return true;
  return server && counts(server->sd, &acked, &received) && acked == seen.acked && received == seen.received &&
         pmix_ptl_base.current_tag == seen.tag;
}

void crtcp_pmix_go_on(void)
{
  watch();
  crtcp_pmix_release();
}

void crtcp_pmix_commit(void)
{
  const bool yes = true;
  pmix_value_t value;

  /* If a commit is pending, the program will make it. */
  if (!seen.has_server || pmix_globals.commits_pending) return;
  /* A commit sends all values that were ever put, but only if there is a new one. So put one. */
  PMIx_Value_load(&value, &yes, PMIX_BOOL);
  if (PMIx_Put(PMIX_GLOBAL, "reprise.back", &value) == PMIX_SUCCESS) PMIx_Commit();
}

bool crtcp_pmix_alive(void)
{
  uint64_t acked, received;
  const pmix_peer_t *server = pmix_client_globals.myserver;

  return !seen.has_server || (server && counts(server->sd, &acked, &received));
}

int crtcp_pmix_install(int fd)
{
  const pmix_peer_t *server = pmix_client_globals.myserver;
  const bool wanted = seen.has_server;
  const int moved = wanted && server && server->sd >= 0 ? dup3(fd, server->sd, O_CLOEXEC) : -1;

  close(fd);
  if (moved >= 0) fcntl(moved, F_SETFL, seen.flags >= 0 ? seen.flags : O_NONBLOCK);
  return wanted && moved < 0 ? -1 : 0;
}
