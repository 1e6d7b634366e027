// SPDX-License-Identifier: GPL-2.0-only
#include "crd/takeover.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crd/process.h"
#include "job/files.h"
#include "job/log.h"
#include "job/names.h"
#include "rank_channel.h"

namespace reprise::crd {
namespace {

using namespace std::chrono_literals;

constexpr auto kLimit = 15s;
constexpr auto kStep = 10ms;

/** @return processes that were started as ranks of the daemon with this socket, and their descendants */
std::vector<pid_t> processes_of(const std::string& socket) {
  const std::string wanted = std::string(CR_RANK_SOCKET_VARIABLE) + "=" + socket;
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto pid = static_cast<pid_t>(std::stol(name));
    struct stat st {};
    if (pid == ::getpid() || ::stat(entry.path().c_str(), &st) != 0 || st.st_uid != ::geteuid() || !process_runs(pid)) continue;
    std::ifstream file(entry.path() / "environ");
    const std::string environment((std::istreambuf_iterator<char>(file)), {});
    for (std::size_t at = 0; at < environment.size();) {
      const std::size_t end = std::min(environment.find('\0', at), environment.size());
      if (environment.compare(at, end - at, wanted) == 0) {
        found.push_back(pid);
        break;
      }
      at = end + 1;
    }
  }
  return found;
}

/** @return whether @p fd is the file at @p path: the former daemon may have removed it when it ended */
bool is_at(int fd, const std::string& path) {
  struct stat ours {}, there {};
  return ::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &there) == 0 && ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

}  // namespace

UniqueFd take_over(const std::string& run_directory) {
  const auto end = std::chrono::steady_clock::now() + kLimit;
  const std::string path = run_directory + "/crd.lock";
  UniqueFd held;
  for (pid_t told = 0; !held; std::this_thread::sleep_for(kStep)) {
    job::make_private_directory(run_directory);
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) throw std::system_error(errno, std::generic_category(), "cannot open " + path);
    // A POSIX lock belongs to the process and not to its children. The kernel reports its owner, so the pid cannot be
    // stale.
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    if (::fcntl(fd.get(), F_SETLK, &lock) == 0) {
      if (is_at(fd.get(), path)) held = std::move(fd);
      continue;
    }
    if (errno != EACCES && errno != EAGAIN && errno != EINTR) throw std::system_error(errno, std::generic_category(), "cannot lock " + path);
    if (::fcntl(fd.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid > 0) {
      if (std::exchange(told, lock.l_pid) != lock.l_pid) spdlog::warn("ending an older daemon of this job, process {}", lock.l_pid);
      ::kill(lock.l_pid, SIGKILL);
    }
    if (std::chrono::steady_clock::now() > end)
      throw std::runtime_error("an older daemon of this job, process " + std::to_string(told) + ", does not end: see why it hangs");
  }
  // Most ranks die with their daemon. A process that a rank has started may live on; it must not meet the new ranks.
  const std::string socket = job::rank_socket_path(run_directory);
  for (;; std::this_thread::sleep_for(kStep)) {
    const std::vector<pid_t> left = processes_of(socket);
    if (left.empty()) break;
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    if (std::chrono::steady_clock::now() > end)
      throw std::runtime_error("process " + std::to_string(left.front()) + " of an older daemon of this job does not end: see why it hangs");
  }
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(run_directory, ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("pmix-")) std::filesystem::remove_all(entry.path(), ignored);
  }
  return held;
}

}  // namespace reprise::crd
