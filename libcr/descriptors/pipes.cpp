// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Pipes and FIFOs. The two ends of a pipe are descriptions of one inode. A pipe is *inside* if only this process holds
// ends of it: then its content is saved.
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/text.h"
#include "descriptors/kinds.h"
#include "restore/nameless_files.h"
#include "session/session.h"

namespace reprise {
namespace {

bool reads(const Description& description) { return (description.flags() & O_ACCMODE) != O_WRONLY; }
bool writes(const Description& description) { return (description.flags() & O_ACCMODE) != O_RDONLY; }
bool is_pipe(const Description& description) {
  return description.kind() == Description::PIPE || description.kind() == Description::FIFO;
}

std::uint64_t queued_bytes(int fd) {
  int bytes = 0;
  return ::ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

/** @return the content of a pipe, without consuming it. Throws Error. */
std::string peek(int fd, unsigned capacity) {
  const std::uint64_t bytes = queued_bytes(fd);
  if (bytes == 0) return {};
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) fail_errno(errno, "pipe");
  const UniqueFd out(ends[0]), in(ends[1]);
  // tee() duplicates pipe buffers, not bytes: the copy needs as many buffers.
  if (::fcntl(in.get(), F_SETPIPE_SZ, capacity) < 0) fail_errno(errno, "cannot make a pipe of the same size");
  std::string content;
  // SPLICE_F_NONBLOCK instead of O_NONBLOCK, which the target would see on its end.
  const ssize_t copied = ::tee(fd, in.get(), bytes, SPLICE_F_NONBLOCK);
  if (copied != static_cast<ssize_t>(bytes)) fail_errno(copied < 0 ? errno : EIO, "cannot read the content of a pipe");
  content.resize(bytes);
  std::size_t got = 0;
  while (got < content.size()) {
    const ssize_t n = ::read(out.get(), content.data() + got, content.size() - got);
    if (n <= 0) fail_errno(n < 0 ? errno : EIO, "cannot read the content of a pipe");
    got += static_cast<std::size_t>(n);
  }
  return content;
}

/** The descriptions of one pipe. */
struct Group {
  std::vector<std::uint32_t> members;
  bool has_reader = false, has_writer = false, shared = false;
};

std::map<std::uint64_t, Group> groups_of(const Process& image) {
  std::map<std::uint64_t, Group> groups;
  for (int i = 0; i < image.descriptions_size(); ++i) {
    const Description& description = image.descriptions(i);
    if (!is_pipe(description) || (description.flags() & O_PATH)) continue;
    Group& group = groups[description.pipe().ino()];
    group.members.push_back(static_cast<std::uint32_t>(i));
    group.has_reader |= reads(description);
    group.has_writer |= writes(description);
    group.shared |= description.outside();
  }
  return groups;
}

/** Replace the content of a pipe, through open file descriptions of our own. */
void replace_content(Restorer& restorer, std::uint32_t index, int end, const std::string& content) {
  const UniqueFd out = reopen_fd(end, O_RDONLY | O_NONBLOCK);
  if (!out) restorer.fail(index, "cannot be emptied", errno);
  char part[65536];
  while (::read(out.get(), part, sizeof part) > 0) {
  }
  if (content.empty()) return;
  const UniqueFd in = reopen_fd(end, O_WRONLY | O_NONBLOCK);
  if (!in) restorer.fail(index, "cannot be filled", errno);
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::write(in.get(), content.data() + done, content.size() - done);
    if (n <= 0) restorer.fail(index, "its content does not fit", n < 0 ? errno : EIO);
    done += static_cast<std::size_t>(n);
  }
}

const std::string& content_of(const Process& image, const Group& group) {
  static const std::string none;
  for (const std::uint32_t index : group.members)
    if (const auto& content = image.descriptions(static_cast<int>(index)).pipe().content(); !content.empty())
      return content;
  return none;
}

}  // namespace

std::map<int, std::uint64_t> queued_in_pipes(Session& session, const Process& image, const std::set<int>& keep_pipes) {
  std::map<int, std::uint64_t> result, outside;  // outside: number -> inode
  for (const Descriptor& one : image.descriptors()) {
    const Description& description = image.descriptions(static_cast<int>(one.description()));
    if (description.pipe().outside()) outside[one.fd()] = description.pipe().ino();
  }
  if (outside.empty()) return result;
  SessionSource source(session);
  for (const cr_fd& fd : session.fds()) {
    const auto found = outside.find(fd.fd);
    if (found == outside.end() || (found->second != fd.ino && !(keep_pipes.count(fd.fd) && S_ISFIFO(fd.mode)))) continue;
    if (const UniqueFd end = source.get(fd.fd)) result[fd.fd] = queued_bytes(end.get());
  }
  return result;
}

void collect_pipe(Collector& collector, const cr_fd& fd, Description& description) {
  (void)collector;
  description.mutable_pipe()->set_ino(fd.ino);
}

