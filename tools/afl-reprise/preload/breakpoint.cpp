// SPDX-License-Identifier: GPL-2.0-only
#include "breakpoint.h"

#include <fcntl.h>
#include <link.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>

#include "run.h"

namespace reprise::afl {
namespace {

constexpr unsigned char kBreakpoint = 0xcc;

std::uintptr_t g_address = 0;
unsigned char g_instruction = 0;
struct sigaction g_before {};

/** Write one byte of code. Other threads may execute the page meanwhile, so it is never without its permission. */
bool set_code(unsigned char byte) {
  const int memory = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_WRONLY | O_CLOEXEC, 0));
  if (memory < 0) return false;
  const bool done = ::syscall(SYS_pwrite64, memory, &byte, 1, g_address) == 1;
  const int saved = errno;
  ::syscall(SYS_close, memory);
  errno = saved;
  return done;
}

void trapped(int, siginfo_t*, void* where) {
  auto& next = static_cast<ucontext_t*>(where)->uc_mcontext.gregs[REG_RIP];
  if (static_cast<std::uintptr_t>(next) != g_address + 1) {
    // One of the program's own.
    ::sigaction(SIGTRAP, &g_before, nullptr);
    ::raise(SIGTRAP);
    return;
  }
  // A second thread may have come here before the first had removed it.
  next = static_cast<greg_t>(g_address);
  if (!set_code(g_instruction)) std::abort();
  begin();
}

std::uintptr_t load_address() {
  std::uintptr_t found = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        *static_cast<std::uintptr_t*>(result) = info->dlpi_addr;
        return 1;  // the first is the executable
      },
      &found);
  return found;
}

}  // namespace

void begin_at_function(const char* name, const char* offset) {
  g_address = offset ? load_address() + std::strtoull(offset, nullptr, 16)
                     : reinterpret_cast<std::uintptr_t>(::dlsym(RTLD_DEFAULT, name));
  if (!g_address) give_up(ENOENT);
  g_instruction = *reinterpret_cast<const volatile unsigned char*>(g_address);
  struct sigaction action {};
  action.sa_sigaction = trapped;
  action.sa_flags = SA_SIGINFO;
  if (::sigaction(SIGTRAP, &action, &g_before) != 0 || !set_code(kBreakpoint)) give_up(errno);
}

}  // namespace reprise::afl
