// SPDX-License-Identifier: LGPL-2.1-or-later
#include "descriptors/unix_diag.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/unique_fd.h"

namespace reprise {

std::optional<UnixDiag> unix_diag(std::uint64_t ino) {
  const UniqueFd link(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!link) return std::nullopt;
  struct {
    nlmsghdr header;
    unix_diag_req request;
  } ask = {};
  ask.header.nlmsg_len = sizeof ask;
  ask.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  ask.header.nlmsg_flags = NLM_F_REQUEST;
  ask.request.sdiag_family = AF_UNIX;
  ask.request.udiag_states = ~0U;
  ask.request.udiag_ino = static_cast<std::uint32_t>(ino);
  ask.request.udiag_show = UDIAG_SHOW_PEER | UDIAG_SHOW_RQLEN | UDIAG_SHOW_VFS;
  ask.request.udiag_cookie[0] = ask.request.udiag_cookie[1] = ~0U;  // any
  if (::send(link.get(), &ask, sizeof ask, 0) != sizeof ask) return std::nullopt;

  alignas(nlmsghdr) char answer[4096];
  ssize_t size = ::recv(link.get(), answer, sizeof answer, 0);
  if (size < 0) return std::nullopt;
  auto left = static_cast<unsigned>(size);
  const auto* header = reinterpret_cast<const nlmsghdr*>(answer);
  if (!NLMSG_OK(header, left) || header->nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  const auto* message = static_cast<const unix_diag_msg*>(NLMSG_DATA(header));
  if (message->udiag_ino != static_cast<std::uint32_t>(ino)) return std::nullopt;
  UnixDiag result;
  unsigned attributes = header->nlmsg_len - static_cast<unsigned>(NLMSG_LENGTH(sizeof *message));
  for (auto* attribute = reinterpret_cast<const rtattr*>(message + 1); RTA_OK(attribute, attributes);
       attribute = RTA_NEXT(attribute, attributes)) {
    std::uint32_t words[2] = {};
    std::memcpy(words, RTA_DATA(attribute), std::min<std::size_t>(RTA_PAYLOAD(attribute), sizeof words));
    if (attribute->rta_type == UNIX_DIAG_PEER) result.peer_ino = words[0];
    if (attribute->rta_type == UNIX_DIAG_RQLEN) result.backlog = words[1];
    if (attribute->rta_type == UNIX_DIAG_SHUTDOWN) result.shut = words[0] & 3;
    if (attribute->rta_type == UNIX_DIAG_VFS) result.path_ino = words[0];
  }
  return result;
}

}  // namespace reprise
