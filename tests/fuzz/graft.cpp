// SPDX-License-Identifier: GPL-2.0-only
#include "graft.h"

#include <elf.h>

#include <cstring>
#include <span>

#include "image/format.h"
#include "image/notes.h"
#include "image/tail.h"

namespace reprise::fuzz {
namespace {

using image::kPage;
using image::Seal;

template <class T>
T get(const std::string& bytes, std::size_t at) {
  T out{};
  if (at <= bytes.size() && sizeof out <= bytes.size() - at) std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

template <class T>
void put(std::string& bytes, std::size_t at, const T& value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

struct Place {
  std::size_t at = 0, size = 0;  // position and size of the whole note
};

bool sane(const std::string& image, const Seal& seal) {
  return seal.pages_offset <= image.size() && seal.pages_size <= image.size() - seal.pages_offset &&
         seal.blob_size <= image.size() - seal.pages_offset - seal.pages_size &&
         image.size() - seal.pages_offset - seal.pages_size - seal.blob_size >= sizeof(Seal);
}

Place find_note(const std::string& image, const Elf64_Phdr& notes) {
  const std::size_t end = std::min<std::size_t>(image.size(), notes.p_offset + notes.p_filesz);
  for (std::size_t at = notes.p_offset; at + sizeof(Elf64_Nhdr) <= end;) {
    const auto header = get<Elf64_Nhdr>(image, at);
    const std::size_t size = sizeof header + (header.n_namesz + 3ULL) / 4 * 4 + (header.n_descsz + 3ULL) / 4 * 4;
    if (size > end - at) break;
    if (header.n_type == image::kNoteState && header.n_namesz == sizeof image::kNoteName) return {at, size};
    at += size;
  }
  return {};
}

}  // namespace

void fix_seal(std::string& image) {
  if (image.size() < sizeof(Seal) + kPage) return;
  auto seal = get<Seal>(image, image.size() - sizeof(Seal));
  if (!sane(image, seal)) return;
  seal.file_size = image.size();
  seal.blob_offset = seal.pages_offset + seal.pages_size;
  put(image, image.size() - sizeof seal, seal);
  const std::size_t tail = seal.blob_offset + seal.blob_size;
  image::seal_tail(std::string_view(image).substr(0, seal.pages_offset), std::span(image).subspan(tail));
}

std::string find_state(const std::string& image) {
  const Place note = find_note(image, get<Elf64_Phdr>(image, sizeof(Elf64_Ehdr)));
  if (note.size == 0) return "";
  const std::size_t content = note.at + sizeof(Elf64_Nhdr) + sizeof image::kNoteName;
  return image.substr(content, get<Elf64_Nhdr>(image, note.at).n_descsz);
}

std::string with_state(const std::string& image, const std::string& state) {
  if (image.size() < sizeof(Seal) + kPage) return "";
  auto seal = get<Seal>(image, image.size() - sizeof(Seal));
  const auto header = get<Elf64_Ehdr>(image, 0);
  auto notes = get<Elf64_Phdr>(image, sizeof header);
  const Place old = find_note(image, notes);
  const std::size_t table_end = sizeof header + header.e_phnum * sizeof(Elf64_Phdr);
  if (old.size == 0 || !sane(image, seal) || table_end > notes.p_offset ||
      notes.p_offset + notes.p_filesz > seal.pages_offset)
    return "";
  std::string note;
  image::append_note(note, image::kNoteName, image::kNoteState, state);
  notes.p_filesz += note.size() - old.size;
  const std::uint64_t pages_offset = (notes.p_offset + notes.p_filesz + kPage - 1) / kPage * kPage;
  const std::uint64_t shift = pages_offset - seal.pages_offset;  // modulo 2^64

  std::string out = image.substr(0, old.at) + note +
                    image.substr(old.at + old.size, notes.p_offset + notes.p_filesz - old.at - note.size());
  out.resize(pages_offset, '\0');
  put(out, sizeof header, notes);
  for (std::size_t at = sizeof header + sizeof(Elf64_Phdr); at < table_end; at += sizeof(Elf64_Phdr)) {
    auto segment = get<Elf64_Phdr>(out, at);
    segment.p_offset += shift;
    put(out, at, segment);
  }
  out += image.substr(seal.pages_offset);
  seal.pages_offset = pages_offset;
  put(out, out.size() - sizeof seal, seal);
  fix_seal(out);
  return out;
}

}  // namespace reprise::fuzz
