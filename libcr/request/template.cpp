// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/template.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <elf.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/raised_limit.h"
#include "base/text.h"
#include "process/clone_args.h"
#include "process/mapping_plan.h"
#include "request/image_source.h"
#include "request/rollback.h"

// The code that the template runs. rbx: first entry of the table, rbp: behind the last, r12: the parent that the copies
// see. A call that fails is the last. The child has the same registers; it closes our descriptors, dies with us, and waits.
asm(R"(
  .pushsection .rodata
reprise_template_begin:
1: cmp %rbp, %rbx
  jae 2f
  mov 88(%rbx), %rdi
  test %rdi, %rdi
  js 6f
  mov $308, %eax          # setns(the namespace, CLONE_NEWPID)
  mov $0x20000000, %esi
  syscall
  test %rax, %rax
  js 7f
6: mov $435, %eax          # clone3
  mov %rbx, %rdi
  mov $80, %esi
  syscall
  test %rax, %rax
  jz 3f
7: mov %rax, 80(%rbx)
  js 2f
  add $96, %rbx
  jmp 1b
2: xor %edi, %edi
  jmp 5f
3: mov $436, %eax         # close_range(3, all)
  mov $3, %edi
  mov $0xffffffff, %esi
  xor %edx, %edx
  syscall
  mov $157, %eax         # prctl(PR_SET_PDEATHSIG, SIGKILL)
  mov $1, %edi
  mov $9, %esi
  syscall
  mov $110, %eax          # getppid
  syscall
  mov $1, %edi
  cmp %r12, %rax
  jne 5f
4: mov $34, %eax          # pause
  syscall
  jmp 4b
5: mov $231, %eax         # exit_group
  syscall
reprise_template_end:
  .popsection
)");
extern "C" const char reprise_template_begin[] __attribute__((visibility("hidden")));
extern "C" const char reprise_template_end[] __attribute__((visibility("hidden")));

namespace reprise {
namespace {

constexpr std::uint64_t kPage = 4096;

/** An entry of the table that we share with the template. The code above knows its layout. */
struct Entry {
  CloneArgs args;       ///< read by the template
  std::int64_t result;  ///< written by it: pid or -errno; 0: not called
  std::int64_t space;   ///< read by it: descriptor of the pid namespace, or -1
};
static_assert(sizeof(CloneArgs) == 80 && offsetof(Entry, result) == 80 && offsetof(Entry, space) == 88 && sizeof(Entry) == 96);
static_assert(SYS_clone3 == 435 && SYS_prctl == 157 && SYS_getppid == 110 && SYS_pause == 34 && SYS_exit_group == 231);
static_assert(SYS_setns == 308 && CLONE_NEWPID == 0x20000000 && SYS_close_range == 436);

/** The table: a memfd that is mapped here and in the template. Behind the entries is the pid of all copies, for set_tid. */
class Table {
 public:
  explicit Table(unsigned number)
      : number_(number), bytes_((number * sizeof(Entry) + sizeof(std::int64_t) + kPage - 1) / kPage * kPage) {
    fd_.reset(::memfd_create("copies", MFD_CLOEXEC));
    void* at = fd_ && ::ftruncate(fd_.get(), static_cast<off_t>(bytes_)) == 0
                   ? ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0)
                   : MAP_FAILED;
    if (at == MAP_FAILED) fail_errno(errno, "the table of the copies cannot be made");
    entries_ = static_cast<Entry*>(at);
    // The copies become children of whom the template is.
    for (Entry& entry : entries()) entry.args.flags = CLONE_PARENT, entry.space = -1;
  }
  ~Table() { ::munmap(entries_, bytes_); }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  int fd() const { return fd_.get(); }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t used() const { return number_ * sizeof(Entry); }
  std::span<Entry> entries() { return {entries_, number_}; }
  /** Where used() ends: the pid that the copies have, each in its namespace. */
  void set_pid(pid_t pid) { std::memcpy(entries_ + number_, &pid, sizeof pid); }

