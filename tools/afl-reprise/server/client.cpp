// SPDX-License-Identifier: GPL-2.0-only
#include "client.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace reprise::afl {
namespace {

/** afl-fuzz writes the input there, whole, before it asks for a run. Its position is afl-fuzz's, too. */
std::vector<char> read_input() {
  struct stat st {};
  if (::fstat(STDIN_FILENO, &st) != 0 || !S_ISREG(st.st_mode))
    throw Error(Failure::usage, EINVAL, "--at-accept sends standard input to the target: leave out @@ and -f");
  std::vector<char> input(static_cast<std::size_t>(st.st_size));
  std::size_t have = 0;
  while (have < input.size()) {
    const ssize_t got = ::pread(STDIN_FILENO, input.data() + have, input.size() - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail_errno(got < 0 ? errno : EIO, "reading the input");
    have += static_cast<std::size_t>(got);
  }
  return input;
}

std::string name_of(const sockaddr_storage& address, socklen_t size) {
  if (address.ss_family == AF_UNIX) return reinterpret_cast<const sockaddr_un&>(address).sun_path;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "its address";
  return std::string(host) + " port " + port;
}

}  // namespace

Client::Client(const sockaddr_storage& address, socklen_t size)
    : socket_(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)), input_(read_input()) {
  // Closed by a reset: no port of ours stays in use for minutes, and nothing of this run waits in the target's socket.
  const linger reset{1, 0};
  if (!socket_ || ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset) != 0 ||
      ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    fail_errno(errno, "connecting to the target at " + name_of(address, size));
  closed_ = send();
}

void Client::wants(pollfd& wait) const {
  wait.fd = socket_.get();
  wait.events = static_cast<short>(POLLIN | (closed_ ? 0 : POLLOUT));
}

/** @return whether there is no more to send */
bool Client::send() {
  while (sent_ < input_.size()) {
    const ssize_t sent = ::send(socket_.get(), input_.data() + sent_, input_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return false;
    if (sent < 0) return true;  // the target takes no more
    sent_ += static_cast<std::size_t>(sent);
  }
  ::shutdown(socket_.get(), SHUT_WR);
  return true;
}

bool Client::serve() {
  if (!closed_) closed_ = send();
  for (;;) {
    char answer[1 << 14];
    const ssize_t got = ::recv(socket_.get(), answer, sizeof answer, MSG_DONTWAIT);
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    return got == 0 || errno != EAGAIN;
  }
}

}  // namespace reprise::afl
