// SPDX-License-Identifier: GPL-2.0-only
#include "image_capture.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace reprise::test {
namespace {

void must(long result, const char* what) {
  if (result < 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

std::string regset(pid_t tid, unsigned type) {
  std::string out(65536, '\0');
  iovec part{out.data(), out.size()};
  must(::ptrace(PTRACE_GETREGSET, tid, type, &part), "PTRACE_GETREGSET");
  out.resize(part.iov_len);
  return out;
}

std::string proc(pid_t pid, const std::string& file) { return read_file("/proc/" + std::to_string(pid) + "/" + file); }

void add_mappings(Sample& sample, pid_t pid) {
  std::istringstream maps(proc(pid, "maps"));
  for (std::string line; std::getline(maps, line);) {
    unsigned long start = 0, end = 0, offset = 0, inode = 0;
    char protection[8], device[32];
    int name_at = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %7s %lx %31s %lu %n", &start, &end, protection, &offset, device, &inode,
                    &name_at) < 6)
      throw std::runtime_error("cannot understand " + line);
    if (start >= image::kTaskSize) continue;  // vsyscall
    const std::string name = line.substr(static_cast<std::size_t>(name_at));
    auto* mapping = sample.process.add_mappings();
    mapping->set_start(start);
    mapping->set_end(end);
    std::uint64_t flags = 0;
    if (protection[0] == 'r') flags |= CR_VMA_READ;
    if (protection[1] == 'w') flags |= CR_VMA_WRITE;
    if (protection[2] == 'x') flags |= CR_VMA_EXEC;
    const bool special = name == "[vdso]" || name.rfind("[vvar", 0) == 0;
    flags |= special ? CR_VMA_SPECIAL : CR_VMA_PAGES;
    if (inode) {
      flags |= CR_VMA_FILE;
      mapping->mutable_file()->set_path(name);
      mapping->set_offset(offset);
    } else {
      mapping->set_name(name);
    }
    mapping->set_flags(flags);
    // Text and special mappings of the kernel are not saved; relocated data is.
    if (protection[0] == 'r' && protection[2] != 'x' && !special) sample.runs.push_back({start, end - start});
    if (name == "[vdso]") sample.runs.push_back({start, end - start});
  }
}

void add_threads(Sample& sample, const std::vector<pid_t>& tids) {
  for (pid_t tid : tids) {
    auto* thread = sample.process.add_threads();
    thread->set_tid(tid);
    ThreadRegs regs;
    regs.tid = tid;
    std::memcpy(&regs.regs, regset(tid, NT_PRSTATUS).data(), sizeof regs.regs);
    regs.fpregs = regset(tid, NT_PRFPREG);
    regs.xstate = regset(tid, NT_X86_XSTATE);
    thread->set_syscall(static_cast<std::int64_t>(regs.regs.orig_rax));
    sample.regs.push_back(regs);
  }
}

}  // namespace

Child::Child(const std::string& program) {
  int ends[2];
  must(::pipe2(ends, O_CLOEXEC), "pipe");
  pid_ = ::fork();
  must(pid_, "fork");
  if (pid_ == 0) {
    ::dup2(ends[1], 1);
    ::execl(program.c_str(), program.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  char byte;
  const bool ready = ::read(ends[0], &byte, 1) == 1;
  ::close(ends[0]);
  if (!ready) throw std::runtime_error(program + " did not start");
}

Child::~Child() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void capture(pid_t pid, const std::string& path) {
  Sample sample;
  sample.process.set_format(image::kStateFormat);
  sample.process.set_id(std::string(16, 'c'));
  sample.process.set_pid(pid);
  sample.process.set_comm(proc(pid, "comm").substr(0, proc(pid, "comm").find('\n')));
  std::istringstream arguments(proc(pid, "cmdline"));
  for (std::string one; std::getline(arguments, one, '\0');) sample.process.add_cmdline(one);

  std::vector<pid_t> tids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task"))
    tids.push_back(std::stoi(entry.path().filename()));
  std::sort(tids.begin(), tids.end());
  for (pid_t tid : tids) {
    must(::ptrace(PTRACE_SEIZE, tid, 0, 0), "PTRACE_SEIZE");
    must(::ptrace(PTRACE_INTERRUPT, tid, 0, 0), "PTRACE_INTERRUPT");
    int status;
    must(::waitpid(tid, &status, __WALL), "waitpid");
  }
  add_threads(sample, tids);
  add_mappings(sample, pid);
  const std::string auxv = proc(pid, "auxv");
  for (std::size_t at = 0; at + 8 <= auxv.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, auxv.data() + at, sizeof word);
    sample.process.mutable_layout()->add_auxv(word);
  }

  ImageWriter writer(path, {.clobber = true, .sync = false});
  writer.begin(sample.process, sample.regs, sample.runs);
  UniqueFd mem(::open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  for (const auto& run : sample.runs) {
    std::string pages(run.len, '\0');
    if (::pread(mem.get(), pages.data(), pages.size(), static_cast<off_t>(run.addr)) != static_cast<ssize_t>(run.len))
      throw std::runtime_error("cannot read memory of the child");
    writer.write_pages(run.addr, pages.data(), pages.size());
  }
  writer.finish();
  for (pid_t tid : tids) ::ptrace(PTRACE_DETACH, tid, 0, 0);
}

}  // namespace reprise::test
