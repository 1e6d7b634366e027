// SPDX-License-Identifier: LGPL-2.1-or-later
/**
 * @file
 * Kept memory: cr_kept_alloc() and so on. Nothing is remembered here: a rollback or a restart would take it away. What the
 * process has mapped and open says all, and both come back with the memory.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "api/errors.h"
#include "api/kept_find.h"
#include "base/kept_make.h"
#include "base/kept_name.h"
#include "libcr.h"
#include "find_services.h"

namespace reprise::api {
namespace {

constexpr int kGetSeals = 1034;  // F_GET_SEALS, newer than some C libraries' headers

int fail_named(int err, const char* name, const char* why) {
  char text[512];
  std::snprintf(text, sizeof text, "kept memory %s: %s", name, why);
  return fail(err, text);
}

static_assert(kKeptNameMax == CR_KEPT_NAME_MAX);
bool valid_name(const char* name) { return name != nullptr && valid_kept_name(name); }

int refuse_name() { return fail(EINVAL, "a name of kept memory has 1 to CR_KEPT_NAME_MAX letters, digits, or . _ -"); }

/** @return the memory behind @p fd, mapped; MAP_FAILED with errno */
void* map(int fd, std::size_t size) { return mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); }

/** As cr_kept_attach() for memory that is not mapped. */
int attach(const char* name, const KeptOpen& memory, void** addr, std::size_t* size) {
  if (memory.size == 0) return fail_named(EINVAL, name, "it has no bytes");
  seal_size(memory.fd);  // it is sealed already unless cr_kept_alloc() has not made it
  void* at = map(memory.fd, memory.size);
  if (at == MAP_FAILED) return fail_named(errno, name, std::strerror(errno));
  *addr = at;
  if (size != nullptr) *size = memory.size;
  return 0;
}

int attach_mapped(const KeptMapped& memory, void** addr, std::size_t* size) {
  *addr = memory.addr;
  if (size != nullptr) *size = memory.size;
  return 0;
}

}  // namespace
}  // namespace reprise::api

using namespace reprise::api;

extern "C" {

int cr_kept_alloc(const char* name, size_t size, unsigned int flags, void** addr) {
  clear_error();
  if (!valid_name(name)) return refuse_name();
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t most = static_cast<std::size_t>(INT64_MAX) / page * page;
  if (size == 0 || size > most || (flags & ~unsigned{CR_KEPT_COPIED}) || addr == nullptr)
    return fail_named(EINVAL, name, "size, flags or addr is invalid");
  KeptMapped mapped;
  KeptOpen open;
  if (find_mapped(name, mapped) || find_open(name, open))
    return fail_named(EEXIST, name, "the process has it already: use cr_kept_attach(), or free it and close its descriptors");
  const std::size_t bytes = (size + page - 1) / page * page;
  const int fd = reprise::make_kept_memory(name, bytes, flags & CR_KEPT_COPIED);
  if (fd < 0) return fail_named(errno, name, std::strerror(errno));
  void* at = map(fd, bytes);
  if (at == MAP_FAILED) {
    const int err = errno;
    close(fd);
    return fail_named(err, name, std::strerror(err));
  }
  *addr = at;
  return fd;
}

int cr_kept_attach(const char* name, int fd, void** addr, size_t* size) {
  clear_error();
  if (name == nullptr ? fd < 0 : !valid_name(name)) return refuse_name();
  if (addr == nullptr) return fail(EINVAL, "addr is NULL");
  KeptMapped mapped;
  KeptOpen open;
  if (fd < 0) {
    if (find_mapped(name, mapped)) return attach_mapped(mapped, addr, size);
    if (find_open(name, open)) return attach(name, open, addr, size);
    return fail_named(ENOENT, name, "the process does not have it: allocate it, or get its descriptor from who holds it");
  }
  if (fcntl(fd, F_GETFD) < 0) return fail(EBADF, "fd is not open");
  if (fcntl(fd, kGetSeals) < 0 || !look_at(fd, open)) return fail(EINVAL, "fd is not of kept memory");
  if (name != nullptr && std::strcmp(name, open.name) != 0) return fail_named(EINVAL, name, "fd is of memory with another name");
  if (!find_mapped(open.name, mapped)) return attach(open.name, open, addr, size);
  if (mapped.dev == open.dev && mapped.ino == open.ino) return attach_mapped(mapped, addr, size);
  return fail_named(EEXIST, open.name, "the process has other memory of that name: free it first");
}

int cr_kept_fd(const char* name) {
  clear_error();
  if (!valid_name(name)) return refuse_name();
  KeptOpen open;
  if (!find_open(name, open))
    return fail_named(ENOENT, name, "the process has no descriptor of it: do not close the one that cr_kept_alloc() returned");
  const int fd = fcntl(open.fd, F_DUPFD_CLOEXEC, 0);
  return fd >= 0 ? fd : fail_named(errno, name, std::strerror(errno));
}

int cr_kept_copy(const char* name) {
  clear_error();
  if (!valid_name(name)) return refuse_name();
  const cr_rank_services* const services = cr_find_rank_services();
  if (services == nullptr)
    return fail_named(EOPNOTSUPP, name, "it is copied for ranks only that were started by crrun with the transport crtcp, after MPI_Init");
  KeptOpen open;
  if (!find_open(name, open))
    return fail_named(ENOENT, name, "the process has no descriptor of it: do not close the one that cr_kept_alloc() returned");
  char why[256] = "";
  const int err = services->copy_kept(name, open.fd, why, sizeof why);
  return err == 0 ? 0 : fail_named(err, name, *why != '\0' ? why : std::strerror(err));
}

int cr_kept_free(const char* name) {
  clear_error();
  if (!valid_name(name)) return refuse_name();
  KeptMapped mapped;
  if (!find_mapped(name, mapped)) return fail_named(ENOENT, name, "the process has not mapped it");
  return munmap(mapped.addr, mapped.size) == 0 ? 0 : fail_named(errno, name, std::strerror(errno));
}

}  // extern "C"
