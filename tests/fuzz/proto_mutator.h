// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Mutates inputs that are Protocol Buffers messages field by field, so that most mutations pass the parser. */
#include <cstddef>
#include <cstdint>
#include <string>

#include <google/protobuf/message.h>

namespace reprise::fuzz {

/** Change @p message: set, clear, copy, move or corrupt a field of it or of a message inside. */
void mutate(google::protobuf::Message& message, unsigned seed);
/** Copy parts of @p other into @p message. */
void cross(google::protobuf::Message& message, const google::protobuf::Message& other, unsigned seed);

/** The bodies of libFuzzer's hooks for a target whose input is a serialized @p Message. */
template <class Message>
std::size_t custom_mutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  Message message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) message.Clear();
  for (unsigned i = 0; i <= seed % 4; ++i) mutate(message, seed + i * 0x9e3779b9U);
  if (message.ByteSizeLong() > max_size) return size;
  message.SerializeToArray(data, static_cast<int>(max_size));
  return message.ByteSizeLong();
}

template <class Message>
std::size_t custom_cross_over(const std::uint8_t* one, std::size_t one_size, const std::uint8_t* two, std::size_t two_size,
                              std::uint8_t* out, std::size_t max_size, unsigned seed) {
  Message message, other;
  if (!message.ParseFromArray(one, static_cast<int>(one_size)) || !other.ParseFromArray(two, static_cast<int>(two_size)))
    return 0;
  cross(message, other, seed);
  if (message.ByteSizeLong() > max_size) return 0;
  message.SerializeToArray(out, static_cast<int>(max_size));
  return message.ByteSizeLong();
}

}  // namespace reprise::fuzz

/** Define the hooks. */
#define REPRISE_FUZZ_MESSAGE(Message)                                                                                  \
  extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,           \
                                                 unsigned seed) {                                                      \
    return reprise::fuzz::custom_mutator<Message>(data, size, max_size, seed);                                         \
  }                                                                                                                    \
  extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* one, std::size_t one_size,                      \
                                                   const std::uint8_t* two, std::size_t two_size, std::uint8_t* out,   \
                                                   std::size_t max_size, unsigned seed) {                              \
    return reprise::fuzz::custom_cross_over<Message>(one, one_size, two, two_size, out, max_size, seed);               \
  }
