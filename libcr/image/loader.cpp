// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/loader.h"

#include <gelf.h>
#include <libelf.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "image/notes.h"
#include "image/read_exactly.h"
#include "image/system_error.h"
#include "image/tail.h"

namespace reprise::image {
namespace {

constexpr std::uint64_t kSealNote = kNoteHeaderSize + sizeof(Seal);
constexpr std::uint64_t kMaxHead = sizeof(Elf64_Ehdr) + CR_MAX_RUNS * sizeof(Elf64_Phdr) + kMaxNotes + 2 * kPage;

class Loader {
 public:
  Loader(int fd, const std::string& name, Loaded& out) : fd_(fd), name_(name), out_(out) {}

  void read_tables() {
    read_seal();
    if (out_.seal.format < kTreeFormat) read_head();  // the seal's hash needs it
    read_tail();
  }
  void read_all() {
    read_seal();
    read_head();
    read_tail();
    need(out_.seal.format < kTreeFormat || head_checksum(head_) == head_checksum_,
         "is damaged: its headers do not match their checksum");
    read_segments();
    read_notes();
    need(out_.seal.format >= kTreeFormat || (out_.seal.format == kDeltaFormat) == (out_.process.bases_size() > 0),
         "has a format that does not fit its content");
  }

 private:
  [[noreturn]] void bad(int code, const std::string& what) const {
    throw Error(Failure::permanent, code, name_ + ": " + what + "; use another image or take a new checkpoint");
  }
  void need(bool good, const char* what) const {
    if (!good) bad(EBADMSG, what);
  }

  void check_kind(const Elf64_Ehdr& header) const;
  void read_seal();
  void read_head();
  void read_tail();
  void read_segments();
  void add_load(const GElf_Phdr& segment, std::uint64_t& offset, std::uint64_t& address);
  void read_notes();
  void take_note(std::string_view name, std::uint32_t type, std::string_view content);

  struct ElfEnd {
    void operator()(Elf* elf) const { elf_end(elf); }
  };