 private:
  unsigned number_;
  std::uint64_t bytes_;
  UniqueFd fd_;
  Entry* entries_ = nullptr;
};

/**
 * Does a copy inherit the mapping from the template? Shared memory is made for each copy, and so is private memory of
 * files that the image holds.
 */
bool is_inherited(const Mapping& mapping) {
  return !(mapping.flags() & (CR_VMA_SHARED | CR_VMA_DONTFORK)) && mapping.shared_object() == 0;
}

/** The part of the image that the template gets. */
Process inherited_part(const Process& process) {
  Process part = process;
  part.clear_threads();
  part.clear_descriptors();
  part.clear_descriptions();
  part.clear_shared_objects();
  part.clear_mappings();
  part.clear_guards();
  for (const Mapping& mapping : process.mappings())
    if (is_inherited(mapping)) *part.add_mappings() = mapping;
  for (const Guard& guard : process.guards())
    if (std::any_of(part.mappings().begin(), part.mappings().end(),
                    [&](const Mapping& mapping) { return mapping.start() <= guard.start() && guard.start() < mapping.end(); }))
      *part.add_guards() = guard;
  return part;
}

/** Map the code and the table into the template, and set its registers to run the code. */
void set_up(Session& session, const Process& process, Table& table, pid_t parent, const PidNamespaces* namespaces) {
  const std::uint64_t size = kPage + table.bytes();
  // At no place where the image has a mapping: the copies remove both before they get their own mappings.
  const std::uint64_t gap = find_gap(session.vmas(), process, size + session.arena_size());
  const std::uint64_t code = gap, entries = gap + kPage;
  Remote remote(session, gap + size);
  remote.must("the code of the template", 0, SYS_mmap, code, kPage, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, static_cast<std::uint64_t>(-1), 0);
  session.write_mem(code, reprise_template_begin, static_cast<std::size_t>(reprise_template_end - reprise_template_begin));
  // Only now: a kernel may forbid /proc/PID/mem to write where the process may not (proc_mem.force_override).
  remote.must("the code of the template", 0, SYS_mprotect, code, kPage, PROT_READ | PROT_EXEC);
  const auto fd = static_cast<std::uint64_t>(session.put_fd(table.fd(), true));
  remote.must("the table of the copies", 0, SYS_mmap, entries, table.bytes(), PROT_READ | PROT_WRITE,
              MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
  remote.must("the table of the copies", 0, SYS_close, fd);
  if (namespaces) {
    table.set_pid(process.pid());
    std::size_t index = 0;
    for (Entry& entry : table.entries()) {
      entry.args.set_tid = entries + table.used();
      entry.args.set_tid_size = 1;
      entry.space = session.put_fd(namespaces->fd(index++), true);
    }
  }

  user_regs_struct regs = session.regs(session.pid());
  regs.rip = code;
  regs.rbx = entries;
  regs.rbp = entries + table.used();
  regs.r12 = namespaces ? 0 : static_cast<std::uint64_t>(parent);  // in a namespace the parent has no id
  regs.rax = 0;
  regs.orig_rax = ~0ULL;
  session.set_regset(session.pid(), NT_PRSTATUS, {reinterpret_cast<const char*>(&regs), sizeof regs});
  // No handler of the image's may run on this code; the copies get their own masks.
  session.set_sigmask(session.pid(), ~0ULL);
}

}  // namespace

Children::~Children() {
  for (const pid_t child : pids_) ::kill(child, SIGKILL);
  for (const pid_t child : pids_)
    while (!parent_ && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
}

Template::Template(const Process& process, const Image& image, const RestartOptions& options, Report& report)
    : process_(process), parent_(options.parent), child_(process, options, report), session_(child_.attach()) {
  enter(Stage::freeze);
  session_.freeze(options.timeout_ms);
  Process part = inherited_part(process);
  RollbackSource source = source_from(image);
  source.pages.others_right = true;
  const std::vector<ThreadRegs> none;
  Rollback rollback(session_, part, none, options.restore, RestoreMode::restart, std::move(source));
  rollback.run_memory(report);
}

Children Template::copy(unsigned number, const PidNamespaces* namespaces) {
  enter(Stage::child);
  Table table(number);
  // Each copy has its own limits in the end.
  std::optional<RaisedLimit> room;
  if (namespaces) room.emplace(session_.pid(), RLIMIT_NOFILE, number + 64);
  set_up(session_, process_, table, parent_ ? parent_->pid() : ::getpid(), namespaces);
  session_.thaw();
  const int status = child_.wait();
  std::vector<pid_t> made;
  std::int64_t error = 0;
  for (const Entry& entry : table.entries()) {
    if (entry.result > 0) made.push_back(static_cast<pid_t>(entry.result));
    if (entry.result < 0) error = entry.result;
  }
  Children copies(std::move(made), parent_);
  if (copies.pids().size() == number) {
    copies.tell_parent();
    return copies;
  }
  const std::string which = "copy " + std::to_string(copies.pids().size() + 1) + " of " + std::to_string(number);
  if (error) throw Error(Failure::temporary, static_cast<int>(-error), which + " cannot be made: " + error_text(error));
  throw Error(Failure::temporary, ECHILD,
              which + " cannot be made: the template was ended" +
                  (WIFSIGNALED(status) ? " by signal " + std::to_string(WTERMSIG(status)) : ""));
}

}  // namespace reprise
