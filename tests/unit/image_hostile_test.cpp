// SPDX-License-Identifier: GPL-2.0-only
// Images with valid checksums and invalid content.
#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/procfs.h>
#include <unistd.h>

#include <cstring>

#include "image/loader.h"
#include "image/notes.h"
#include "image/reader.h"
#include "image_sample.h"

namespace reprise::test {
namespace {

using image::Seal;
using testing::HasSubstr;

std::string refusal(const std::string& bytes) {
  UniqueFd fd(::memfd_create("image", MFD_CLOEXEC));
  EXPECT_EQ(::write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return error_of([&] { Image::open(std::move(fd), "IMAGE"); });
}

class ImageHostile : public testing::Test {
 protected:
  ImageHostile() {
    const TempDir dir;
    small_sample().write(dir.path("image"));
    good_ = read_file(dir.path("image"));
  }

  /** Alter a structure at @p offset, correct the checksum and open the image. */
  template <class T, class Change>
  std::string with(std::size_t offset, Change change) const {
    std::string image = good_;
    T value;
    std::memcpy(&value, image.data() + offset, sizeof value);
    change(value);
    std::memcpy(image.data() + offset, &value, sizeof value);
    reseal(image);
    return refusal(image);
  }
  template <class Change>
  std::string header(Change change) const {
    return with<Elf64_Ehdr>(0, change);
  }
  template <class Change>
  std::string segment(int index, Change change) const {
    return with<Elf64_Phdr>(sizeof(Elf64_Ehdr) + static_cast<std::size_t>(index) * sizeof(Elf64_Phdr), change);
  }
  // The seal describes what its own hash covers: altered ones fail before or at the checksum.
  template <class Change>
  std::string seal(Change change) const {
    std::string image = good_;
    Seal value = seal_of(image);
    change(value);
    std::memcpy(image.data() + image.size() - sizeof value, &value, sizeof value);
    return refusal(image);
  }
  /** Offset of the first note with that type. */
  std::size_t note(std::uint32_t type, int which = 0) const {
    Elf64_Phdr notes;
    std::memcpy(&notes, good_.data() + sizeof(Elf64_Ehdr), sizeof notes);
    for (std::size_t at = notes.p_offset; at < notes.p_offset + notes.p_filesz;) {
      Elf64_Nhdr header;
      std::memcpy(&header, good_.data() + at, sizeof header);
      if (header.n_type == type && which-- == 0) return at;
      at += sizeof header + (header.n_namesz + 3) / 4 * 4 + (header.n_descsz + 3) / 4 * 4;
    }
    throw std::runtime_error("no such note");
  }

  std::string good_;
};

TEST_F(ImageHostile, ResealingAloneIsFine) {
  EXPECT_EQ(header([](auto&) {}), "");
}

TEST_F(ImageHostile, Header) {
  EXPECT_NE(header([](auto& h) { h.e_ident[EI_CLASS] = ELFCLASS32; }), "");
  EXPECT_NE(header([](auto& h) { h.e_ident[EI_DATA] = ELFDATA2MSB; }), "");
  EXPECT_THAT(header([](auto& h) { h.e_type = ET_EXEC; }), HasSubstr("no core file"));
  EXPECT_THAT(header([](auto& h) { h.e_machine = EM_AARCH64; }), HasSubstr("another architecture"));
  for (int count : {0, 1, 2, 3, 100, 60000, 65535})
    EXPECT_NE(header([&](auto& h) { h.e_phnum = static_cast<Elf64_Half>(count); }), "") << count;
  for (std::uint64_t at : {0ULL, 1ULL, 65ULL, 1ULL << 40, ~0ULL, ~0ULL - 55})
    EXPECT_NE(header([&](auto& h) { h.e_phoff = at; }), "");
  for (std::uint64_t at : {1ULL, 64ULL, 1ULL << 40, ~0ULL}) EXPECT_NE(header([&](auto& h) { h.e_shoff = at; }), "");
  EXPECT_NE(header([](auto& h) { h.e_phentsize = 1; }), "");
  EXPECT_NE(header([](auto& h) { h.e_shnum = 9; }), "");
  // A count above 16 bits, in a section header that is missing or wrong.
  for (unsigned count : {0U, 1U, 7U, 70000U, 0xffffffffU})
    EXPECT_NE(header([&](auto& h) {
                h.e_phnum = PN_XNUM;
                h.e_shoff = sizeof(Elf64_Ehdr);
                h.e_shnum = 1;
                h.e_shentsize = sizeof(Elf64_Shdr);
                (void)count;
              }),
              "");
}

TEST_F(ImageHostile, Segments) {
  // 0: notes, 1: text page, 2, 3: heap and what follows, 4: shared (nothing saved), 5: stack, 6: checksums
  EXPECT_THAT(segment(1, [](auto& p) { p.p_vaddr += 1; }), HasSubstr("address space"));
  EXPECT_THAT(segment(1, [](auto& p) { p.p_vaddr = 0x7ffffffff000; }), HasSubstr("address space"));
  EXPECT_THAT(segment(1, [](auto& p) { p.p_vaddr = ~0ULL << 12; }), HasSubstr("address space"));
  EXPECT_THAT(segment(1, [](auto& p) { p.p_memsz = p.p_filesz = ~0ULL << 12; }), HasSubstr("address space"));
  EXPECT_NE(segment(1, [](auto& p) { p.p_memsz = p.p_filesz = 0; }), "");
  EXPECT_NE(segment(1, [](auto& p) { p.p_filesz = 0; }), "");
  EXPECT_NE(segment(1, [](auto& p) { p.p_filesz = 8192; }), "");
  EXPECT_NE(segment(1, [](auto& p) { p.p_memsz = p.p_filesz = 8192; }), "");
  EXPECT_THAT(segment(2, [](auto& p) { p.p_vaddr = 0x10000000; }), HasSubstr("overlapping"));
  EXPECT_THAT(segment(3, [](auto& p) { p.p_vaddr -= 4096; }), HasSubstr("overlapping"));
  EXPECT_NE(segment(2, [](auto& p) { p.p_offset = 0; }), "");
  EXPECT_NE(segment(2, [](auto& p) { p.p_offset = ~0ULL; }), "");
  EXPECT_NE(segment(1, [](auto& p) { p.p_type = PT_DYNAMIC; }), "");
  EXPECT_NE(segment(0, [](auto& p) { p.p_type = PT_LOAD; }), "");
  for (std::uint64_t size : {1ULL << 30, ~0ULL, ~0ULL - 400})
    EXPECT_NE(segment(0, [&](auto& p) { p.p_filesz = size; }), "");
  EXPECT_NE(segment(0, [](auto& p) { p.p_filesz = 4; }), "");
  EXPECT_NE(segment(0, [](auto& p) { p.p_filesz = 0; }), "");
  EXPECT_NE(segment(0, [](auto& p) { p.p_offset += 4; }), "");
  EXPECT_NE(segment(6, [](auto& p) { p.p_offset += 4; }), "");
  EXPECT_NE(segment(6, [](auto& p) { p.p_filesz += 4; }), "");
  // Pages that belong to no mapping, or to one whose pages are not private
  EXPECT_THAT(segment(1, [](auto& p) { p.p_vaddr = 0x18000000; }), HasSubstr("pages at 18000000 lie in no mapping"));
  EXPECT_THAT(segment(5, [](auto& p) { p.p_vaddr = 0x7ffd00003000; }), HasSubstr("lie in no mapping"));
}

TEST_F(ImageHostile, SealSizes) {
  for (std::uint64_t value : {0ULL, 1ULL, 4096ULL, 1ULL << 20, 1ULL << 40, 1ULL << 63, ~0ULL, ~0ULL << 12}) {
    EXPECT_NE(seal([&](Seal& s) { s.pages_offset = value; }), "");
    EXPECT_NE(seal([&](Seal& s) { s.pages_size = value; }), "");
    EXPECT_NE(seal([&](Seal& s) { s.blob_offset = value; }), "");
    EXPECT_NE(seal([&](Seal& s) { s.blob_size = value; }), "");
    EXPECT_NE(seal([&](Seal& s) { s.file_size = value; }), "");
    EXPECT_NE(seal([&](Seal& s) { s.pages_size = value, s.blob_offset = s.pages_offset + value; }), "");
    EXPECT_NE(seal([&](Seal& s) { s.page_size = static_cast<std::uint32_t>(value + 1); }), "");
    EXPECT_NE(seal([&](Seal& s) { s.blob_block = value + 1; }), "");
  }
  EXPECT_THAT(seal([](Seal& s) { s.format = 4; }), HasSubstr("newer"));
  EXPECT_THAT(seal([](Seal& s) { s.format = 0; }), HasSubstr("format"));
}

TEST_F(ImageHostile, Notes) {
  const auto change = [](auto member, std::uint32_t value) {
    return [=](Elf64_Nhdr& header) { header.*member = value; };
  };
  for (std::uint32_t type : {NT_PRSTATUS, NT_PRFPREG, NT_X86_XSTATE})
    for (int which : {0, 1}) {
      const std::size_t at = note(type, which);
      for (std::uint32_t value : {0U, 1U, 7U, 1U << 30, 0x7fffffffU, 0xfffffffcU, 0xffffffffU}) {
        EXPECT_NE(with<Elf64_Nhdr>(at, change(&Elf64_Nhdr::n_descsz, value)), "") << type << ' ' << value;
        EXPECT_NE(with<Elf64_Nhdr>(at, change(&Elf64_Nhdr::n_namesz, value + 100)), "") << type << ' ' << value;
      }
    }
  EXPECT_THAT(with<Elf64_Nhdr>(note(NT_PRSTATUS, 1), change(&Elf64_Nhdr::n_type, 77)), HasSubstr("registers"));
  EXPECT_THAT(with<Elf64_Nhdr>(note(NT_PRFPREG, 1), change(&Elf64_Nhdr::n_type, 77)),
              HasSubstr("lacks registers of thread 4712"));
  EXPECT_THAT(with<Elf64_Nhdr>(note(image::kNoteState), change(&Elf64_Nhdr::n_type, 77)), HasSubstr("lacks the state"));
  // The state's size is the note's: shorter or longer is malformed.
  EXPECT_NE(with<Elf64_Nhdr>(note(image::kNoteState), [](auto& h) { h.n_descsz -= 4; }), "");
  EXPECT_NE(with<Elf64_Nhdr>(note(image::kNoteState), [](auto& h) { h.n_descsz = 0; }), "");
}

TEST_F(ImageHostile, ThreadsAndRegisters) {
  const auto tid = [](pid_t value) { return [=](elf_prstatus& status) { status.pr_pid = value; }; };
  const std::size_t first = note(NT_PRSTATUS) + 20, second = note(NT_PRSTATUS, 1) + 20;
  EXPECT_THAT(with<elf_prstatus>(second, tid(4711)), HasSubstr("two threads of one number"));
  EXPECT_THAT(with<elf_prstatus>(second, tid(9)), HasSubstr("lacks registers of thread 4712"));
  EXPECT_THAT(with<elf_prstatus>(first, tid(-1)), HasSubstr("lacks registers of thread 4711"));
}

TEST_F(ImageHostile, EveryByteResealed) {
  // Accepted images must be usable without a crash; refusals must be Errors.
  const Seal seal = seal_of(good_);
  const auto try_at = [&](std::size_t at, char value) {
    std::string image = good_;
    image[at] = value;
    reseal(image);
    UniqueFd fd(::memfd_create("image", MFD_CLOEXEC));
    ASSERT_EQ(::write(fd.get(), image.data(), image.size()), static_cast<ssize_t>(image.size()));
    error_of([&] { Image::open(std::move(fd), "IMAGE").verify_all(1); });
  };
  const std::size_t end = note(image::kNoteState) + 2000;
  for (std::size_t at = 0; at < std::min<std::size_t>(end, seal.pages_offset); at += 1) {
    try_at(at, static_cast<char>(~good_[at]));
    try_at(at, static_cast<char>(good_[at] + 1));
  }
}

TEST(ParseState, GrowthIsBounded) {
  Process out;
  EXPECT_TRUE(image::parse_state("", out));
  EXPECT_TRUE(image::parse_state(small_sample().process.SerializeAsString(), out));
  EXPECT_EQ(out.threads_size(), 2);
  // Five million empty threads in ten million bytes.
  std::string many;
  for (int i = 0; i < 5'000'000; ++i) many += std::string("\xa2\x01\x00", 3);
  EXPECT_FALSE(image::parse_state(many, out));
  // Packed numbers, which take eight times as many bytes in memory.
  std::string packed(5'000'000, '\x01');
  Process auxv;
  for (int i = 0; i < 5'000'000; ++i) auxv.mutable_layout()->add_auxv(1);
  EXPECT_FALSE(image::parse_state(auxv.SerializeAsString(), out));
  // The parser keeps unknown fields, so they count as well.
  many.clear();
  for (int i = 0; i < 5'000'000; ++i) many += std::string("\xf8\x3f\x00", 3);
  EXPECT_FALSE(image::parse_state(many, out));
  EXPECT_FALSE(image::parse_state("\xff\xff\xff", out));
  EXPECT_FALSE(image::parse_state(std::string("\xa2\x01\x7f", 3), out));
}

}  // namespace
}  // namespace reprise::test
