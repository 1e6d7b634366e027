// SPDX-License-Identifier: GPL-2.0-only
#include "job/received.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace reprise::job {

bool has_received(int fd) {
  tcp_info info{};
  socklen_t length = sizeof info;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_bytes_received > 0;
}

}  // namespace reprise::job
