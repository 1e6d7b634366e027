// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/notes.h"

#include <elf.h>
#include <sys/procfs.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "base/error.h"
#include "cr.h"

namespace reprise::image {
namespace {

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <class T>
void append(std::string& out, const T& value) {
  out.append(bytes_of(value));
}

std::string prpsinfo(const Process& process) {
  elf_prpsinfo info{};
  info.pr_sname = 'S';
  info.pr_state = 1;
  const auto& threads = process.threads();
  if (!threads.empty()) info.pr_nice = static_cast<char>(threads[0].nice());
  const auto& env = process.env();
  if (env.uids_size() > 0) info.pr_uid = env.uids(0);
  if (env.gids_size() > 0) info.pr_gid = env.gids(0);
  info.pr_pid = process.pid();
  info.pr_ppid = process.ppid();
  info.pr_pgrp = process.pgid();
  info.pr_sid = process.sid();
  process.comm().copy(info.pr_fname, sizeof info.pr_fname - 1);
  std::string arguments;
  for (const auto& argument : process.cmdline()) arguments += (arguments.empty() ? "" : " ") + argument;
  arguments.copy(info.pr_psargs, sizeof info.pr_psargs - 1);
  return std::string(bytes_of(info));
}

std::string prstatus(const Process& process, const Thread& thread, const ThreadRegs& regs) {
  elf_prstatus status{};
  status.pr_pid = thread.tid();
  status.pr_ppid = process.ppid();
  status.pr_pgrp = process.pgid();
  status.pr_sid = process.sid();
  status.pr_sighold = thread.blocked();
  for (const auto& pending : thread.pending()) {
    std::int32_t signal = 0;
    if (pending.siginfo().size() >= sizeof signal) std::memcpy(&signal, pending.siginfo().data(), sizeof signal);
    if (signal >= 1 && signal <= 64) status.pr_sigpend |= 1UL << (signal - 1);
  }
  static_assert(sizeof status.pr_reg == sizeof regs.regs);
  std::memcpy(&status.pr_reg, &regs.regs, sizeof regs.regs);
  status.pr_fpvalid = 1;
  return std::string(bytes_of(status));
}

// NT_FILE: count, page size, (start, end, offset in pages) of each mapping, then the names.
std::string mapped_files(const Process& process) {
  std::uint64_t count = 0;
  std::string table, names;
  for (const auto& mapping : process.mappings()) {
    if (!mapping.has_file() || mapping.file().path().empty()) continue;
    ++count;
    append(table, mapping.start());
    append(table, mapping.end());
    append(table, mapping.offset() / kPage);
    names.append(mapping.file().path().c_str());
    names.push_back('\0');
  }
  std::string out;
  append(out, count);
  append(out, kPage);
  return out + table + names;
}

}  // namespace

std::string note_header(std::string_view name, std::uint32_t type, std::uint64_t size) {
  if (size > UINT32_MAX)
    throw Error(Failure::refused, EFBIG, "a note of " + std::to_string(size) + " bytes is too large");
  Elf64_Nhdr header{};
  header.n_namesz = static_cast<Elf64_Word>(name.size() + 1);
  header.n_descsz = static_cast<Elf64_Word>(size);
  header.n_type = type;
  std::string out(bytes_of(header));
  out.append(name);
  out.append(1 + (4 - (name.size() + 1) % 4) % 4, '\0');
  return out;
}

void append_note(std::string& out, std::string_view name, std::uint32_t type, std::string_view content) {
  out += note_header(name, type, content.size());
  out.append(content);
  out.append((4 - content.size() % 4) % 4, '\0');
}

std::string build_notes(const Process& process, const std::vector<const ThreadRegs*>& regs) {
  std::string out;
  append_note(out, "CORE", NT_PRPSINFO, prpsinfo(process));
  for (int i = 0; i < process.threads_size(); ++i) {
    append_note(out, "CORE", NT_PRSTATUS, prstatus(process, process.threads(i), *regs[i]));
    append_note(out, "CORE", NT_PRFPREG, regs[i]->fpregs);
    if (!regs[i]->xstate.empty()) append_note(out, "LINUX", NT_X86_XSTATE, regs[i]->xstate);
  }
  std::string auxv;
  for (std::uint64_t word : process.layout().auxv()) append(auxv, word);
  append_note(out, "CORE", NT_AUXV, auxv);
  append_note(out, "CORE", NT_FILE, mapped_files(process));
  std::string state;
  if (!process.SerializeToString(&state) || state.size() > kMaxState)
    throw Error(Failure::refused, EFBIG,
                "the state of the process is too large for an image (" + std::to_string(process.ByteSizeLong()) +
                    " bytes beside its memory)");
  append_note(out, kNoteName, kNoteState, state);
  return out;
}

}  // namespace reprise::image
