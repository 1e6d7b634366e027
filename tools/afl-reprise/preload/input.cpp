// SPDX-License-Identifier: GPL-2.0-only
// Where a program comes to its input for the first time: it names the file that afl-fuzz writes, or uses standard input.
#include <fcntl.h>
#include <stdio_ext.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "run.h"

namespace {

using reprise::afl::At;

/** The name is the file of afl-fuzz (.cur_input) or of its companions (.afl-showmap-temp-1, …), or what -f says. */
bool is_input(const char* path) {
  if (std::strstr(path, "/.cur_input") || std::strstr(path, "/.afl-")) return true;
  const char* chosen = std::getenv(reprise::afl::kInputFile);
  return chosen && std::strcmp(path, chosen) == 0;
}

void at_path(const char* path) {
  if (reprise::afl::at() == At::input && path && is_input(path)) reprise::afl::begin();
}

void at_descriptor(int fd) {
  if (fd == STDIN_FILENO && reprise::afl::at() == At::input) reprise::afl::begin();
}

void at_stream(FILE* stream) {
  if (stream == stdin) at_descriptor(STDIN_FILENO);
}

/** The mode of open(), which the caller passes only with flags that make a file. */
unsigned mode_of(int flags, va_list arguments) {
  return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, unsigned) : 0;
}

}  // namespace

#define OPEN(name)                                  \
  STANDS_IN int name(const char* path, int flags, ...) { \
    va_list arguments;                              \
    va_start(arguments, flags);                     \
    const unsigned mode = mode_of(flags, arguments); \
    va_end(arguments);                              \
    at_path(path);                                  \
    return REAL(name)(path, flags, mode);           \
  }
#define OPENAT(name)                                \
  STANDS_IN int name(int at, const char* path, int flags, ...) { \
    va_list arguments;                              \
    va_start(arguments, flags);                     \
    const unsigned mode = mode_of(flags, arguments); \
    va_end(arguments);                              \
    at_path(path);                                  \
    return REAL(name)(at, path, flags, mode);       \
  }
/** A function with fixed arguments: comes to the input by @p check, then does what the real one does. */
#define PASSES(result, name, declared, check, passed) \
  STANDS_IN result name declared {                  \
    check;                                          \
    return REAL(name) passed;                       \
  }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
PASSES(FILE*, fopen, (const char* path, const char* mode), at_path(path), (path, mode))
PASSES(FILE*, fopen64, (const char* path, const char* mode), at_path(path), (path, mode))
PASSES(FILE*, freopen, (const char* path, const char* mode, FILE* stream), at_path(path), (path, mode, stream))
PASSES(FILE*, freopen64, (const char* path, const char* mode, FILE* stream), at_path(path), (path, mode, stream))
// The size of an input would not change any more if it were asked for before the runs begin.
PASSES(int, access, (const char* path, int mode) noexcept, at_path(path), (path, mode))
PASSES(int, stat, (const char* path, struct stat* out) noexcept, at_path(path), (path, out))
PASSES(int, stat64, (const char* path, struct stat64* out) noexcept, at_path(path), (path, out))
PASSES(int, lstat, (const char* path, struct stat* out) noexcept, at_path(path), (path, out))
PASSES(int, lstat64, (const char* path, struct stat64* out) noexcept, at_path(path), (path, out))
PASSES(int, fstatat, (int at, const char* path, struct stat* out, int flags) noexcept, at_path(path), (at, path, out, flags))
PASSES(int, fstat, (int fd, struct stat* out) noexcept, at_descriptor(fd), (fd, out))
PASSES(int, fstat64, (int fd, struct stat64* out) noexcept, at_descriptor(fd), (fd, out))

PASSES(ssize_t, read, (int fd, void* to, std::size_t size), at_descriptor(fd), (fd, to, size))
PASSES(ssize_t, pread, (int fd, void* to, std::size_t size, off_t from), at_descriptor(fd), (fd, to, size, from))
PASSES(ssize_t, pread64, (int fd, void* to, std::size_t size, off64_t from), at_descriptor(fd), (fd, to, size, from))
PASSES(ssize_t, readv, (int fd, const iovec* to, int count), at_descriptor(fd), (fd, to, count))
PASSES(off_t, lseek, (int fd, off_t to, int from) noexcept, at_descriptor(fd), (fd, to, from))
PASSES(off64_t, lseek64, (int fd, off64_t to, int from) noexcept, at_descriptor(fd), (fd, to, from))
PASSES(void*, mmap, (void* to, std::size_t size, int access, int flags, int fd, off_t from) noexcept, at_descriptor(fd),
       (to, size, access, flags, fd, from))
PASSES(void*, mmap64, (void* to, std::size_t size, int access, int flags, int fd, off64_t from) noexcept, at_descriptor(fd),
       (to, size, access, flags, fd, from))

PASSES(std::size_t, fread, (void* to, std::size_t size, std::size_t count, FILE* stream), at_stream(stream),
       (to, size, count, stream))
PASSES(std::size_t, fread_unlocked, (void* to, std::size_t size, std::size_t count, FILE* stream), at_stream(stream),
       (to, size, count, stream))
PASSES(char*, fgets, (char* to, int size, FILE* stream), at_stream(stream), (to, size, stream))
PASSES(char*, fgets_unlocked, (char* to, int size, FILE* stream), at_stream(stream), (to, size, stream))
PASSES(int, fgetc, (FILE* stream), at_stream(stream), (stream))
PASSES(int, getc, (FILE* stream), at_stream(stream), (stream))
PASSES(int, getchar, (), at_stream(stdin), ())
PASSES(int, __uflow, (FILE* stream), at_stream(stream), (stream))  // getc_unlocked() and getchar_unlocked()
PASSES(ssize_t, getline, (char** to, std::size_t* size, FILE* stream), at_stream(stream), (to, size, stream))
PASSES(ssize_t, getdelim, (char** to, std::size_t* size, int end, FILE* stream), at_stream(stream), (to, size, end, stream))

// By the names in the object files: the header gives scanf() that of the C standard in use.
#define SCANS(prefix)                                                                          \
  STANDS_IN int stand_in_##prefix##fscanf(FILE*, const char*, ...) asm(#prefix "fscanf");      \
  STANDS_IN int stand_in_##prefix##scanf(const char*, ...) asm(#prefix "scanf");               \
  int stand_in_##prefix##fscanf(FILE* stream, const char* format, ...) {                       \
    at_stream(stream);                                                                         \
    va_list arguments;                                                                         \
    va_start(arguments, format);                                                               \
    const int got = SCAN_REAL(prefix##vfscanf)(stream, format, arguments);                     \
    va_end(arguments);                                                                         \
    return got;                                                                                \
  }                                                                                            \
  int stand_in_##prefix##scanf(const char* format, ...) {                                      \
    at_stream(stdin);                                                                          \
    va_list arguments;                                                                         \
    va_start(arguments, format);                                                               \
    const int got = SCAN_REAL(prefix##vfscanf)(stdin, format, arguments);                      \
    va_end(arguments);                                                                         \
    return got;                                                                                \
  }
#define SCAN_REAL(name) reprise::afl::next<int(FILE*, const char*, va_list)>(#name)

SCANS()
SCANS(__isoc99_)
SCANS(__isoc23_)
