// SPDX-License-Identifier: LGPL-2.1-or-later
#include "payload.h"

#include <algorithm>
#include <cstring>

namespace fnx {

void Payload::free() {
  if (!at_) return;
  if (memory_)
    memory_->give_back(at_, bytes_);
  else
    delete[] at_;
  at_ = nullptr;
  bytes_ = 0;
}

void Payload::resize(std::size_t bytes) {
  if (bytes == bytes_) return;
  Payload next(memory_);
  if (bytes) next.at_ = memory_ ? memory_->take(bytes) : new std::byte[bytes];
  next.bytes_ = bytes;
  const std::size_t old = std::min(bytes, bytes_);
  if (old) memcpy(next.at_, at_, old);
  if (bytes > old) memset(next.at_ + old, 0, bytes - old);
  swap(next);
}

void Payload::assign(std::span<const std::byte> from) {
  Payload next(memory_);
  if (!from.empty()) next.at_ = memory_ ? memory_->take(from.size()) : new std::byte[from.size()];
  next.bytes_ = from.size();
  if (!from.empty()) memcpy(next.at_, from.data(), from.size());
  swap(next);
}

}  // namespace fnx
