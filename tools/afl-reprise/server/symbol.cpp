// SPDX-License-Identifier: GPL-2.0-only
#include "symbol.h"

#include <fcntl.h>
#include <gelf.h>

#include <cerrno>
#include <memory>

#include "base/error.h"
#include "base/unique_fd.h"

namespace reprise::afl {
namespace {

std::optional<std::uint64_t> find_in(Elf* elf, Elf_Scn* section, const std::string& name) {
  GElf_Shdr header;
  if (!gelf_getshdr(section, &header) || (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM)) return {};
  Elf_Data* const data = elf_getdata(section, nullptr);
  GElf_Sym symbol;
  for (int i = 0; data && gelf_getsym(data, i, &symbol); ++i) {
    if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
    const char* const text = elf_strptr(elf, header.sh_link, symbol.st_name);
    if (text && name == text) return symbol.st_value;
  }
  return {};
}

}  // namespace

std::optional<std::uint64_t> find_function(const std::string& path, const std::string& name) {
  elf_version(EV_CURRENT);
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) fail_errno(errno, path);
  const std::unique_ptr<Elf, int (*)(Elf*)> elf(elf_begin(file.get(), ELF_C_READ_MMAP, nullptr), elf_end);
  if (!elf || elf_kind(elf.get()) != ELF_K_ELF) return {};
  for (Elf_Scn* section = elf_nextscn(elf.get(), nullptr); section; section = elf_nextscn(elf.get(), section))
    if (const auto found = find_in(elf.get(), section, name)) return found;
  return {};
}

}  // namespace reprise::afl
