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
constexpr std::uintptr_t kPage = 4096;

std::uintptr_t g_address = 0;
unsigned char g_instruction = 0;
struct sigaction g_before {};

int g_protection = 0;  // what the page of the function has without the breakpoint
std::atomic<bool> g_removed{false};

/** @return what the file asks for the segment with this address; PROT_READ | PROT_EXEC if no file has it */
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
          const std::uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
          if (segment.p_type != PT_LOAD || asked.address < begin || asked.address >= begin + segment.p_memsz) continue;
          const auto flags = segment.p_flags;
          asked.protection = (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) | (flags & PF_X ? PROT_EXEC : 0);
          return 1;
        }
        return 0;
      },
      &asked);
  return asked.protection;
}

bool protect(int protection) { return ::syscall(SYS_mprotect, g_address & ~(kPage - 1), kPage, protection) == 0; }

void set_code(unsigned char byte) { *reinterpret_cast<volatile unsigned char*>(g_address) = byte; }

void trapped(int, siginfo_t*, void* where) {
  auto& next = static_cast<ucontext_t*>(where)->uc_mcontext.gregs[REG_RIP];
  if (static_cast<std::uintptr_t>(next) != g_address + 1) {
    // One of the program's own.
    ::sigaction(SIGTRAP, &g_before, nullptr);
    ::raise(SIGTRAP);
    return;
  }
  next = static_cast<greg_t>(g_address);
  // A second thread may come here before the first has removed it. It tries its call again, and does not write: the first thread
  // withdraws the permission.
  if (g_removed.exchange(true)) return;
  set_code(g_instruction);
  if (!protect(g_protection)) std::abort();
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
  // Some kernels let only a debugger write to code by /proc/PID/mem (PROC_MEM_FORCE_PTRACE). So the page becomes writable. It stays
  // executable, as other threads may execute it.
  g_protection = protection_of(g_address);
  if (::sigaction(SIGTRAP, &action, &g_before) != 0 || !protect(g_protection | PROT_WRITE)) give_up(errno);
  set_code(kBreakpoint);
}

}  // namespace reprise::afl
