// SPDX-License-Identifier: GPL-2.0-only
// Programs to be fuzzed, which read standard input by a library of Debian: what is defined is XML, ELF, ZSTD or JSON.
// SMALL uses none.
// The fork server of afl-cc forks at __AFL_INIT(), so what is done before costs it nothing either.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

static char input[1 << 16];

static size_t read_input(void) {
  size_t have = 0;
  for (ssize_t got; have < sizeof input - 1 && (got = read(0, input + have, sizeof input - 1 - have)) > 0;) have += (size_t)got;
  input[have] = 0;
  return have;
}

#ifdef XML
#include <libxml/parser.h>
static void prepare() { xmlInitParser(); }
static int work(size_t size) {
  xmlDoc *doc = xmlReadMemory(input, (int)size, "in.xml", nullptr, XML_PARSE_NOERROR | XML_PARSE_NOWARNING | XML_PARSE_RECOVER);
  const int found = doc != nullptr;
  xmlFreeDoc(doc);
  return found;
}
#endif

#ifdef ELF
#include <gelf.h>
static void prepare() { elf_version(EV_CURRENT); }
static int work(size_t size) {
  Elf *elf = elf_memory(input, size);
  int found = 0;
  for (Elf_Scn *section = elf_nextscn(elf, nullptr); section; section = elf_nextscn(elf, section)) {
    GElf_Shdr header;
    if (!gelf_getshdr(section, &header)) continue;
    Elf_Data *data = elf_getdata(section, nullptr);
    GElf_Sym symbol;
    if (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM)
      for (int i = 0; data && gelf_getsym(data, i, &symbol); i++) found += elf_strptr(elf, header.sh_link, symbol.st_name) != nullptr;
  }
  elf_end(elf);
  return found;
}
#endif

#ifdef ZSTD
#include <zstd.h>
static ZSTD_DCtx *context;
static char *out;
static void prepare() {
  context = ZSTD_createDCtx();
  out = static_cast<char *>(malloc(1 << 20));
}
static int work(size_t size) { return !ZSTD_isError(ZSTD_decompressDCtx(context, out, 1 << 20, input, size)); }
#endif

#ifdef JSON
#include <nlohmann/json.hpp>
static void prepare() {}
static int work(size_t size) { return !nlohmann::json::parse(input, input + size, nullptr, false).is_discarded(); }
#endif

#ifdef SMALL
static void prepare() {}
static int work(size_t size) {
  unsigned sum = 0;
  for (size_t i = 0; i < size; i++) sum = input[i] == 'a' ? sum * 31 : sum + static_cast<unsigned char>(input[i]);
  return sum % 7 == 3;
}
#endif

int main() {
  prepare();
#ifdef PERSISTENT  // the fork server's persistent mode: nothing is brought back between runs
  int found = 0;
  while (__AFL_LOOP(1000000)) found |= work(read_input());
  return !found;
#else
  __AFL_INIT();
  return !work(read_input());
#endif
}