  int fd_;
  const std::string& name_;
  Loaded& out_;
  std::string head_;  // [0, pages_offset)
  std::uint64_t head_checksum_ = 0;
  std::unique_ptr<Elf, ElfEnd> elf_;
  GElf_Phdr notes_{};
  std::vector<ThreadRegs> found_;
  bool have_state_ = false;
};

void Loader::check_kind(const Elf64_Ehdr& header) const {
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_X86_64)
    bad(ENOEXEC, "is of another architecture than this machine");
  if (header.e_type != ET_CORE) bad(ENOEXEC, "is not an image (no core file)");
}

void Loader::read_seal() {
  struct stat st;
  if (::fstat(fd_, &st) != 0) throw_system(name_, "cannot be looked at", errno);
  if (S_ISDIR(st.st_mode)) throw Error(Failure::usage, EISDIR, name_ + " is a directory; name an image file");
  if (!S_ISREG(st.st_mode)) throw Error(Failure::usage, EINVAL, name_ + " is not a regular file; name an image file");
  const auto size = static_cast<std::uint64_t>(st.st_size);
  Elf64_Ehdr header{};
  if (size >= sizeof header) read_exactly(fd_, name_, 0, &header, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) bad(ENOEXEC, "is not an image (no ELF file)");
  check_kind(header);
  if (size < kPage + kSealNote) bad(EBADMSG, "was cut short");

  char note[kSealNote];
  read_exactly(fd_, name_, size - kSealNote, note, sizeof note);
  const std::string expected = note_header(kNoteName, kNoteSeal, sizeof(Seal));
  if (std::memcmp(note, expected.data(), expected.size()) != 0)
    bad(EBADMSG, "was cut short, was never finished, or is not an image of this project (its seal is missing)");
  Seal& seal = out_.seal;
  std::memcpy(&seal, note + expected.size(), sizeof seal);
  if (seal.format > kTreeFormat)
    bad(ENOTSUP, "has format " + std::to_string(seal.format) + ", newer than this version knows");
  need(seal.format >= 1, "has an impossible format number");
  need(seal.page_size == kPage && seal.blob_block == kBlobBlock, "has a page or block size that is not known");
  need(seal.file_size == size, "does not have the size it was written with");
  need(seal.pages_offset % kPage == 0 && seal.pages_offset >= kPage && seal.pages_offset <= size &&
           seal.pages_offset <= kMaxHead,
       "has impossible sizes (headers)");
  need(seal.pages_size % kPage == 0 && seal.pages_size / kPage <= kMaxPages &&
           seal.pages_size <= size - seal.pages_offset,
       "has impossible sizes (pages)");
  need(seal.blob_offset == seal.pages_offset + seal.pages_size && seal.blob_size <= kMaxBlob &&
           seal.blob_size <= size - seal.blob_offset,
       "has impossible sizes (shared content)");
  const TailLayout at(seal.format, seal.pages_size / kPage, seal.blob_size);
  need(seal.blob_offset + seal.blob_size + at.size == size, "has impossible sizes (checksums)");
}

void Loader::read_head() {
  head_.resize(out_.seal.pages_offset);
  read_exactly(fd_, name_, 0, head_.data(), head_.size());
}

// The tail has a fixed form: compare it with the expected headers instead of parsing it.
void Loader::read_tail() {
  const Seal& seal = out_.seal;
  const std::uint64_t pages = seal.pages_size / kPage, start = seal.blob_offset + seal.blob_size;
  const TailLayout at(seal.format, pages, seal.blob_size);
  std::string front(at.table, '\0'), rest(at.size - at.table - at.table_size, '\0');
  read_exactly(fd_, name_, start, front.data(), front.size());
  read_exactly(fd_, name_, start + at.table + at.table_size, rest.data(), rest.size());
  std::unique_ptr<std::uint64_t[]> table;
  if (seal.format < kTreeFormat) {
    table = std::make_unique_for_overwrite<std::uint64_t[]>(pages);
    read_exactly(fd_, name_, start + at.table, table.get(), at.table_size);
  }
  const std::string_view whole_table(reinterpret_cast<const char*>(table.get()), table ? at.table_size : 0);
  need(seal_hash(seal.format, head_, front, whole_table, rest) == seal.hash,
       "is damaged: its headers do not match their checksum");

  const auto is_note = [&](std::string_view where, std::uint32_t type, std::uint64_t size) {
    need(where == note_header(kNoteName, type, size), "has malformed checksums");
  };
  // `rest` begins behind the table.
  const std::uint64_t blob = at.blob - at.table - at.table_size, tree = at.tree - at.table - at.table_size;
  is_note(std::string_view(front).substr(at.padding), kNoteHashes, at.table_size);
  is_note(std::string_view(rest).substr(0, blob), kNoteBlobHashes, at.blob_size);
  const auto words = [&](std::uint64_t from, std::uint64_t size) {
    std::vector<std::uint64_t> out(size / 8);
    if (size) std::memcpy(out.data(), rest.data() + from, size);
    return out;
  };
  out_.blob_hashes = words(blob, at.blob_size);
  if (table) {
    out_.table = std::make_unique<ChecksumTable>(std::move(table), pages);
    return;
  }
  is_note(std::string_view(rest).substr(tree - kNoteHeaderSize, kNoteHeaderSize), kNoteTree, at.tree_size);
  head_checksum_ = words(tree, 8)[0];
  out_.table = std::make_unique<ChecksumTable>(fd_, name_, start + at.table, pages, words(tree + 8, at.tree_size - 8));
}

void Loader::add_load(const GElf_Phdr& segment, std::uint64_t& offset, std::uint64_t& address) {
  need(segment.p_type == PT_LOAD, "has a segment of an unknown type");
  need(segment.p_vaddr % kPage == 0 && segment.p_memsz % kPage == 0 && segment.p_memsz > 0 &&
           segment.p_vaddr < kTaskSize && segment.p_memsz <= kTaskSize - segment.p_vaddr,
       "has a segment outside of the address space");
  need(segment.p_vaddr >= address, "has overlapping segments");
  need(segment.p_offset == offset && (segment.p_filesz == 0 || segment.p_filesz == segment.p_memsz) &&
           segment.p_filesz <= out_.seal.blob_offset - offset,
       "has a segment outside of its pages");
  address = segment.p_vaddr + segment.p_memsz;
  offset += segment.p_filesz;
  if (segment.p_filesz) out_.runs.push_back({segment.p_vaddr, segment.p_memsz, segment.p_offset});
}

void Loader::read_segments() {
  // Again, since the file may have changed since read_seal().
  Elf64_Ehdr raw;
  std::memcpy(&raw, head_.data(), sizeof raw);
  check_kind(raw);
  need(raw.e_ident[EI_VERSION] == EV_CURRENT, "has an unknown version of ELF");
  elf_version(EV_CURRENT);
  elf_.reset(elf_memory(head_.data(), head_.size()));
  GElf_Ehdr header;
  need(elf_ && elf_kind(elf_.get()) == ELF_K_ELF && gelf_getehdr(elf_.get(), &header), "has a malformed ELF header");
  need(header.e_version == EV_CURRENT, "has an unknown version of ELF");
  std::size_t count = 0;
  need(elf_getphdrnum(elf_.get(), &count) == 0 && count >= 2 && count <= CR_MAX_RUNS,
       "has an impossible number of segments");
  const bool many = header.e_phnum == PN_XNUM;
  const std::uint64_t table_end = sizeof(Elf64_Ehdr) + count * sizeof(Elf64_Phdr);
  const std::uint64_t notes_offset = table_end + (many ? sizeof(Elf64_Shdr) : 0);
  need(header.e_ehsize == sizeof(Elf64_Ehdr) && header.e_phoff == sizeof(Elf64_Ehdr) &&
           header.e_phentsize == sizeof(Elf64_Phdr) && header.e_shoff == (many ? table_end : 0) &&
           header.e_shnum == (many ? 1 : 0) && notes_offset <= head_.size(),
       "has malformed ELF headers");

  std::uint64_t offset = out_.seal.pages_offset, address = 0;
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Phdr segment;
    need(gelf_getphdr(elf_.get(), static_cast<int>(i), &segment), "has malformed program headers");
    if (i == 0) {
      need(segment.p_type == PT_NOTE && segment.p_offset == notes_offset &&
               segment.p_filesz <= head_.size() - notes_offset,
           "has misplaced notes");
      notes_ = segment;
    } else if (i + 1 == count) {
      const std::uint64_t end = (out_.seal.blob_offset + out_.seal.blob_size + 7) / 8 * 8;
      need(segment.p_type == PT_NOTE && segment.p_offset == end && segment.p_filesz == out_.seal.file_size - end,
           "has misplaced checksums");
    } else {
      add_load(segment, offset, address);
    }
  }
  need(offset == out_.seal.blob_offset, "has pages that belong to no segment");
}

