// SPDX-License-Identifier: GPL-2.0-only
#include "substitutes.h"

#include <cerrno>
#include <charconv>
#include <cstring>

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/error.h"
#include "base/kept_make.h"
#include "base/proc_dir.h"
#include "base/text.h"

namespace reprise::tool {
namespace {

bool number(const std::string& text, int& value) {
  const auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), value);
  return err == std::errc{} && end == text.data() + text.size() && value >= 0;
}

UniqueFd connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return errno = ENAMETOOLONG, UniqueFd();
  std::memcpy(address.sun_path, path.data(), path.size());
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM}) {
    UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    if (fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
    if (errno != EPROTOTYPE) return {};
  }
  return {};
}

/** @param create  make the file if there is none */
UniqueFd open_for(const std::string& path, bool create) {
  struct stat st {};
  if (::stat(path.c_str(), &st) == 0 && S_ISSOCK(st.st_mode)) return connect_to(path);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | (create ? O_CREAT : 0), 0666));
  if (!fd && (errno == EACCES || errno == EISDIR || errno == EROFS))
    fd.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  return fd;
}

/** @return whether @p path was a pattern, in which every %n is now @p copy */
bool fill_in(std::string& path, std::size_t copy) {
  const std::string number = std::to_string(copy);
  bool found = false;
  for (std::size_t at = 0; copy && (at = path.find("%n", at)) != std::string::npos; at += number.size(), found = true)
    path.replace(at, 2, number);
  return found;
}

/** @return kept memory @p name with the content of @p file. Throws Error naming @p argument. */
UniqueFd filled(const std::string& argument, const std::string& name, bool copied, const UniqueFd& file, std::uint64_t size) {
  const auto fail = [&](const char* what) {
    throw Error(Failure::refused, errno, "--kept-memory " + argument + ": " + what + ": " + error_text(errno));
  };
  constexpr std::uint64_t page = 4096;
  UniqueFd memory(make_kept_memory(name.c_str(), (size + page - 1) / page * page, copied));
  if (!memory) fail("the memory cannot be made");
  for (std::uint64_t left = size; left > 0;) {
    const ssize_t done = ::sendfile(memory.get(), file.get(), nullptr, left);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("reading the file");
    if (done == 0) break;  // it has become shorter: the rest stays empty
    left -= static_cast<std::uint64_t>(done);
  }
  return memory;
}

}  // namespace

Substitutes::Substitutes(const std::vector<std::string>& arguments, std::size_t copy, std::map<int, int>& substitute) {
  for (const std::string& argument : arguments) {
    const std::size_t at = argument.find('=');
    int fd = -1, with = -1;
    if (at == std::string::npos || !number(argument.substr(0, at), fd) || at + 1 == argument.size())
      throw Error(Failure::usage, EINVAL, "--fd " + argument + ": give it as N=M or N=PATH");
    std::string what = argument.substr(at + 1);
    if (number(what, with)) {
      if (::fcntl(with, F_GETFD) < 0)
        throw Error(Failure::usage, EBADF, "--fd " + argument + ": descriptor " + what + " is not open");
    } else {
      const bool pattern = fill_in(what, copy);
      UniqueFd opened = open_for(what, pattern);
      if (!opened) throw Error(Failure::refused, errno, "--fd " + argument + ": cannot open " + what + ": " + error_text(errno));
      with = opened.get();
      opened_.push_back(std::move(opened));
    }
    substitute[fd] = with;
  }
}

KeptMemory::KeptMemory(const std::vector<std::string>& arguments, const std::function<bool(const std::string&)>& copied,
                       std::map<std::string, int>& memory) {
  for (const std::string& argument : arguments) {
    const std::size_t at = argument.find('=');
    if (at == 0 || at == std::string::npos || at + 1 == argument.size())
      throw Error(Failure::usage, EINVAL, "--kept-memory " + argument + ": give it as NAME=M or NAME=PATH");
    const std::string name = argument.substr(0, at), what = argument.substr(at + 1);
    int with = -1;
    if (number(what, with)) {
      if (::fcntl(with, F_GETFD) < 0)
        throw Error(Failure::usage, EBADF, "--kept-memory " + argument + ": descriptor " + what + " is not open");
    } else {
      UniqueFd opened = open_for(what, false);
      struct stat st {};
      if (!opened || ::fstat(opened.get(), &st) != 0)
        throw Error(Failure::refused, errno, "--kept-memory " + argument + ": cannot open " + what + ": " + error_text(errno));
      // Memory itself (/proc/PID/fd/N) is shared with who holds it; a file only says what the memory has at first.
      if (S_ISREG(st.st_mode) && !ProcDir("/proc/self/fd").link(std::to_string(opened.get())).starts_with("/memfd:"))
        opened = filled(argument, name, copied(name), opened, static_cast<std::uint64_t>(st.st_size));
      with = opened.get();
      opened_.push_back(std::move(opened));
    }
    memory[name] = with;
  }
}

}  // namespace reprise::tool
