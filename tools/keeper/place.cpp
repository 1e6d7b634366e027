// SPDX-License-Identifier: GPL-2.0-only
#include "place.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "exchange.h"

namespace reprise::snapshots {
namespace {

constexpr int kWaiting = 64;  // connections that wait for the keeper

bool only_ours(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string where() {
  if (::geteuid() == 0) return "/run/reprise";
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime && *runtime == '/' && only_ours(runtime))
    return std::string(runtime) + "/reprise";
  return "/tmp/reprise-" + std::to_string(::geteuid());
}

std::string socket_in(const std::string& folder, pid_t pid) { return folder + "/snapshots-" + std::to_string(pid); }

std::string socket_path(pid_t pid) { return socket_in(folder(), pid); }

sockaddr_un address_of(pid_t pid) {
  const std::string path = socket_path(pid);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw Error(Failure::refused, ENAMETOOLONG, path + " is too long for a socket: set a shorter XDG_RUNTIME_DIR");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

UniqueFd new_socket() {
  UniqueFd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!made) throw Error(Failure::permanent, errno, "cannot make a socket: " + error_text(errno));
  return made;
}

}  // namespace

std::string folder() {
  const std::string path = where();
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    throw Error(Failure::permanent, errno, "cannot make " + path + ": " + error_text(errno));
  if (!only_ours(path))
    throw Error(Failure::refused, EPERM, path + " can be written to by others: set XDG_RUNTIME_DIR to a folder of your own");
  return path;
}

bool may_have_keeper(pid_t pid) { return ::access(socket_in(where(), pid).c_str(), F_OK) == 0; }

std::vector<pid_t> processes_with_keepers() {
  constexpr char prefix[] = "snapshots-";
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    const std::string name = entry.path().filename();
    if (name.rfind(prefix, 0) != 0 || name.find_first_not_of("0123456789", sizeof prefix - 1) != std::string::npos) continue;
    if (const int pid = std::atoi(name.c_str() + sizeof prefix - 1); pid > 0) found.push_back(pid);
  }
  std::sort(found.begin(), found.end());
  return found;
}

UniqueFd connect_to_keeper(pid_t pid) {
  const sockaddr_un address = address_of(pid);
  UniqueFd ours = new_socket();
  while (::connect(ours.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EINTR) continue;
    if (errno == ENOENT || errno == ECONNREFUSED) return UniqueFd();
    throw Error(Failure::permanent, errno, std::string(address.sun_path) + ": " + error_text(errno));
  }
  if (!peer_of(ours.get()))
    throw Error(Failure::refused, EPERM, std::string(address.sun_path) + " belongs to another user");
  return ours;
}

StartLock::StartLock() : file_(::open(folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!file_ || ::flock(file_.get(), LOCK_EX) != 0)
    throw Error(Failure::permanent, errno, "cannot lock " + folder() + ": " + error_text(errno));
}

UniqueFd listen_as_keeper(pid_t pid) {
  const sockaddr_un address = address_of(pid);
  UniqueFd made = new_socket();
  ::unlink(address.sun_path);
  if (::bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(made.get(), kWaiting) != 0)
    throw Error(Failure::permanent, errno, std::string(address.sun_path) + ": " + error_text(errno));
  return made;
}

void remove_socket(pid_t pid) { ::unlink(socket_path(pid).c_str()); }

}  // namespace reprise::snapshots
