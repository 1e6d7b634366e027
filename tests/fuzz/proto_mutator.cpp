// SPDX-License-Identifier: GPL-2.0-only
#include "proto_mutator.h"

#include <memory>
#include <random>
#include <vector>

#include <google/protobuf/descriptor.h>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace reprise::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Random = std::mt19937;

constexpr int kMostElements = 64;   // of a repeated field, so that inputs stay small
constexpr int kMostDepth = 12;
constexpr std::size_t kMostBytes = 4096;

std::uint32_t below(Random& random, std::uint32_t bound) { return bound ? static_cast<std::uint32_t>(random() % bound) : 0; }

/** @return values at which code branches: small numbers, ends of ranges, pages, and neighbours of @p old */
std::uint64_t number(Random& random, std::uint64_t old) {
  switch (below(random, 8)) {
    case 0: return below(random, 4);
    case 1: return below(random, 70);
    case 2: return old + below(random, 3) - 1;
    case 3: return std::uint64_t{1} << below(random, 64);
    case 4: return (std::uint64_t{1} << below(random, 64)) - 1;
    case 5: return old ^ (std::uint64_t{1} << below(random, 64));
    case 6: return std::uint64_t{below(random, 0x80000)} << 12;
    default: return (std::uint64_t{random()} << 32) | random();
  }
}

/** A `string` must stay valid UTF-8; otherwise the message could not be parsed. */
std::string text(Random& random, std::string old, bool utf8) {
  const std::size_t size = old.size();
  if (size >= kMostBytes) return old.substr(0, below(random, static_cast<std::uint32_t>(size)));
  old.resize(size + 64);
  old.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(old.data()), size, old.size()));
  if (utf8)
    for (char& c : old) c = static_cast<char>(c & 0x7f);
  return old;
}

void set_scalar(Message& message, const FieldDescriptor* field, int index, Random& random) {
  const Reflection& r = *message.GetReflection();
  const bool repeated = index >= 0;
#define REPRISE_NUMBER(TYPE, CAST)                                                                  \
  {                                                                                                 \
    const auto old = repeated ? r.GetRepeated##TYPE(message, field, index) : r.Get##TYPE(message, field); \
    const auto value = static_cast<CAST>(number(random, static_cast<std::uint64_t>(old)));          \
    if (repeated)                                                                                   \
      r.SetRepeated##TYPE(&message, field, index, value);                                           \
    else                                                                                            \
      r.Set##TYPE(&message, field, value);                                                          \
    return;                                                                                         \
  }
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: REPRISE_NUMBER(Int32, std::int32_t)
    case FieldDescriptor::CPPTYPE_INT64: REPRISE_NUMBER(Int64, std::int64_t)
    case FieldDescriptor::CPPTYPE_UINT32: REPRISE_NUMBER(UInt32, std::uint32_t)
    case FieldDescriptor::CPPTYPE_UINT64: REPRISE_NUMBER(UInt64, std::uint64_t)
    case FieldDescriptor::CPPTYPE_BOOL: {
      const bool value = random() % 2;
      repeated ? r.SetRepeatedBool(&message, field, index, value) : r.SetBool(&message, field, value);
      return;
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int value = static_cast<int>(below(random, static_cast<std::uint32_t>(field->enum_type()->value_count()) + 1));
      repeated ? r.SetRepeatedEnumValue(&message, field, index, value) : r.SetEnumValue(&message, field, value);
      return;
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      const double value = static_cast<double>(number(random, 0)) / (below(random, 3));  // also yields infinities
      repeated ? r.SetRepeatedDouble(&message, field, index, value) : r.SetDouble(&message, field, value);
      return;
    }
    case FieldDescriptor::CPPTYPE_FLOAT: {
      const float value = static_cast<float>(number(random, 0));
      repeated ? r.SetRepeatedFloat(&message, field, index, value) : r.SetFloat(&message, field, value);
      return;
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string old = repeated ? r.GetRepeatedString(message, field, index) : r.GetString(message, field);
      std::string value = text(random, old, field->type() == FieldDescriptor::TYPE_STRING);
      repeated ? r.SetRepeatedString(&message, field, index, std::move(value)) : r.SetString(&message, field, std::move(value));
      return;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE: return;
  }
#undef REPRISE_NUMBER
}

