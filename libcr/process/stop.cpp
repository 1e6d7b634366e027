// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/stop.h"

#include <signal.h>
#include <sys/syscall.h>

#include <algorithm>

namespace reprise {
namespace {

constexpr std::uint64_t kStopBit = 1ULL << (SIGSTOP - 1);

/** Make the target signal itself: getpid() is right in any pid namespace, and no permission is needed. */
void send_itself(Remote& remote, const char* what, int signal) {
  const auto pid = static_cast<std::uint64_t>(remote.must("its pid", 0, SYS_getpid));
  remote.must(what, 0, SYS_kill, pid, static_cast<std::uint64_t>(signal));
}

}  // namespace

bool is_stopped(const cr_process& data, std::span<const cr_thread> now) {
  return data.stopped || data.shared_pending & kStopBit ||
         std::any_of(now.begin(), now.end(), [](const cr_thread& thread) { return thread.pending & kStopBit; });
}

void end_stop(Session& session, Remote& remote, const Process& image) {
  if (image.stopped()) return;
  session.refresh();
  if (is_stopped(session.process(), session.threads())) send_itself(remote, "going on", SIGCONT);
}

void begin_stop(Session& session, Remote& remote, const Process& image) {
  if (!image.stopped()) return;
  session.refresh();
  if (!is_stopped(session.process(), session.threads())) send_itself(remote, "its stop", SIGSTOP);
}

}  // namespace reprise
