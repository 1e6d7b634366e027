// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/headers.h"

#include <elf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "image/tail.h"

namespace reprise::image {
namespace {

Elf64_Word protection(std::uint64_t flags) {
  return (flags & CR_VMA_READ ? PF_R : 0) | (flags & CR_VMA_WRITE ? PF_W : 0) | (flags & CR_VMA_EXEC ? PF_X : 0);
}

// One segment per run. A mapping without saved pages gets an empty segment, as in the kernel's core files.
std::vector<Elf64_Phdr> load_segments(const Process& process, const std::vector<cr_page_run>& runs) {
  std::vector<Elf64_Phdr> out;
  out.reserve(runs.size() + process.mappings_size());
  std::size_t next = 0;
  for (const auto& mapping : process.mappings()) {
    Elf64_Phdr segment{};
    segment.p_type = PT_LOAD;
    segment.p_flags = protection(mapping.flags());
    segment.p_align = kPage;
    const std::size_t before = next;
    for (; next < runs.size() && runs[next].addr < mapping.end(); ++next) {
      segment.p_vaddr = runs[next].addr;
      segment.p_filesz = segment.p_memsz = runs[next].len;
      out.push_back(segment);
    }
    if (next != before) continue;
    segment.p_vaddr = mapping.start();
    segment.p_filesz = 0;
    segment.p_memsz = mapping.end() - mapping.start();
    out.push_back(segment);
  }
  return out;
}

template <class T>
void append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

std::vector<cr_page_run> split_at_mappings(const std::string& name, const Process& process,
                                           std::span<const cr_range> ranges) {
  std::vector<cr_page_run> out;
  out.reserve(ranges.size());
  int next = 0;
  std::uint64_t end = 0;
  for (const auto& range : ranges) {
    if (range.addr % kPage || range.len % kPage || range.len == 0 || range.addr < end || range.addr >= kTaskSize ||
        range.len > kTaskSize - range.addr)
      throw Error(Failure::permanent, EINVAL, name + ": pages at " + hex(range.addr) + " are out of order or place");
    end = range.addr + range.len;
    for (std::uint64_t at = range.addr; at < end;) {
      while (next < process.mappings_size() && process.mappings(next).end() <= at) ++next;
      if (next == process.mappings_size() || process.mappings(next).start() > at)
        throw Error(Failure::permanent, EINVAL, name + ": page " + hex(at) + " lies in no mapping");
      const std::uint64_t stop = std::min<std::uint64_t>(end, process.mappings(next).end());
      out.push_back({at, stop - at, 0});
      at = stop;
    }
  }
  return out;
}

std::string build_headers(std::uint32_t format, const Process& process, const std::string& notes,
                          std::vector<cr_page_run>& runs, std::uint64_t blob_size) {
  auto loads = load_segments(process, runs);
  const std::uint64_t count = loads.size() + 2;
  const bool many = count >= PN_XNUM;
  if (count > CR_MAX_RUNS || notes.size() > kMaxNotes)
    throw Error(Failure::refused, EFBIG, "the process has too many mappings or runs of pages for an image");

  const std::uint64_t table_end = sizeof(Elf64_Ehdr) + count * sizeof(Elf64_Phdr);
  const std::uint64_t notes_offset = table_end + (many ? sizeof(Elf64_Shdr) : 0);
  const std::uint64_t pages_offset = (notes_offset + notes.size() + kPage - 1) / kPage * kPage;

  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_CORE;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_phoff = sizeof(Elf64_Ehdr);
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = static_cast<Elf64_Half>(many ? PN_XNUM : count);
  if (many) {
    header.e_shoff = table_end;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 1;
  }

  std::string out;
  out.reserve(pages_offset);
  append(out, header);
  Elf64_Phdr note{};
  note.p_type = PT_NOTE;
  note.p_align = 4;
  note.p_offset = notes_offset;
  note.p_filesz = notes.size();
  append(out, note);
  std::uint64_t offset = pages_offset;
  std::size_t next = 0;
  for (auto& segment : loads) {
    segment.p_offset = offset;
    append(out, segment);
    if (segment.p_filesz) runs[next++].offset = offset;
    offset += segment.p_filesz;
  }
  const TailLayout tail(format, (offset - pages_offset) / kPage, blob_size);
  note.p_offset = offset + blob_size + tail.padding;
  note.p_filesz = tail.size - tail.padding;
  append(out, note);
  if (many) {
    Elf64_Shdr section{};  // with PN_XNUM, sh_info holds the number of segments, which exceeds 16 bits
    section.sh_info = static_cast<Elf64_Word>(count);
    section.sh_size = 1;
    append(out, section);
  }
  out += notes;
  out.resize(pages_offset, '\0');
  return out;
}

}  // namespace reprise::image
