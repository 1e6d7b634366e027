// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/packed_state.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <zstd.h>

#include "base/error.h"

namespace reprise {
namespace {

constexpr int kLevel = 1;  // most is gained by any

void add(std::string& out, std::string_view bytes) {
  const std::uint64_t size = bytes.size();
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out.append(bytes);
}

/** Takes apart what add() has put together. */
class Reader {
 public:
  explicit Reader(std::string_view all) : all_(all) {}
  std::string_view next() {
    std::uint64_t size = 0;
    if (all_.size() < sizeof size) fail();
    std::memcpy(&size, all_.data(), sizeof size);
    all_.remove_prefix(sizeof size);
    if (all_.size() < size) fail();
    const std::string_view out = all_.substr(0, size);
    all_.remove_prefix(size);
    return out;
  }
  [[noreturn]] static void fail() { throw Error(Failure::permanent, EIO, "a state that is kept in memory is damaged"); }

 private:
  std::string_view all_;
};

}  // namespace

PackedState PackedState::of(State& state) {
  std::string all;
  add(all, state.process.SerializeAsString());
  for (const ThreadRegs& regs : state.regs) {
    add(all, {reinterpret_cast<const char*>(&regs.tid), sizeof regs.tid});
    add(all, {reinterpret_cast<const char*>(&regs.regs), sizeof regs.regs});
    add(all, regs.fpregs);
    add(all, regs.xstate);
  }
  PackedState made;
  made.size_ = all.size();
  std::string packed(ZSTD_compressBound(all.size()), '\0');
  const std::size_t size = ZSTD_compress(packed.data(), packed.size(), all.data(), all.size(), kLevel);
  if (ZSTD_isError(size)) throw Error(Failure::temporary, ENOMEM, std::string("a state cannot be packed: ") + ZSTD_getErrorName(size));
  made.packed_.assign(packed, 0, size);
  made.packed_.shrink_to_fit();
  // Swapped, so that the memory is free.
  Process().Swap(&state.process);
  std::vector<ThreadRegs>().swap(state.regs);
  return made;
}

void PackedState::restore(State& state) const {
  std::string all(size_, '\0');
  const std::size_t size = ZSTD_decompress(all.data(), all.size(), packed_.data(), packed_.size());
  if (ZSTD_isError(size) || size != size_) Reader::fail();
  Reader reader(all);
  const std::string_view process = reader.next();
  if (!state.process.ParseFromArray(process.data(), static_cast<int>(process.size()))) Reader::fail();
  state.regs.resize(static_cast<std::size_t>(state.process.threads_size()));
  for (ThreadRegs& regs : state.regs) {
    const std::string_view tid = reader.next(), general = reader.next();
    if (tid.size() != sizeof regs.tid || general.size() != sizeof regs.regs) Reader::fail();
    std::memcpy(&regs.tid, tid.data(), tid.size());
    std::memcpy(&regs.regs, general.data(), general.size());
    regs.fpregs = reader.next();
    regs.xstate = reader.next();
  }
}

}  // namespace reprise
