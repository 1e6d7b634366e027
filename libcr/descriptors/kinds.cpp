// SPDX-License-Identifier: LGPL-2.1-or-later
#include "descriptors/kinds.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/kept_name.h"
#include "descriptors/socket_name.h"
#include "session/session.h"

namespace reprise {
namespace {

using D = Description;
constexpr KindOps kKinds[] = {
    // kind        collect           make           restore_state           dead         seekable  stays
    {D::REGULAR,   nullptr,          make_file,     restore_file_state,     nullptr,     true,     Stays::as_it_is},
    {D::DIRECTORY, nullptr,          make_file,     nullptr,                nullptr,     true,     Stays::as_it_is},
    {D::CHARDEV,   nullptr,          make_file,     nullptr,                nullptr,     true,     Stays::as_it_is},
    {D::PIPE,      collect_pipe,     make_pipe,     restore_pipe_state,     dead_pipe,   false,    Stays::content},
    {D::FIFO,      collect_pipe,     make_pipe,     restore_pipe_state,     dead_pipe,   false,    Stays::content},
    {D::EVENTFD,   collect_eventfd,  make_eventfd,  restore_eventfd_state,  nullptr,     false,    Stays::content},
    {D::EPOLL,     collect_epoll,    make_epoll,    nullptr,                nullptr,     false,    Stays::entries},
    {D::TIMERFD,   collect_timerfd,  make_timerfd,  restore_timerfd_state,  nullptr,     false,    Stays::content},
    {D::SIGNALFD,  collect_signalfd, make_signalfd, restore_signalfd_state, nullptr,     false,    Stays::content},
    {D::INOTIFY,   collect_inotify,  make_inotify,  restore_inotify_state,  nullptr,     false,    Stays::compared},
    {D::TERMINAL,  collect_terminal, make_terminal, restore_terminal_state, nullptr,     false,    Stays::restored},
    {D::SOCKET,    collect_socket,   make_socket,   restore_socket_state,   dead_socket, false,    Stays::as_it_is},
    {D::MEMFD,     collect_memfd,    make_memfd,    restore_memfd_state,    nullptr,     true,     Stays::compared},
    {D::PIDFD,     collect_pidfd,    make_pidfd,    nullptr,                nullptr,     false,    Stays::as_it_is},
    {D::CR_AGENT,  nullptr,          nullptr,       nullptr,                nullptr,     false,    Stays::as_it_is},
};
constexpr KindOps kNone = {D::UNKNOWN, nullptr, nullptr, nullptr, nullptr, false, Stays::compared};

}  // namespace

const KindOps& kind_ops(Description::Kind kind) {
  for (const KindOps& ops : kKinds)
    if (ops.kind == kind) return ops;
  return kNone;
}

pid_t SessionSource::pid() const { return session_.pid(); }
UniqueFd SessionSource::get(int fd) { return session_.get_fd(fd); }
UniqueFd SessionSource::get_mapping(std::uint64_t addr) { return session_.get_vma_file(addr); }

Restorer::Restorer(Source& source, const Process& image, const RestoreOptions& options, RestoreMode mode,
                   OnBehalf behalf)
    : source(source), image(image), options(options), mode(mode), behalf(std::move(behalf)) {
  for (const Descriptor& descriptor : image.descriptors()) {
    int& lowest = numbers_.try_emplace(descriptor.description(), descriptor.fd()).first->second;
    lowest = std::min(lowest, descriptor.fd());
  }
}

int Restorer::fd(std::uint32_t index) {
  if (const auto found = made.find(index); found != made.end()) return found->second.get();
  if (const auto found = dups.find(index); found != dups.end()) return found->second.get();
  const auto number = alive.find(index);
  if (number == alive.end()) return -1;
  return (dups[index] = source.get(number->second)).get();
}

int Restorer::must_fd(std::uint32_t index) {
  const int ours = fd(index);
  if (ours < 0) fail(index, "was not made", EBADF);
  return ours;
}

std::string Restorer::fdinfo(std::uint32_t index) {
  if (!fdinfo_) fdinfo_.emplace(source.pid(), "fdinfo");
  return fdinfo_->read(std::to_string(alive.at(index)));
}

bool Restorer::stat(std::uint32_t index, struct ::stat& out) {
  if (const auto found = made.find(index); found != made.end()) return ::fstat(found->second.get(), &out) == 0;
  const auto number = alive.find(index);
  if (number == alive.end()) return false;
  if (!fd_dir_) fd_dir_.emplace(source.pid(), "fd");
  return fd_dir_->stat(std::to_string(number->second), out);
}

void Restorer::warn(std::uint32_t index, const std::string& text) {
  warnings.push_back(description_text(image, index) + ": " + text);
}

void Restorer::fail(std::uint32_t index, const std::string& what, int code) const {
  throw Error(Failure::refused, code, description_text(image, index) + ": " + what + ": " + std::strerror(code));
}

bool Restorer::made_after_commit(std::uint32_t index) const {
  const Description& what = description(index);
  if (bind_after_commit.count(index)) return true;
  if (what.kind() == Description::CR_AGENT) return true;
  // Files in /proc of a thread that is made again exist only after the threads are made.
  if (const ProcPath whose = parse_proc_path(what.file().path()); whose.tid > 0 && whose.pid == image.pid())
    return !what.file().deleted() && whose.tid != image.pid();
  // The target makes the pair itself, so that SO_PEERCRED returns its credentials.
  if (what.kind() == Description::SOCKET && what.socket().inside()) return true;
  // Binding to a path replaces the socket that has it now.
  return what.kind() == Description::SOCKET && way(index) == Way::make && !socket_path(what.socket()).empty();
}

void Restorer::make(std::uint32_t index, bool last) {
  if (made.count(index) || (made_after_commit(index) && !last)) return;
  const KindOps& ops = kind_ops(description(index).kind());
  if (way(index) == Way::dead && ops.dead)
    made[index] = ops.dead(*this, index);
  else if (way(index) == Way::make && ops.make)
    ops.make(*this, index);
}

void Restorer::restore_state(std::uint32_t index) {
  if ((way(index) != Way::keep && way(index) != Way::make) || (description(index).flags() & O_PATH)) return;
  if (const auto restore_state = kind_ops(description(index).kind()).restore_state) restore_state(*this, index);
}

Stays stays(const Description& description) {
  const Stays of_kind = kind_ops(description.kind()).stays;
  if (description.kind() == Description::MEMFD && !kept_name(description.file().path()).empty()) return Stays::as_it_is;
  if (description.kind() != Description::SOCKET) return of_kind;
  // A pair has a queue, and an upper layer protocol has keys, which the module does not see.
  const Socket& socket = description.socket();
  return socket.inside() || !socket.ulp().empty() || socket.ulp_state() != 0 ? Stays::compared : of_kind;
}

}  // namespace reprise
