// SPDX-License-Identifier: GPL-2.0-only
#include "breakpoint.h"

#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "run.h"

namespace reprise::afl {
namespace {

constexpr unsigned char kBreakpoint = 0xcc;

std::uintptr_t g_address = 0;
unsigned char g_instruction = 0;
struct sigaction g_before {};

/** The page of the function, and the protection that its file asks for. */
struct Page {
  void* start = nullptr;
  std::size_t size = 0;
  int protection = 0;
};
Page g_page;
std::atomic<bool> g_removed{false};

/** @return its segment's protection; PROT_READ | PROT_EXEC if no object has it */
int protection_of(std::uintptr_t address) {
  struct Asked {
    std::uintptr_t address;
    int protection;
  } asked{address, PROT_READ | PROT_EXEC};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& asked = *static_cast<Asked*>(data);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          // Below its begin the difference is larger than any size.
          if (segment.p_type != PT_LOAD || asked.address - info->dlpi_addr - segment.p_vaddr >= segment.p_memsz) continue;
          asked.protection = (segment.p_flags & PF_R ? PROT_READ : 0) | (segment.p_flags & PF_W ? PROT_WRITE : 0) | (segment.p_flags & PF_X ? PROT_EXEC : 0);
          return 1;
        }
        return 0;
      },
      &asked);
  return asked.protection;
}

bool protect(int more) {
  return ::syscall(SYS_mprotect, g_page.start, g_page.size, g_page.protection | more) == 0;
}

void set_code(unsigned char byte) { __atomic_store_n(reinterpret_cast<unsigned char*>(g_address), byte, __ATOMIC_SEQ_CST); }

void trapped(int, siginfo_t*, void* where) {
  auto& next = static_cast<ucontext_t*>(where)->uc_mcontext.gregs[REG_RIP];
  if (static_cast<std::uintptr_t>(next) != g_address + 1) {
    // One of the program's own.
    ::sigaction(SIGTRAP, &g_before, nullptr);
    ::raise(SIGTRAP);
    return;
  }
  next = static_cast<greg_t>(g_address);
  // A second thread may come here before the first has removed it. It only tries once more: the first takes the permission to write away.
  if (g_removed.exchange(true)) return;
  set_code(g_instruction);
  if (!protect(0)) std::abort();
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
  // /proc/self/mem does not write to code on kernels that have it do so for a debugger only (PROC_MEM_FORCE_PTRACE). Other threads may
  // execute the page, so it is executable all the time.
  const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  g_page = {reinterpret_cast<void*>(g_address & ~(size - 1)), size, protection_of(g_address)};
  if (::sigaction(SIGTRAP, &action, &g_before) != 0 || !protect(PROT_WRITE)) give_up(errno);
  set_code(kBreakpoint);
}

}  // namespace reprise::afl
