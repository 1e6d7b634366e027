// SPDX-License-Identifier: LGPL-2.1-or-later
#include "descriptors/unix_queue.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

#ifndef SCM_PIDFD
#define SCM_PIDFD 0x04
#endif

namespace reprise {
namespace {

std::uint64_t unread(int fd) {
  int bytes = 0;
  return ::ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

/** Sets SO_PEEK_OFF during its lifetime: each peek begins where the last one ended. */
class PeekOffset {
 public:
  explicit PeekOffset(int fd) : fd_(fd) {
    socklen_t size = sizeof before_;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &before_, &size) != 0) before_ = -1;
    set(0);
  }
  ~PeekOffset() { ::setsockopt(fd_, SOL_SOCKET, SO_PEEK_OFF, &before_, sizeof before_); }
  PeekOffset(const PeekOffset&) = delete;
  PeekOffset& operator=(const PeekOffset&) = delete;
  void set(int offset) {
    if (::setsockopt(fd_, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof offset) != 0)
      fail_errno(errno, "cannot look into the queue of a Unix socket");
  }

 private:
  int fd_, before_ = -1;
};

struct Sender {
  ucred who = {};
  explicit Sender(const ProcDir& process) {
    const std::string status = process.read("status");
    const auto number = [&](const char* key) {
      return static_cast<unsigned>(std::strtoul(proc_field(status, key).c_str(), nullptr, 10));
    };
    who = {static_cast<pid_t>(number("Tgid:")), number("Uid:"), number("Gid:")};
  }
  /** Pid 0: the message was sent before SO_PASSCRED was set, so it has no credentials. */
  bool is(const ucred& other) const {
    if (other.pid == 0) return true;
    return other.pid == who.pid && other.uid == who.uid && other.gid == who.gid;
  }
};

/** @return what of the ancillary data cannot be sent again. Closes descriptors that were received with it. */
std::optional<Unseen> unseen_in(msghdr& message, const std::optional<Sender>& sender) {
  std::optional<Unseen> unseen;
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
    if (one->cmsg_level != SOL_SOCKET) continue;
    const std::size_t size = one->cmsg_len - CMSG_LEN(0);
    if (one->cmsg_type == SCM_RIGHTS || one->cmsg_type == SCM_PIDFD) {
      for (std::size_t at = 0; at + sizeof(int) <= size; at += sizeof(int)) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(one) + at, sizeof fd);
        if (fd >= 0) ::close(fd);
      }
      if (one->cmsg_type == SCM_RIGHTS) unseen = Unseen::rights;
    } else if (one->cmsg_type == SCM_CREDENTIALS && size >= sizeof(ucred)) {
      ucred who;
      std::memcpy(&who, CMSG_DATA(one), sizeof who);
      if (sender && !sender->is(who)) unseen = unseen.value_or(Unseen::credentials);
    }
  }
  return unseen;
}

}  // namespace

UnixQueue peek_queue(int fd, int type, const ProcDir* process) {
  UnixQueue queue;
  const bool stream = type == SOCK_STREAM;
  char urgent;
  if (stream && ::recv(fd, &urgent, 1, MSG_OOB | MSG_PEEK | MSG_DONTWAIT) == 1) queue.unseen = Unseen::urgent;
  PeekOffset offset(fd);
  std::optional<Sender> sender;
  if (process) sender.emplace(*process);
  std::string part(1 << 16, '\0'), all;
  std::uint64_t seen = 0;
  // Do not peek into an empty queue if its length is known: recvmsg() would clear a pending error (SO_ERROR).
  const std::uint64_t total = type == SOCK_DGRAM ? UINT64_MAX : unread(fd);
  while (seen < total) {
    alignas(cmsghdr) char control[CMSG_SPACE(253 * sizeof(int)) + 2 * CMSG_SPACE(sizeof(ucred)) + 256];
    iovec data = {part.data(), part.size()};
    msghdr message = {};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t n = ::recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) fail_errno(errno, "cannot look into the queue of a Unix socket");
    if (const auto unseen = unseen_in(message, sender)) queue.unseen = unseen;
    if (message.msg_flags & MSG_TRUNC) {
      part.resize(part.size() * 2);
      offset.set(static_cast<int>(seen));
      continue;
    }
    seen += static_cast<std::uint64_t>(n);
    if (stream)
      all.append(part, 0, static_cast<std::size_t>(n));
    else
      queue.messages.push_back(part.substr(0, static_cast<std::size_t>(n)));
  }
  if (!all.empty()) queue.messages.push_back(std::move(all));
  return queue;
}

void drain_queue(int fd, int type) {
  char part[1 << 12];
  // recv() has no control buffer, so the kernel discards ancillary data.
  for (std::uint64_t left = type == SOCK_DGRAM ? UINT64_MAX : unread(fd); left > 0;) {
    const ssize_t n = ::recv(fd, part, sizeof part, MSG_DONTWAIT | MSG_TRUNC * (type != SOCK_STREAM));
    if (n < 0 && errno == ECONNRESET) continue;
    if (n < 0) return;
    if (type != SOCK_DGRAM) left = unread(fd);
  }
}

}  // namespace reprise
