// SPDX-License-Identifier: GPL-2.0-only
#include "run.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "itself.h"

namespace reprise::afl {
namespace {

std::atomic<At> g_at{At::nowhere};
std::atomic<bool> g_running{false};
pid_t g_pid = 0;

// System calls by number: the functions of these names are ours.
bool tell(const Message& message) {
  ssize_t written;
  do written = ::syscall(SYS_write, kNews, &message, sizeof message);
  while (written < 0 && errno == EINTR);
  return written == sizeof message;
}

void wait_for_go() {
  char go;
  ssize_t got;
  do got = ::syscall(SYS_read, kGo, &go, 1);
  while (got < 0 && errno == EINTR);
  if (got != 1) ::syscall(SYS_exit_group, 1);  // the server has ended
}

/** Bytes of the coverage map, as the runtime of afl-cc counts them once all instrumented code is loaded. */
std::uint32_t map_size() {
  constexpr std::uint32_t kDefault = 1 << 16;
  const auto* last = static_cast<const std::uint32_t*>(::dlsym(RTLD_DEFAULT, "__afl_final_loc"));
  return last && *last ? *last + 1 : kDefault;
}

bool has_more_threads() {
  struct stat tasks {};
  return ::stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink > 3;  // a directory for each, and two links of its own
}

}  // namespace

At at() { return g_at.load(std::memory_order_relaxed); }

void set_target(At at) {
  g_pid = static_cast<pid_t>(::syscall(SYS_getpid));
  g_at = at;
}

void begin(const sockaddr* address, socklen_t address_size) {
  if (::syscall(SYS_getpid) != g_pid || g_at.exchange(At::nowhere) == At::nowhere) return;
  const int saved = errno;
  Message message{};
  message.kind = Message::ready;
  message.map_size = map_size();
  if (address && address_size <= sizeof message.address) {
    std::memcpy(&message.address, address, address_size);
    message.address_size = address_size;
  }
  message.room = room_address();
  g_running = true;
  if (!tell(message)) ::syscall(SYS_exit_group, 1);
  wait_here(tell, wait_for_go);
  errno = saved;
}

void give_up(int error) {
  Message message{};
  message.kind = Message::no_function;
  message.value = error;
  tell(message);
  ::syscall(SYS_exit_group, 1);
  __builtin_unreachable();
}

void end(int status, bool accepted) {
  if (!g_running.load() || ::syscall(SYS_getpid) != g_pid) return;
  if (g_running.exchange(false)) {
    Message message{};
    message.kind = Message::ended;
    message.value = status;
    message.more_threads = has_more_threads();
    message.accepted = accepted;
    roll_back_itself(message);
    if (!tell(message)) return;
  }
  for (;;) ::syscall(SYS_pause);  // until the rollback
}

}  // namespace reprise::afl