void add_element(Message& message, const FieldDescriptor* field, Random& random) {
  const Reflection& r = *message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: r.AddInt32(&message, field, 0); break;
    case FieldDescriptor::CPPTYPE_INT64: r.AddInt64(&message, field, 0); break;
    case FieldDescriptor::CPPTYPE_UINT32: r.AddUInt32(&message, field, 0); break;
    case FieldDescriptor::CPPTYPE_UINT64: r.AddUInt64(&message, field, 0); break;
    case FieldDescriptor::CPPTYPE_BOOL: r.AddBool(&message, field, false); break;
    case FieldDescriptor::CPPTYPE_ENUM: r.AddEnumValue(&message, field, 0); break;
    case FieldDescriptor::CPPTYPE_DOUBLE: r.AddDouble(&message, field, 0); break;
    case FieldDescriptor::CPPTYPE_FLOAT: r.AddFloat(&message, field, 0); break;
    case FieldDescriptor::CPPTYPE_STRING: r.AddString(&message, field, ""); break;
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      const int size = r.FieldSize(message, field);
      Message* fresh = r.AddMessage(&message, field);
      // A copy of an existing element is more useful than an empty one.
      if (size && random() % 4) fresh->CopyFrom(r.GetRepeatedMessage(message, field, static_cast<int>(below(random, static_cast<std::uint32_t>(size)))));
      return;
    }
  }
  set_scalar(message, field, r.FieldSize(message, field) - 1, random);
}

void mutate_repeated(Message& message, const FieldDescriptor* field, Random& random) {
  const Reflection& r = *message.GetReflection();
  const int size = r.FieldSize(message, field);
  const auto some = [&] { return static_cast<int>(below(random, static_cast<std::uint32_t>(size))); };
  const auto action = size == 0 ? 0 : below(random, 6);
  if (action == 0 && size < kMostElements) {
    add_element(message, field, random);
  } else if (action == 1 && size > 0) {
    r.SwapElements(&message, field, some(), size - 1);
    r.RemoveLast(&message, field);
  } else if (action == 2 && size > 1) {
    r.SwapElements(&message, field, some(), some());
  } else if (size > 0 && field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    set_scalar(message, field, some(), random);
  }
}

/** Collect all messages inside @p message, itself included: each is equally likely to be changed. */
void collect(Message& message, std::vector<Message*>& out, int depth) {
  out.push_back(&message);
  if (depth == 0) return;
  const Reflection& r = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  r.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    if (!field->is_repeated()) {
      collect(*r.MutableMessage(&message, field), out, depth - 1);
      continue;
    }
    for (int i = 0; i < r.FieldSize(message, field); ++i) collect(*r.MutableRepeatedMessage(&message, field, i), out, depth - 1);
  }
}

void mutate_one(Message& message, Random& random) {
  const google::protobuf::Descriptor* type = message.GetDescriptor();
  if (type->field_count() == 0) return;
  const Reflection& r = *message.GetReflection();
  const FieldDescriptor* field = type->field(static_cast<int>(below(random, static_cast<std::uint32_t>(type->field_count()))));
  if (field->is_repeated()) return mutate_repeated(message, field, random);
  if (random() % 16 == 0) return r.ClearField(&message, field);
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
    mutate_one(*r.MutableMessage(&message, field), random);
  else
    set_scalar(message, field, -1, random);
}

}  // namespace

void mutate(Message& message, unsigned seed) {
  Random random(seed);
  std::vector<Message*> all;
  collect(message, all, kMostDepth);
  mutate_one(*all[below(random, static_cast<std::uint32_t>(all.size()))], random);
}

void cross(Message& message, const Message& other, unsigned seed) {
  Random random(seed);
  std::vector<Message*> mine, theirs;
  const std::unique_ptr<Message> copy(other.New());
  copy->CopyFrom(other);
  collect(message, mine, kMostDepth);
  collect(*copy, theirs, kMostDepth);
  for (int tries = 0; tries < 32; ++tries) {
    Message& to = *mine[below(random, static_cast<std::uint32_t>(mine.size()))];
    const Message& from = *theirs[below(random, static_cast<std::uint32_t>(theirs.size()))];
    if (to.GetDescriptor() != from.GetDescriptor() || (&to == &message && mine.size() > 1)) continue;
    random() % 2 ? to.CopyFrom(from) : to.MergeFrom(from);
    return;
  }
}

}  // namespace reprise::fuzz
