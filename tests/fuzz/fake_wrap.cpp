// SPDX-License-Identifier: GPL-2.0-only
// The replacements of system calls (--wrap): the fake's while one exists, otherwise the real ones.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <ctime>
#include <mutex>

#include "fake_kernel.h"
#include "fake_real.h"

using reprise::fuzz::FakeKernel;

extern "C" {
int __real_open(const char* path, int flags, ...);
int __real_openat(int dir, const char* path, int flags, ...);
int __real_ioctl(int fd, unsigned long request, ...);
int __real_fcntl(int fd, int command, ...);
long __real_syscall(long nr, ...);
void* __real_mmap(void* addr, std::size_t size, int prot, int flags, int fd, off_t at);
int __real_munmap(void* addr, std::size_t size);
int __real_close(int fd);
int __real_fstat(int fd, struct stat* st);
int __real_lstat(const char* path, struct stat* st);
int __real_unlink(const char* path);
int __real_access(const char* path, int mode);
int __real_faccessat(int dir, const char* path, int mode, int flags);
int __real_ftruncate(int fd, off_t size);
int __real_fallocate(int fd, int mode, off_t at, off_t size);
int __real_socket(int family, int type, int protocol);
int __real_bind(int fd, const sockaddr* address, socklen_t size);
int __real_connect(int fd, const sockaddr* address, socklen_t size);
int __real_listen(int fd, int backlog);
int __real_setsockopt(int fd, int level, int name, const void* value, socklen_t size);
int __real_kill(pid_t pid, int signal);
pid_t __real_waitpid(pid_t pid, int* status, int options);
int __real_prlimit(pid_t pid, int resource, const void* wanted, void* old);
int __real_unshare(int flags);
int __real_chdir(const char* path);
int __real_nanosleep(const timespec* time, timespec* left);
int __real_inotify_add_watch(int fd, const char* path, std::uint32_t mask);
}

namespace {

std::recursive_mutex mutex;  // threads of their own verify images

template <class T>
T result(T value) {
  if (value >= 0) return value;
  errno = static_cast<int>(-value);
  return -1;
}

/** @return the answer of @p fake; without a fake, the result of the real call */
template <class Fake, class Real>
auto either(Fake fake, Real real) {
  if (FakeKernel* now = FakeKernel::now()) {
    const std::lock_guard lock(mutex);
    return result(fake(*now));
  }
  return real();
}

}  // namespace

namespace reprise::fuzz {

int real_open(const char* path, int flags) {
  const int fd = __real_open(path, flags | O_CLOEXEC, 0600);
  return fd < 0 ? -errno : fd;
}
int real_memfd(const char* name) { return ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING); }
int real_fstat(int fd, struct ::stat& st) { return __real_fstat(fd, &st) ? -errno : 0; }
int real_truncate(int fd, std::uint64_t size) { return __real_ftruncate(fd, static_cast<off_t>(size)) ? -errno : 0; }
off_t real_size(int fd) {
  struct ::stat st {};
  return __real_fstat(fd, &st) ? 0 : st.st_size;
}
bool real_is_open(int fd) { return __real_fcntl(fd, F_GETFD) >= 0; }
int real_object(mode_t mode) {
  int ends[2];
  switch (mode & S_IFMT) {
    case S_IFSOCK: return __real_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    case S_IFIFO:
      if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return -1;
      __real_close(ends[1]);
      return ends[0];
    default: return real_memfd("object");
  }
}

}  // namespace reprise::fuzz

extern "C" {

int __wrap_open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
  va_end(list);
  return either([&](FakeKernel& fake) { return fake.open(path, flags, mode); }, [&] { return __real_open(path, flags, mode); });
}

int __wrap_openat(int dir, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
  va_end(list);
  return either(
      [&](FakeKernel& fake) {
        const std::string name(path);
        const bool number = name.find_first_not_of("0123456789") == std::string::npos;  // a descriptor number in fdinfo
        const bool own = number || name.ends_with("status") || name == "timers" || (flags & O_ACCMODE) != O_RDONLY || name.starts_with("/");
        if (own) return fake.open(name == "status" ? "/status" : path, flags, mode);
        const int fd = __real_openat(dir, path, flags, mode);
        return fd < 0 ? -errno : fd;
      },
      [&] { return __real_openat(dir, path, flags, mode); });
}

int __wrap_ioctl(int fd, unsigned long request, ...) {
  va_list list;
  va_start(list, request);
  void* arg = va_arg(list, void*);
  va_end(list);
  return either(
      [&](FakeKernel& fake) {
        if (fake.is_device(fd)) return fake.ioctl(fd, request, arg);
        if (request == 0x5402) return 0;  // TCSETS: change no terminal
        return __real_ioctl(fd, request, arg) < 0 ? -errno : 0;
      },
      [&] { return __real_ioctl(fd, request, arg); });
}

int __wrap_fcntl(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  const std::uint64_t arg = va_arg(list, std::uint64_t);
  va_end(list);
  return either(
      [&](FakeKernel&) {
        if (command == F_SETFL && fd <= 2) return 0;
        if (command == F_SETPIPE_SZ && arg > 1 << 20) return -EPERM;
        const int got = __real_fcntl(fd, command, arg);
        return got < 0 ? -errno : got;
      },
      [&] { return __real_fcntl(fd, command, arg); });
}

void* __wrap_mmap(void* addr, std::size_t size, int prot, int flags, int fd, off_t at) {
  if (FakeKernel* now = FakeKernel::now()) {
    const std::lock_guard lock(mutex);
    if (now->is_device(fd)) return now->map(size);
  }
  return __real_mmap(addr, size, prot, flags, fd, at);
}

