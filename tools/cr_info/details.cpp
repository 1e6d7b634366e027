// SPDX-License-Identifier: GPL-2.0-only
#include "details.h"

#include <algorithm>

#include <fmt/format.h>

#include "names.h"
#include "report.h"
#include "restore/kept_memory.h"

namespace reprise {
namespace {

std::string path_of(const File& file) { return printable(file.path()) + (file.deleted() ? " (deleted)" : ""); }

std::string describe_pipe(const Pipe& pipe) {
  const std::uint64_t inside = std::max<std::uint64_t>(pipe.queued(), pipe.content().size());
  return fmt::format("pipe:[{}]{}{}", pipe.ino(),
                     inside == 0 ? "" : fmt::format(", {} bytes inside", inside),
                     pipe.outside() ? ", other end in another process" : "");
}

std::string describe_socket(const Socket& socket) {
  std::string out = socket_kind(socket.family(), socket.type());
  if (!socket.local().empty()) out += " " + socket_address(socket.local());
  if (socket.listening()) return out + fmt::format(", listening (backlog {})", socket.backlog());
  if (!socket.peer().empty()) out += " - " + socket_address(socket.peer());
  return out;
}

std::string describe_epoll(const Epoll& epoll) {
  std::string fds;
  for (const auto& entry : epoll.entries()) fds += fmt::format("{}{}", fds.empty() ? "" : ", ", entry.fd());
  return fds.empty() ? "watches nothing" : "watches " + fds;
}

std::string describe_timer(const TimerFd& timer) {
  std::string out = fmt::format("clock {}, ", timer.clock());
  out += timer.value_ns() ? "due in " + tool::duration(static_cast<std::uint64_t>(timer.value_ns())) : "not armed";
  if (timer.interval_ns()) out += ", every " + tool::duration(static_cast<std::uint64_t>(timer.interval_ns()));
  if (timer.ticks()) out += fmt::format(", {} expired", timer.ticks());
  return out;
}

std::string describe_inotify(const Inotify& inotify) {
  std::string out;
  for (const auto& watch : inotify.watches()) out += (out.empty() ? "" : ", ") + printable(watch.path());
  return out.empty() ? "watches nothing" : "watches " + out;
}

}  // namespace

std::uint64_t saved_bytes(const Image& image, const Mapping& mapping) {
  std::uint64_t out = 0;
  for (const auto& run : image.runs_in({mapping.start(), mapping.end() - mapping.start()})) out += run.len;
  if (mapping.shared_object() == 0) return out;
  const std::uint64_t from = mapping.offset(), to = mapping.offset() + (mapping.end() - mapping.start());
  for (const auto& extent : image.process().shared_objects(static_cast<int>(mapping.shared_object()) - 1).extents()) {
    const std::uint64_t begin = std::max(from, extent.offset()), end = std::min(to, extent.offset() + extent.length());
    if (begin < end) out += end - begin;
  }
  return out;
}

std::string parked_call(const ThreadRegs& regs) {
  const auto call = static_cast<std::int64_t>(regs.regs.orig_rax);
  return call < 0 ? "" : system_call_name(call);
}

std::string kind_name(const Description& description) {
  switch (description.kind()) {
    case Description::REGULAR:
      return "file";
    case Description::DIRECTORY:
      return "directory";
    case Description::CHARDEV:
      return "device";
    case Description::PIPE:
      return "pipe";
    case Description::FIFO:
      return "fifo";
    case Description::EVENTFD:
      return "eventfd";
    case Description::EPOLL:
      return "epoll";
    case Description::TIMERFD:
      return "timerfd";
    case Description::SIGNALFD:
      return "signalfd";
    case Description::INOTIFY:
      return "inotify";
    case Description::TERMINAL:
      return "terminal";
    case Description::SOCKET:
      return "socket";
    case Description::MEMFD:
      return "memfd";
    case Description::PIDFD:
      return "pidfd";
    case Description::CR_AGENT:
      return "libcr";
    default:
      return "other";
  }
}

std::string describe(const Process& process, const Description& one) {
  std::string out;
  switch (one.kind()) {
    case Description::PIPE:
      out = describe_pipe(one.pipe());
      break;
    case Description::EVENTFD:
      out = fmt::format("count {}{}", one.eventfd().count(), one.eventfd().semaphore() ? ", semaphore" : "");
      break;
    case Description::EPOLL:
      out = describe_epoll(one.epoll());
      break;
    case Description::TIMERFD:
      out = describe_timer(one.timerfd());
      break;
    case Description::SIGNALFD:
      out = signal_set(one.signalfd().mask());
      break;
    case Description::INOTIFY:
      out = describe_inotify(one.inotify());
      break;
    case Description::SOCKET:
      out = describe_socket(one.socket());
      break;
    case Description::MEMFD: {
      const auto& object = process.shared_objects(static_cast<int>(one.shared_object()) - 1);
      out = fmt::format("{}, {}, at {}", is_kept_memory(object) ? kept_text(object) : path_of(one.file()),
                        tool::bytes(object.size()), one.offset());
      break;
    }
    case Description::REGULAR:
      out = fmt::format("{} at {} of {}", path_of(one.file()), one.offset(), one.file().size());
      break;
    case Description::TERMINAL:
      out = fmt::format("{}, {}x{}", path_of(one.file()), one.terminal().columns(), one.terminal().rows());
      break;
    default:
      out = path_of(one.file());
  }
  for (const auto& lock : one.locks())
    out += fmt::format(", {}lock {}",
                       lock.ofd()     ? "OFD "
                       : lock.flock() ? "flock "
                                      : "",
                       lock.flock() ? std::string() : fmt::format("{}+{}", lock.start(), lock.length()));
  if (one.outside() && one.kind() != Description::PIPE) out += ", shared with other processes";
  return out;
}

}  // namespace reprise
