// SPDX-License-Identifier: LGPL-2.1-or-later
#include "base/proc_stat.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace reprise {
namespace {

/** Reads the numbers of a line in order. */
class Fields {
 public:
  explicit Fields(std::string_view text) : text_(text) {}

  /** Read the next number into @p to. A missing field, or one that T cannot hold, leaves @p to unchanged. */
  template <class T>
  void next(T& to) {
    text_.remove_prefix(std::min(text_.find_first_not_of(' '), text_.size()));
    const std::size_t end = std::min(text_.find_first_of(" \n"), text_.size());
    std::from_chars(text_.data(), text_.data() + end, to);
    text_.remove_prefix(end);
  }
  void skip(int fields) {
    for (long long ignored = 0; fields > 0; --fields) next(ignored);
  }

 private:
  std::string_view text_;
};

}  // namespace

std::optional<ProcStat> parse_proc_stat(std::string_view text) {
  // The name may contain parentheses and blanks. The state follows the last parenthesis.
  const std::size_t open = text.find('('), close = text.rfind(')');
  if (open == text.npos || close == text.npos || close < open || close + 3 > text.size()) return std::nullopt;
  ProcStat stat;
  const std::size_t length = std::min(close - open - 1, sizeof stat.comm - 1);
  std::copy_n(text.data() + open + 1, length, stat.comm);
  stat.state = text[close + 2];
  Fields fields(text.substr(close + 3));  // starts at field 4, ppid
  fields.next(stat.ppid);
  fields.next(stat.pgid);
  fields.next(stat.sid);
  int tty = 0;
  fields.next(tty);
  stat.tty = static_cast<std::uint32_t>(tty);
  fields.next(stat.tty_pgid);
  fields.next(stat.flags);
  fields.skip(12);
  fields.next(stat.start_ticks);
  return stat;
}

std::optional<ProcStat> proc_stat(pid_t pid) {
  char path[32], text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  const ssize_t got = ::read(fd, text, sizeof text);
  ::close(fd);
  if (got <= 0) return std::nullopt;
  return parse_proc_stat({text, static_cast<std::size_t>(got)});
}

std::uint64_t running_since(pid_t pid) {
  const auto stat = proc_stat(pid);
  return stat && !stat->ended() ? stat->start_ticks : 0;
}

}  // namespace reprise
