// SPDX-License-Identifier: GPL-2.0-only
#include "text.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>

#include <cstring>

#include "names.h"
#include "report.h"
#include "restore/kept_memory.h"

namespace reprise {
namespace {

void print_line(const char* label, const std::string& text) { fmt::print("{:<12}{}\n", label, text); }

std::string command_line(const Process& process) {
  std::string out;
  for (const auto& argument : process.cmdline()) out += (out.empty() ? "" : " ") + printable(argument);
  return out.empty() ? "[" + printable(process.comm()) + "]" : out;
}

std::uint64_t bytes_elsewhere(const Image& image) {
  std::uint64_t out = 0;
  for (const PageRun& run : image.runs()) out += run.file ? run.len : 0;
  return out;
}

std::string bases_text(const Image& image) {
  std::string names;
  for (const Base& base : image.bases()) names += (names.empty() ? "" : ", ") + printable(base.name());
  return fmt::format("{} more of its pages are in {}", tool::bytes(bytes_elsewhere(image)), names);
}

void print_summary(const Image& image, const Verification& verification) {
  const auto& process = image.process();
  const auto& host = process.host();
  std::uint64_t mapped = 0;
  for (const auto& mapping : process.mappings()) mapped += mapping.end() - mapping.start();
  print_line("Image",
             fmt::format("{}, format {}, id {}", printable(image.name()), image.format(), hex_bytes(process.id())));
  print_line("Process", fmt::format("{} ({}), parent {}, group {}, session {}", process.pid(),
                                    printable(process.comm()), process.ppid(), process.pgid(), process.sid()));
  print_line("Command", command_line(process));
  if (process.has_exe())
    print_line("Program", printable(process.exe().path()) + (process.exe().deleted() ? " (deleted)" : ""));
  print_line("Taken",
             fmt::format("{} on {}, Linux {} {}", time_text(process.taken_unix_ns()), printable(host.nodename()),
                         printable(host.kernel_release()), printable(host.machine())));
  if (process.frozen_ns()) print_line("", "its threads were frozen for " + tool::duration(process.frozen_ns()));
  print_line("Holds", fmt::format("{} thread{}, {} mappings of {}, {} descriptors{}", process.threads_size(),
                                  process.threads_size() == 1 ? "" : "s", process.mappings_size(), tool::bytes(mapped),
                                  process.descriptors_size(), process.has_agent() ? ", uses libcr" : ""));
  print_line("Size", fmt::format("{}: pages {}, shared content {}, everything else {}", tool::bytes(image.file_size()),
                                 tool::bytes(image.page_bytes()), tool::bytes(image.blob_bytes()),
                                 tool::bytes(image.meta_bytes())));
  if (!image.bases().empty()) print_line("Delta", bases_text(image));
  if (image.compressed_size()) print_line("Compressed", fmt::format("to {}", tool::bytes(image.compressed_size())));
  const std::uint64_t content = image.page_bytes() + image.blob_bytes() + bytes_elsewhere(image);
  if (!verification.done)
    print_line("Verified", "headers only");
  else if (verification.error.empty())
    print_line("Verified", fmt::format("all of it is as it was written ({} in {:.2f} s)", tool::bytes(content),
                                       verification.seconds));
  else
    print_line("Verified", "DAMAGED: " + verification.error);
}

void print_threads(const Image& image) {
  fmt::print("\n{:>8} {:<15} {:<20} {:>14} {:>14}  {}\n", "THREAD", "NAME", "SYSTEM CALL", "IP", "SP",
             "BLOCKED SIGNALS");
  for (const auto& thread : image.process().threads()) {
    const auto& regs = image.regs(thread.tid());
    const std::string call = parked_call(regs);
    fmt::print("{:>8} {:<15} {:<20} {:>14x} {:>14x}  {}\n", thread.tid(), printable(thread.comm()),
               call.empty() ? "(running)" : call, regs.regs.rip, regs.regs.rsp, signal_set(thread.blocked()));
  }
}

void print_mappings(const Image& image) {
  fmt::print("\n{:<26} {:<4} {:>8} {:>5} {:>10} {:>10}  {}\n", "MAPPING", "", "OFFSET", "DEV", "INODE", "SAVED",
             "WHAT");
  for (const auto& mapping : image.process().mappings()) {
    const std::uint64_t flags = mapping.flags();
    std::string what = mapping.has_file()
                           ? printable(mapping.file().path()) + (mapping.file().deleted() ? " (deleted)" : "")
                           : printable(mapping.name());
    if (mapping.shared_object() != 0) {
      const auto& object = image.process().shared_objects(static_cast<int>(mapping.shared_object()) - 1);
      if (is_kept_memory(object)) what = fmt::format("{}, {}", kept_text(object), tool::bytes(object.size()));
    }
    const std::string more = mapping_flags(flags);
    if (!more.empty()) what += fmt::format("{}({})", what.empty() ? "" : " ", more);
    const std::uint64_t saved = saved_bytes(image, mapping);
    fmt::print("{:<26} {}{}{}{} {:08x} {:02x}:{:02x} {:>10} {:>10}  {}\n",
               fmt::format("{:08x}-{:08x}", mapping.start(), mapping.end()), flags & CR_VMA_READ ? 'r' : '-',
               flags & CR_VMA_WRITE ? 'w' : '-', flags & CR_VMA_EXEC ? 'x' : '-', flags & CR_VMA_SHARED ? 's' : 'p',
               mapping.has_file() ? mapping.offset() : 0, major(mapping.file().dev()), minor(mapping.file().dev()),
               mapping.file().ino(), saved ? tool::bytes(saved) : "-", what);
  }
}

void print_descriptors(const Image& image) {
  const auto& process = image.process();
  fmt::print("\n{:>5} {:<9} {:<12} {}\n", "FD", "KIND", "OPENED", "WHAT");
  std::vector<int> first(static_cast<std::size_t>(process.descriptions_size()), -1);
  for (const auto& descriptor : process.descriptors()) {
    const auto& one = process.descriptions(static_cast<int>(descriptor.description()));
    int& seen = first[descriptor.description()];
    const std::string what = seen >= 0 ? fmt::format("the same as {}", seen) : describe(process, one);
    if (seen < 0) seen = descriptor.fd();
    fmt::print("{:>5} {:<9} {:<12} {}{}\n", descriptor.fd(), kind_name(one), open_flags(one.flags()), what,
               descriptor.cloexec() ? " (close on exec)" : "");
  }
}

int signal_of(const PendingSignal& pending) {
  int out = 0;
  std::memcpy(&out, pending.siginfo().data(), sizeof out);  // 128 bytes: validated
  return out;
}

std::string limit_text(std::uint64_t value) { return value == RLIM_INFINITY ? "unlimited" : std::to_string(value); }

std::string pending_signals(const Process& process) {
  std::string out;
  for (const auto& pending : process.pending()) out += (out.empty() ? "" : " ") + signal_name(signal_of(pending));
  for (const auto& thread : process.threads())
    for (const auto& pending : thread.pending())
      out += fmt::format("{}{} (thread {})", out.empty() ? "" : " ", signal_name(signal_of(pending)), thread.tid());
  return out.empty() ? "none" : out;
}

void print_timers(const Timers& timers) {
  static const char* const which[] = {"real", "virtual", "profiling"};
  const auto line = [](const std::string& what, std::int64_t value, std::int64_t interval) {
    print_line("Timer", fmt::format("{}: {}{}", what,
                                    value ? "due in " + tool::duration(static_cast<std::uint64_t>(value)) : "not armed",
                                    interval ? ", every " + tool::duration(static_cast<std::uint64_t>(interval)) : ""));
  };
  for (const auto& timer : timers.itimers())
    line(which[timer.which()], static_cast<std::int64_t>(timer.value_ns()),
         static_cast<std::int64_t>(timer.interval_ns()));
  for (const auto& timer : timers.posix())
    line(fmt::format("POSIX {} on clock {}, signal {}", timer.id(), timer.clock(), signal_name(timer.signal())),
         timer.value_ns(), timer.interval_ns());
}

void print_process(const Image& image) {
  const auto& process = image.process();
  const auto& env = process.env();
  fmt::print("\n");
  print_line("Directory", printable(env.cwd().path()));
  if (!env.root().path().empty() && env.root().path() != "/") print_line("Root", printable(env.root().path()));
  if (env.uids_size() && env.gids_size())
    print_line("User", fmt::format("{}, group {}, umask {:04o}", env.uids(0), env.gids(0), env.umask()));
  if (process.stopped()) print_line("State", "stopped");
  for (const auto& limit : env.limits())
    if (limit.soft() != RLIM_INFINITY)
      print_line("Limit", fmt::format("{} {} (at most {})", limit_name(limit.resource()), limit_text(limit.soft()),
                                      limit_text(limit.hard())));
  std::string handled, ignored;
  for (const auto& action : process.sigactions()) {
    std::string& list = action.handler() == 1 ? ignored : handled;
    list += (list.empty() ? "" : " ") + signal_name(static_cast<int>(action.signal()));
  }
  print_line("Signals", fmt::format("handled: {}; ignored: {}; pending: {}", handled.empty() ? "none" : handled,
                                    ignored.empty() ? "none" : ignored, pending_signals(process)));
  print_timers(process.timers());
}

}  // namespace

void print_text(const Image& image, const Sections& sections, const Verification& verification) {
  if (sections.summary) print_summary(image, verification);
  if (sections.process) print_process(image);
  if (sections.threads) print_threads(image);
  if (sections.mappings) print_mappings(image);
  if (sections.descriptors) print_descriptors(image);
}

}  // namespace reprise
