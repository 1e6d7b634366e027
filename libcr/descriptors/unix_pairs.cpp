// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Unix sockets that are connected to each other inside the process, as socketpair(2) makes them. Only the process can
// access their queues, so these are saved and restored like the content of its pipes. The same holds for sockets whose
// other end was closed while data was left to read.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "descriptors/kinds.h"
#include "descriptors/socket_name.h"
#include "descriptors/unix_diag.h"
#include "descriptors/unix_queue.h"
#include "session/remote.h"

namespace reprise {
namespace {

bool is_stream(const Socket& socket) { return socket.type() == SOCK_STREAM; }
bool keeps_connected(const Socket& socket) { return socket.type() == SOCK_STREAM || socket.type() == SOCK_SEQPACKET; }

bool may_be_inside(const Description& description) {
  const Socket& socket = description.socket();
  return description.kind() == Description::SOCKET && socket.family() == AF_UNIX && !socket.listening() &&
         !description.outside() && !socket.peer().empty() && !socket_was_dead(socket);
}

const std::map<std::uint64_t, std::uint32_t>& insiders(Restorer& restorer) {
  if (restorer.unix_ends) return *restorer.unix_ends;
  auto& by_inode = restorer.unix_ends.emplace();
  for (int i = 0; i < restorer.image.descriptions_size(); ++i)
    if (const Socket& socket = restorer.image.descriptions(i).socket(); socket.inside())
      by_inode[socket.ino()] = static_cast<std::uint32_t>(i);
  return by_inode;
}

/** @return the other end; nullopt if it was closed */
std::optional<std::uint32_t> other_end(Restorer& restorer, const Socket& socket) {
  if (!socket.peer_ino()) return std::nullopt;
  const auto& all = insiders(restorer);
  const auto found = all.find(socket.peer_ino());
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> queue_of(const Socket& socket) {
  std::vector<std::string> queue;
  for (const auto& message : socket.queue()) queue.push_back(message.data());
  return queue;
}

void note_unseen(Socket& socket, Unseen what) {
  auto* option = socket.add_options();
  option->set_level(kOwnLevel);
  option->set_name(kOwnUnseen);
  const auto value = static_cast<std::uint32_t>(what);
  option->set_value(&value, sizeof value);
}

struct End {
  std::uint32_t index;
  int number;
};

/** Save both ends, or the one whose peer was closed. If the queue of one cannot be saved, record that for both. */
void save_pair(Collector& collector, const std::vector<End>& ends) {
  const ProcDir process(collector.source.pid());
  std::optional<Unseen> unseen;
  for (const End& end : ends) {
    Socket& socket = *collector.image.mutable_descriptions(static_cast<int>(end.index))->mutable_socket();
    const UniqueFd ours = collector.source.get(end.number);
    const UnixQueue queue = peek_queue(ours.get(), static_cast<int>(socket.type()), &process);
    if (queue.unseen) unseen = queue.unseen;
    for (const std::string& message : queue.messages) socket.add_queue()->set_data(message);
    save_socket_options(ours.get(), socket, collector.source.pid());
  }
  for (const End& end : ends) {
    Socket& socket = *collector.image.mutable_descriptions(static_cast<int>(end.index))->mutable_socket();
    socket.set_inside(!unseen);
    if (!unseen) continue;
    socket.clear_queue();
    note_unseen(socket, *unseen);
  }
}

/** In a pause: has a live socket the saved peer and shutdown state, so that only its queue may differ? */
bool connection_is_same(const Socket& socket) {
  const auto now = unix_diag(socket.ino());
  if (!now) return true;  // no answer from the kernel
  return now->peer_ino == socket.peer_ino() && now->shut == socket.shut();
}

bool queue_is_same(Restorer& restorer, std::uint32_t index, const Socket& socket) {
  const UnixQueue now = peek_queue(restorer.must_fd(index), static_cast<int>(socket.type()), nullptr);
  return !now.unseen && now.messages == queue_of(socket);
}

/** Can @p from send into the queue of @p to, or was one of them shut down? */
bool can_send(const Socket& from, const Socket& to) { return !(from.shut() & 2) && !(to.shut() & 1); }

/** Make two connected sockets: by the target if remote calls are possible, else by us. */
std::pair<UniqueFd, UniqueFd> new_pair(Restorer& restorer, std::uint32_t index, int type) {
  int ends[2];
  if (!restorer.remote) {
    if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0) restorer.fail(index, "cannot be made", errno);
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
  }
  Remote& remote = *restorer.remote;
  std::uint64_t at;
  const auto* numbers = static_cast<const int*>(remote.argument(sizeof ends, at));
  const auto how = static_cast<std::uint64_t>(type | SOCK_CLOEXEC);
  const std::size_t call = remote.add({SYS_socketpair, {AF_UNIX, how, 0, at}}, false);
  const std::int64_t result = remote.run()[call];
  if (result < 0) restorer.fail(index, "cannot be made", static_cast<int>(-result));
  std::memcpy(ends, numbers, sizeof ends);
  std::pair<UniqueFd, UniqueFd> pair = {restorer.source.get(ends[0]), restorer.source.get(ends[1])};
  for (const int number : ends) remote.add({SYS_close, {static_cast<std::uint64_t>(number)}}, false);
  remote.run();
  return pair;
}

/** Does a socket of the image that is not part of a pair have the same name? */
bool is_name_of_another(const Restorer& restorer, const Socket& socket) {
  const auto& all = restorer.image.descriptions();
  return std::any_of(all.begin(), all.end(), [&](const Description& other) {
    return other.kind() == Description::SOCKET && !other.socket().inside() && other.socket().local() == socket.local();
  });
}

/** Set the name and options of a new end. */
void dress(Restorer& restorer, std::uint32_t index, int fd) {
  const Description& description = restorer.description(index);
  const Socket& socket = description.socket();
  set_options(restorer, index, fd, SetWhen::before_bind);
  set_options(restorer, index, fd, SetWhen::afterwards);
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0) ::fcntl(fd, F_SETFL, flags | (open_flags(description) & O_NONBLOCK));
  if (socket.local().empty()) return;
  const OnBehalf::Rights rights(restorer.behalf);
  struct ::stat there;
  const std::string path = unix_path(socket_address(restorer, socket));
  // An accepted socket has the name of the listening one, which must keep it.
  const bool may_be_accepted = keeps_connected(socket) || socket.name_gone();
  const bool taken = may_be_accepted &&
                     (path.empty() ? is_name_of_another(restorer, socket) : ::lstat(path.c_str(), &there) == 0);
  const int code = taken ? EADDRINUSE : bind_socket(restorer, fd, socket);
  if (code != 0)
    restorer.warn(index, "is not bound to its name " + address_text(socket.local()) + " again: " + error_text(code));
}

/** Send @p data through our descriptor @p from. @return 0 or errno */
int send_ourselves(int from, bool stream, const std::string& data) {
  std::size_t done = 0;
  do {
    const ssize_t n = ::send(from, data.data() + done, data.size() - done, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) return errno;
    done += static_cast<std::size_t>(n);
  } while (stream && done < data.size());
  return 0;
}

/** Make the target send @p data through its descriptor @p number, so that it has its credentials. @return 0 or errno */
int send_by_target(Remote& remote, int number, bool stream, const std::string& data, std::size_t most) {
  std::size_t done = 0;
  do {
    const std::size_t size = std::min(data.size() - done, most);
    std::uint64_t at = 0;
    std::memcpy(remote.argument(std::max<std::size_t>(size, 1), at), data.data() + done, size);
    const std::int64_t n =
        remote.call(0, SYS_sendto, static_cast<std::uint64_t>(number), at, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) return static_cast<int>(-n);
    done += static_cast<std::size_t>(n);
  } while (stream && done < data.size());
  return 0;
}

/** Double the send buffer. The saved data fitted into it, but as other pieces, with another overhead. */
void widen(int from) {
  int size = 0;
  socklen_t length = sizeof size;
  if (::getsockopt(from, SOL_SOCKET, SO_SNDBUF, &size, &length) != 0) return;
  // The kernel doubles the value.
  if (::setsockopt(from, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) != 0)
    ::setsockopt(from, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

void restore_width(int from, int size) {
  int half = size / 2;
  if (::setsockopt(from, SOL_SOCKET, SO_SNDBUFFORCE, &half, sizeof half) != 0)
    ::setsockopt(from, SOL_SOCKET, SO_SNDBUF, &half, sizeof half);
}

void fill_queue(Restorer& restorer, std::uint32_t index, int from, int number, const Socket& socket) {
  const bool stream = is_stream(socket);
  int size = 0;
  socklen_t length = sizeof size;
  ::getsockopt(from, SOL_SOCKET, SO_SNDBUF, &size, &length);
  bool widened = false;
  for (const auto& message : socket.queue()) {
    const std::string& data = message.data();
    std::size_t most = restorer.remote ? restorer.remote->argument_capacity() / 2 : 0;
    const bool by_target = restorer.remote && number >= 0 && (stream || data.size() <= most);
    const auto send = [&] {
      return by_target ? send_by_target(*restorer.remote, number, stream, data, most) : send_ourselves(from, stream, data);
    };
    if (stream && !widened && data.size() > static_cast<std::size_t>(size) / 4) widen(from), widened = true;
    int code = send();
    if (code == EAGAIN && !stream && !widened) {
      widen(from);
      widened = true;
      code = send();
    }
    if (code != 0) restorer.fail(index, "the content of its queue cannot be sent again", code);
  }
  if (widened) restore_width(from, size);
}

}  // namespace

void finish_unix_pairs(Collector& collector, const std::map<std::uint32_t, int>& numbers) {
  std::map<std::uint64_t, End> ends;
  std::map<std::uint64_t, std::uint64_t> peers;
  for (const auto& [index, number] : numbers) {
    Description& description = *collector.image.mutable_descriptions(static_cast<int>(index));
    if (!may_be_inside(description)) continue;
    Socket& socket = *description.mutable_socket();
    const auto told = unix_diag(socket.ino());
    if (!told) continue;
    socket.set_shut(told->shut);
    socket.set_peer_ino(told->peer_ino);
    ends[socket.ino()] = {index, number};
    peers[socket.ino()] = told->peer_ino;
  }
  for (const auto& [ino, end] : ends) {
    const Socket& socket = collector.image.descriptions(static_cast<int>(end.index)).socket();
    const std::uint64_t peer = peers.at(ino);
    if (peer == 0 && keeps_connected(socket))
      save_pair(collector, {end});
    else if (peer > ino && peers.count(peer) && peers.at(peer) == ino)
      save_pair(collector, {end, ends.at(peer)});
  }
}

std::set<std::uint32_t> look_at_unix_pairs(Restorer& restorer) {
  std::set<std::uint32_t> replace;
  for (const auto& [ino, index] : insiders(restorer)) {
    const Socket& socket = restorer.description(index).socket();
    const auto other = other_end(restorer, socket);
    const bool lives = restorer.alive.count(index);
    bool same = lives && (!other || restorer.alive.count(*other)) && connection_is_same(socket);
    // If the other end is closed or shut down for sending, the queue cannot be refilled: make a new pair if it differs.
    if (same && (!other || !can_send(restorer.description(*other).socket(), socket)))
      same = queue_is_same(restorer, index, socket);
    restorer.dups.erase(index);
    if (same) continue;
    if (lives) replace.insert(index);
    if (other && restorer.alive.count(*other)) replace.insert(*other);
  }
  return replace;
}

void make_unix_pair(Restorer& restorer, std::uint32_t index) {
  const Socket& socket = restorer.description(index).socket();
  const auto other = other_end(restorer, socket);
  auto [first, second] = new_pair(restorer, index, static_cast<int>(socket.type()));
  dress(restorer, index, first.get());
  if (other && restorer.way(*other) == Way::make) {
    dress(restorer, *other, second.get());
    restorer.made[*other] = std::move(second);
  } else {
    fill_queue(restorer, index, second.get(), -1, socket);
  }
  restorer.made[index] = std::move(first);
}

void restore_unix_pair_state(Restorer& restorer, std::uint32_t index) {
  const Socket& socket = restorer.description(index).socket();
  const auto other = other_end(restorer, socket);
  const bool both = other && restorer.way(*other) == restorer.way(index);
  const int fd = restorer.must_fd(index);
  if (both && !queue_is_same(restorer, index, socket)) {
    drain_queue(fd, static_cast<int>(socket.type()));
    const int number = restorer.remote ? restorer.number(*other) : -1;
    fill_queue(restorer, index, restorer.must_fd(*other), number, socket);
    restorer.dups.erase(*other);
  }
  // Shut down both ends together with the second one, when both queues are restored.
  if (restorer.way(index) != Way::make || (both && *other > index)) return;
  if (socket.shut()) ::shutdown(fd, static_cast<int>(socket.shut()) - 1);
  if (both && restorer.description(*other).socket().shut())
    ::shutdown(restorer.must_fd(*other), static_cast<int>(restorer.description(*other).socket().shut()) - 1);
}

}  // namespace reprise
