// SPDX-License-Identifier: LGPL-2.1-or-later
#include "base/descriptor_passing.h"

#include <cerrno>
#include <cstring>

namespace reprise {

bool send_descriptor(int socket, int descriptor, const void* data, std::size_t size) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  iovec part{const_cast<void*>(data), size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  ssize_t sent;
  while ((sent = ::sendmsg(socket, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  return sent == static_cast<ssize_t>(size);
}

UniqueFd receive_descriptor(int socket, void* data, std::size_t& size, int flags) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{data, size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  while ((got = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  if (got <= 0) {
    if (got == 0) errno = ECONNRESET;
    return {};
  }
  size = static_cast<std::size_t>(got);
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  UniqueFd descriptor;
  if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(head), sizeof number);
    descriptor.reset(number);
  }
  // The kernel leaves descriptors out for which there is no room.
  if (!descriptor && (message.msg_flags & MSG_CTRUNC)) return errno = EMFILE, UniqueFd();
  if (!descriptor || (message.msg_flags & MSG_TRUNC)) return errno = EPROTO, UniqueFd();
  return descriptor;
}

UniqueFd receive_descriptor(int socket, int flags) {
  char byte = 0;
  std::size_t size = 1;
  return receive_descriptor(socket, &byte, size, flags);
}

}  // namespace reprise