void Loader::read_notes() {
  Elf_Data* data =
      elf_getdata_rawchunk(elf_.get(), static_cast<std::int64_t>(notes_.p_offset), notes_.p_filesz, ELF_T_NHDR);
  need(data, "has unreadable notes");
  for (std::size_t at = 0; at < data->d_size;) {
    GElf_Nhdr header;
    std::size_t name_at = 0, content_at = 0;
    const std::size_t next = gelf_getnote(data, at, &header, &name_at, &content_at);
    need(next > at && content_at <= data->d_size && header.n_descsz <= data->d_size - content_at,
         "has malformed notes");
    const char* base = static_cast<const char*>(data->d_buf);
    std::string_view name(base + name_at, header.n_namesz);
    name = name.substr(0, name.find('\0'));
    take_note(name, header.n_type, {base + content_at, header.n_descsz});
    at = next;
  }
  need(have_state_, "lacks the state of the process");

  // Put the registers into the order of the state's threads.
  std::map<pid_t, ThreadRegs*> by_tid;
  for (auto& one : found_) need(by_tid.emplace(one.tid, &one).second, "has two threads of one number");
  for (const auto& thread : out_.process.threads()) {
    const auto found = by_tid.find(thread.tid());
    if (found == by_tid.end() || !found->second || found->second->fpregs.empty())
      bad(EBADMSG, "lacks registers of thread " + std::to_string(thread.tid()));
    out_.threads.push_back(std::move(*found->second));
    found->second = nullptr;
  }
  need(out_.threads.size() == found_.size(), "has registers of a thread that is not there");
}

void Loader::take_note(std::string_view name, std::uint32_t type, std::string_view content) {
  if (name == "CORE" && type == NT_PRSTATUS) {
    need(content.size() == sizeof(elf_prstatus), "has registers of the wrong size");
    need(found_.size() < CR_MAX_THREADS, "has too many threads");
    elf_prstatus status;
    std::memcpy(&status, content.data(), sizeof status);
    ThreadRegs& regs = found_.emplace_back();
    regs.tid = status.pr_pid;
    std::memcpy(&regs.regs, &status.pr_reg, sizeof regs.regs);
  } else if (name == "CORE" && type == NT_PRFPREG) {
    need(!found_.empty() && found_.back().fpregs.empty() && content.size() == kFpregsSize,
         "has floating-point registers of the wrong size or place");
    found_.back().fpregs = content;
  } else if (name == "LINUX" && type == NT_X86_XSTATE) {
    need(!found_.empty() && found_.back().xstate.empty() && content.size() >= kFpregsSize &&
             content.size() <= CR_MAX_REGSET,
         "has an extended register state of the wrong size or place");
    found_.back().xstate = content;
  } else if (name == kNoteName && type == kNoteState) {
    need(!have_state_, "has the state of the process twice");
    need(parse_state(content, out_.process), "has a malformed state of the process");
    have_state_ = true;
  }
  // Other notes are for debuggers; the state contains the same information.
}

}  // namespace

void load(int fd, const std::string& name, Loaded& out) { Loader(fd, name, out).read_all(); }

void load_tables(int fd, const std::string& name, Loaded& out) { Loader(fd, name, out).read_tables(); }

}  // namespace reprise::image
