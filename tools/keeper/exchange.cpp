// SPDX-License-Identifier: GPL-2.0-only
#include "exchange.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <sstream>

#include "base/descriptor_passing.h"
#include "base/error.h"
#include "base/text.h"

namespace reprise::snapshots {
namespace {

constexpr std::size_t kMostWords = 64 << 10;  // bytes of all words
constexpr timeval kPatience = {5, 0};         // with a command that was stopped while it asks

}  // namespace

std::optional<pid_t> peer_of(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::geteuid()) return std::nullopt;
  return peer.pid;
}

bool send_request(int keeper, const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + '\0';
  if (text.size() > kMostWords) throw Error(Failure::usage, E2BIG, "the command line is too long");
  const UniqueFd folder(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) throw Error(Failure::permanent, errno, "the working directory: " + error_text(errno));
  if (::send(keeper, text.data(), text.size(), MSG_NOSIGNAL) >= 0 && send_descriptor(keeper, STDOUT_FILENO) &&
      send_descriptor(keeper, STDERR_FILENO) && send_descriptor(keeper, folder.get()))
    return true;
  if (errno == EPIPE || errno == ECONNRESET) return false;
  throw Error(Failure::permanent, errno, "cannot ask the keeper of the snapshots: " + error_text(errno));
}

int receive_status(int keeper) {
  std::int32_t status = -1;
  ssize_t got;
  do got = ::recv(keeper, &status, sizeof status, 0);
  while (got < 0 && errno == EINTR);
  return got == sizeof status ? status : -1;
}

bool receive_request(int command, Request& request) {
  const auto sender = peer_of(command);
  if (!sender) return false;
  request.sender = *sender;
  ::setsockopt(command, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  std::string text(kMostWords, '\0');
  const ssize_t got = ::recv(command, text.data(), text.size(), 0);
  if (got <= 0) return false;
  std::istringstream words(text.substr(0, static_cast<std::size_t>(got)));
  for (std::string word; std::getline(words, word, '\0');) request.words.push_back(word);
  for (UniqueFd* fd : {&request.out, &request.err, &request.folder})
    if (*fd = receive_descriptor(command, 0); !*fd) return false;
  return true;
}

void send_status(int command, int status) {
  const auto value = static_cast<std::int32_t>(status);
  ::send(command, &value, sizeof value, MSG_NOSIGNAL);  // the command may have been killed
}

}  // namespace reprise::snapshots