int __wrap_munmap(void* addr, std::size_t size) {
  if (FakeKernel* now = FakeKernel::now(); now && now->is_arena(addr)) return 0;
  return __real_munmap(addr, size);
}

ssize_t __wrap_pread(int fd, void* to, std::size_t size, off_t at) {
  FakeKernel* now = FakeKernel::now();
  if (!now) return __real_pread(fd, to, size, at);
  {
    const std::lock_guard lock(mutex);
    if (now->is_memory(fd) || now->is_device(fd)) return result(now->pread(fd, to, size, static_cast<std::uint64_t>(at)));
  }
  return __real_pread(fd, to, size, at);
}

ssize_t __wrap_pwrite(int fd, const void* from, std::size_t size, off_t at) {
  return either([&](FakeKernel& fake) { return fake.pwrite(fd, from, size, static_cast<std::uint64_t>(at)); },
                [&] { return __real_pwrite(fd, from, size, at); });
}

int __wrap_close(int fd) {
  if (FakeKernel* now = FakeKernel::now()) {
    const std::lock_guard lock(mutex);
    now->closed(fd);
  }
  return __real_close(fd);
}

int __wrap_fstat(int fd, struct stat* st) {
  return either([&](FakeKernel& fake) { return fake.fstat(fd, *st); }, [&] { return __real_fstat(fd, st); });
}
int __wrap_lstat(const char* path, struct stat* st) {
  return either([&](FakeKernel& fake) { return fake.lstat(path, *st); }, [&] { return __real_lstat(path, st); });
}
int __wrap_unlink(const char* path) {
  return either([&](FakeKernel& fake) { return fake.unlink(path); }, [&] { return __real_unlink(path); });
}
int __wrap_access(const char* path, int mode) {
  return either([&](FakeKernel&) { return -ENOENT; }, [&] { return __real_access(path, mode); });
}
int __wrap_faccessat(int dir, const char* path, int mode, int flags) {
  return either([&](FakeKernel&) { return 0; }, [&] { return __real_faccessat(dir, path, mode, flags); });
}
int __wrap_ftruncate(int fd, off_t size) {
  return either([&](FakeKernel& fake) { return fake.truncate(fd, static_cast<std::uint64_t>(size)); }, [&] { return __real_ftruncate(fd, size); });
}
int __wrap_fallocate(int fd, int mode, off_t at, off_t size) {
  return either([&](FakeKernel&) { return 0; }, [&] { return __real_fallocate(fd, mode, at, size); });
}
int __wrap_socket(int family, int type, int protocol) {
  return either(
      [&](FakeKernel&) {
        const int plain = type & 0xf;
        if (family != AF_UNIX && family != AF_INET && family != AF_INET6 && family != AF_NETLINK) return -EAFNOSUPPORT;
        if (plain != SOCK_STREAM && plain != SOCK_DGRAM && plain != SOCK_SEQPACKET) return -EPROTONOSUPPORT;
        const int fd = __real_socket(family == AF_NETLINK ? AF_UNIX : family, type, family == AF_NETLINK ? 0 : protocol);
        return fd < 0 ? -errno : fd;
      },
      [&] { return __real_socket(family, type, protocol); });
}
int __wrap_bind(int fd, const sockaddr* address, socklen_t size) {
  return either([&](FakeKernel& fake) { return fake.bind(address, size); }, [&] { return __real_bind(fd, address, size); });
}
int __wrap_connect(int fd, const sockaddr* address, socklen_t size) {
  return either([&](FakeKernel& fake) { return fake.connect(address, size); }, [&] { return __real_connect(fd, address, size); });
}
int __wrap_listen(int fd, int backlog) {
  return either([&](FakeKernel&) { return 0; }, [&] { return __real_listen(fd, backlog); });
}
int __wrap_setsockopt(int fd, int level, int name, const void* value, socklen_t size) {
  return either([&](FakeKernel& fake) { return fake.option(level, value, size); }, [&] { return __real_setsockopt(fd, level, name, value, size); });
}
int __wrap_kill(pid_t pid, int signal) {
  return either([&](FakeKernel& fake) { return fake.kill(pid, signal); }, [&] { return __real_kill(pid, signal); });
}
pid_t __wrap_waitpid(pid_t pid, int* status, int options) {
  return either([&](FakeKernel&) { return pid; }, [&] { return __real_waitpid(pid, status, options); });
}
int __wrap_prlimit(pid_t pid, int resource, const void* wanted, void* old) {
  return either([&](FakeKernel& fake) { return fake.prlimit(pid, resource, wanted, old); }, [&] { return __real_prlimit(pid, resource, wanted, old); });
}
int __wrap_unshare(int flags) {
  return either([&](FakeKernel&) { return 0; }, [&] { return __real_unshare(flags); });
}
int __wrap_chdir(const char* path) {
  return either([&](FakeKernel&) { return 0; }, [&] { return __real_chdir(path); });
}
int __wrap_nanosleep(const timespec* time, timespec* left) {
  return either([&](FakeKernel&) { return 0; }, [&] { return __real_nanosleep(time, left); });
}
int __wrap_inotify_add_watch(int fd, const char* path, std::uint32_t mask) {
  return either([&](FakeKernel& fake) { return fake.watch(fd); }, [&] { return __real_inotify_add_watch(fd, path, mask); });
}

long __wrap_syscall(long nr, ...) {
  va_list list;
  va_start(list, nr);
  std::uint64_t arg[6];
  for (std::uint64_t& one : arg) one = va_arg(list, std::uint64_t);
  va_end(list);
  return either([&](FakeKernel& fake) { return fake.syscall(nr, arg); },
                [&] { return __real_syscall(nr, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]); });
}

}
