// SPDX-License-Identifier: LGPL-2.1-or-later
// Bytes of the store, where the engine wants them.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace fnx {

/** Where payloads are. */
class Memory {
 public:
  virtual ~Memory() = default;
  /** @return so many bytes of any value. @throw std::bad_alloc */
  virtual std::byte *take(std::size_t bytes) = 0;
  virtual void give_back(std::byte *at, std::size_t bytes) = 0;
};

/** As a vector that does not grow by itself. */
class Payload {
 public:
  Payload() = default;
  /** @param memory nullptr: the heap */
  explicit Payload(Memory *memory) : memory_(memory) {}
  /** Of bytes that are there, and belong to it from now on. */
  Payload(Memory *memory, std::byte *at, std::size_t bytes) : memory_(memory), at_(at), bytes_(bytes) {}
  ~Payload() { free(); }
  Payload(Payload &&other) noexcept { swap(other); }
  Payload &operator=(Payload &&other) noexcept {
    swap(other);
    return *this;
  }

  /** Make it as large; new bytes are 0. @throw std::bad_alloc */
  void resize(std::size_t bytes);
  /** Make it a copy. @throw std::bad_alloc */
  void assign(std::span<const std::byte> from);

  std::size_t size() const { return bytes_; }
  const std::byte *data() const { return at_; }
  std::byte &operator[](std::size_t i) { return at_[i]; }
  const std::byte &operator[](std::size_t i) const { return at_[i]; }
  operator std::span<std::byte>() { return {at_, bytes_}; }
  operator std::span<const std::byte>() const { return {at_, bytes_}; }

 private:
  void swap(Payload &other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(at_, other.at_);
    std::swap(bytes_, other.bytes_);
  }
  void free();

  Memory *memory_ = nullptr;
  std::byte *at_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace fnx
