// SPDX-License-Identifier: LGPL-2.1-or-later
/** @file The process that the program makes for a restart. */
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "api/helper/service.h"
#include "process/clocks.h"

namespace reprise::api {
namespace {

/** @return the descriptor that came, none when the program has closed its end */
UniqueFd receive_descriptor(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  while ((got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  const cmsghdr* header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return {};
  int fd;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return UniqueFd(fd);
}

}  // namespace

pid_t Service::make_child(pid_t pid, const ClockOffsets* offsets, UniqueFd& mem) {
  block_->child.pid = pid;
  const std::string clocks = offsets != nullptr ? offsets_text(*offsets) : "";
  std::snprintf(block_->child.clocks, sizeof block_->child.clocks, "%s", clocks.c_str());
  block_->progress.store(kWantsChild);
  futex_wake(block_->progress, Sharing::between_processes);
  for (;;) {
    if (block_->progress.load() != kWantsChild) break;
    constexpr timespec look{1, 0};
    if (futex_wait(block_->progress, kWantsChild, &look, Sharing::between_processes) == ETIMEDOUT && !owner_holds())
      return -ECANCELED;
  }
  const pid_t made = block_->child.pid;
  if (made <= 0) return made;
  mem = receive_descriptor(socket_.get());
  return mem ? made : -ESRCH;
}

}  // namespace reprise::api
