// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/tail.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "image/notes.h"

namespace reprise::image {
namespace {

constexpr std::uint64_t kNote = kNoteHeaderSize;

std::string_view view(const std::vector<std::uint64_t>& table) {
  return {reinterpret_cast<const char*>(table.data()), table.size() * 8};
}

}  // namespace

TailLayout::TailLayout(std::uint32_t format, std::uint64_t pages, std::uint64_t blob_bytes) {
  padding = (8 - blob_bytes % 8) % 8;
  table = padding + kNote;
  table_size = pages * 8;
  blob = table + table_size + kNote;
  blob_size = (blob_bytes + kBlobBlock - 1) / kBlobBlock * 8;
  tree = blob + blob_size;
  tree_size = 0;
  if (format >= kTreeFormat) {
    tree += kNote;
    tree_size = 8 + (table_size + kTableBlock - 1) / kTableBlock * 8;
  }
  seal = tree + tree_size + kNote;
  size = seal + sizeof(Seal);
}

std::uint64_t block_checksum(const void* content, std::size_t len, std::uint64_t number) {
  return XXH64(content, len, number * kTableBlock);
}

std::uint64_t head_checksum(std::string_view head) { return XXH64(head.data(), head.size(), 0); }

std::uint64_t seal_hash(std::uint32_t format, std::string_view head, std::string_view front, std::string_view table,
                        std::string_view rest) {
  const std::unique_ptr<XXH64_state_t, decltype(&XXH64_freeState)> state(XXH64_createState(), XXH64_freeState);
  if (!state) throw std::bad_alloc();
  XXH64_reset(state.get(), 0);
  const auto add = [&](std::string_view part) {
    if (!part.empty()) XXH64_update(state.get(), part.data(), part.size());
  };
  if (format < kTreeFormat) add(head);
  add(front);
  if (format < kTreeFormat) add(table);
  add(rest.substr(0, rest.size() - sizeof(Seal::hash)));
  return XXH64_digest(state.get());
}

bool seal_tail(std::string_view head, std::span<char> tail) {
  Seal seal;
  if (tail.size() < sizeof seal) return false;
  std::memcpy(&seal, tail.data() + tail.size() - sizeof seal, sizeof seal);
  const TailLayout at(seal.format, seal.pages_size / kPage, seal.blob_size);
  if (at.size != tail.size()) return false;
  const auto put = [](char* to, std::uint64_t value) { std::memcpy(to, &value, sizeof value); };
  if (at.tree_size) {
    put(tail.data() + at.tree, head_checksum(head));
    for (std::uint64_t from = 0, i = 0; from < at.table_size; from += kTableBlock, ++i)
      put(tail.data() + at.tree + 8 + i * 8,
          block_checksum(tail.data() + at.table + from, std::min(kTableBlock, at.table_size - from), i));
  }
  const std::string_view all(tail.data(), tail.size());
  put(tail.data() + tail.size() - sizeof seal.hash,
      seal_hash(seal.format, head, all.substr(0, at.table), all.substr(at.table, at.table_size),
                all.substr(at.table + at.table_size)));
  return true;
}

std::string build_tail(std::string_view head, Seal seal, const std::vector<std::uint64_t>& hashes,
                       const std::vector<std::uint64_t>& blob_hashes) {
  const TailLayout at(seal.format, hashes.size(), seal.blob_size);
  std::string out(at.padding, '\0');
  out.reserve(at.size);
  append_note(out, kNoteName, kNoteHashes, view(hashes));
  append_note(out, kNoteName, kNoteBlobHashes, view(blob_hashes));
  if (at.tree_size) append_note(out, kNoteName, kNoteTree, std::string(at.tree_size, '\0'));
  append_note(out, kNoteName, kNoteSeal, {reinterpret_cast<const char*>(&seal), sizeof seal});
  seal_tail(head, out);
  return out;
}

}  // namespace reprise::image