void finish_pipes(Collector& collector, const std::map<std::uint32_t, int>& numbers) {
  for (auto& [ino, group] : groups_of(collector.image)) {
    UniqueFd reader, any;
    for (const std::uint32_t index : group.members) {
      const Description& description = collector.image.descriptions(static_cast<int>(index));
      UniqueFd& end = reads(description) ? reader : any;
      if (!end) end = collector.source.get(numbers.at(index));
    }
    const int fd = reader ? reader.get() : any.get();
    // If this process has only readers or only writers, POLLHUP or POLLERR shows that no one holds the other end.
    pollfd state = {fd, 0, 0};
    bool outside = group.shared;
    if (!outside && group.has_reader != group.has_writer && ::poll(&state, 1, 0) >= 0)
      outside = (state.revents & (group.has_reader ? POLLHUP : POLLERR)) == 0;
    const int capacity = ::fcntl(fd, F_GETPIPE_SZ);
    bool first = true;
    for (const std::uint32_t index : group.members) {
      Description& description = *collector.image.mutable_descriptions(static_cast<int>(index));
      Pipe& pipe = *description.mutable_pipe();
      pipe.set_capacity(capacity > 0 ? static_cast<std::uint32_t>(capacity) : 0);
      pipe.set_outside(outside);
      pipe.set_queued(queued_bytes(fd));
      if (outside || !reader || !reads(description) || !first) continue;
      first = false;
      pipe.set_content(peek(reader.get(), pipe.capacity()));
      for (const std::uint32_t member : group.members)
        if (!pipe.content().empty() &&
            (collector.image.descriptions(static_cast<int>(member)).flags() & O_DIRECT))
          collector.refuse(numbers.at(member), "a pipe in packet mode (O_DIRECT) that is not empty");
    }
  }
}

namespace {

/** Make description @p index by opening the pipe of @p end again. */
void open_end(Restorer& restorer, std::uint32_t index, int end) {
  const int flags = open_flags(restorer.description(index));
  UniqueFd fd = reopen_fd(end, (flags & O_ACCMODE) | O_NONBLOCK);
  if (!fd && errno == ENXIO) {
    // A nonblocking open for writing fails with ENXIO while there is no reader: open one temporarily.
    const UniqueFd reader = reopen_fd(end, O_RDONLY | O_NONBLOCK);
    fd = reopen_fd(end, (flags & O_ACCMODE) | O_NONBLOCK);
  }
  if (!fd) restorer.fail(index, "cannot be opened again", errno);
  if (::fcntl(fd.get(), F_SETFL, flags) != 0) restorer.fail(index, "cannot set its flags", errno);
  restorer.made[index] = std::move(fd);
}

}  // namespace

void make_pipe(Restorer& restorer, std::uint32_t index) {
  const Description& wanted = restorer.description(index);
  if ((wanted.flags() & O_PATH) != 0) {
    restorer.made[index] = reopen_path(restorer, index);
    return;
  }
  const auto groups = groups_of(restorer.image);
  const Group& group = groups.at(wanted.pipe().ino());

  for (const std::uint32_t member : group.members) {
    if (restorer.way(member) != Way::keep) continue;
    open_end(restorer, index, restorer.must_fd(member));
    return;
  }
  // No end exists: make the pipe and all its members. out and in keep it until every member is open.
  UniqueFd out, in;
  if (wanted.kind() == Description::FIFO && !wanted.file().deleted()) {
    out = reopen_path(restorer, index, O_NONBLOCK, O_RDWR);
  } else if (wanted.kind() == Description::FIFO) {
    if (!restorer.nameless) restorer.fail(index, "was not made", EBADF);
    out = restorer.nameless->fifo(wanted.file());
  } else {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) restorer.fail(index, "cannot be made", errno);
    out.reset(ends[0]);
    in.reset(ends[1]);
    const auto capacity = wanted.pipe().capacity();
    if (capacity && ::fcntl(out.get(), F_SETPIPE_SZ, capacity) < 0)
      restorer.fail(index, "cannot be given its size of " + std::to_string(capacity) + " bytes", errno);
  }
  for (const std::uint32_t member : group.members)
    if (restorer.way(member) == Way::make) open_end(restorer, member, out.get());
}

void restore_pipe_state(Restorer& restorer, std::uint32_t index) {
  const Description& description = restorer.description(index);
  if (description.pipe().outside() || (description.flags() & O_PATH)) return;
  const auto groups = groups_of(restorer.image);
  const Group& group = groups.at(description.pipe().ino());
  // Restore the content once for each pipe, with its first reader.
  for (const std::uint32_t member : group.members) {
    if (!reads(restorer.description(member))) continue;
    if (member != index) return;
    break;
  }
  if (!reads(description)) return;

  const int fd = restorer.must_fd(index);
  const std::string& content = content_of(restorer.image, group);
  const auto capacity = static_cast<int>(description.pipe().capacity());
  const int now = ::fcntl(fd, F_GETPIPE_SZ);
  const bool resize = capacity > 0 && now != capacity;
  if (!resize && peek(fd, static_cast<unsigned>(now)) == content) return;
  replace_content(restorer, index, fd, {});
  if (resize && ::fcntl(fd, F_SETPIPE_SZ, capacity) < 0)
    restorer.warn(index, "cannot be given its size of " + std::to_string(capacity) + " bytes: " + error_text(errno));
  if (!content.empty()) replace_content(restorer, index, fd, content);
}

UniqueFd dead_pipe(Restorer& restorer, std::uint32_t index) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) restorer.fail(index, "cannot be made", errno);
  UniqueFd out(ends[0]), in(ends[1]);
  UniqueFd& end = writes(restorer.description(index)) ? in : out;
  const int flags = open_flags(restorer.description(index)) & ~O_DIRECT;
  if (::fcntl(end.get(), F_SETFL, flags) != 0) restorer.fail(index, "cannot set its flags", errno);
  return std::move(end);
}

}  // namespace reprise
