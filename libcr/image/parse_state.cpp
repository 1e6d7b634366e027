// SPDX-License-Identifier: LGPL-2.1-or-later
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>

#include "image/loader.h"

namespace reprise::image {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;

constexpr int kMaxDepth = 16;

// Walks the wire format without allocating, and counts the objects that parsing
// would allocate: two bytes can become a message of some hundred bytes.
bool within_limits(CodedInputStream& in, const Descriptor* type, std::uint64_t& budget, int depth) {
  const auto spend = [&budget](std::uint64_t items) {
    if (items > budget) return false;
    budget -= items;
    return true;
  };
  while (const std::uint32_t tag = in.ReadTag()) {
    const FieldDescriptor* field = type->FindFieldByNumber(static_cast<int>(tag >> 3));
    if ((!field || field->is_repeated()) && !spend(1)) return false;
    std::uint64_t value64;
    std::uint32_t value32;
    switch (tag & 7) {
      case 0:
        if (!in.ReadVarint64(&value64)) return false;
        break;
      case 1:
        if (!in.ReadLittleEndian64(&value64)) return false;
        break;
      case 5:
        if (!in.ReadLittleEndian32(&value32)) return false;
        break;
      case 2: {
        if (!in.ReadVarint32(&value32) || value32 > static_cast<std::uint32_t>(INT32_MAX)) return false;
        if (!spend(1)) return false;
        const int size = static_cast<int>(value32);
        if (field && field->type() == FieldDescriptor::TYPE_MESSAGE) {
          if (depth == 0) return false;
          const auto limit = in.PushLimit(size);
          if (!within_limits(in, field->message_type(), budget, depth - 1) || in.BytesUntilLimit() != 0) return false;
          in.PopLimit(limit);
        } else {
          if (field && field->is_packable() && !spend(value32)) return false;
          if (!in.Skip(size)) return false;
        }
        break;
      }
      default:  // groups are not used
        return false;
    }
  }
  return in.ConsumedEntireMessage();
}

}  // namespace

bool parse_state(std::string_view bytes, Process& out) {
  if (bytes.size() > kMaxState) return false;
  const auto data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const int size = static_cast<int>(bytes.size());
  // Every item takes at least one byte, so a state of at most kMaxStateItems bytes needs no walk. This
  // avoids building the protobuf descriptors, which takes longer than the rest of opening an image.
  if (bytes.size() > kMaxStateItems) {
    CodedInputStream walk(data, size);
    std::uint64_t budget = kMaxStateItems;
    if (!within_limits(walk, Process::descriptor(), budget, kMaxDepth)) return false;
  }
  CodedInputStream in(data, size);
  in.SetRecursionLimit(kMaxDepth);
  return out.ParseFromCodedStream(&in) && in.ConsumedEntireMessage();
}

}  // namespace reprise::image
